"""How far the clicks have narrowed what was assumed of position bias before them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from epiclick.click_models.prior import is_held, logit_normal_sd
from epiclick.models.fitted import FittedModel
from epiclick.posterior.identifiability import named
from epiclick.posterior.position import KnownBias

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
    held = is_held(prior)
    before[free] = np.where(held, np.nan, prior.probability_sd())
    variance = np.diag(fitted.posterior.robust)[: len(free)]
    learned_sd = logit_normal_sd(fitted.posterior.mean[: len(free)], np.sqrt(variance))
    after[free] = np.where(held, np.nan, learned_sd)
    after[list(at_bound)] = np.nan
    return Learned(fitted.contexts, fitted.anchor, before, after, given)


def _range(shares: np.ndarray) -> str:
    low, high = (f"{share:.0%}" for share in (shares.min(), shares.max()))
    return low if low == high else f"{low} to {high}"
