"""Position bias with its intervals, as users are shown it."""

from typing import get_args

import numpy as np
import pandas as pd
from scipy import special, stats

from epiclick.beta import Beta
from epiclick.errors import InputError, did_you_mean
from epiclick.models.fitted import FittedPBM
from epiclick.models.kinds import BiasKind
from epiclick.models.position import BetaLookup, PointLookup, position_betas, position_points
from epiclick.models.uncertainty import free_contexts

RATIO_DRAWS = 100_000
NODES = 64  # Gauss-Hermite


def position_bias_table(
    fitted: FittedPBM, level: float, kind: BiasKind | None = None
) -> pd.DataFrame:
    """Context columns, mean, low, high, and the same relative to the anchor (or the first).

    A bias at its bound (see `posterior.at_bound`) has no interval: its ends are NaN.

    Args:
        fitted: the model.
        level: probability that low to high holds.
        kind: "robust": from the differences between queries, whatever the clicks do. "bayes": as if
            clicks followed the model. "evidential": the Betas that the paper's estimators learn.
            Unless told, the first of these that the model has.
    """
    kind = _resolve(fitted, kind)
    table = fitted.contexts.to_pandas()
    first = fitted.anchor or 0
    ends = np.array([(1 - level) / 2, (1 + level) / 2])
    if kind == "evidential":
        assert isinstance(fitted.parameters.position, BetaLookup)
        betas = Beta(*position_betas(fitted.parameters.position, np))
        mean, (low, high) = betas.mean, betas.interval(level)
        log_theta, _ = betas.sample_logs(np.random.default_rng(0), RATIO_DRAWS)
        relative_low, relative_high = _ratios(log_theta, first, ends)
    elif kind is None:
        assert isinstance(fitted.parameters.position, PointLookup)
        mean, _ = position_points(fitted.parameters.position, fitted.anchor, np)
        low = high = relative_low = relative_high = np.full(len(mean), np.nan)
    else:
        centre, covariance, freedom = _logits(fitted, kind)
        mean, low, high = _of_logits(centre, np.sqrt(np.diag(covariance)), ends, freedom)
        drawn = posterior_samples(fitted) if kind == "bayes" else None
        if drawn is not None:
            theta = special.expit(drawn)
            mean, (low, high) = theta.mean(axis=0), np.quantile(theta, ends, axis=0)
        relative_low, relative_high = low, high
        if fitted.anchor is None:
            if drawn is None:
                rng = np.random.default_rng(0)
                drawn = rng.multivariate_normal(centre, covariance, RATIO_DRAWS, method="eigh")
            relative_low, relative_high = _ratios(special.log_expit(drawn), first, ends)
    low, high, relative_low, relative_high = (
        _unless_at_bound(fitted, ends) for ends in (low, high, relative_low, relative_high)
    )
    table["mean"], table["low"], table["high"] = mean, low, high
    table["relative"] = mean / mean[first]
    table["relative_low"], table["relative_high"] = relative_low, relative_high
    return table


def stored_at_bound(fitted: FittedPBM) -> list[int]:
    """Contexts whose bias the anchor's kept from rising, as the checks of the fit found.

    A model written before there was such a check has none.
    """
    return [each["index"] for each in fitted.training.checks.get("at_bound", ())]


def posterior_samples(fitted: FittedPBM) -> np.ndarray | None:
    """(samples, contexts) logits of position bias by Markov chains, if there are; inf at 1."""
    if fitted.posterior is None or fitted.posterior.samples is None:
        return None
    samples = fitted.posterior.samples
    free = free_contexts(len(fitted.contexts), fitted.anchor)
    logits = np.full((len(samples), len(fitted.contexts)), np.inf)
    logits[:, free] = samples[:, : len(free)]
    return logits


def _resolve(fitted: FittedPBM, kind: BiasKind | None) -> BiasKind | None:
    """The kind that is meant; None for a point of which nothing more is known."""
    has: dict[str, bool] = {
        "robust": fitted.posterior is not None or len(fitted.members) > 1,
        "bayes": fitted.posterior is not None,
        "evidential": isinstance(fitted.parameters.position, BetaLookup),
    }
    if has["evidential"]:
        has["robust"] = False  # members have Betas of their own
    known = [name for name in get_args(BiasKind) if has[name]]
    if kind is None:
        return known[0] if known else None
    if kind not in has:
        choices = list(get_args(BiasKind))
        raise InputError(
            f"kind of position bias must be one of {', '.join(choices)}, not {kind!r}"
            + did_you_mean(str(kind), choices)
        )
    if not has[kind]:
        raise InputError(
            f"this model has no {kind} intervals of position bias"
            + (f"; it has {', '.join(known)}" if known else ", as it takes it for a point")
        )
    return kind


def _logits(fitted: FittedPBM, kind: str) -> tuple[np.ndarray, np.ndarray, float]:
    """Logits of position bias (contexts,), their covariance, and its degrees of freedom.

    The anchor's logit is infinite, and certain. Of an ensemble of points the covariance is that
    between its members.
    """
    contexts = len(fitted.contexts)
    free = free_contexts(contexts, fitted.anchor)
    centre, covariance = np.full(contexts, np.inf), np.zeros((contexts, contexts))
    if fitted.posterior is not None:
        own = getattr(fitted.posterior, kind)[: len(free), : len(free)]
        mode, freedom = fitted.posterior.mean[: len(free)], np.inf
    else:
        each = np.array([np.asarray(m.position[0], float)[free] for m in fitted.members])
        own = np.cov(each, rowvar=False).reshape(len(free), len(free))
        mode, freedom = np.asarray(fitted.parameters.position[0])[free], len(each) - 1.0
    centre[free], covariance[np.ix_(free, free)] = mode, own
    return centre, covariance, freedom


def _of_logits(
    centre: np.ndarray, sd: np.ndarray, ends: np.ndarray, freedom: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and quantiles of a probability whose logit is Gaussian, or Student's t: (contexts,)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    mean = special.expit(centre[:, None] + sd[:, None] * nodes) @ (weights / weights.sum())
    low, high = special.expit(centre + sd * stats.t.ppf(ends, freedom)[:, None])
    return np.where(np.isinf(centre), 1.0, mean), low, high


def _unless_at_bound(fitted: FittedPBM, ends: np.ndarray) -> np.ndarray:
    kept = np.array(ends, float)
    kept[stored_at_bound(fitted)] = np.nan
    return kept


def _ratios(log_theta: np.ndarray, first: int, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Central interval of theta_k / theta_first, from draws (draws, contexts)."""
    low, high = np.quantile(np.exp(log_theta - log_theta[:, first : first + 1]), ends, axis=0)
    return low, high
