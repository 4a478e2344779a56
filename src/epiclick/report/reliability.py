"""Calibration: whether predictions came true as often as predicted."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from epiclick.data.arrays import locate_rows
from epiclick.data.counts import ClickCounts
from epiclick.evaluation.coverage import ranks_among
from epiclick.evaluation.truth import ItemCoverage
from epiclick.fitted.parameters import parameter_draws
from epiclick.fitted.prediction import bias_by, contexts_of, networks_of, relevance_of_pairs
from epiclick.fitted.state import FittedModel
from epiclick.report.bias import Bias
from epiclick.report.chart import Axis, Chart, Layer
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
DRAWS = 99  # of the clicks of a pair: its own number has one of a hundred places among them
MOST_RANKED = 4_000  # pairs


@dataclass(frozen=True)
class ReliabilityRow:
    """Displays for which about the same click rate was foretold.

    Attributes:
        predicted: that rate.
        observed: the rate that was.
        low: lower end of what may be the true one.
        high: upper end.
        displays: how many.
    """

    predicted: float
    observed: float
    low: float
    high: float
    displays: int


@dataclass(frozen=True)
class Reliability:
    """Foretold and observed.

    Attributes:
        rows: tenths of the displays, from the lowest rate foretold to the highest.
        places: (10,) share of items whose number of clicks lies in each tenth of what was foretold
            for it; a tenth each, if items differ as much as the model says.
        band: how far chance alone moves such a share, with probability 0.99.
        items: how many were placed.
    """

    rows: tuple[ReliabilityRow, ...]
    places: tuple[float, ...]
    band: float
    items: int


def reliability(
    fitted: FittedModel, counts: ClickCounts, chance: np.ndarray, *, seed: int
) -> Reliability:
    """Compare rates and counts with the model's.

    Args:
        fitted: the model.
        counts: clicks.
        chance: (entries,) probability of a click by the model.
        seed: of the items that are placed, and of their draws.
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
    places = _places(fitted, counts.subset(chosen), rng)
    share = np.histogram(places, bins=BINS, range=(0, 1))[0] / len(places)
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
        places=tuple(share.tolist()),
        band=float(2.576 * np.sqrt((1 - 1 / BINS) / BINS / len(places))),
        items=len(places),
    )


def _places(fitted: FittedModel, counts: ClickCounts, rng: np.random.Generator) -> np.ndarray:
    """(pairs,) place of each pair's clicks among draws from the model, from 0 to 1."""
    draws = parameter_draws(fitted, DRAWS)
    networks = networks_of(draws)
    theta, _ = bias_by(fitted, draws, contexts_of(fitted, counts.contexts, warn=False))
    alpha, beta = relevance_of_pairs(fitted, networks, counts)  # (networks, pairs)
    if fitted.items is not None:
        items = fitted.items
        keys = ({"query_id": each.query_id, "doc_id": each.doc_id} for each in (counts, items))
        row = locate_rows(*keys)
        alpha, beta = (
            np.where(row >= 0, known[row], own)
            for known, own in ((items.alpha, alpha), (items.beta, beta))
        )
    drawn = np.empty((len(counts), DRAWS))
    for j in range(DRAWS):
        a, b = (part[j % len(networks)] for part in (alpha, beta))
        relevance = fitted.relevance_head.draw(a, b, rng)
        p = np.clip(theta[j % len(theta), counts.context] * relevance[counts.pair], 0, 1)
        clicks = rng.binomial(counts.displays, p)
        drawn[:, j] = np.bincount(counts.pair, clicks, len(counts))
    own = np.bincount(counts.pair, counts.clicks, len(counts))
    return (ranks_among(own, drawn, rng) + 0.5) / (DRAWS + 1)


def calibration_section(report: "Report") -> str:
    """Reliability of rates and counts, and coverage of the truth where it is known."""
    quality, charts = report.quality, ""
    if isinstance(quality, Absent):
        parts = [missing(quality)]
    else:
        charts = _rates(quality.reliability) + _places_chart(quality.reliability)
        parts = [paragraph(f"Checked on {quality.of}.")]
    coverage = None if isinstance(report.items, Absent) else report.items.coverage
    if coverage is not None and coverage.curve:
        charts += _curve(coverage)
    parts.append(f'<div class="charts">{charts}</div>')
    parts.append(_truth(report, coverage))
    return section("calibration", "Can its probabilities be believed?", *parts)


