"""Position bias with its intervals, and what the checks of the fit say of it."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pyarrow as pa

from epiclick.models.bias_table import stored_at_bound
from epiclick.models.fitted import given_of
from epiclick.report.facts.contexts import drawn, labels_of, spoken
from epiclick.report.facts.sources import Sources


@dataclass(frozen=True)
class BiasRow:
    """How much a context is looked at.

    Attributes:
        label: its values.
        spoken: the same in a sentence.
        mean: probability that an item there is looked at.
        low: lower end of its interval; NaN without one.
        high: upper end.
        relative: as a share of the reference's.
        relative_low: lower end of its interval; NaN without one.
        relative_high: upper end.
        truth: of a simulated world, relative to the reference; NaN where unknown.
        is_at_bound: whether the reference's bias keeps it from rising, so that it has no interval.
    """

    label: str
    spoken: str
    mean: float
    low: float
    high: float
    relative: float
    relative_low: float
    relative_high: float
    truth: float
    is_at_bound: bool = field(default=False, kw_only=True)

    @property
    def is_held(self) -> bool:
        """Whether there is nothing to be sure or unsure of: the reference itself."""
        return self.relative_low == self.relative_high == 1

    @property
    def has_interval(self) -> bool:
        """Whether it is known how sure it is."""
        return not (self.is_held or math.isnan(self.relative_low))


@dataclass(frozen=True)
class Bias:
    """Position bias of a model.

    Attributes:
        context: what it depends on: "position".
        reference: the context that others are compared with, in a sentence.
        intervals: "robust", "evidential", or "" where there are none.
        level: probability of the intervals.
        is_free: whether the scale is free, so that only relative values are learned.
        rows: of the contexts, the most displayed if there are many.
        contexts: how many there are.
        fit_ratio: chi-squared by its degrees of freedom; None where unknown.
        fit_freedom: these degrees of freedom.
        words: what the checks found, sentence by sentence.
        warnings: what may mislead.
        model: the click model, in words.
        history: columns of the contexts where what happened above on a page matters; else "".
        by_history: the same by these contexts; none where it does not.
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
    words: tuple[str, ...]
    warnings: tuple[str, ...]
    model: str = "position-based model"
    history: str = ""
    by_history: tuple[BiasRow, ...] = ()


def bias(sources: Sources) -> Bias:
    """Ask the model."""
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
        reference=spoken(contexts, reference),
        intervals=intervals,
        level=sources.model.level,
        is_free=fitted.anchor is None and not checks.get("given_bias"),
        rows=_rows(sources, contexts, table, reference, displays, at_bound),
        contexts=len(contexts),
        fit_ratio=checks.get("chi2_per_df"),
        fit_freedom=int(checks.get("chi2_df") or 0),
        words=tuple(w for w in checks.get("words", ()) if not w.startswith("Warning: ")),
        warnings=tuple(fitted.training.warnings),
        model=fitted.clicks.title,
        history=", ".join(fitted.contexts.column_names) if by_history else "",
        by_history=by_history,
    )


def _rows(
    sources: Sources,
    contexts: pa.Table,
    table: pd.DataFrame,
    reference: int,
    displays: Sequence[int] | np.ndarray,
    at_bound: Collection[int],
) -> tuple[BiasRow, ...]:
    """A row for each context of a table, of the most displayed if there are many."""
    names = ("mean", "low", "high", "relative", "relative_low", "relative_high")
    numbers = table[list(names)].to_numpy(float).T  # (6, contexts)
    truth = np.full(len(contexts), np.nan)
    if sources.truth is not None:
        truth = sources.truth.bias_at(contexts)
        truth = truth / truth[reference]
    labels = labels_of(contexts)
    return tuple(
        BiasRow(
            labels[k],
            spoken(contexts, k),
            *(float(values[k]) for values in (*numbers, truth)),
            is_at_bound=k in at_bound,
        )
        for k in drawn(displays)
    )
