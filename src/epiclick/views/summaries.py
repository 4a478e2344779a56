"""Summaries of results: text in a terminal, HTML in a notebook."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import pandas as pd

from epiclick.fitted.state import FittedModel
from epiclick.fitted.tables import position_bias_table
from epiclick.spelling import spelled

MOST_ROWS = 12
"""Rows of a table that a summary shows."""


@dataclass(frozen=True, eq=False)
class Summary:
    """What a result consists of: printed as text, and shown as HTML in a notebook.

    Attributes:
        title: of the result.
        facts: pairs of a name and a value, in order.
        table: its most important numbers; None without any.
        caption: what the table shows.
        notes: sentences that follow, such as warnings.
    """

    title: str
    facts: Sequence[tuple[str, str]] = ()
    table: pd.DataFrame | None = None
    caption: str = ""
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        """The summary as text."""
        width = max((len(name) for name, _ in self.facts), default=0)
        lines = [self.title, *(f"  {name:<{width}}  {value}" for name, value in self.facts)]
        if self.table is not None:
            lines += ["", self.caption, _rounded(self.table).to_string(index=False)]
        lines += ["", *(f"- {note}" for note in self.notes)] if self.notes else []
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The summary as HTML, for notebooks."""
        cells = (
            f"<tr><th style='text-align:left'>{escape(name)}</th>"
            f"<td style='text-align:left'>{escape(value)}</td></tr>"
            for name, value in self.facts
        )
        facts = f"<table>{''.join(cells)}</table>" if self.facts else ""
        table = ""
        if self.table is not None:
            shown = _rounded(self.table).to_html(index=False, border=0)
            table = f"<p>{escape(self.caption)}</p>{shown}"
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        notes = f"<ul>{notes}</ul>" if notes else ""
        return f"<div><strong>{escape(self.title)}</strong>{facts}{table}{notes}</div>"


def _rounded(table: pd.DataFrame) -> pd.DataFrame:
    """The first rows, with numbers to four digits."""
    shown = table.head(MOST_ROWS).copy()
    for name in shown.select_dtypes("float").columns:
        shown[name] = [f"{value:.4g}" for value in shown[name]]
    if len(table) > MOST_ROWS:
        more = dict.fromkeys(shown.columns, "...")
        shown = pd.concat([shown.astype(object), pd.DataFrame([more])], ignore_index=True)
    return shown


def model_summary(fitted: FittedModel, call: str, level: float) -> Summary:
    """Of a fitted model.

    Args:
        fitted: the model.
        call: the constructor call that made it.
        level: probability of intervals.
    """
    training = fitted.training
    names = list(fitted.contexts.column_names)
    features = "none: items are judged by their own clicks"
    if fitted.features is not None:
        features = f"{len(fitted.features.columns):,}"
    facts = [
        ("click model", fitted.clicks.title),
        ("displays", f"{training.displays:,}"),
        ("clicks", f"{training.clicks:,}"),
        ("items", f"{training.pairs:,} pairs of query and document"),
        ("features", features),
        ("log-likelihood", f"{training.log_likelihood:.5f} per display"),
        ("fitted in", f"{training.seconds:.1f} s, {training.epochs} {fitted.iteration}s"),
    ]
    ratio = training.checks.get("chi2_per_df")
    if isinstance(ratio, float):
        facts.append(("chi2/df", f"{ratio:.2f} (1 where clicks vary as the model expects)"))
    table = position_bias_table(fitted, level, None)
    return Summary(
        call,
        facts,
        table[[*(name for name in names if name in table), "mean", "low", "high"]],
        f"Position bias, with {100 * level:g} % intervals:",
        [spelled(each) for each in training.warnings],
    )
