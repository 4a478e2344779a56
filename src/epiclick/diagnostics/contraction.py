"""How far clicks narrowed the prior of position bias, and biases at their bound.

A bias lies below that of the anchor, which is 1. That of a context that is examined more is
estimated just below 1, and the closer the more clicks there are: its interval shrinks around a
wrong value. A bias is at its bound where

- the fit puts it near 1,
- the estimate without a bound (`identification.unbounded`) is 1 or more, and
- the lower end of its interval, with the bound or without, is near 1 or above: where clicks are
  few the interval is wide, and valid.

A true bias of 0.97 that is known well keeps its interval, as the estimate without a bound stays
below 1.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from epiclick.fitted.prior_share import LITTLE, NOTHING, parameter_sds
from epiclick.fitted.state import FittedModel
from epiclick.fitted.tables import attractive_table
from epiclick.identification.anchor import anchor_option
from epiclick.identification.identifiability import SHOWN, named
from epiclick.identification.unbounded import UnboundedBias
from epiclick.posterior.laplace import KnownBias


@dataclass(frozen=True, eq=False)
class PriorContraction:
    """Standard deviation of each bias before and after the clicks.

    Attributes:
        contexts: the table of contexts.
        anchor: the context whose bias is 1, or None.
        before: (contexts,) of the prior; NaN where bias is fixed: at the anchor, or as given.
        after: (contexts,) of the posterior, as in its intervals; NaN where bias is fixed or at its
            bound.
        given: (contexts,) whether the prior was given by the user.
        what: what the bias is called.
    """

    contexts: pa.Table
    anchor: int | None
    before: np.ndarray
    after: np.ndarray
    given: np.ndarray
    what: str = "position bias"

    @property
    def left(self) -> np.ndarray:
        """(contexts,) remaining share of the prior's standard deviation."""
        return self.after / self.before

    @property
    def warnings(self) -> tuple[str, ...]:
        """Where the posterior of a bias is nearly the prior."""
        unknown = np.flatnonzero((self.left >= NOTHING) & ~self.given)
        if not len(unknown):
            return ()
        return (
            f"{named(self.contexts, unknown)}: the clicks say next to nothing about the bias "
            "there, and its interval is nearly that of the prior",
        )

    def sentences(self) -> list[str]:
        """What the clicks say about position bias, warnings included."""
        found = []
        if self.anchor is not None:
            found.append(
                f"Relevance means the probability of a click if shown at "
                f"{named(self.contexts, [self.anchor])}, so its scale does not rest on the prior."
            )
        left, own = self.left, np.isfinite(self.left)
        if own.any():
            found.append(
                f"The clicks have narrowed the prior of {self.what} to {_range(left[own])} of its "
                "width."
            )
        little = np.flatnonzero((left >= LITTLE) & (left < NOTHING) & ~self.given)
        if len(little):
            found.append(
                f"{named(self.contexts, little)}: the clicks say little about the bias there "
                f"({_range(left[little])} of the prior's width is left)."
            )
        found += [f"Warning: {warning}." for warning in self.warnings]
        idle = np.flatnonzero((left >= NOTHING) & self.given)
        if len(idle):
            found.append(
                f"{named(self.contexts, idle)}: the clicks add next to nothing to the position "
                "bias that was given."
            )
        return found

    def to_records(self) -> list[dict[str, Any]]:
        """A record for each context whose bias is learned."""
        rows = self.contexts.to_pylist()
        return [
            {
                **rows[k],
                "prior_sd": float(self.before[k]),
                "sd": float(self.after[k]),
                "left": float(self.left[k]),
            }
            for k in np.flatnonzero(np.isfinite(self.left)).tolist()
        ]


