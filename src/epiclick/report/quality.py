"""Fit quality: observed against predicted clicks, and against simpler rules and other models."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import xlog1py, xlogy

from epiclick.data.counts import ClickCounts
from epiclick.evaluation.backtest import Backtest, backtest
from epiclick.evaluation.click_scores import BASELINES, kept_rates, score_clicks
from epiclick.fitted.prediction import click_probabilities
from epiclick.report.chart import Axis, Chart, Layer
from epiclick.report.markup import (
    Absent,
    figure,
    interval,
    missing,
    number,
    paragraph,
    percent,
    section,
    table,
)
from epiclick.report.overview import click_rates, drawn, labels_of
from epiclick.report.reliability import Reliability, reliability
from epiclick.report.report_sources import Sources, Trial

if TYPE_CHECKING:
    from epiclick.report.page import Report

RULES = {
    "overall": "one click rate for all",
    "by_context": "click rate by position",
    "by_document": "click rate by item",
}
"""Baselines in words."""

CLEAR = 2.0
"""Standard errors from which on a lead is one."""


@dataclass(frozen=True)
class ScoreRow:
    """Scores of the model, of another one, or of a simple rule.

    Attributes:
        name: what was scored.
        is_model: whether it is the model of the report.
        log_likelihood: a display; the higher the better, and 0 would be perfect.
        perplexity: mean over positions; 1 would be perfect, 2 is a coin.
        explained: share of the log-likelihood of one rate for all that is gained on it.
        lead: what the model gains on it, in log-likelihood a display; 0 for the model itself.
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
    """The model, which gives the entries tested the probabilities `chance`, then all others."""
    counts, rivals = tested.counts, dict(_rivals(sources, tested))
    base = score_clicks(counts, rivals[RULES["overall"]]).display_log_likelihood
    return (
        _row(sources.name, True, counts, chance, chance, base),
        *(_row(name, False, counts, chance, other, base) for name, other in rivals.items()),
    )


def _row(
    name: str,
    is_model: bool,
    counts: ClickCounts,
    own: np.ndarray,
    chance: np.ndarray,
    base: float,
) -> ScoreRow:
    """Scores of click probabilities (entries,), beside the model's own."""
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
    """Log-likelihood a display of one less that of another, and its error between queries."""
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


def _rivals(sources: Sources, tested: Trial) -> Iterator[tuple[str, np.ndarray]]:
    """(entries,) by other models, then by simple rules of the log, or of what the model keeps."""
    counts = tested.counts
    for name, other in sources.others.items():
        # as blind to the items that are tested as the model itself
        fitted = other.fitted_ if tested.fitted.items else replace(other.fitted_, items=None)
        yield Path(name).name, click_probabilities(fitted, counts)
    if tested.train is None:
        for name, chance in kept_rates(sources.fitted, counts).items():
            yield RULES[name], chance
        return
    for name, rule in BASELINES.items():
        yield RULES[name], rule(tested.train, counts)


@dataclass(frozen=True)
class FitRow:
    """Observed and predicted click rate of a context.

    Attributes:
        label: its values.
        displays: how many there were.
        observed: clicks a display.
        low: lower end of what may be the true rate.
        high: upper end.
        predicted: clicks a display by the model.
    """

    label: str
    displays: int
    observed: float
    low: float
    high: float
    predicted: float


@dataclass(frozen=True)
class Quality:
    """How well clicks were foretold.

    Attributes:
        of: what clicks these are: "a log that was held back".
        fair: whether the model had never seen them.
        displays: how many there were.
        context: "position".
        scores: the model first.
        rows: of the contexts.
        backtest: clicks a page, observed and predicted.
        reliability: whether rates that were foretold came true.
        missing: rivals that were not scored, and what would add them.
    """

    of: str
    fair: bool
    displays: int
    context: str
    scores: tuple[ScoreRow, ...]
    rows: tuple[FitRow, ...]
    backtest: Backtest
    reliability: Reliability
    missing: tuple[Absent, ...]


def quality(sources: Sources) -> Quality | Absent:
    """Score the model on clicks that it has seen least of."""
    tested = sources.tested
    if isinstance(tested, Absent):
        return tested
    counts = tested.counts
    chance = click_probabilities(tested.fitted, counts)
    own = score_clicks(counts, chance)
    contexts, index = counts.given
    rates = click_rates(counts, index[counts.context], len(contexts))
    labels, table = labels_of(contexts), own.by_context
    shown = [k for k in drawn(table["displays"]) if table["displays"][k]]
    return Quality(
        of=tested.words,
        fair=tested.fair,
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
            "A pointwise model, which has one number where this one has a distribution, is not "
            "among them. Fit one with `epiclick fit --estimator pointwise`.",
            "--against pointwise",
        )


TITLE = "How well it foretells clicks"

MARKS = {"inside": "yes", "far outside": "no"}
"""Colour of a backtest by its grade; all others are open."""


def quality_section(report: "Report") -> str:
    """Rates by position, scores, backtest."""
    found = report.quality
    if isinstance(found, Absent):
        return section("fit", TITLE, missing(found))
    caveat = (
        ""
        if found.fair
        else missing(
            Absent(
                "The model has seen some of these clicks, which flatters it. A log that it never "
                "saw is a stricter check.",
                "--backtest later.parquet",
            )
        )
    )
    tested = found.backtest
    mark = MARKS.get(tested.grade or "", "open")
    words = tested.summary[:1].upper() + tested.summary[1:]
    return section(
        "fit",
        TITLE,
        paragraph(f"Checked on {found.of}: {found.displays:,} displays."),
        caveat,
        f'<p class="verdict is-{mark}"><span class="{mark}">Backtest:</span> {escape(words)}.</p>',
        f'<div class="charts">{_rates(found)}{_scores(found)}</div>',
        *(missing(absent) for absent in found.missing),
    )


def _rates(found: Quality) -> str:
    rows, places = found.rows, range(len(found.rows))
    chart = Chart(
        "observed",
        "Observed and predicted click rate",
        "Where the model is right, its mark lies within the bar of what was observed in about 9 "
        "places of 10.",
        Axis(found.context, names=tuple(row.label for row in rows)),
        Axis("clicked", "percent", low=0),
        (
            Layer(
                "points",
                "observed, with 90% interval",
                places,
                [row.observed for row in rows],
                [
                    f"{found.context} {row.label}: observed {percent(row.observed, 2)}\n"
                    f"90% interval {interval(row.low, row.high, 2)}"
                    for row in rows
                ],
                low=[row.low for row in rows],
                high=[row.high for row in rows],
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
        "Against simpler rules",
        "How much of the surprise of the clicks each one takes away, against a single click rate "
        "for all: the longer the bar, the better.",
        Axis("surprise taken away", "percent"),
        Axis("", names=tuple(row.name for row in rows)),
        tuple(
            Layer(
                "bars",
                "",
                [row.explained for row in own],
                [rows.index(row) for row in own],
                [
                    f"{row.name}: {percent(row.explained)} of the surprise\n"
                    f"log-likelihood a display {row.log_likelihood:.4f}"
                    for row in own
                ],
                colour="c0" if is_model else "c4",
            )
            for is_model in (True, False)
            if (own := [row for row in rows if row.is_model == is_model])
        ),
    )
    numbers = table(
        ("", "log-likelihood a display", "perplexity", "surprise taken away"),
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
