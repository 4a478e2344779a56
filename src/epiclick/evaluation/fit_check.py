r"""Whether the position-based model fits: Pearson's chi-squared over its degrees of freedom.

.. math:: \chi^2 = \sum_i \Big(1 - \frac{h_i}{N_i}\Big) \frac{(M_i - N_i p_i)^2}{N_i p_i (1 - p_i)},
          \quad p_i = \theta_{k(i)} \hat\zeta_{j(i)}, \quad
          h_i \propto N_i \frac{p_i}{1 - p_i}

over the entries i, each of a pair j in a context k. h_i, which adds to 1 over a pair, is the
entry's share in what is known of its relevance: as p is fitted, p (1 - p) is too small by
1 - h / N on average. (Where theta is the same everywhere that is 1 - 1/n with n the displays of the
pair, and the mean of chi-squared is exact for any counts.)

The ratio is 1 where clicks vary as the model says, and above it where they vary more. It sees only
relevance that changes with context or part: theta -> c theta leaves it as it was.
"""

from dataclasses import dataclass

import numpy as np

from epiclick.data.counts import ClickCounts
from epiclick.errors import InputError

LEAST_EXPECTED = (5.0, 1.0)
"""Clicks, and displays without one, that an entry must expect; the second if the first leaves less
than ENOUGH. From 5 on (Cochran's rule) an entry is as good as Gaussian, and shows variation that
chance hides in smaller ones; but most logs have few such entries. At 1 the ratio came out within
1.5 % of 1, with the spread of a chi-squared, in seven well-specified simulations of 6 to 300
displays a pair; with no bound at all the spread was up to 1.9 times that."""

ENOUGH = 100
"""Degrees of freedom with which the ratio is known to 0.14."""

ROUNDING = 1e-9  # expecting exactly 1 must not hang on the last digit of a fit
HALVINGS = 60  # of the range of a relevance: past the resolution of float64


@dataclass(frozen=True)
class FitCheck:
    """Pearson's chi-squared of the position-based model.

    Attributes:
        chi2: the sum over entries.
        df: degrees of freedom: entries, less a relevance a pair, less the contexts' free biases.
        ratio: chi2 / df, 1 for a model that fits give or take sqrt(2 / df); None without df.
        entries: how many entries were expected to have enough of both outcomes.
        least_expected: what was enough.
    """

    chi2: float
    df: int
    ratio: float | None
    entries: int
    least_expected: float


def chi2_per_df(counts: ClickCounts, theta: np.ndarray) -> FitCheck:
    """Check counts against a position bias (contexts,), with each pair's best relevance under it.

    Entries are chosen by a relevance fitted to all of a pair's entries, and judged by one fitted
    to the chosen ones alone: else those that were left out bear part of the fit, and the rest comes
    out 40 % too high in a well-specified simulation.
    """
    theta = np.asarray(theta, np.float64)
    if theta.shape != (len(counts.contexts),) or not np.all((theta > 0) & np.isfinite(theta)):
        raise InputError(
            f"theta must hold one number above 0 for each of {len(counts.contexts)} contexts, "
            f"not {theta}"
        )
    # what can never be chosen is not fitted: on most logs, nearly all
    smallest = 2 * min(LEAST_EXPECTED)
    hopeful = _of_two_or_more(counts.pair, counts.displays >= smallest)
    used = np.isin(counts.pair, counts.pair[hopeful])
    pair, context = counts.pair[used], counts.context[used]
    displays, clicks = (
        values[used].astype(np.float64) for values in (counts.displays, counts.clicks)
    )
    bias = theta[context]
    expected = displays * bias * best_relevance(pair, bias, displays, clicks)
    either = np.minimum(expected, displays - expected)  # clicks or none, whichever is rarer

    for least in LEAST_EXPECTED:
        chosen = _of_two_or_more(pair, either >= least * (1 - ROUNDING))
        of_chosen = (pair[chosen], bias[chosen], displays[chosen], clicks[chosen])
        entries = len(of_chosen[0])
        biases = max(len(np.unique(context[chosen])) - 1, 0)
        df = entries - len(np.unique(of_chosen[0])) - biases
        if df >= ENOUGH:
            break
    chi2 = _pearson(*of_chosen)
    return FitCheck(chi2, df, chi2 / df if df > 0 else None, entries, least)


def best_relevance(
    pair: np.ndarray, bias: np.ndarray, displays: np.ndarray, clicks: np.ndarray
) -> np.ndarray:
    r"""Maximum-likelihood relevance of each entry's pair given the position bias: (entries,).

    It solves, between 0 and the largest value that keeps every probability at or below 1,

    .. math:: \sum_k M_k = \sum_k W_k \frac{\theta_k \zeta}{1 - \theta_k \zeta},

    whose right side rises with zeta.

    Args:
        pair: (entries,) in ascending order.
        bias: (entries,) theta of the entry's context.
        displays: (entries,) N.
        clicks: (entries,) M; W = N - M.
    """
    if not len(pair):
        return np.zeros(0)
    first = np.flatnonzero(np.r_[True, pair[1:] != pair[:-1]])
    size = np.diff(np.r_[first, len(pair)])
    total = np.add.reduceat(clicks, first)  # (pairs,)
    low, high = np.zeros(len(first)), 1 / np.maximum.reduceat(bias, first)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        p = bias * np.repeat(middle, size)
        # p rounds to 1 only where the upper end is the answer, and there nothing went unclicked
        below = np.add.reduceat((displays - clicks) * _ratio(p, 1 - p), first) < total
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.repeat((low + high) / 2, size)


def _of_two_or_more(pair: np.ndarray, good: np.ndarray) -> np.ndarray:
    """The good entries of pairs that have two or more of them, as a mask."""
    if not len(pair):
        return good
    return good & (np.bincount(pair, good)[pair] >= 2)


def _pearson(pair: np.ndarray, bias: np.ndarray, displays: np.ndarray, clicks: np.ndarray) -> float:
    p = bias * best_relevance(pair, bias, displays, clicks)
    # where the fit finds no click left, or nothing but clicks, it is exact: 0 / 0 is 0
    gap = _ratio((clicks - displays * p) ** 2, displays * p * (1 - p))
    information = _ratio(displays * p, 1 - p)
    leverage = _ratio(information, np.bincount(pair, information)[pair])
    return float(np.sum(gap * (1 - leverage / displays)))


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Quotient, 0 where the divisor is 0."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
