"""Fit quality: predicted against observed clicks, compared with baselines and other models."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import xlog1py, xlogy

from epiclick.data.counts import ClickCounts
from epiclick.evaluation.backtest import Backtest, backtest
from epiclick.evaluation.click_scores import BASELINES, kept_rates, score_clicks
from epiclick.fitted.prediction import click_probabilities
from epiclick.report.chart import Axis, Chart, Layer, with_intervals
from epiclick.report.markup import (
    Absent,
    escape,
    figure,
    interval,
    missing,
    number,
    paragraph,
    percent,
    section,
    table,
)
from epiclick.report.overview import click_rates, context_labels, most_displayed
from epiclick.report.reliability import Reliability, reliability
from epiclick.report.report_sources import Sources, Trial

if TYPE_CHECKING:
    from epiclick.report.page import Report

BASELINE_NAMES = {
    "overall": "one click rate for all",
    "by_context": "click rate by position",
    "by_document": "click rate by item",
}
CLEAR = 2.0
"""Standard errors from which a lead is clear."""


MARKS = {"inside": "yes", "far outside": "no"}
"""Colour of a backtest by its grade; others are open."""


@dataclass(frozen=True)
class ScoreRow:
    """Scores of the model, of another one, or of a baseline.

    Attributes:
        name: what was scored.
        is_model: whether it is the model of the report.
        log_likelihood: per display; higher is better, 0 is perfect.
        perplexity: mean over positions; 1 is perfect, 2 is a coin flip.
        explained: share of the deviance of a single click rate that it explains.
        lead: of the model over it, in log-likelihood per display; 0 for the model itself.
        lead_error: standard error of the lead, from the differences between queries.
    """

    name: str
    is_model: bool
    log_likelihood: float
    perplexity: float
    explained: float
    lead: float
    lead_error: float


def score_rows(sources: Sources, tested: Trial, chance: np.ndarray) -> tuple[ScoreRow, ...]:
    """The model, which predicts the probabilities `chance` (entries,), then the alternatives."""
    counts, others = tested.counts, dict(_alternatives(sources, tested))
    base = score_clicks(counts, others[BASELINE_NAMES["overall"]]).display_log_likelihood
    return (
        _row(sources.name, True, counts, chance, chance, base),
        *(_row(name, False, counts, chance, other, base) for name, other in others.items()),
    )


def _row(
    name: str,
    is_model: bool,
    counts: ClickCounts,
    own: np.ndarray,
    chance: np.ndarray,
    base: float,
) -> ScoreRow:
    """Scores of click probabilities `chance` (entries,), the model's being `own`."""
    score = score_clicks(counts, chance)
    explained = 1 - score.display_log_likelihood / base if base < 0 else math.nan
    lead, error = _lead(counts, own, chance)
    return ScoreRow(
        name,
        is_model,
        score.display_log_likelihood,
        score.perplexity,
        explained,
        lead,
        error,
    )


