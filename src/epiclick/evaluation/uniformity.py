r"""Whether ranks of truths among draws are uniform, as they are if uncertainty is stated rightly.

Two statistics of N independent ranks out of 0 ... L see different faults:

- chi2 of the ranks in equal bins sees any pattern, such as too many ranks in the middle;
- the distance of their distribution function from the diagonal (Säilynoja, Bürkner and Vehtari
  2022),

.. math:: \min_{z} 2 \min\{P(B_z \le R_z), P(B_z \ge R_z)\}, \qquad B_z \sim Bin(N, z),

where R_z ranks lie below z (L + 1), sees a shift to one side.

The distribution of both under uniform ranks is simulated, L and N being what they are, so nothing
rests on large numbers. The p-value of the two together is the place of the smaller p-value among
those of simulated ranks: exact, the failure rate is the one asked for.

Ranks from one world are not independent: take one from each (`one_per_world`).
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.stats import binom

SIMULATIONS = 1999
BINS = 20
LEAST_IN_BIN = 5  # ranks expected in a bin, at least

FAILURES = 0.01
"""Share of right methods that a test flags."""


@dataclass(frozen=True)
class Uniformity:
    """What a test of uniform ranks found.

    Attributes:
        p_value: of both statistics together.
        chi2_p: of the binned ranks.
        ecdf_p: of the distribution function.
        ranks: number of ranks.
        draws: number of draws L they are ranks among.
    """

    p_value: float
    chi2_p: float
    ecdf_p: float
    ranks: int
    draws: int

    @property
    def flagged(self) -> bool:
        """Whether ranks so far from uniform are rarer than 1 in 100."""
        return self.p_value <= FAILURES


def one_per_world(world: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Index of one value of each world, drawn at random: (worlds,) of (values,)."""
    shuffled = rng.permutation(len(world))
    _, first = np.unique(world[shuffled], return_index=True)
    return shuffled[first]


def uniformity(ranks: np.ndarray, draws: int) -> Uniformity:
    """Test (n,) independent ranks among so many draws.

    The simulated ranks are the same at every call, so that a result can be had again.
    """
    ranks = np.asarray(ranks)
    assert len(ranks) > 0
    assert ranks.min() >= 0
    assert ranks.max() <= draws
    counts = np.bincount(ranks, minlength=draws + 1)[None]
    null = _null(len(ranks), draws)
    own = _statistics(counts, len(ranks))
    pooled = np.concatenate([own, null], axis=1)  # (2, 1 + simulations), the larger the worse
    p_values = np.stack([_tail_shares(row) for row in pooled])
    smaller = p_values.min(axis=0)
    both = float((smaller <= smaller[0]).mean())
    chi2_p, ecdf_p = (float(p) for p in p_values[:, 0])
    return Uniformity(both, chi2_p, ecdf_p, len(ranks), draws)


@lru_cache(maxsize=64)
def _null(ranks: int, draws: int) -> np.ndarray:
    """(2, simulations) both statistics of uniform ranks."""
    rng = np.random.default_rng([ranks, draws])
    even = np.full(draws + 1, 1 / (draws + 1))
    return _statistics(rng.multinomial(ranks, even, size=SIMULATIONS), ranks)


def _statistics(counts: np.ndarray, ranks: int) -> np.ndarray:
    """(2, samples) chi2 and minus the two-sided probability, of counts (samples, draws + 1)."""
    return np.stack([_chi2(counts, ranks), -_ecdf(counts, ranks)])


def _chi2(counts: np.ndarray, ranks: int) -> np.ndarray:
    values = counts.shape[1]
    bins = int(np.clip(ranks // LEAST_IN_BIN, 2, min(BINS, values)))
    starts = np.arange(bins) * values // bins
    expected = ranks * np.diff(np.r_[starts, values]) / values
    return ((np.add.reduceat(counts, starts, axis=1) - expected) ** 2 / expected).sum(axis=1)


def _ecdf(counts: np.ndarray, ranks: int) -> np.ndarray:
    below = np.cumsum(counts[:, :-1], axis=1)  # (samples, draws) ranks below 1, 2, ... L
    draws = below.shape[1]
    return _two_sided(ranks, draws)[np.arange(draws), below].min(axis=1)


@lru_cache(maxsize=64)
def _two_sided(ranks: int, draws: int) -> np.ndarray:
    """(draws, ranks + 1) probability of a number below 1, 2, ... L at least as far out."""
    shares, number = _shares(draws)[:, None], np.arange(ranks + 1)
    return 2 * np.minimum(binom.cdf(number, ranks, shares), binom.sf(number - 1, ranks, shares))


def _shares(draws: int) -> np.ndarray:
    """(draws,) shares of uniform ranks below 1, 2, ... L."""
    return np.arange(1, draws + 1) / (draws + 1)


def _tail_shares(statistic: np.ndarray) -> np.ndarray:
    """Share of all statistics that are at least as large as each of them; same shape."""
    ascending = np.sort(statistic)
    return 1 - np.searchsorted(ascending, statistic, side="left") / len(statistic)
