"""Fits to the worlds of a family in common shapes, so that programs compile once for all of them.

First worlds of the family show how many pairs of each kind there are; all others get that room and
some more, or, where a world needs it, the next of a few larger ones. What room is left is filled
with pairs that count for nothing.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from epiclick.calibration.families import Family
from epiclick.calibration.worlds import Case, make_case
from epiclick.data.counts import ClickCounts

if TYPE_CHECKING:
    from epiclick.api import BaseModel
    from epiclick.fitting import Plan
    from epiclick.training.batches import Shapes

ROOMS = (1.4, 2.0, 3.0, 5.0, 10.0, 100.0)
"""Room as a multiple of what the first worlds need."""

MORE = 10
"""Pairs a batch that are added to that need, as some kinds of pairs are rare."""

FIRST = 3
"""How many first worlds there are."""

FIRST_SEED = 2**40
"""Seed of the first worlds, which no run is judged by."""


def fit_padded(model: "BaseModel", case: Case) -> "BaseModel":
    """Fit the model to a case's counts in the shapes of its family."""
    from epiclick.fitting import fit_model

    counts = model._counted(case.train)
    plan = model._plan(counts)
    plan = replace(plan, shapes=_shapes(plan, case.family, counts))
    model.fitted_ = fit_model(plan, counts, progress=False)
    return model


def _shapes(
    plan: "Plan", family: Family, counts: ClickCounts
) -> tuple["Shapes", "Shapes | None"] | None:
    """Room for the counts to learn from and to hold out; None if nothing is held out."""
    if not plan.holdout:
        return None
    shares = (1 - plan.holdout, plan.holdout)
    parts = counts.split(*shares, by="query", seed=plan.training.seed)
    # the same split of first worlds at every call, or there would be as many shapes as seeds
    firsts = zip(*(c.split(*shares, by="query", seed=0) for c in _first(family)), strict=True)
    train, held_out = (
        _common(first, own, batches)
        for first, own, batches in zip(firsts, parts, _batches(plan, parts), strict=True)
    )
    return train, held_out


def _batches(plan: "Plan", parts: tuple[ClickCounts, ...]) -> list[int]:
    """Number of batches of each part, as in a fit without common shapes."""
    from epiclick.fitting import pairs_per_batch

    size = pairs_per_batch(plan, len(parts[0]))
    return [-(-len(part) // size) for part in parts]


def _common(first: Sequence[ClickCounts], own: ClickCounts, batches: int) -> "Shapes":
    """The least room of `ROOMS` that suffices."""
    from epiclick.training.batches import Shapes

    usual, need = Shapes.common(first, batches), Shapes.common([own], batches)
    for room in ROOMS:
        # what no first world has takes time to compile, and is left out as long as may be
        spare = [MORE if size or room > ROOMS[0] else 0 for size in usual.capacity]
        capacity = tuple(
            int(room * (size + more)) for size, more in zip(usual.capacity, spare, strict=True)
        )
        if all(a >= b for a, b in zip(capacity, need.capacity, strict=True)):
            return Shapes(batches, capacity)
    return need


@cache
def _first(family: Family) -> tuple[ClickCounts, ...]:
    """Counts to learn from in the first worlds of a family."""
    return tuple(make_case(family, FIRST_SEED, index).train for index in range(FIRST))
