"""A click model's parameters and position bias with their intervals, as users are shown them."""

from collections.abc import Callable, Mapping
from typing import TypeAlias, get_args

import numpy as np
import pandas as pd
from scipy import special, stats

from epiclick.beta import Beta
from epiclick.errors import InputError, did_you_mean
from epiclick.models.fitted import FittedModel, given_of
from epiclick.models.kinds import BiasKind
from epiclick.models.position import position_betas

RATIO_DRAWS = 100_000
AVERAGE_DRAWS = 10_000
NODES = 64  # Gauss-Hermite

Ends: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""mean, low, high, relative_low, relative_high, (contexts,) each."""


def click_table(fitted: FittedModel, level: float, kind: BiasKind | None = None) -> pd.DataFrame:
    """Context columns, mean, low, high, and the same relative to the anchor (or the first).

    A bias at its bound (see `posterior.at_bound`) has no interval: its ends are NaN.

    Args:
        fitted: the model.
        level: probability that low to high holds.
        kind: "robust": from the differences between queries, whatever the clicks do. "bayes": as if
            clicks followed the model. "evidential": the Betas that the paper's estimators learn.
            Unless told, the first of these that the model has.
    """
    mean, *ends = INTERVALS[_resolve(fitted, kind)](fitted, level)
    low, high, relative_low, relative_high = (_unless_at_bound(fitted, each) for each in ends)
    table = fitted.contexts.to_pandas()
    table["mean"], table["low"], table["high"] = mean, low, high
    table["relative"] = mean / mean[fitted.anchor or 0]
    table["relative_low"], table["relative_high"] = relative_low, relative_high
    return table


def position_bias_table(
    fitted: FittedModel, level: float, kind: BiasKind | None = None
) -> pd.DataFrame:
    """The same by given context: how much an item there is looked at on the pages of the log.

    Where that depends on the history of a page, it is averaged over the displays of the training
    log.
    """
    own = click_table(fitted, level, kind)
    if not fitted.clicks.history:
        return own
    contexts, index = given_of(fitted)
    displays = np.array(fitted.training.checks["by_context"]["displays"], float)
    share = np.where(index == np.arange(len(contexts))[:, None], displays, 0)  # (given, contexts)
    unshown = share.sum(axis=1) == 0
    share[unshown] = (index == np.arange(len(contexts))[:, None])[unshown]
    share /= share.sum(axis=1, keepdims=True)
    mean, first = share @ own["mean"].to_numpy(), index[fitted.anchor or 0]
    drawn = _draws(fitted, _resolve(fitted, kind)) @ share.T  # (draws, given)
    nothing = np.full((2, len(mean)), np.nan)
    ends, relative = nothing, nothing
    if len(drawn) > 1:
        ends, relative = (
            np.quantile(each, _tails(level), axis=0) for each in (drawn, drawn / drawn[:, [first]])
        )
    table = contexts.to_pandas()
    table["mean"], table["low"], table["high"] = mean, *ends
    table["relative"] = mean / mean[first]
    table["relative_low"], table["relative_high"] = relative
    return table


def _draws(fitted: FittedModel, kind: BiasKind | None) -> np.ndarray:
    """(draws, contexts) of the click model's parameters as probabilities; one for a point."""
    rng = np.random.default_rng(0)
    betas = fitted.parameters.position.betas(np)
    if betas is not None:
        return Beta(*betas).sample(rng, AVERAGE_DRAWS)
    if kind is None:
        return INTERVALS[kind](fitted, 0.5)[0][None]
    samples = posterior_samples(fitted) if INTERVALS[kind] is _bayes else None
    if samples is not None:
        return special.expit(samples)
    centre, spread, freedom = _logits(fitted, kind)
    free = np.flatnonzero(np.isfinite(centre))
    away = rng.multivariate_normal(
        np.zeros(len(free)), spread[np.ix_(free, free)], AVERAGE_DRAWS, method="eigh"
    )
    if np.isfinite(freedom):  # of members of an ensemble
        away *= np.sqrt(freedom / rng.chisquare(freedom, (AVERAGE_DRAWS, 1)))
    logits = np.full((AVERAGE_DRAWS, len(centre)), np.inf)
    logits[:, free] = centre[free] + away
    return special.expit(logits)


def _no_intervals(fitted: FittedModel, level: float) -> Ends:
    """A point of which nothing more is known."""
    mean = fitted.parameters.position.emission(fitted.clicks, fitted.anchor, np).attractive
    nothing = np.full(len(mean), np.nan)
    return mean, nothing, nothing, nothing, nothing


def _evidential(fitted: FittedModel, level: float) -> Ends:
    """Of the Betas."""
    betas = Beta(*position_betas(fitted.parameters.position, np))
    log_theta, _ = betas.sample_logs(np.random.default_rng(0), RATIO_DRAWS)
    return betas.mean, *betas.interval(level), *_ratios(fitted, log_theta, level)