def _lead(counts: ClickCounts, own: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """Difference in log-likelihood per display, and its standard error between queries."""
    clicks, rest = counts.clicks, counts.displays - counts.clicks
    gain = (xlogy(clicks, own) + xlog1py(rest, -own)) - (
        xlogy(clicks, other) + xlog1py(rest, -other)
    )
    query, size = counts.query[counts.pair], counts.num_queries
    gained, shown = np.bincount(query, gain, size), np.bincount(query, counts.displays, size)
    lead = float(gained.sum() / shown.sum())
    if size < 2 or not np.isfinite(lead):
        return lead, math.nan
    squares = float(((gained - lead * shown) ** 2).sum())
    return lead, math.sqrt(size / (size - 1) * squares) / float(shown.sum())


def _alternatives(sources: Sources, tested: Trial) -> Iterator[tuple[str, np.ndarray]]:
    """Click probabilities (entries,) of other models, then of baselines.

    Baselines learn from the log; without one, from the click rates that are stored in the model.
    """
    counts = tested.counts
    for name, other in sources.others.items():
        # with no more knowledge of the items tested than the model itself
        fitted = other.fitted_ if tested.fitted.items else replace(other.fitted_, items=None)
        yield Path(name).name, click_probabilities(fitted, counts)
    if tested.train is None:
        for name, chance in kept_rates(sources.fitted, counts).items():
            yield BASELINE_NAMES[name], chance
        return
    for name, baseline in BASELINES.items():
        yield BASELINE_NAMES[name], baseline(tested.train, counts)


@dataclass(frozen=True)
class FitRow:
    """Observed and predicted click rate of a context.

    Attributes:
        label: its values.
        displays: number of displays.
        observed: clicks per display.
        low: lower end of its interval.
        high: upper end.
        predicted: clicks per display by the model.
    """

    label: str
    displays: int
    observed: float
    low: float
    high: float
    predicted: float


@dataclass(frozen=True)
class Quality:
    """How well clicks are predicted.

    Attributes:
        tested_on: which clicks: "a log that was held back".
        unseen: whether the model had never seen them.
        scores: the model first.
        context: what rates are reported by: "position".
        rows: of the contexts.
        displays: number of displays.
        backtest: clicks per page, observed and predicted.
        reliability: whether predicted rates and counts came true.
        missing: alternatives that were not scored, and what would add them.
    """

    tested_on: str
    unseen: bool
    scores: tuple[ScoreRow, ...]
    context: str
    rows: tuple[FitRow, ...]
    displays: int
    backtest: Backtest
    reliability: Reliability
    missing: tuple[Absent, ...]


def quality(sources: Sources) -> Quality | Absent:
    """Score the model on the clicks it has seen least of."""
    tested = sources.tested
    if isinstance(tested, Absent):
        return tested
    counts = tested.counts
    chance = click_probabilities(tested.fitted, counts)
    own = score_clicks(counts, chance)
    contexts, index = counts.given
    rates = click_rates(counts, index[counts.context], len(contexts))
    labels, table = context_labels(contexts), own.by_context
    shown = [k for k in most_displayed(table["displays"]) if table["displays"][k]]
    return Quality(
        tested_on=tested.description,
        unseen=tested.unseen,
        displays=counts.total_displays,
        context=", ".join(contexts.column_names),
        scores=score_rows(sources, tested, chance),
        rows=tuple(
            FitRow(
                labels[k],
                int(table["displays"][k]),
                observed=float(rates[0, k]),
                low=float(rates[1, k]),
                high=float(rates[2, k]),
                predicted=float(table["predicted"][k]),
            )
            for k in shown
        ),
        backtest=backtest(tested.fitted, counts, sources.model.level),
        reliability=reliability(tested.fitted, counts, chance, seed=0),
        missing=tuple(_missing(sources, tested)),
    )


def _missing(sources: Sources, tested: Trial) -> Iterator[Absent]:
    if tested.train is None:
        yield Absent("Click rates by item need the log that the model was trained on.", "LOG")
    all_fitted = (sources.fitted, *(each.fitted_ for each in sources.others.values()))
    if all(each.relevance_head.has_uncertainty for each in all_fitted):
        yield Absent(
            "A pointwise model, which has point estimates instead of distributions, was not "
            "compared. Fit one with `epiclick fit --estimator pointwise`.",
            "--against pointwise",
        )


def quality_section(report: "Report") -> str:
    """Backtest, rates by position, scores."""
    found, title = report.quality, "How well it predicts clicks"
    if isinstance(found, Absent):
        return section("fit", title, missing(found))
    caveat = (
        ""
        if found.unseen
        else missing(
            Absent(
                "The model has seen some of these clicks, so this check is optimistic. A log that "
                "it has never seen is a stricter one.",
                "--backtest later.parquet",
            )
        )
    )
    tested = found.backtest
    mark = MARKS.get(tested.grade or "", "open")
    text = tested.summary[:1].upper() + tested.summary[1:]
    return section(
        "fit",
        title,
        paragraph(f"Checked on {found.tested_on}: {found.displays:,} displays."),
        caveat,
        f'<p class="verdict is-{mark}"><span class="{mark}">Backtest:</span> {escape(text)}.</p>',
        f'<div class="charts">{_rates(found)}{_scores(found)}</div>',
        *(missing(absent) for absent in found.missing),
    )


def _rates(found: Quality) -> str:
    rows, places = found.rows, range(len(found.rows))
    chart = Chart(
        "observed",
        "Observed and predicted click rate",
        "If the model is right, its predictions are within the interval of the observed rate about "
        "9 times out of 10.",
        Axis(found.context, names=tuple(row.label for row in rows)),
        Axis("click rate", "percent", low=0),
        (
            with_intervals(
                "observed, with 90% interval",
                places,
                [row.observed for row in rows],
                [
                    f"{found.context} {row.label}: observed {percent(row.observed, 2)}\n"
                    f"90% interval {interval(row.low, row.high, 2)}"
                    for row in rows
                ],
                rows,
                colour="c4",
                offset=-0.12,
            ),
            Layer(
                "points",
                "predicted by the model",
                places,
                [row.predicted for row in rows],
                [
                    f"{found.context} {row.label}: predicted {percent(row.predicted, 2)}"
                    for row in rows
                ],
                offset=0.12,
            ),
        ),
    )
    numbers = table(
        (found.context, "displays", "observed", "90% interval", "predicted"),
        (
            (
                row.label,
                f"{row.displays:,}",
                percent(row.observed, 2),
                interval(row.low, row.high, 2),
                percent(row.predicted, 2),
            )
            for row in rows
        ),
    )
    return figure(chart, numbers)


def _scores(found: Quality) -> str:
    rows = sorted(found.scores, key=lambda row: row.log_likelihood)
    chart = Chart(
        "scores",
        "Compared with simple baselines",
        "Share of the deviance that each one explains, compared with one click rate for all: the "
        "longer the bar, the better.",
        Axis("deviance explained", "percent"),
        Axis("", names=tuple(row.name for row in rows)),
        tuple(
            Layer(
                "bars",
                "",
                [row.explained for row in own],
                [rows.index(row) for row in own],
                [
                    f"{row.name}: {percent(row.explained)} of the deviance\n"
                    f"log-likelihood per display {row.log_likelihood:.4f}"
                    for row in own
                ],
                colour="c0" if is_model else "c4",
            )
            for is_model in (True, False)
            if (own := [row for row in rows if row.is_model == is_model])
        ),
    )
    numbers = table(
        ("", "log-likelihood", "perplexity", "deviance explained"),
        (
            (
                row.name,
                number(row.log_likelihood, 4),
                number(row.perplexity, 4),
                percent(row.explained),
            )
            for row in found.scores
        ),
    )
    return figure(chart, numbers)
