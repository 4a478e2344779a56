"""Which click model to use: scores on held-out pages, their differences and the verdict."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from epiclick.report.chart import Axis, Chart, Layer
from epiclick.report.markup import (
    Absent,
    bullets,
    escape,
    figure,
    folded,
    missing,
    number,
    paragraph,
    section,
    table,
)
from epiclick.report.report_sources import Sources
from epiclick.selection.parsimony import RULE, ModelScores
from epiclick.selection.result_in_words import headline

if TYPE_CHECKING:
    from epiclick.report.page import Report

ChoiceState = Literal["yes", "open", "no"]

TITLE = "Which click model to use"


@dataclass(frozen=True)
class ClickModelChoice:
    """A selection of click models, and what it says about the model of the report.

    Attributes:
        rows: scores of the models, the best first; models without scores last.
        own: the click model of the report.
        best: the one with the highest score; "" if none could be scored.
        chosen: the one that the rule chooses; the same.
        headline: the first sentence of the verdict.
        verdict: in words.
        held_out: what they were scored on, in words.
        level: probability of the intervals.
        last_position: where `ModelScores.relative_bias` was taken.
        notes: what was left out or assumed.
    """

    rows: tuple[ModelScores, ...]
    own: str
    best: str
    chosen: str
    headline: str
    verdict: str
    held_out: str
    level: float
    last_position: str
    notes: tuple[str, ...]

    @property
    def state(self) -> ChoiceState:
        """Whether the model of the report is chosen, or is as good, or another one is better."""
        own = next((row for row in self.rows if row.click_model == self.own), None)
        if own is None or not self.chosen:
            return "open"
        if self.chosen == self.own:
            return "yes"
        return "open" if own.is_scored and (own.may_be_chance or own.is_negligible) else "no"

    @property
    def about_own(self) -> str:
        """What the choice says about the model of the report, as a sentence; "" for nothing."""
        if self.chosen in (self.own, ""):
            return ""
        if self.own not in {row.click_model for row in self.rows}:
            return f"This report is about a {self.own}, which was not compared."
        if self.state == "open":
            return f"This report is about a {self.own}, which predicts these pages as well."
        return (
            f"This report is about a {self.own}, which predicts these pages worse: fit again with "
            f"`--click-model {self.chosen}`."
        )


def click_model_choice(sources: Sources) -> ClickModelChoice | Absent:
    """The selection that was given."""
    found = sources.selection
    if found is None:
        return Absent(
            "Click models were not compared on this log. Compare them with `epiclick select LOG "
            "--out select.json`.",
            "--selection select.json",
        )
    pages = "" if found.pages is None else f"{found.pages:,} pages, "
    return ClickModelChoice(
        rows=tuple(sorted(found.scores, key=_by_score)),
        own=sources.fitted.click_model,
        best="" if found.best is None else found.best.click_model,
        chosen="" if found.chosen is None else found.chosen.click_model,
        headline=headline(found.scores),
        verdict=found.verdict,
        held_out=f"{pages}{found.displays:,} displays of {found.queries:,} queries",
        level=found.level,
        last_position=found.last_position,
        notes=found.notes,
    )


def _by_score(model: ModelScores) -> tuple[float, str]:
    score = model.log_likelihood
    return float("inf") if score is None else -score, model.click_model


def choice_section(report: "Report") -> str:
    """Verdict, differences and scores."""
    found = report.choice
    if isinstance(found, Absent):
        return section("click-model", TITLE, missing(found))
    scored = [row for row in found.rows if row.is_scored]
    return section(
        "click-model",
        TITLE,
        paragraph(f"Held out: {found.held_out}."),
        f'<p class="verdict is-{found.state}"><b>Verdict:</b> {escape(found.verdict)}</p>',
        paragraph(found.about_own, "missing") if found.about_own else "",
        f'<div class="charts">{_differences(found, scored)}</div>' if len(scored) > 1 else "",
        _table(found),
        folded(
            "How the choice was made",
            bullets([_rule(found), *(f"{note}." for note in found.notes)]),
        ),
    )


def _rule(found: ClickModelChoice) -> str:
    return (
        f"The rule chooses {RULE}. Log-likelihood is per display, given the clicks above it on its "
        "page; perplexity is not given them, and averaged over positions. Intervals come from the "
        f"differences between queries ({found.level:.0%})."
    )


def _differences(found: ClickModelChoice, scored: Sequence[ModelScores]) -> str:
    rows = list(reversed(scored))  # the best at the top
    others = [row for row in rows if row.click_model != found.best]
    place = {row.click_model: i for i, row in enumerate(rows)}
    chart = Chart(
        "click-models",
        f"Log-likelihood per display compared with {found.best}",
        f"Each model's difference from the best, with its {found.level:.0%} interval: one that "
        "reaches the dashed line at 0 may be chance.",
        Axis("difference in log-likelihood per display"),
        Axis("", names=tuple(place)),
        (
            Layer(
                "points",
                "",
                [row.difference for row in others],
                [place[row.click_model] for row in others],
                [f"{row.click_model}: {_difference(row, found.best)}" for row in others],
                [row.low for row in others],
                [row.high for row in others],
            ),
            Layer(
                "points",
                "",
                [0],
                [place[found.best]],
                [f"{found.best}: best of those that compete"],
                colour="c2",
            ),
            Layer("rule", "", [0, 0], [None, None], colour="truth"),
        ),
    )
    return figure(chart)


def _table(found: ClickModelChoice) -> str:
    columns = (
        *("click model", "log-likelihood", f"difference ({found.level:.0%} interval)"),
        *("perplexity", "chi2/df", "parameters", f"bias at {found.last_position}"),
    )
    return table(
        columns,
        (
            (
                _named(found, row),
                number(row.log_likelihood, 5),
                _difference(row, found.best),
                number(row.perplexity, 4),
                number(row.chi2_per_df, 2),
                f"{row.parameters:,}",
                number(row.relative_bias),
            )
            for row in found.rows
        ),
    )


def _named(found: ClickModelChoice, row: ModelScores) -> str:
    marks = {"chosen": found.chosen, "this report": found.own}
    said = [mark for mark, name in marks.items() if name == row.click_model]
    return f"{row.click_model} ({', '.join(said)})" if said else row.click_model


def _difference(row: ModelScores, best: str) -> str:
    if row.click_model == best:
        return "best"
    if row.is_scored:
        return f"{row.difference:+.5f} ({row.low:+.5f} to {row.high:+.5f})"
    plural = "" if row.impossible == 1 else "s"
    return f"probability 0 on {row.impossible:,} {row.unit}{plural}" if row.impossible else "–"
