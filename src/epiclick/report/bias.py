"""Position bias with its intervals: how often each context is looked at."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa

from epiclick.fitted.clusters_used import ClustersUsed
from epiclick.fitted.state import given_of
from epiclick.fitted.tables import stored_at_bound
from epiclick.report.chart import Axis, Chart, Layer
from epiclick.report.markup import (
    bullets,
    escape,
    figure,
    folded,
    interval,
    paragraph,
    percent,
    section,
    table,
)
from epiclick.report.overview import (
    ContextRow,
    Group,
    context_name,
    context_places,
    most_displayed,
    overlaid,
    shown_of,
)
from epiclick.report.report_sources import Sources

if TYPE_CHECKING:
    from epiclick.report.page import Report


INTERVAL_KINDS = {
    "robust": "Bars are {level} intervals from the differences between {clusters}; they remain "
    "valid where clicks vary more than the model allows.",
    "evidential": "Bars are the {level} intervals that the paper's estimator learns. They are not "
    "calibrated: their coverage may be far from {level}.",
    "": "There are no intervals: this model has point estimates of position bias only. The default "
    "of `epiclick fit` has intervals.",
}


@dataclass(frozen=True)
class BiasRow(ContextRow):
    """How often a context is looked at.

    Attributes:
        name: as sentences name it.
        mean: probability that an item there is looked at.
        low: lower end of its interval; NaN without one.
        high: upper end.
        relative: as a share of the reference's.
        relative_low: lower end of its interval; NaN without one.
        relative_high: upper end.
        truth: of a simulated world, relative to the reference; NaN where unknown.
        is_at_bound: whether it is at its bound, the reference's bias, so that it has no interval.
    """

    name: str
    mean: float
    low: float
    high: float
    relative: float
    relative_low: float
    relative_high: float
    truth: float
    is_at_bound: bool = field(default=False, kw_only=True)

    @property
    def is_reference(self) -> bool:
        """Whether it is the reference itself, which has no uncertainty."""
        return self.relative_low == self.relative_high == 1

    @property
    def has_interval(self) -> bool:
        """Whether its uncertainty is known."""
        return not (self.is_reference or math.isnan(self.relative_low))


@dataclass(frozen=True)
class Bias:
    """Position bias of a model.

    Attributes:
        context: what it depends on: "position".
        reference: name of the context that others are compared with.
        intervals: "robust", "evidential", or "" where there are none.
        level: probability of the intervals.
        is_free: whether the scale is free, so that only relative values are learned.
        rows: of the contexts, the most displayed if there are many.
        contexts: how many there are.
        fit_ratio: chi-squared per degree of freedom; None where unknown.
        fit_freedom: these degrees of freedom.
        findings: what the checks found, in sentences.
        warnings: what may mislead.
        model: name of the click model.
        is_affine: whether unattractive items are clicked too.
        history: columns of its contexts, if it depends on earlier clicks of the page; else "".
        by_history: rows of these contexts.
    """

    context: str
    reference: str
    intervals: str
    level: float
    is_free: bool
    rows: tuple[BiasRow, ...]
    contexts: int
    fit_ratio: float | None
    fit_freedom: int
    findings: tuple[str, ...]
    warnings: tuple[str, ...]
    model: str = "position-based model"
    is_affine: bool = False
    history: str = ""
    by_history: tuple[BiasRow, ...] = ()
    clusters: str = "queries"

    @property
    def is_absolute(self) -> bool:
        """Whether relative values are absolute, since the reference is always looked at."""
        return all(row.mean == row.relative for row in self.rows)


def bias(sources: Sources) -> Bias:
    """Read it from the model."""
    fitted, checks = sources.fitted, sources.fitted.training.checks
    contexts, index = given_of(fitted)
    reference = int(index[fitted.anchor or 0])
    displays = np.bincount(index, checks["by_context"]["displays"], len(contexts))
    table = sources.model.position_bias()
    at_bound = set() if fitted.clicks.history else set(stored_at_bound(fitted))
    intervals = "robust"
    if not fitted.parameters.position.is_point:
        intervals = "evidential"
    elif table["low"].isna().all():
        intervals = ""
    by_history: tuple[BiasRow, ...] = ()
    if fitted.clicks.history:
        own, every = sources.model.click_table(), checks["by_context"]["displays"]
        bound = set(stored_at_bound(fitted))
        by_history = _rows(sources, fitted.contexts, own, fitted.anchor or 0, every, bound)
    return Bias(
        context=", ".join(contexts.column_names),
        reference=context_name(contexts, reference),
        intervals=intervals,
        level=sources.model.level,
        is_free=fitted.anchor is None and not checks.get("given_bias"),
        rows=_rows(sources, contexts, table, reference, displays, at_bound),
        contexts=len(contexts),
        fit_ratio=checks.get("chi2_per_df"),
        fit_freedom=int(checks.get("chi2_df") or 0),
        findings=tuple(w for w in checks.get("words", ()) if not w.startswith("Warning: ")),
        warnings=tuple(fitted.training.warnings),
        model=fitted.clicks.title,
        is_affine=fitted.clicks.is_affine,
        history=", ".join(fitted.contexts.column_names) if by_history else "",
        by_history=by_history,
        clusters=ClustersUsed.stored(fitted).plural,
    )


def _rows(
    sources: Sources,
    contexts: pa.Table,
    table: pd.DataFrame,
    reference: int,
    displays: Sequence[int] | np.ndarray,
    at_bound: Collection[int],
) -> tuple[BiasRow, ...]:
    """A row for each context of a table, the most displayed if there are many."""
    names = ("mean", "low", "high", "relative", "relative_low", "relative_high")
    numbers = table[list(names)].to_numpy(float).T  # (6, contexts)
    truth = np.full(len(contexts), np.nan)
    if sources.truth is not None:
        truth = sources.truth.bias_at(contexts)
        truth = truth / truth[reference]
    places = context_places(contexts)
    return tuple(
        BiasRow(
            *places[k],
            context_name(contexts, k),
            *(float(values[k]) for values in (*numbers, truth)),
            is_at_bound=k in at_bound,
        )
        for k in most_displayed(displays)
    )


def bias_section(report: "Report") -> str:
    """Relative and absolute values, and the results of the checks."""
    found = report.bias
    charts = _chart(found, absolute=False)
    if not found.is_absolute:
        charts += _chart(found, absolute=True)
    meaning = (
        "A result can only be clicked by a user who looks at it. Position bias is how often a "
        f"position is looked at, here compared with {found.reference}; relevance is what "
        "remains of a click rate once position bias is removed."
    )
    if found.is_affine:
        meaning = (
            "Users of this model also click results for their position alone. Position bias is "
            "here how much the click rate at a position rises with relevance, compared with "
            f"{found.reference}; relevance is the probability of a click there."
        )
    return section(
        "bias",
        "Which positions get looked at",
        paragraph(meaning),
        paragraph(
            INTERVAL_KINDS[found.intervals].format(
                level=f"{found.level:.0%}", clusters=found.clusters
            )
        ),
        f'<div class="charts">{charts}</div>',
        shown_of(len(found.rows), found.contexts),
        _by_history(found),
        _checks(found),
    )


def _chart(found: Bias, *, absolute: bool) -> str:
    rows = found.rows
    if absolute:
        title, label = "Absolute: how often a position is looked at", "looked at"
        aid = f"100% means always; {found.reference} is set to 100%, the others are relative to it."
        if found.is_free:
            aid = (
                "100% means always; the scale of these numbers comes from the prior, only ratios "
                "are learned from clicks."
            )
        values = [(row.mean, row.low, row.high) for row in rows]
    else:
        title, label = f"Relative to {found.reference}", f"share of {found.reference}"
        aid = (
            "The same item, moved from the position at 100% to another, gets this share of its "
            "clicks there."
        )
        values = [(row.relative, row.relative_low, row.relative_high) for row in rows]
    places, groups = overlaid(rows)
    layers = _layers(found, values, groups, with_truth=not absolute)
    chart = Chart(
        "bias-absolute" if absolute else "bias-relative",
        title,
        aid,
        Axis("position" if len(groups) > 1 else found.context, names=places),
        Axis(label, "percent", low=0),
        tuple(layers),
    )
    columns = (found.context, "looked at", f"{found.level:.0%} interval")
    numbers = table(
        columns,
        (
            (row.label, percent(value), _interval(row, low, high))
            for row, (value, low, high) in zip(rows, values, strict=True)
        ),
    )
    return figure(chart, numbers)


def _interval(row: BiasRow, low: float, high: float) -> str:
    if row.is_at_bound:
        return "at its bound"
    # with a free scale, the absolute value of the reference has an interval
    return "reference" if row.is_reference and low == high else interval(low, high)


SPREAD = 0.36
"""Width along the axis that groups of one place share."""

BESIDE = 0.18
"""Distance of the truth from the model's value, if there is one group."""


