"""How far clicks narrowed the prior of position bias, and biases at their bound.

A bias lies below that of the anchor, which is 1. A context that is looked at more comes out just
below 1, and the nearer to it the more clicks there are: the interval shrinks around a wrong value.
It is at its bound where

- the fit puts it near 1,
- the estimate without a bound (`identification.unbounded`) is 1 or more, and
- either interval, with the bound or without, says that it is near 1 at least: where clicks are few
  the interval is wide, and honest.

A true bias of 0.97 that is known well keeps its interval, as the estimate without a bound stays
below 1.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from epiclick.click_models.priors import is_fixed, logit_normal_sd
from epiclick.fitted.state import FittedModel
from epiclick.fitted.tables import click_table
from epiclick.identification.anchor import anchor_option
from epiclick.identification.identifiability import SHOWN, named
from epiclick.identification.unbounded import UnboundedBias
from epiclick.posterior.laplace import KnownBias

NOTHING, LITTLE = 0.8, 0.5
"""Shares of the prior's standard deviation from which on clicks say next to nothing, or little.
(The Gaussian in logits that stands for a uniform prior without any click has a share of 0.91.)"""


@dataclass(frozen=True, eq=False)
class Learned:
    """Standard deviation of each bias before and after the clicks.

    Attributes:
        contexts: the table of contexts.
        anchor: the context whose bias is 1, or None.
        before: (contexts,) of the prior; NaN where bias is held: at the anchor, or as given.
        after: (contexts,) of the posterior, as its intervals show it; NaN likewise, and where a
            bias is at its bound.
        given: (contexts,) whether the prior was given by the user.
    """

    contexts: pa.Table
    anchor: int | None
    before: np.ndarray
    after: np.ndarray
    given: np.ndarray

    @property
    def left(self) -> np.ndarray:
        """(contexts,) share of the prior's standard deviation that is left."""
        return self.after / self.before

    @property
    def warnings(self) -> tuple[str, ...]:
        """Where bias is hardly more than the prior."""
        unknown = np.flatnonzero((self.left >= NOTHING) & ~self.given)
        if not len(unknown):
            return ()
        return (
            f"{named(self.contexts, unknown)}: the clicks say next to nothing of the bias there, "
            "and its interval is nearly that of the prior",
        )

    def words(self) -> list[str]:
        """All of it, sentence by sentence."""
        said = []
        if self.anchor is not None:
            said.append(
                f"Relevance means the probability of a click if shown at "
                f"{named(self.contexts, [self.anchor])}, so its scale does not rest on the prior."
            )
        left, own = self.left, np.isfinite(self.left)
        if own.any():
            said.append(
                "The clicks have narrowed what was assumed of position bias to "
                f"{_range(left[own])} of its width."
            )
        little = np.flatnonzero((left >= LITTLE) & (left < NOTHING) & ~self.given)
        if len(little):
            said.append(
                f"{named(self.contexts, little)}: the clicks say little of the bias there "
                f"({_range(left[little])} of the prior's width is left)."
            )
        said += [f"Warning: {warning}." for warning in self.warnings]
        idle = np.flatnonzero((left >= NOTHING) & self.given)
        if len(idle):
            said.append(
                f"{named(self.contexts, idle)}: the clicks add next to nothing to the position "
                "bias that was given."
            )
        return said

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


def learned(
    fitted: FittedModel, known: KnownBias | None = None, at_bound: Sequence[int] = ()
) -> Learned | None:
    """How sure the fit is of position bias, against its prior; None where it has no posterior.

    Args:
        fitted: the model.
        known: position bias that was given.
        at_bound: contexts whose bias is at its bound, so that nothing says how sure it is.
    """
    if fitted.posterior is None:
        return None
    contexts = len(fitted.contexts)
    free = fitted.clicks.free(contexts, fitted.anchor)
    before, after = np.full(contexts, np.nan), np.full(contexts, np.nan)
    prior = fitted.clicks.prior(fitted.contexts, fitted.anchor)
    given = np.zeros(contexts, bool)
    if known is not None:
        prior, given = prior.given(known.mean[free], known.sd[free]), np.isfinite(known.mean)
    held = is_fixed(prior)
    before[free] = np.where(held, np.nan, prior.probability_sd())
    variance = np.diag(fitted.posterior.robust)[: len(free)]
    learned_sd = logit_normal_sd(fitted.posterior.mean[: len(free)], np.sqrt(variance))
    after[free] = np.where(held, np.nan, learned_sd)
    after[list(at_bound)] = np.nan
    return Learned(fitted.contexts, fitted.anchor, before, after, given)


def _range(shares: np.ndarray) -> str:
    low, high = (f"{share:.0%}" for share in (shares.min(), shares.max()))
    return low if low == high else f"{low} to {high}"


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
