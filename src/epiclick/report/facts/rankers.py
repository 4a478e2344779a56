"""Which ranker to ship: values, differences and the verdict, from a comparison."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from epiclick.comparison.checks import Check, backtest_check
from epiclick.comparison.result import Comparison
from epiclick.comparison.verdict import SURE, Difference
from epiclick.report.facts.absent import Absent
from epiclick.report.facts.quality import Quality
from epiclick.report.facts.scores import CLEAR, RULES
from epiclick.report.facts.sources import Sources

ShipState = Literal["yes", "open", "no"]

BLIND_RULES = (RULES["overall"], RULES["by_context"])
"""Rules that know nothing of items."""

BINS = 40
MOST_PAIRS = 30  # differences in the table


@dataclass(frozen=True)
class RankerRow:
    """What a ranker is worth.

    Attributes:
        name: of the ranker.
        value: expected clicks a page.
        low: lower end of its interval.
        high: upper end.
        prob_best: probability that it is the best.
        loss: clicks a page that choosing it is expected to cost, were the best one known.
        seen: share of its slots with items judged by their own clicks.
        spread: part -> share of the variance of its value.
        truth: its value in a simulated world; NaN where unknown.
    """

    name: str
    value: float
    low: float
    high: float
    prob_best: float
    loss: float
    seen: float
    spread: tuple[tuple[str, float], ...]
    truth: float = float("nan")


@dataclass(frozen=True)
class Rankers:
    """A comparison of rankers.

    Attributes:
        rows: from the best to the worst.
        differences: the best against each other one.
        verdict: in words.
        is_uncertain: whether the model knows how sure it is.
        is_sure: whether the best one beats the next with a probability that allows a verdict.
        level: probability of the intervals.
        queries: how many were compared.
        edges: (BINS + 1,) of a histogram of the difference between the best and the next.
        heights: (BINS,) shares.
        notes: what was left out or assumed.
        is_backtested: whether the model was checked on a log held back.
        has_log: whether items could be judged by their own clicks.
        checks: that did not pass and bear on which ranker to ship.
    """

    rows: tuple[RankerRow, ...]
    differences: tuple[Difference, ...]
    verdict: str
    is_uncertain: bool
    is_sure: bool
    level: float
    queries: int
    edges: tuple[float, ...]
    heights: tuple[float, ...]
    notes: tuple[str, ...]
    is_backtested: bool
    has_log: bool
    checks: tuple[Check, ...]

    @property
    def state(self) -> ShipState:
        """Whether to ship the best one: "no" if a check failed, "open" if that is undecided."""
        if self.is_sure and any(check.state == "failed" for check in self.checks):
            return "no"
        return "yes" if self.is_sure and not self.checks else "open"


def rankers(sources: Sources, quality: Quality | Absent | None = None) -> Rankers | Absent:
    """What the comparison found, and what speaks against it in the model's quality."""
    found = sources.comparison
    if found is None:
        return Absent(
            "No rankers were compared. Give what two or more of them show (query_id, doc_id, "
            "position) to see which gets more clicks.",
            "--ranking new=new.parquet --ranking old=old.parquet",
        )
    rows = sorted(_rows(found, sources.true_values), key=lambda row: -row.value)
    others = [found.difference(rows[0].name, row.name) for row in rows[1:]]
    edges, heights = _histogram(found, others)
    more = tuple(_further_checks(found, quality))
    return Rankers(
        rows=tuple(rows),
        differences=tuple(others[:MOST_PAIRS]),
        verdict=found.verdict_at(SURE, more),
        is_uncertain=found.is_uncertain,
        is_sure=bool(others) and found.is_uncertain and others[0].prob_better >= SURE,
        level=found.level,
        queries=found.queries,
        edges=edges,
        heights=heights,
        notes=found.notes,
        is_backtested=found.backtest is not None,
        has_log=found.has_log,
        checks=(*found.checks(), *more),
    )


def _further_checks(found: Comparison, quality: Quality | Absent | None) -> Iterator[Check]:
    """Checks that the page makes beside those of the comparison.

    A better model, or click rates by item, do not bear on rankers: these know items by the clicks
    that a comparison gives the model as well. Rules that know nothing of items do: where one of
    them predicts clicks better, what the model knows of items is worth nothing.
    """
    if not found.has_log:
        title = "all items are judged by their features alone"
        yield Check("log", "doubtful", title, "", "Give the log, so that their own clicks count.")
    if not isinstance(quality, Quality):
        return
    if found.backtest is None:
        yield from backtest_check(quality.backtest.grade, quality.backtest.words)
    for row in quality.scores:
        if row.name in BLIND_RULES and row.lead < -CLEAR * row.lead_error:
            title = f"a simple rule ({row.name}) predicts clicks better than the model"
            remedy = "Train for longer, or with other features."
            yield Check("rules", "failed", title, "", remedy)
            return


def _rows(found: Comparison, truth: Mapping[str, float]) -> list[RankerRow]:
    return [
        RankerRow(
            name=row["name"],
            value=float(row["value"]),
            low=float(row["low"]),
            high=float(row["high"]),
            prob_best=float(row["prob_best"]),
            loss=float(row["expected_loss"]),
            seen=float(row["seen"]),
            spread=tuple(found.spread(row["name"]).shares().items()),
            truth=truth.get(row["name"], float("nan")),
        )
        for row in found.rankers.to_dict("records")
    ]


def _histogram(
    found: Comparison, others: list[Difference]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Edges and shares of the best ranker's lead over the next; nothing where that is no matter."""
    if not others or not found.is_uncertain:
        return (), ()
    drawn = found.samples()
    lead = (drawn[others[0].name] - drawn[others[0].against]).to_numpy()
    if np.ptp(lead) == 0:
        return (), ()
    heights, edges = np.histogram(lead, bins=BINS)
    return tuple(edges.tolist()), tuple((heights / len(lead)).tolist())
