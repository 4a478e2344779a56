"""Fit quality: observed against predicted clicks, and against simpler rules."""

from html import escape

from epiclick.report.chart import Axis, Chart, Layer
from epiclick.report.facts.absent import Absent
from epiclick.report.facts.quality import Quality
from epiclick.report.gather import Report
from epiclick.report.markup import (
    figure,
    interval,
    missing,
    number,
    paragraph,
    percent,
    section,
    table,
)

TITLE = "How well it foretells clicks"

MARKS = {"inside": "yes", "far outside": "no"}
"""Colour of a backtest by its grade; all others are open."""


def quality_section(report: Report) -> str:
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
    words = tested.words[:1].upper() + tested.words[1:]
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
