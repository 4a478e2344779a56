"""Position bias by a lookup: a Beta for each context, or a point where it is known up to noise."""

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from epiclick.models.relevance import betas_of, probability

START_CONFIDENCE = 0.1
"""First raw confidence: |x| + 1 has no gradient at 0; so nu starts near 1, as in the paper."""

NEAREST_START = 0.02
"""Bias estimates start at least so far from 0 and 1, where logits still move."""


class BetaLookup(NamedTuple):
    """Parameters of one Beta per context: mean in logits and raw confidence, (contexts,) each."""

    mean_logit: Any
    confidence: Any


class PointLookup(NamedTuple):
    """Position bias in logits, (contexts,); that of the anchor is not used."""

    logit: Any


def init_betas(contexts: int) -> BetaLookup:
    """Betas of mean 1/2 and confidence near 1, as the paper starts."""
    return BetaLookup(np.zeros(contexts), np.full(contexts, START_CONFIDENCE))


def init_points(click_rate: np.ndarray, anchor: int | None) -> PointLookup:
    """Points at the click rates relative to the anchor's, or to the largest without one.

    Args:
        click_rate: (contexts,) clicks per display; NaN where there is no display.
        anchor: context whose bias is 1, if any.
    """
    top = click_rate[anchor] if anchor is not None else 2 * np.nanmax(click_rate)
    ratio = np.clip(click_rate / max(top, 1e-12), NEAREST_START, 1 - NEAREST_START)
    # nothing is known of a context that was never shown
    ratio = np.where(np.isnan(ratio), np.nanmean(ratio), ratio)
    return PointLookup(np.log(ratio) - np.log1p(-ratio))


def position_betas(lookup: BetaLookup, xp: ModuleType) -> tuple[Any, Any]:
    """alpha and beta, each (contexts,) float64."""
    return betas_of(lookup.mean_logit, lookup.confidence, xp, smooth=False)


def position_points(lookup: PointLookup, anchor: int | None, xp: ModuleType) -> tuple[Any, Any]:
    """theta and 1 - theta, each (contexts,) float64; exactly 1 and 0 at the anchor."""
    theta, rest = probability(lookup.logit, xp), probability(-lookup.logit, xp)
    if anchor is None:
        return theta, rest
    anchored = xp.arange(len(lookup.logit)) == anchor
    return xp.where(anchored, 1.0, theta), xp.where(anchored, 0.0, rest)
