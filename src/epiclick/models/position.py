"""The click model's parameters by a lookup: a Beta for each context, or a point.

Both kinds answer the same questions, so that nothing else needs to know which one a model has.
"""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from epiclick.click_models.base import ClickModel, Emission
from epiclick.relevance.links import betas_of

START_CONFIDENCE = 0.1
"""First raw confidence: |x| + 1 has no gradient at 0; so nu starts near 1, as in the paper."""


class PointLookup(NamedTuple):
    """Parameters of the click model, (contexts,): for the PBM position bias in logits.

    That of the anchor is not used.
    """

    logit: Any

    @property
    def is_point(self) -> bool:
        """Whether there is no more than one value for each context."""
        return True

    @property
    def points(self) -> "PointLookup":
        """Itself."""
        return self

    def betas(self, xp: ModuleType) -> tuple[Any, Any] | None:
        """None: points have no Betas."""
        return None

    def emission(self, clicks: ClickModel, anchor: int | None, xp: ModuleType) -> Emission:
        """The emission in each context, (contexts,) float64 each."""
        return clicks.emission(self.logit, anchor, xp)

    def drawn(self, rng: np.random.Generator, count: int) -> Sequence["PointLookup"]:
        """Itself alone: there is nothing to draw."""
        return [self]

    def with_confidence(self, change: Callable[[Any], Any]) -> "PointLookup":
        """Itself: points have no confidence to change."""
        return self


class BetaLookup(NamedTuple):
    """Parameters of one Beta per context: mean in logits and raw confidence, (contexts,) each."""

    mean_logit: Any
    confidence: Any

    @property
    def is_point(self) -> bool:
        """Whether there is no more than one value for each context."""
        return False

    @property
    def points(self) -> PointLookup:
        """TypeError: what asks for points must not be given Betas."""
        raise TypeError("Betas of the click model's parameters where points are needed")

    def betas(self, xp: ModuleType) -> tuple[Any, Any] | None:
        """alpha and beta, each (contexts,) float64."""
        return betas_of(self.mean_logit, self.confidence, xp, smooth=False)

    def emission(self, clicks: ClickModel, anchor: int | None, xp: ModuleType) -> Emission:
        """The expected emission in each context, (contexts,) float64 each."""
        alpha, beta = betas_of(self.mean_logit, self.confidence, xp, smooth=False)
        return Emission(alpha / (alpha + beta), beta / (alpha + beta))

    def drawn(self, rng: np.random.Generator, count: int) -> Sequence[PointLookup]:
        """Draws from the Betas, independent of each other."""
        from epiclick.beta import Beta  # whose scipy models of points need not load

        alpha, beta = betas_of(self.mean_logit, self.confidence, np, smooth=False)
        log_theta, log_rest = Beta(alpha, beta).sample_logs(rng, count)
        return [PointLookup(logit) for logit in log_theta - log_rest]

    def with_confidence(self, change: Callable[[Any], Any]) -> "BetaLookup":
        """The same with its raw confidence changed."""
        return self._replace(confidence=change(self.confidence))


Lookup: TypeAlias = BetaLookup | PointLookup
LOOKUPS: tuple[type[Lookup], ...] = (PointLookup, BetaLookup)


def init_betas(contexts: int) -> BetaLookup:
    """Betas of mean 1/2 and confidence near 1, as the paper starts."""
    return BetaLookup(np.zeros(contexts), np.full(contexts, START_CONFIDENCE))


def position_betas(lookup: Lookup, xp: ModuleType) -> tuple[Any, Any]:
    """alpha and beta, each (contexts,) float64, of a lookup that has Betas."""
    betas = lookup.betas(xp)
    assert betas is not None
    return betas