def prior_contraction(
    fitted: FittedModel, known: KnownBias | None = None, at_bound: Sequence[int] = ()
) -> PriorContraction | None:
    """Uncertainty of position bias before and after the clicks; None without a posterior.

    Args:
        fitted: the model.
        known: position bias that was given.
        at_bound: contexts whose bias is at its bound, so that its uncertainty is unknown.
    """
    if fitted.posterior is None:
        return None
    contexts = len(fitted.contexts)
    given = np.zeros(contexts, bool) if known is None else np.isfinite(known.mean)
    every = parameter_sds(fitted, *(known or (None, None)))
    before, after = (each[:contexts].copy() for each in every)
    after[list(at_bound)] = np.nan
    if fitted.clicks.has_latent_state:
        # below the last position there is nothing to go on to
        position = np.array(fitted.contexts["position"].to_pylist())
        before[position == position.max()] = np.nan
    what = "clicks on attractive items" if fitted.clicks.is_affine else fitted.clicks.parameter
    return PriorContraction(fitted.contexts, fitted.anchor, before, after, given, what)


def _range(shares: np.ndarray) -> str:
    low, high = (f"{share:.0%}" for share in (shares.min(), shares.max()))
    return low if low == high else f"{low} to {high}"


NEAR_ONE = 0.9
LEVEL = 0.9  # of the intervals that are checked


class AtBound(NamedTuple):
    """A context whose bias is at its bound.

    Attributes:
        context: its index.
        ratio: its bias divided by the anchor's, without a bound; infinite where no item shown in
            both was clicked at the anchor.
    """

    context: int
    ratio: float

    def to_dict(self, contexts: pa.Table) -> dict[str, Any]:
        """A record for JSON."""
        row = contexts.slice(self.context, 1).to_pylist()[0]
        return {"index": self.context, "context": row, "ratio": self.ratio}


def contexts_at_bound(
    fitted: FittedModel, unbounded: UnboundedBias, fixed: Collection[int] = ()
) -> tuple[AtBound, ...]:
    """Contexts whose bias is at its bound, the largest first.

    Args:
        fitted: the model; without an anchor there is no bound.
        unbounded: estimated from the same clicks.
        fixed: contexts whose bias is fixed as given.
    """
    if fitted.anchor is None:
        return ()
    table = attractive_table(fitted, LEVEL)
    mean, low = table["mean"].to_numpy(float), table["low"].to_numpy(float)
    log_ratio = unbounded.values(fitted.anchor)
    found = []
    for k in np.flatnonzero((mean >= NEAR_ONE) & (log_ratio >= 0)).tolist():
        if k == fitted.anchor or k in fixed:
            continue
        lower = np.exp(unbounded.ratio(k, fitted.anchor).lower((1 - LEVEL) / 2))
        if low[k] >= NEAR_ONE or lower >= NEAR_ONE:  # NaN is neither
            found.append(AtBound(k, float(np.exp(log_ratio[k]))))
    return tuple(sorted(found, key=lambda each: -each.ratio))


def at_bound_warning(
    contexts: pa.Table,
    anchor: int,
    found: Sequence[AtBound],
    anchors: Collection[int] | None = None,
) -> str:
    """What it means that biases are at their bound, and which anchor to choose instead.

    Args:
        contexts: of the model.
        anchor: index of its anchor.
        found: contexts at their bound, the largest bias first.
        anchors: contexts that may be the anchor; default all.
    """
    places = named(contexts, [each.context for each in found])
    ratios = ", ".join(f"{each.ratio:.2f}" for each in found[:SHOWN] if np.isfinite(each.ratio))
    free = f"about {ratios} times" if ratios else "any number of times"
    largest = "it" if len(found) == 1 else "the largest"
    warning = (
        f"the bias at {places} is at its bound, the anchor's, and has no interval: without the "
        f"bound it is {free} that of the anchor ({named(contexts, [anchor])}). Other biases and "
        "relevance may be off too"
    )
    if anchors is not None and found[0].context not in anchors:
        return warning
    option = anchor_option(contexts, found[0].context)
    return f"{warning}. Choose {largest} as the anchor: {option}"
