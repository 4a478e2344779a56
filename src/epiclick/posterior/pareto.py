"""How far importance weights can be trusted, from the shape of their upper tail."""

import numpy as np


def pareto_k(log_weights: np.ndarray) -> float:
    r"""Shape k of the generalised Pareto distribution of the largest weights.

    Below 0.5 the weights have a finite variance, above 0.7 no number of draws that is practical
    corrects for the proposal (Vehtari et al., Pareto smoothed importance sampling). The tail holds
    :math:`\min(S / 5, 3 \sqrt S)` of S weights. k is the posterior mean of Zhang and Stephens
    (2009), drawn towards 0.5 by ten weights' worth, as is usual for short tails.

    Args:
        log_weights: (draws,) up to a constant.
    """
    draws = len(log_weights)
    tail = int(np.ceil(min(draws / 5, 3 * np.sqrt(draws))))
    ordered = np.sort(log_weights) - np.max(log_weights)
    excess = np.exp(ordered[-tail:]) - np.exp(ordered[-tail - 1])
    if excess[-1] <= 0 or (excess[0] <= 0 and np.count_nonzero(excess > 0) < 5):
        return -np.inf  # all weights alike
    k = _fit_shape(excess)
    return float((tail * k + 10 * 0.5) / (tail + 10))


def _fit_shape(excess: np.ndarray) -> float:
    """Zhang and Stephens' estimate of k from excesses in ascending order."""
    count = len(excess)
    grid = 30 + int(np.sqrt(count))
    quartile = excess[int(count / 4 + 0.5) - 1]
    b = 1 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))
    b = b / (3 * quartile) + 1 / excess[-1]
    k = np.log1p(-b[:, None] * excess).mean(axis=1)
    log_profile = count * (np.log(-b / k) - k - 1)
    weights = 1 / np.exp(log_profile - log_profile[:, None]).sum(axis=1)
    weights /= weights.sum()
    return float(np.log1p(-np.sum(b * weights) * excess).mean())
