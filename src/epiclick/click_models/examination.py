"""Emissions under the examination hypothesis: an item is clicked if it is examined and attractive.

The parameter of a context is the logit of theta_c, the probability that an item there is examined.
"""

from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from epiclick.click_models.click_model import Emission, StraightMoves
from epiclick.click_models.page_effects import NobodyStops

NEAREST_START = 0.02
"""Initial values stay this far from 0 and 1, where gradients in logits vanish."""


@dataclass(frozen=True)
class Examination(NobodyStops, StraightMoves):
    """Base of these models: one parameter for each context, and one anchor."""

    is_affine: ClassVar[bool] = False

    def size(self, contexts: int) -> int:
        """One for each context."""
        return contexts

    def free(self, contexts: int, anchor: int | None) -> np.ndarray:
        """All parameters but the anchor's."""
        return free_contexts(contexts, anchor)

    def emission(self, parameters: Any, anchor: int | None, xp: ModuleType) -> Emission:
        """theta and 1 - theta."""
        return examined(parameters, anchor, xp)

    def logit_jacobian(self, parameters: np.ndarray, anchor: int | None) -> np.ndarray:
        """Parameters are the logits, but for the anchor's."""
        free = np.ones(len(parameters))
        if anchor is not None:
            free[anchor] = 0
        return np.diag(free)

    def logit_bend(
        self, parameters: np.ndarray, anchor: int | None, slope: np.ndarray
    ) -> np.ndarray:
        """Logits are linear in the parameters."""
        return np.zeros((len(parameters), len(parameters)))

    def start(self, click_rate: np.ndarray, anchor: int | None) -> np.ndarray:
        """Click rates relative to the anchor's."""
        return start_logits(click_rate, anchor)


def examined(logit: Any, anchor: int | None, xp: ModuleType) -> Emission:
    """theta and 1 - theta, (..., contexts) float64 each; exactly 1 and 0 at the anchor."""
    theta, rest = probability(logit, xp), probability(-logit, xp)
    if anchor is None:
        return Emission(theta, rest)
    anchored = xp.arange(logit.shape[-1]) == anchor
    return Emission(xp.where(anchored, 1.0, theta), xp.where(anchored, 0.0, rest))


def free_contexts(contexts: int, anchor: int | None) -> np.ndarray:
    """Indices of the contexts whose parameters are learned."""
    return np.delete(np.arange(contexts), [] if anchor is None else [anchor])


def start_logits(click_rate: np.ndarray, anchor: int | None) -> np.ndarray:
    """Logits of the click rates relative to the anchor's, or to twice the largest without one.

    Args:
        click_rate: (contexts,) clicks per display; NaN without displays.
        anchor: context whose probability is 1, if any.
    """
    top = click_rate[anchor] if anchor is not None else 2 * np.nanmax(click_rate)
    ratio = np.clip(click_rate / max(top, 1e-12), NEAREST_START, 1 - NEAREST_START)
    # a context that was never shown starts at the average
    ratio = np.where(np.isnan(ratio), np.nanmean(ratio), ratio)
    return np.log(ratio) - np.log1p(-ratio)


def probability(logit: Any, xp: ModuleType) -> Any:
    """1 / (1 + exp(-logit)), accurate in relative terms on both sides."""
    return xp.exp(-xp.logaddexp(0.0, -logit))
