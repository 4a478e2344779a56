"""Biases that the anchor's keeps from rising: their intervals would be narrow for no good reason.

A bias lies below that of the anchor, which is 1. A context that is looked at more comes out just
below 1, and the nearer to it the more clicks there are: the interval shrinks around a wrong value.
It is at its bound where

- the fit puts it near 1,
- the estimate without a bound (`posterior.unbounded`) is 1 or more, and
- either interval, with the bound or without, says that it is near 1 at least: where clicks are few
  the interval is wide, and honest.

A true bias of 0.97 that is known well keeps its interval, as the estimate without a bound stays
below 1.
"""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from epiclick.models.bias_table import click_table
from epiclick.models.fitted import FittedModel
from epiclick.posterior.anchor import anchor_option
from epiclick.posterior.identifiability import SHOWN, named
from epiclick.posterior.unbounded import UnboundedBias

NEAR_ONE = 0.9
LEVEL = 0.9  # of the intervals that are looked at


class AtBound(NamedTuple):
    """A context whose bias is at its bound.

    Attributes:
        context: its index.
        ratio: its bias over the anchor's, without a bound; infinite where no item shown in both
            was clicked at the anchor.
    """

    context: int
    ratio: float

    def to_dict(self, contexts: pa.Table) -> dict[str, Any]:
        """A record for JSON."""
        row = contexts.slice(self.context, 1).to_pylist()[0]
        return {"index": self.context, "context": row, "ratio": self.ratio}


def contexts_at_bound(
    fitted: FittedModel, unbounded: UnboundedBias, held: Collection[int] = ()
) -> tuple[AtBound, ...]:
    """Contexts whose bias is at its bound, the largest first.

    Args:
        fitted: the model; without an anchor there is no bound.
        unbounded: estimated from the same clicks.
        held: contexts whose bias is held as given.
    """
    if fitted.anchor is None:
        return ()
    table = click_table(fitted, LEVEL)
    mean, low = table["mean"].to_numpy(float), table["low"].to_numpy(float)
    log_ratio = unbounded.values(fitted.anchor)
    found = []
    for k in np.flatnonzero((mean >= NEAR_ONE) & (log_ratio >= 0)).tolist():
        if k == fitted.anchor or k in held:
            continue
        lower = np.exp(unbounded.ratio(k, fitted.anchor).lower((1 - LEVEL) / 2))
        if low[k] >= NEAR_ONE or lower >= NEAR_ONE:  # neither where it is NaN
            found.append(AtBound(k, float(np.exp(log_ratio[k]))))
    return tuple(sorted(found, key=lambda each: -each.ratio))


def at_bound_words(
    contexts: pa.Table,
    anchor: int,
    found: Sequence[AtBound],
    anchors: Collection[int] | None = None,
) -> str:
    """What it means, and the anchor to choose instead; the largest comes first.

    Args:
        contexts: of the model.
        anchor: index of its own.
        found: contexts at their bound.
        anchors: contexts that may be the anchor; all by default.
    """
    places = named(contexts, [each.context for each in found])
    ratios = ", ".join(f"{each.ratio:.2f}" for each in found[:SHOWN] if np.isfinite(each.ratio))
    free = f"about {ratios} times" if ratios else "any number of times"
    largest = "it" if len(found) == 1 else "the largest"
    words = (
        f"the bias at {places} is at its bound, the anchor's, and has no interval: without the "
        f"bound it is {free} the anchor ({named(contexts, [anchor])}). Other biases and relevance "
        "may be off too"
    )
    if anchors is not None and found[0].context not in anchors:
        return words
    option = anchor_option(contexts, found[0].context)
    return f"{words}. Choose {largest} as the anchor: {option}"
