"""Calibration: whether clicks came as often as predicted, and intervals contain the truth."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from epiclick.data.arrays import locate_rows
from epiclick.data.counts import ClickCounts
from epiclick.evaluation.coverage import ranks_among
from epiclick.evaluation.truth import ItemCoverage
from epiclick.fitted.parameters import parameter_draws
from epiclick.fitted.prediction import (
    attraction_of_items,
    contexts_of,
    drawn,
    emission_by,
    networks_of,
    relevance_of_pairs,
)
from epiclick.fitted.state import FittedModel
from epiclick.report.bias import Bias
from epiclick.report.chart import Axis, Chart, Layer, with_intervals
from epiclick.report.markup import (
    Absent,
    figure,
    interval,
    missing,
    paragraph,
    percent,
    section,
    table,
)
from epiclick.report.overview import click_rates

if TYPE_CHECKING:
    from epiclick.report.page import Report

BINS = 10
DRAWS = 99  # of the clicks of a pair: the observed number has one of a hundred ranks among them
MOST_RANKED = 4_000  # pairs


@dataclass(frozen=True)
class ReliabilityRow:
    """Displays of about the same predicted click rate.

    Attributes:
        predicted: that rate.
        observed: the observed rate.
        low: lower end of its interval.
        high: upper end.
        displays: number of displays.
    """

    predicted: float
    observed: float
    low: float
    high: float
    displays: int


@dataclass(frozen=True)
class Reliability:
    """Predicted and observed clicks.

    Attributes:
        rows: tenths of the displays, from the lowest predicted rate to the highest.
        ranks: (10,) share of items whose number of clicks is in each tenth of its predicted
            distribution; a tenth each, if items differ as much as the model says.
        band: how far chance alone moves such a share, with probability 0.99.
        items: how many were ranked.
    """

    rows: tuple[ReliabilityRow, ...]
    ranks: tuple[float, ...]
    band: float
    items: int


def reliability(
    fitted: FittedModel, counts: ClickCounts, chance: np.ndarray, *, seed: int
) -> Reliability:
    """Compare observed rates and counts with the model's.

    Args:
        fitted: the model.
        counts: clicks.
        chance: (entries,) probability of a click by the model.
        seed: of the items that are ranked, and of their draws.
    """
    rng = np.random.default_rng([seed, 7])
    order = np.argsort(chance, kind="stable")
    before = np.cumsum(counts.displays[order]) - counts.displays[order]
    group = np.empty(len(order), np.int64)
    group[order] = np.minimum(BINS * before // counts.total_displays, BINS - 1)
    _, group = np.unique(group, return_inverse=True)  # large entries may leave a tenth empty
    size = int(group.max()) + 1
    displays = np.bincount(group, counts.displays, size)
    predicted = np.bincount(group, counts.displays * chance, size) / displays
    rates = click_rates(counts, group, size)
    chosen = np.arange(len(counts))
    if len(chosen) > MOST_RANKED:
        chosen = np.sort(rng.choice(len(chosen), MOST_RANKED, replace=False))
    ranks = _ranks(fitted, counts.subset(chosen), rng)
    share = np.histogram(ranks, bins=BINS, range=(0, 1))[0] / len(ranks)
    return Reliability(
        rows=tuple(
            ReliabilityRow(
                predicted=float(predicted[g]),
                observed=float(rates[0, g]),
                low=float(rates[1, g]),
                high=float(rates[2, g]),
                displays=int(displays[g]),
            )
            for g in range(size)
        ),
        ranks=tuple(share.tolist()),
        band=float(2.576 * np.sqrt((1 - 1 / BINS) / BINS / len(ranks))),
        items=len(ranks),
    )


def _ranks(fitted: FittedModel, counts: ClickCounts, rng: np.random.Generator) -> np.ndarray:
    """(pairs,) rank of each pair's clicks among draws from the model, from 0 to 1."""
    draws = parameter_draws(fitted, DRAWS)
    networks = networks_of(draws)
    emission = emission_by(fitted, draws, contexts_of(fitted, counts.contexts, warn=False))
    alpha, beta = relevance_of_pairs(fitted, networks, counts)  # (networks, pairs)
    if fitted.items is not None:
        items = fitted.items
        keys = ({"query_id": each.query_id, "doc_id": each.doc_id} for each in (counts, items))
        row = locate_rows(*keys)
        alpha, beta = (
            np.where(row >= 0, known[row], own)
            for known, own in zip(attraction_of_items(fitted, items), (alpha, beta), strict=True)
        )
    others = np.empty((len(counts), DRAWS))
    for j in range(DRAWS):
        a, b = (part[j % len(networks)] for part in (alpha, beta))
        relevance = fitted.relevance_head.draw(a, b, rng)
        own = drawn(emission, j % len(draws)).at(counts.context)
        p = np.clip(own.click_probability(relevance[counts.pair]), 0, 1)
        clicks = rng.binomial(counts.displays, p)
        others[:, j] = np.bincount(counts.pair, clicks, len(counts))
    clicked = np.bincount(counts.pair, counts.clicks, len(counts))
    return (ranks_among(clicked, others, rng) + 0.5) / (DRAWS + 1)


