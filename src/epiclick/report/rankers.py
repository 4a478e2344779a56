"""Which ranker to ship: values, differences and the verdict."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from epiclick.comparison.overlap import ESTIMATOR_NAMES, Overlap, reason_of
from epiclick.comparison.result import Comparison
from epiclick.comparison.slots import ALL_MEASURES
from epiclick.comparison.verdict import SURE, Check, Difference, backtest_check, chance
from epiclick.report.chart import Axis, Chart, Layer, with_intervals
from epiclick.report.markup import (
    Absent,
    bullets,
    escape,
    figure,
    folded,
    missing,
    number,
    paragraph,
    percent,
    section,
    table,
)
from epiclick.report.quality import BASELINE_NAMES, CLEAR, Quality
from epiclick.report.report_sources import Sources

if TYPE_CHECKING:
    from epiclick.report.page import Report

ShipState = Literal["yes", "open", "no"]

ITEM_FREE_BASELINES = (BASELINE_NAMES["overall"], BASELINE_NAMES["by_context"])
"""Baselines that know nothing of items."""

BINS = 40
MOST_PAIRS = 30  # differences in the table


UNCERTAINTY_SOURCES = {
    "seen": "items seen in the log",
    "unseen": "items never shown",
    "position_bias": "position bias",
    "network": "effect of features",
}


@dataclass(frozen=True)
class RankerRow:
    """What a ranker is worth.

    Attributes:
        name: of the ranker.
        value: expected clicks per page.
        low: lower end of its interval.
        high: upper end.
        prob_best: probability that it is the best.
        loss: expected clicks per page lost by choosing it instead of the best one.
        seen: share of its slots whose items have clicks of their own in the log.
        spread: source of uncertainty -> share of the variance of its value.
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
class Further:
    """Values of rankers by another measure than the one that decides.

    Attributes:
        unit: what is counted per page.
        rows: name, value, low, high and probability of being best of each ranker, the order being
            that of the comparison.
        differences: of the best by the measure that decides against each other one.
    """

    unit: str
    rows: tuple[tuple[str, float, float, float, float], ...]
    differences: tuple[Difference, ...]

    @classmethod
    def of(cls, found: Comparison, measure: str, others: list[Difference]) -> "Further":
        """By one of the comparison's further measures."""
        own = ALL_MEASURES[measure]
        columns = ["name", own.column]
        columns += [f"{own.column}_{end}" for end in ("low", "high", "prob_best")]
        return cls(
            own.unit,
            tuple(found.rankers[columns].itertuples(index=False, name=None)),
            tuple(found.difference(each.name, each.against, measure) for each in others),
        )


@dataclass(frozen=True)
class Rankers:
    """A comparison of rankers.

    Attributes:
        queries: how many were compared.
        rows: from the best to the worst.
        level: probability of the intervals.
        differences: the best against each other one.
        edges: (BINS + 1,) of a histogram of the difference between the best and the next.
        heights: (BINS,) shares.
        is_uncertain: whether the model reports its uncertainty.
        is_sure: whether the best one beats the next with enough probability for a verdict.
        is_backtested: whether the comparison was checked on a log held back.
        has_log: whether items could be judged by their own clicks.
        checks: those that did not pass and matter for the choice.
        verdict: as a sentence.
        notes: what was left out or assumed.
        unit: what is counted per page.
        further: values and differences by further measures, such as conversions per page.
        overlap: what the log has shown of the rankers, and other estimates; None without a log.
    """

    queries: int
    rows: tuple[RankerRow, ...]
    level: float
    differences: tuple[Difference, ...]
    edges: tuple[float, ...]
    heights: tuple[float, ...]
    is_uncertain: bool
    is_sure: bool
    is_backtested: bool
    has_log: bool
    checks: tuple[Check, ...]
    verdict: str
    notes: tuple[str, ...]
    unit: str = "clicks"
    further: tuple["Further", ...] = ()
    overlap: Overlap | None = None

    @property
    def state(self) -> ShipState:
        """Whether to ship the best one: "no" if a check failed, "open" if that is undecided."""
        if self.is_sure and any(check.state == "failed" for check in self.checks):
            return "no"
        return "yes" if self.is_sure and not self.checks else "open"


def rankers(sources: Sources, quality: Quality | Absent | None = None) -> Rankers | Absent:
    """Results of the comparison, and checks of the model's quality that speak against them."""
    found = sources.comparison
    if found is None:
        return Absent(
            "No rankers were compared. Give the rankings of two or more (query_id, doc_id, "
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
        unit=found.unit,
        further=tuple(Further.of(found, measure, others[:MOST_PAIRS]) for measure in found.further),
        overlap=found.overlap,
    )


