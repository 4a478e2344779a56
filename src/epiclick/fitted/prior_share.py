"""How much of the prior's width the clicks have left of each parameter of a click model."""

import numpy as np

from epiclick.click_models.priors import is_fixed, logit_normal_sd
from epiclick.fitted.state import FittedModel

NOTHING, LITTLE = 0.8, 0.5
"""Remaining shares of the prior's standard deviation at which clicks say next to nothing, or
little. (The Gaussian in logits that replaces a uniform prior has a share of 0.91 before any
click.)"""


def parameter_sds(
    fitted: FittedModel,
    known_mean: np.ndarray | None = None,
    known_sd: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Standard deviation of each parameter, as a probability, before and after the clicks.

    Args:
        fitted: a model with a posterior.
        known_mean: (parameters,) externally known values, in logits; NaN for unknown ones.
        known_sd: (parameters,) their standard deviations.

    Returns:
        (parameters,) each; NaN where a parameter is fixed.
    """
    assert fitted.posterior is not None
    contexts = len(fitted.contexts)
    free = fitted.clicks.free(contexts, fitted.anchor)
    before, after = np.full((2, fitted.clicks.size(contexts)), np.nan)
    prior = fitted.clicks.prior(fitted.contexts, fitted.anchor)
    if known_mean is not None and known_sd is not None:
        prior = prior.given(known_mean[free], known_sd[free])
    held = is_fixed(prior)
    before[free] = np.where(held, np.nan, prior.probability_sd())
    variance = np.diag(fitted.posterior.robust)[: len(free)]
    posterior_sd = logit_normal_sd(fitted.posterior.mean[: len(free)], np.sqrt(variance))
    after[free] = np.where(held, np.nan, posterior_sd)
    return before, after


def unattractive_sds(fitted: FittedModel) -> tuple[np.ndarray, np.ndarray]:
    """The same for B / A of an affine emission, (contexts,) each, in logits.

    Its prior is a Gaussian there. As probabilities, a share that few clicks moved towards 0 would
    look better known than before.
    """
    assert fitted.posterior is not None
    contexts = len(fitted.contexts)
    free = fitted.clicks.free(contexts, fitted.anchor)
    own = fitted.clicks.prior(fitted.contexts, fitted.anchor)
    precision = -np.diag(own.hessian(fitted.posterior.mean[: len(free)]))
    variance = np.diag(fitted.posterior.robust)[: len(free)]
    is_share = free >= contexts
    return precision[is_share] ** -0.5, np.sqrt(variance[is_share])