def _rates(found: Reliability) -> str:
    rows = found.rows
    most = max(max(row.high, row.predicted) for row in rows) * 1.04
    chart = Chart(
        "reliability",
        "Rates that were foretold, and those that came",
        "Each mark is a tenth of the displays: on the dashed line, what was foretold came true; "
        "above it there were more clicks than foretold.",
        Axis("foretold click rate", "percent", low=0, high=most),
        Axis("observed click rate", "percent", low=0, high=most),
        (
            Layer("rule", "as foretold", [0, most], [0, most], colour="c4"),
            Layer(
                "points",
                "observed, with 90% interval",
                [row.predicted for row in rows],
                [row.observed for row in rows],
                [
                    f"foretold {percent(row.predicted)}, observed {percent(row.observed)}\n"
                    f"90% interval {interval(row.low, row.high)}, {row.displays:,} displays"
                    for row in rows
                ],
                low=[row.low for row in rows],
                high=[row.high for row in rows],
            ),
        ),
    )
    numbers = table(
        ("foretold", "observed", "90% interval", "displays"),
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


def _places_chart(found: Reliability) -> str:
    count = len(found.places)
    names = tuple(f"{10 * i}–{10 * (i + 1)}" for i in range(count))
    even = 1 / count
    chart = Chart(
        "places",
        "Clicks of single items, among what was foretold for them",
        "Flat, within the dashed lines, is right: high at both ends, the model is too sure of "
        "items; high in the middle, it is not sure enough.",
        Axis("place among the clicks foretold, in %", names=names),
        Axis("of items", "percent", low=0),
        (
            Layer(
                "bars",
                "",
                range(count),
                found.places,
                [
                    f"{percent(share)} of {found.items:,} items; {percent(even)} would be even"
                    for share in found.places
                ],
                size=0.86,
            ),
            *(
                Layer("rule", "", [None, None], [end, end], colour="c4")
                for end in (even - found.band, even + found.band)
            ),
        ),
    )
    return figure(chart, table(("place", "share of items"), zip(
        names, map(percent, found.places), strict=True
    )))  # fmt: skip


def _curve(found: ItemCoverage) -> str:
    chart = Chart(
        "coverage",
        "How often intervals of relevance hold the truth",
        "On the dashed line, intervals that promise to hold with some probability do; below it "
        "they are too narrow.",
        Axis("promised", "percent", low=0, high=1),
        Axis("held", "percent", low=0, high=1),
        (
            Layer("rule", "as promised", [0, 1], [0, 1], colour="c4"),
            Layer(
                "points",
                "held",
                [level for level, _ in found.curve],
                [share for _, share in found.curve],
                [f"promised {level:.0%}, held {percent(share)}" for level, share in found.curve],
            ),
        ),
    )
    rows = ((f"{level:.0%}", percent(share)) for level, share in found.curve)
    return figure(chart, table(("promised", "held"), rows, texts=0))


def _truth(report: "Report", coverage: ItemCoverage | None) -> str:
    """Coverage in words, or why there is none."""
    if not report.has_truth:
        return missing(
            Absent(
                "How often intervals hold the truth is known only where the truth is: in a "
                "simulated world.",
                "--truth world",
            )
        )
    words = [_held_biases(report.bias)]
    if coverage is not None:
        words.append(
            f"Of {coverage.items:,} items whose true relevance is known, "
            f"{percent(coverage.covered / coverage.items)} lie in their {report.bias.level:.0%} "
            f"interval; the expected relevance is {coverage.error:.3f} away from it on average."
        )
    elif not isinstance(report.items, Absent):
        words.append(
            "Relevance has no interval, or no scale, that could be held against the truth."
        )
    return paragraph(" ".join(word for word in words if word))


def _held_biases(found: Bias) -> str:
    known = [row for row in found.rows if row.truth == row.truth and row.has_interval]
    if not known or not found.intervals:
        return "Position bias has no interval, or no known truth, to be held against each other."
    held = sum(row.relative_low <= row.truth <= row.relative_high for row in known)
    return (
        f"Of {len(known)} position biases, {held} have their true value in the "
        f"{found.level:.0%} interval."
    )
