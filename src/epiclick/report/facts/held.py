"""How many true values the intervals of a model hold, position bias and relevance apart."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from epiclick.api import BaseModel
from epiclick.data.counts import ClickCounts
from epiclick.errors import InputError
from epiclick.report.facts.coverage import CoverageCount
from epiclick.report.facts.judged import judged_at
from epiclick.report.facts.sources import Sources
from epiclick.report.facts.truth import Truth

LEVELS = (0.5, 0.9)
"""Probabilities of the intervals that are held against the truth."""

MANY = 30
"""Values from which on a share says more than a number."""


@dataclass(frozen=True)
class Held:
    """True values of one kind, and how many of them lie in their intervals.

    Attributes:
        quantity: "position_bias", relative to the reference, or "relevance".
        level: probability that the intervals promise.
        values: how many there are.
        held: how many of them the intervals hold.
    """

    quantity: str
    level: float
    values: int
    held: int

    @property
    def share(self) -> float:
        """Of the values that are held."""
        return self.held / self.values

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "share": self.share}


def held(
    model: BaseModel, counts: ClickCounts, truth: Truth, levels: Sequence[float] = LEVELS
) -> tuple[Held, ...]:
    """Hold intervals of position bias, and of the relevance of a log's items, against the truth.

    Items are judged by their own clicks in the log, and by their features if the model has any.
    """
    sources = Sources(model, "model", counts, features=counts.features, truth=truth)
    found = [each for level in levels if (each := _held_biases(sources, truth, level))]
    for level in levels:
        count = CoverageCount.of(sources)
        if count is None:
            continue
        for part in judged_at(sources, level):
            count.add(part)
        if items := count.found():
            found.append(Held("relevance", level, items.items, items.held))
    if not found:
        raise InputError(
            "--truth: the model has no intervals to hold it, or nothing in the log is of that "
            "world; give the world that the log comes from, and an epistemic model with an anchor"
        )
    return tuple(found)


def _held_biases(sources: Sources, truth: Truth, level: float) -> Held | None:
    """Of the contexts but the reference; None where nothing is known, or nothing can be held."""
    table = sources.model.click_table(level=level)
    low, high = (table[f"relative_{end}"].to_numpy(float) for end in ("low", "high"))
    true = truth.bias_at(sources.fitted.contexts)
    true = true / true[sources.fitted.anchor or 0]
    known = ~np.isnan(true) & ~np.isnan(low) & (low < high)
    if not known.any():
        return None
    inside = (low <= true) & (true <= high) & known
    return Held("position_bias", level, int(known.sum()), int(inside.sum()))


def words(found: Sequence[Held]) -> str:
    """The same in sentences."""
    told = []
    for quantity, called in (
        ("position_bias", "true position biases"),
        ("relevance", "true relevances"),
    ):
        of = [each for each in found if each.quantity == quantity]
        parts = [f"{each.level:.0%} intervals hold {_count(each)}" for each in of]
        if parts:
            told.append(f"Of {of[0].values:,} {called}, {' and '.join(parts)}.")
    return " ".join(told)


def _count(each: Held) -> str:
    """A number where values are few, a share where they are many."""
    return f"{each.held}" if each.values < MANY else f"{each.share:.1%}"