def _robust(fitted: FittedModel, level: float) -> Ends:
    """Of a Gaussian, or Student's t between the members of an ensemble."""
    return _gaussian(fitted, level, "robust")


def _bayes(fitted: FittedModel, level: float) -> Ends:
    """Of draws by Markov chains, or else of a Gaussian."""
    drawn = posterior_samples(fitted)
    if drawn is None:
        return _gaussian(fitted, level, "bayes")
    theta = special.expit(drawn)
    low, high = np.quantile(theta, _tails(level), axis=0)
    relative = (low, high)
    if fitted.anchor is None:
        relative = _ratios(fitted, special.log_expit(drawn), level)
    return theta.mean(axis=0), low, high, *relative


def _gaussian(fitted: FittedModel, level: float, covariance: str) -> Ends:
    centre, spread, freedom = _logits(fitted, covariance)
    mean, low, high = _of_logits(centre, np.sqrt(np.diag(spread)), _tails(level), freedom)
    relative = (low, high)
    if fitted.anchor is None:
        rng = np.random.default_rng(0)
        drawn = rng.multivariate_normal(centre, spread, RATIO_DRAWS, method="eigh")
        relative = _ratios(fitted, special.log_expit(drawn), level)
    return mean, low, high, *relative


INTERVALS: Mapping[BiasKind | None, Callable[[FittedModel, float], Ends]] = {
    "robust": _robust,
    "bayes": _bayes,
    "evidential": _evidential,
    None: _no_intervals,
}


def stored_at_bound(fitted: FittedModel) -> list[int]:
    """Contexts whose bias the anchor's kept from rising, as the checks of the fit found.

    A model written before there was such a check has none.
    """
    return [each["index"] for each in fitted.training.checks.get("at_bound", ())]


def posterior_samples(fitted: FittedModel) -> np.ndarray | None:
    """(samples, contexts) logits of position bias by Markov chains, if there are; inf at 1."""
    if fitted.posterior is None or fitted.posterior.samples is None:
        return None
    samples = fitted.posterior.samples
    free = fitted.clicks.free(len(fitted.contexts), fitted.anchor)
    logits = np.full((len(samples), len(fitted.contexts)), np.inf)
    logits[:, free] = samples[:, : len(free)]
    return logits


def _resolve(fitted: FittedModel, kind: BiasKind | None) -> BiasKind | None:
    """The kind that is meant; None for a point of which nothing more is known."""
    has: dict[str, bool] = {
        "robust": fitted.posterior is not None or len(fitted.members) > 1,
        "bayes": fitted.posterior is not None,
        "evidential": not fitted.parameters.position.is_point,
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


def _logits(fitted: FittedModel, covariance: str) -> tuple[np.ndarray, np.ndarray, float]:
    """Logits of position bias (contexts,), their covariance, and its degrees of freedom.

    The anchor's logit is infinite, and certain. Of an ensemble of points the covariance is that
    between its members.
    """
    contexts = len(fitted.contexts)
    free = fitted.clicks.free(contexts, fitted.anchor)
    centre, spread = np.full(contexts, np.inf), np.zeros((contexts, contexts))
    if fitted.posterior is not None:
        own = getattr(fitted.posterior, covariance)[: len(free), : len(free)]
        mode, freedom = fitted.posterior.mean[: len(free)], np.inf
    else:
        each = np.array([np.asarray(m.position[0], float)[free] for m in fitted.members])
        own = np.cov(each, rowvar=False).reshape(len(free), len(free))
        mode, freedom = np.asarray(fitted.parameters.position[0])[free], len(each) - 1.0
    centre[free], spread[np.ix_(free, free)] = mode, own
    return centre, spread, freedom


def _of_logits(
    centre: np.ndarray, sd: np.ndarray, ends: np.ndarray, freedom: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and quantiles of a probability whose logit is Gaussian, or Student's t: (contexts,)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    mean = special.expit(centre[:, None] + sd[:, None] * nodes) @ (weights / weights.sum())
    low, high = special.expit(centre + sd * stats.t.ppf(ends, freedom)[:, None])
    return np.where(np.isinf(centre), 1.0, mean), low, high


def _unless_at_bound(fitted: FittedModel, ends: np.ndarray) -> np.ndarray:
    kept = np.array(ends, float)
    kept[stored_at_bound(fitted)] = np.nan
    return kept


def _ratios(
    fitted: FittedModel, log_theta: np.ndarray, level: float
) -> tuple[np.ndarray, np.ndarray]:
    """Central interval of theta_k relative to the anchor's or first, from draws."""
    first = log_theta[:, [fitted.anchor or 0]]  # (draws, 1)
    low, high = np.quantile(np.exp(log_theta - first), _tails(level), axis=0)
    return low, high


def _tails(level: float) -> np.ndarray:
    """Probabilities below the ends of a central interval."""
    return np.array([(1 - level) / 2, (1 + level) / 2])