def _further_checks(found: Comparison, quality: Quality | Absent | None) -> Iterator[Check]:
    """Checks in addition to those of the comparison.

    A better model, or click rates by item, say nothing against the comparison: they know items by
    clicks that a comparison gives the model as well. Baselines that know nothing of items do: where
    one of them predicts clicks better, what the model knows of items is worthless.
    """
    if not found.has_log:
        title = "all items are judged by their features alone"
        yield Check("log", "warning", title, "", "Give the log, so that their own clicks count.")
    if not isinstance(quality, Quality):
        return
    if found.backtest is None:
        yield from backtest_check(quality.backtest.grade, quality.backtest.summary)
    for row in quality.scores:
        if row.name in ITEM_FREE_BASELINES and row.lead < -CLEAR * row.lead_error:
            title = f"a simple baseline ({row.name}) predicts clicks better than the model"
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
    """Edges and shares of the best ranker's lead over the next; empty where it is certain."""
    if not others or not found.is_uncertain:
        return (), ()
    samples = found.samples()
    lead = (samples[others[0].name] - samples[others[0].against]).to_numpy()
    if np.ptp(lead) == 0:
        return (), ()
    heights, edges = np.histogram(lead, bins=BINS)
    return tuple(edges.tolist()), tuple((heights / len(lead)).tolist())


def rankers_section(report: "Report") -> str:
    """Verdict, values, lead, sources of the uncertainty."""
    found, title = report.rankers, "Which ranker to ship"
    if isinstance(found, Absent):
        return section("rankers", title, missing(found))
    charts = _values(found) + (_lead(found) if found.heights else "")
    backtest = (
        ""
        if found.is_backtested
        else missing(
            Absent("The comparison was not checked on a log held back.", "--backtest later.parquet")
        )
    )
    return section(
        "rankers",
        title,
        f'<p class="verdict is-{found.state}"><b>Verdict:</b> {escape(found.verdict)}</p>',
        backtest,
        f'<div class="charts">{charts}</div>',
        _differences(found, found.differences),
        *(_further(found, each) for each in found.further),
        folded("Where the uncertainty comes from", _spread(found)) if found.is_uncertain else "",
        _overlap(found, found.overlap) if found.overlap is not None else "",
        folded("How the comparison was made", bullets(f"{note}." for note in found.notes))
        if found.notes
        else "",
    )


def _overlap(found: Rankers, overlap: Overlap) -> str:
    """What the log has shown of the rankers, and what other estimators make of it."""
    support = table(
        ("ranker", "slots", "expected clicks", "effective displays", "displays", "exposure moved"),
        (
            (
                each.name,
                percent(each.slots, 0),
                percent(each.clicks, 0),
                f"{each.effective_displays:,.0f}",
                f"{each.displays:,}",
                percent(each.moved, 0),
            )
            for each in overlap.support
        ),
    )
    estimates = table(
        ("ranker", "estimator", "clicks per page", "interval", "by the model", "difference"),
        (
            (
                each.name,
                ESTIMATOR_NAMES[each.estimator],
                number(each.value, 4),
                f"{number(each.low, 4)} to {number(each.high, 4)}",
                number(each.model, 4),
                f"{each.difference:+.4f} ({each.diff_low:+.4f} to {each.diff_high:+.4f})",
            )
            if each.available
            else (each.name, ESTIMATOR_NAMES[each.estimator], "not available", "", "", "")
            for each in overlap.estimates
        ),
        texts=2,
    )
    reasons = {reason_of(each): None for each in overlap.estimates if not each.available}
    return folded(
        "What the log supports, and other estimators",
        paragraph(
            "Shares of a ranker's slots and expected clicks with items that the log has shown at "
            "any position, the number of displays of equal weight that their displays are worth, "
            "and the share of what users look at that the ranker moves to other items."
        ),
        support,
        paragraph(
            f"Clicks per page on these items from their clicks and position bias alone, with "
            f"{found.level:.0%} intervals, compared with the model's value of the same slots."
        ),
        estimates,
        *(paragraph(f"Not available: {reason}.") for reason in reasons),
    )