def _layers(
    found: Bias,
    values: Sequence[tuple[float, float, float]],
    groups: Sequence[Group],
    *,
    with_truth: bool,
) -> list[Layer]:
    """The model's values with their intervals, one layer for each group; then the truth."""
    layers = []
    true: list[tuple[float, BiasRow]] = []  # with its place along the axis
    for group in groups:
        layers.append(
            Layer(
                "points",
                group.name or "model",
                group.at,
                [values[i][0] for i in group.rows],
                [_text(found, found.rows[i], *values[i]) for i in group.rows],
                low=[values[i][1] for i in group.rows],
                high=[values[i][2] for i in group.rows],
                colour=group.colour,
                offset=SPREAD * group.offset,
            )
        )
        beside = SPREAD * group.offset + BESIDE / len(groups)
        true += ((k + beside, found.rows[i]) for k, i in zip(group.at, group.rows, strict=True))
    if with_truth and not all(math.isnan(row.truth) for _, row in true):
        layers.append(
            Layer(
                "points",
                "truth",
                [k for k, _ in true],
                [row.truth for _, row in true],
                [f"{row.name}: true value {percent(row.truth)}" for _, row in true],
                colour="truth",
            )
        )
    return layers


def _text(found: Bias, row: BiasRow, value: float, low: float, high: float) -> str:
    """The tooltip of a value."""
    text = f"{row.name}: {percent(value)}"
    if not math.isnan(low) and low < high:
        text += f"\n{found.level:.0%} interval {interval(low, high)}"
    if row.is_at_bound:
        text += "\nno interval: at its bound"
    return text