def calibration_section(report: "Report") -> str:
    """Reliability of rates and counts, and coverage where the truth is known."""
    quality, charts = report.quality, ""
    if isinstance(quality, Absent):
        parts = [missing(quality)]
    else:
        charts = _rate_chart(quality.reliability) + _rank_chart(quality.reliability)
        parts = [paragraph(f"Checked on {quality.tested_on}.")]
    coverage = None if isinstance(report.items, Absent) else report.items.coverage
    if coverage is not None and coverage.curve:
        charts += _coverage_chart(coverage)
    parts.append(f'<div class="charts">{charts}</div>')
    parts.append(_coverage_text(report, coverage))
    return section("calibration", "Are its probabilities calibrated?", *parts)


def _rate_chart(found: Reliability) -> str:
    rows = found.rows
    most = max(max(row.high, row.predicted) for row in rows) * 1.04
    chart = Chart(
        "reliability",
        "Predicted and observed click rates",
        "Each mark is a tenth of the displays: on the dashed line the rate was as predicted, above "
        "it there were more clicks than predicted.",
        Axis("predicted click rate", "percent", low=0, high=most),
        Axis("observed click rate", "percent", low=0, high=most),
        (
            Layer("rule", "as predicted", [0, most], [0, most], colour="c4"),
            with_intervals(
                "observed, with 90% interval",
                [row.predicted for row in rows],
                [row.observed for row in rows],
                [
                    f"predicted {percent(row.predicted)}, observed {percent(row.observed)}\n"
                    f"90% interval {interval(row.low, row.high)}, {row.displays:,} displays"
                    for row in rows
                ],
                rows,
            ),
        ),
    )
    numbers = table(
        ("predicted", "observed", "90% interval", "displays"),
        (
            (
                percent(row.predicted),
                percent(row.observed),
                interval(row.low, row.high),
                f"{row.displays:,}",
            )
            for row in rows
        ),
        texts=0,
    )
    return figure(chart, numbers)


def _rank_chart(found: Reliability) -> str:
    count = len(found.ranks)
    names = tuple(f"{10 * i}–{10 * (i + 1)}" for i in range(count))
    even = 1 / count
    chart = Chart(
        "ranks",
        "Clicks of each item within their predicted distribution",
        "Flat, within the dashed lines, is calibrated: if both ends are high, the model is "
        "overconfident about items; if the middle is high, it is underconfident.",
        Axis("percentile of the predicted distribution", names=names),
        Axis("share of items", "percent", low=0),
        (
            Layer(
                "bars",
                "",
                range(count),
                found.ranks,
                [
                    f"{percent(share)} of {found.items:,} items; {percent(even)} expected"
                    for share in found.ranks
                ],
                size=0.86,
            ),
            *(
                Layer("rule", "", [None, None], [end, end], colour="c4")
                for end in (even - found.band, even + found.band)
            ),
        ),
    )
    rows = zip(names, map(percent, found.ranks), strict=True)
    return figure(chart, table(("percentile", "share of items"), rows))


def _coverage_chart(found: ItemCoverage) -> str:
    chart = Chart(
        "coverage",
        "Coverage of the relevance intervals",
        "How often intervals contain the true relevance: on the dashed line as often as they "
        "should; below it they are too narrow.",
        Axis("nominal level", "percent", low=0, high=1),
        Axis("actual coverage", "percent", low=0, high=1),
        (
            Layer("rule", "nominal", [0, 1], [0, 1], colour="c4"),
            Layer(
                "points",
                "actual",
                [level for level, _ in found.curve],
                [share for _, share in found.curve],
                [f"nominal {level:.0%}, actual {percent(share)}" for level, share in found.curve],
            ),
        ),
    )
    rows = ((f"{level:.0%}", percent(share)) for level, share in found.curve)
    return figure(chart, table(("nominal", "actual"), rows, texts=0))


def _coverage_text(report: "Report", coverage: ItemCoverage | None) -> str:
    """Coverage in sentences, or why there is none."""
    if not report.has_truth:
        return missing(
            Absent(
                "How often intervals contain the truth can only be measured in a simulated world.",
                "--truth world",
            )
        )
    sentences = [_bias_coverage(report.bias)]
    if coverage is not None:
        sentences.append(
            f"Of {coverage.items:,} items whose true relevance is known, "
            f"{percent(coverage.covered / coverage.items)} have it in their "
            f"{report.bias.level:.0%} "
            f"interval; the mean absolute error of the expected relevance is {coverage.error:.3f}."
        )
    elif not isinstance(report.items, Absent):
        sentences.append(
            "Relevance has no intervals, or no identified scale, to compare with the truth."
        )
    return paragraph(" ".join(sentences))


def _bias_coverage(found: Bias) -> str:
    known = [row for row in found.rows if row.truth == row.truth and row.has_interval]
    if not known or not found.intervals:
        return "Position bias has no intervals, or no known truth to compare them with."
    covered = sum(row.relative_low <= row.truth <= row.relative_high for row in known)
    return (
        f"Of {len(known)} position biases, {covered} have their true value in the "
        f"{found.level:.0%} interval."
    )
