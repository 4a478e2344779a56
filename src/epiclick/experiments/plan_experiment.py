"""What to do next if a comparison cannot tell two rankers apart: the cheapest experiment."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from epiclick.api import BaseModel
from epiclick.arguments import check_level, is_number, shown
from epiclick.comparison.compare_rankers import (
    Weights,
    check_logs,
    check_numbers,
    checked_model,
    compared,
    known_measures,
    prepare,
)
from epiclick.comparison.slots import Slots
from epiclick.comparison.value_samples import ValueSamples
from epiclick.comparison.verdict import SURE
from epiclick.data.counts import ClickCounts
from epiclick.errors import InputError
from epiclick.experiments.credit import Lead, sample_lead
from epiclick.experiments.log_plans import LogPlans, expected_difference, pages_table
from epiclick.experiments.page_variance import PageVariance, page_variance
from epiclick.experiments.paired_lists import PairedLists
from epiclick.experiments.planned import Experiment, Plan
from epiclick.experiments.sample_size import pages_to_detect, power_of
from epiclick.processes import one_blas_thread

POWER = 0.8
SIGNIFICANCE = 0.05

ASSUMED = (
    "tests on users assign and analyse single pages, of the same queries as the log; to speak for "
    "other queries, too, intervals must be clustered by query, which takes more pages",
)


@one_blas_thread()
def plan(
    model: BaseModel,
    rankings: Mapping[str, Any],
    features: Any = None,
    *,
    clicks: ClickCounts | None = None,
    weights: Weights = "traffic",
    samples: int = 2_500,
    depth: int | None = None,
    extrapolate: bool = False,
    power: float = POWER,
    significance: float = SIGNIFICANCE,
    sure: float = SURE,
    pages_per_day: float | None = None,
    level: float | None = None,
    seed: int = 0,
) -> Plan:
    """The experiments that would tell two rankers apart, and the pages that each needs.

    An A/B test and team-draft interleaving are sized so that they find the expected difference with
    the wanted power; shuffled positions, items never shown and more pages so that the model is then
    sure with that power. All assume that the difference is as large as the model expects.

    Args:
        model: a fitted model.
        rankings: two, the new one first; as for `compare`.
        features: of the items, as for `compare`.
        clicks: the log.
        weights: "uniform" weights all queries equally.
        samples: number of posterior samples.
        depth: last position that counts.
        extrapolate: give positions deeper than the model's the bias of its deepest one.
        power: probability with which an experiment is to decide, 0.5 or more.
        significance: of the two-sided tests on users.
        sure: probability of being better at which a ranker is preferred.
        pages_per_day: of all traffic, for days besides pages.
        level: probability of the intervals; default that of the model.
        seed: of the random numbers.
    """
    checked_model(model)
    level = model.level if level is None else level
    check_numbers(weights, samples, level, seed)
    check_logs(clicks)
    _check(rankings, power, significance, sure, pages_per_day)
    prepared = prepare(
        model,
        rankings,
        features,
        clicks=clicks,
        weights=weights,
        samples=samples,
        depth=depth,
        extrapolate=extrapolate,
        seed=seed,
    )
    # by all measures, as `compare` does by default, so that both find the same
    comparison = compared(prepared, known_measures(prepared.fitted), level, samples)
    pairs = PairedLists.of(prepared.fitted, prepared.slots, prepared.items.index)
    lead, variance = sample_lead(prepared, pairs, samples), page_variance(prepared, pairs)
    difference = comparison.difference(*comparison.names)
    experiments: list[Experiment] = []
    tables: list[pa.Table] = []
    if expected_difference(comparison.values) != 0:
        experiments += _on_users(comparison.values, lead, variance, power, significance)
        lead_of_either = max(difference.prob_better, 1 - difference.prob_better)
        if difference.spread.total > 0 and lead_of_either < sure:
            for experiment, pages in LogPlans(prepared, pairs, comparison, sure, power).all():
                experiments.append(experiment)
                tables += pages
    return Plan(
        comparison=comparison,
        experiments=tuple(experiments),
        lead=lead,
        variance=variance,
        pages=pa.concat_tables([_no_pages(prepared.slots), *tables]),
        power=power,
        significance=significance,
        sure=sure,
        pages_per_day=pages_per_day,
        notes=ASSUMED,
    )


def _on_users(
    values: ValueSamples, lead: Lead, variance: PageVariance, power: float, significance: float
) -> Iterator[Experiment]:
    """An A/B test and interleaving."""
    mean, how = expected_difference(values), (power, significance)
    difference = values.samples[0, 0] - values.samples[0, 1]
    is_uncertain = bool(np.ptp(difference) > 0)

    def expected(samples: np.ndarray, of_page: float, pages: int) -> float | None:
        return (
            float(power_of(samples, of_page, pages, significance).mean()) if is_uncertain else None
        )

    both = variance.one + variance.other
    arm = _whole(pages_to_detect(mean, both, *how))
    arm_by_query = _whole(pages_to_detect(mean, both, *how, variance.between))
    assert arm is not None
    yield Experiment(
        "ab_test",
        2 * arm,
        pages_per_arm=arm,
        pages_by_query=None if arm_by_query is None else 2 * arm_by_query,
        expected_power=expected(difference, both, arm),
    )
    credit = lead.mean
    if credit * mean <= 0:
        obstacle = "it does not favour the ranker that is expected to get more clicks"
        yield Experiment("interleaving", None, obstacle)
        return
    pages = _whole(pages_to_detect(credit, variance.credit, *how))
    assert pages is not None
    yield Experiment(
        "interleaving",
        pages,
        pages_by_query=_whole(
            pages_to_detect(credit, variance.credit, *how, variance.credit_between)
        ),
        expected_power=expected(lead.lead, variance.credit, pages),
    )


def _whole(pages: float | None) -> int | None:
    return None if pages is None else int(np.ceil(pages))


def _no_pages(slots: Slots) -> pa.Table:
    """The columns of a table of pages."""
    query, doc = (each.slice(0, 0) for each in (slots.query_id, slots.doc_id))
    return pages_table("more_pages", query, doc, [], np.zeros(0, int))


def _check(
    rankings: Any, power: float, significance: float, sure: float, pages_per_day: float | None
) -> None:
    if isinstance(rankings, Mapping) and len(rankings) != 2:
        raise InputError(
            f"an experiment is planned for two rankings, not {len(rankings)}; give the new one "
            "first, then the one that is live",
            code="not-two-rankings",
        )
    for name, value in {"power": power, "significance": significance, "sure": sure}.items():
        check_level(name, value)
    for name, value in {"power": power, "sure": sure}.items():
        if value < 0.5:
            raise InputError(
                f"{name} must be 0.5 or more, not {shown(value)}", code="level-out-of-range"
            )
    if not (pages_per_day is None or (is_number(pages_per_day) and pages_per_day > 0)):
        raise InputError(
            f"pages_per_day must be above 0, not {shown(pages_per_day)}",
            code="pages-per-day-out-of-range",
        )