def _by_history(found: Bias) -> str:
    """All contexts, where earlier clicks on the page matter."""
    if not found.by_history:
        return ""
    columns = [found.history, "looked at", f"{found.level:.0%} interval"]
    has_truth = not all(math.isnan(row.truth) for row in found.by_history)
    rows = (
        (
            row.label,
            percent(row.relative),
            _interval(row, row.relative_low, row.relative_high),
            *((percent(row.truth),) if has_truth else ()),
        )
        for row in found.by_history
    )
    intro = paragraph(
        f"In this {found.model}, how often a position is looked at depends on the clicks above it "
        "(0: none yet). The charts average over the pages of the log; the table lists every case."
    )
    return intro + folded(
        f"Looked at, by {found.history}",
        table((*columns, *(("truth",) if has_truth else ())), rows),
    )


def _checks(found: Bias) -> str:
    """Warnings, and the results of the checks of data and fit."""
    ratio = found.fit_ratio
    fit = "Too few items were shown often enough to check whether clicks are overdispersed."
    if ratio is not None:
        fit = (
            f"Fit check: clicks vary {ratio:.2f} times as much as a {found.model} predicts; 1 is a "
            "perfect fit, above 1.5 the fit is poor."
        )
    warned = "".join(f"<p><b>Warning:</b> {escape(each)}.</p>" for each in found.warnings)
    return warned + folded("Checks of data and fit", bullets((fit, *found.findings)))