def _values(found: Rankers) -> str:
    rows = list(reversed(found.rows))  # the best at the top
    level = f"{found.level:.0%}"
    knows_truth = not any(math.isnan(row.truth) for row in rows)
    aid = (
        f"Expected {found.unit} per page, with {level} intervals; rankers share much of their "
        "uncertainty, so even rankers with overlapping intervals may clearly differ."
    )
    if not found.is_uncertain:
        aid = f"Expected {found.unit} per page; this model does not report its uncertainty."
    chart = Chart(
        "values",
        f"{found.unit.capitalize()} per page, over {found.queries:,} queries",
        aid,
        Axis(f"{found.unit} per page"),
        Axis("", names=tuple(row.name for row in rows)),
        (
            with_intervals(
                "expected" if knows_truth else "",
                [row.value for row in rows],
                range(len(rows)),
                [_tooltip(found, row) for row in rows],
                rows if found.is_uncertain else (),
            ),
            *([_truth(found, rows)] if knows_truth else []),
        ),
    )
    unit = f"{found.unit} per page"
    columns = ("ranker", unit, f"{level} interval", "P(best)", "expected loss", "seen")
    numbers = table(
        (*columns, "truth") if knows_truth else columns,
        (
            (
                row.name,
                number(row.value, 4),
                f"{number(row.low, 4)} to {number(row.high, 4)}" if found.is_uncertain else "–",
                chance(row.prob_best) if found.is_uncertain else "–",
                number(row.loss, 4),
                percent(row.seen, 0),
                *([number(row.truth, 4)] if knows_truth else []),
            )
            for row in found.rows
        ),
    )
    return figure(chart, numbers)


def _truth(found: Rankers, rows: list[RankerRow]) -> Layer:
    """True values, just above the expected ones."""
    return Layer(
        "points",
        "truth",
        [row.truth for row in rows],
        range(len(rows)),
        [f"{row.name}: truly {number(row.truth, 4)} {found.unit} per page" for row in rows],
        colour="truth",
        offset=0.18,
    )


def _tooltip(found: Rankers, row: RankerRow) -> str:
    text = f"{row.name}: {number(row.value, 4)} {found.unit} per page"
    if not found.is_uncertain:
        return text
    ends = f"{number(row.low, 4)} to {number(row.high, 4)}"
    return (
        f"{text}\n{found.level:.0%} interval {ends}\nbest with probability {chance(row.prob_best)}"
    )


def _lead(found: Rankers) -> str:
    lead, edges = found.differences[0], found.edges
    size = edges[1] - edges[0]
    middles = [(one + other) / 2 for one, other in pairwise(edges)]
    chart = Chart(
        "lead",
        f"Lead of {lead.name} over {lead.against}",
        f"Probability of each lead given the clicks: the part to the right of the dashed line at 0 "
        f"favours {lead.name}.",
        Axis(f"difference in {found.unit} per page"),
        Axis("probability", "percent", low=0),
        (
            Layer(
                "bars",
                "",
                middles,
                found.heights,
                [
                    f"{one:+.4f} to {other:+.4f} {found.unit} per page: {percent(share)}"
                    for (one, other), share in zip(pairwise(edges), found.heights, strict=True)
                ],
                size=size,
                colour="c2",
            ),
            Layer("rule", "", [0, 0], [None, None], colour="truth"),
        ),
    )
    return figure(chart)


def _further(found: Rankers, own: Further) -> str:
    """Values and differences by a further measure."""
    sure = found.is_uncertain
    values = table(
        ("ranker", f"{own.unit} per page", f"{found.level:.0%} interval", "P(best)"),
        (
            (
                name,
                number(value, 4),
                f"{number(low, 4)} to {number(high, 4)}" if sure else "–",
                chance(best) if sure else "–",
            )
            for name, value, low, high, best in own.rows
        ),
    )
    return values + _differences(found, own.differences)


def _differences(found: Rankers, differences: Sequence[Difference]) -> str:
    if not differences:
        return ""
    return table(
        (
            "ranker",
            "against",
            f"{differences[0].unit} per page",
            "relative",
            f"{found.level:.0%} interval",
            "P(better)",
        ),
        (
            (
                each.name,
                each.against,
                f"{each.difference:+.4f}",
                f"{each.relative:+.1%}",
                f"{each.relative_low:+.1%} to {each.relative_high:+.1%}"
                if found.is_uncertain
                else "–",
                chance(each.prob_better) if found.is_uncertain else "–",
            )
            for each in differences
        ),
        texts=2,
    )


def _spread(found: Rankers) -> str:
    shares = [(row.name, dict(row.spread)) for row in found.rows]
    return table(
        ("share of the variance", *UNCERTAINTY_SOURCES.values()),
        (
            (name, *(percent(own.get(part), 0) for part in UNCERTAINTY_SOURCES))
            for name, own in shares
        ),
    )
