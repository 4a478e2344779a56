r"""Coverage of intervals, and whether ranks of truths among draws are uniform.

Values of one world are correlated: they share its position bias, its network and its noise. So the
share of covered truths is a ratio of sums over worlds w, and its error is estimated from the
differences between worlds:

.. math:: \hat p = \frac{\sum_w y_w}{\sum_w n_w}, \qquad
          s^2 = \frac{W}{W - 1} \frac{\sum_w (y_w - \hat p\, n_w)^2}{(\sum_w n_w)^2}

Near 0 and 1, or with few worlds, that error may be estimated as 0. The interval is therefore
Wilson's: all shares p with

.. math:: (\hat p - p)^2 \le t^2\, p (1 - p) / n^*, \qquad n^* = \hat p (1 - \hat p) / s^2,

where t is Student's quantile with W - 1 degrees of freedom, and n*, the effective number of
independent values, is at most the number of values, or of worlds if all values agree.

Two statistics of N independent ranks out of 0 ... L detect different faults:

- chi2 of the ranks in equal bins detects any pattern, such as too many ranks in the middle;
- the distance of their distribution function from the diagonal (Säilynoja, Bürkner and Vehtari
  2022),

.. math:: \min_{z} 2 \min\{P(B_z \le R_z), P(B_z \ge R_z)\}, \qquad B_z \sim Bin(N, z),

where R_z ranks lie below z (L + 1), detects a shift to one side.

The distribution of both under uniform ranks is simulated for the given L and N, so nothing is
asymptotic. The p-value of the two together is the rank of the smaller p-value among those of
simulated ranks, so the false-alarm rate is exactly the nominal one.

Ranks from one world are not independent: take one from each (`one_per_world`).
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

CONFIDENCE = 0.99
"""Of the interval of a share."""


@dataclass(frozen=True)
class Share:
    """A share of values, with its uncertainty.

    Attributes:
        actual: the share.
        error: its standard error from the differences between worlds; NaN with a single world.
        low: lower end of its interval.
        high: upper end.
        worlds: number of worlds.
        values: number of values.
    """

    actual: float
    error: float
    low: float
    high: float
    worlds: int
    values: int

    def excludes(self, nominal: float) -> bool:
        """Whether the nominal share lies outside the interval."""
        return not self.low <= nominal <= self.high


def clustered_share(hit: np.ndarray, world: np.ndarray, confidence: float = CONFIDENCE) -> Share:
    """The share of hits with an interval that accounts for clustering by world.

    Args:
        hit: (values,) bool.
        world: (values,) which world each value comes from; any labels.
        confidence: of the interval.
    """
    assert len(hit) == len(world) > 0
    values = len(hit)
    hits, sizes = _sums(np.asarray(hit, float), world)
    worlds, actual = len(sizes), float(hits.sum() / values)
    if worlds == 1:
        return Share(actual, float("nan"), 0.0, 1.0, worlds, values)
    error = _ratio_error(hits, sizes, actual)
    spread = actual * (1 - actual)
    if spread == 0:
        size = float(worlds)
    else:
        size = min(spread / error**2, float(values)) if error > 0 else float(values)
    low, high = _wilson(actual, size, float(special.stdtrit(worlds - 1, (1 + confidence) / 2)))
    return Share(actual, error, low, high, worlds, values)


def clustered_mean(values: np.ndarray, world: np.ndarray) -> tuple[float, float]:
    """Mean of (values,) and its standard error from the differences between worlds."""
    sums, sizes = _sums(np.asarray(values, float), world)
    mean = float(sums.sum() / sizes.sum())
    return mean, _ratio_error(sums, sizes, mean) if len(sizes) > 1 else float("nan")


def is_covered(truth: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Whether each interval contains its truth; same shapes."""
    return (low <= truth) & (truth <= high)


def interval_of_draws(draws: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Central interval of (values, draws): low and high, (values,) each.

    Ends are order statistics, the quantile p being that of rank p (draws + 1): an interval of 99
    draws from the distribution of the truth contains it with probability exactly `level`.
    """
    tail = (1 - level) / 2
    low, high = np.quantile(draws, [tail, 1 - tail], axis=-1, method="weibull")
    return low, high


def ranks_among(
    truth: np.ndarray, draws: np.ndarray, rng: np.random.Generator | None = None
) -> np.ndarray:
    """Rank of each truth among its draws, 0 ... draws; (values,) of (values, draws).

    Uniform if the truth comes from the distribution of the draws. Ties are broken at random, or in
    the middle without a generator.
    """
    below = (draws < truth[:, None]).sum(axis=1)
    equal = (draws == truth[:, None]).sum(axis=1)
    return below + (equal // 2 if rng is None else rng.integers(0, equal + 1))


def crps(truth: np.ndarray, draws: np.ndarray) -> np.ndarray:
    r"""Continuous ranked probability score of each value, lower is better.

    .. math:: E|X - y| - \tfrac12 E|X - X'|

    for draws X (values, draws) and truth y (values,); the second term is estimated without bias,
    whatever the number of draws.
    """
    import scoringrules  # only with the extra "calibration"

    # with a single draw the second term is unknown, and taken as 0, as for a point
    if draws.shape[1] == 1:
        return np.abs(draws[:, 0] - truth)
    return np.asarray(scoringrules.crps_ensemble(truth, draws, estimator="pwm"))


def _sums(values: np.ndarray, world: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum and number of the values of each world, (worlds,) each."""
    _, index = np.unique(world, return_inverse=True)
    return np.bincount(index, values), np.bincount(index).astype(float)


def _ratio_error(sums: np.ndarray, sizes: np.ndarray, ratio: float) -> float:
    """Standard error s of sum(sums) / sum(sizes) (see the module)."""
    worlds = len(sums)
    squares = float(((sums - ratio * sizes) ** 2).sum())
    return float(np.sqrt(worlds / (worlds - 1) * squares) / sizes.sum())


def _wilson(share: float, size: float, t: float) -> tuple[float, float]:
    """Both ends of Wilson's interval of a share among `size` values."""
    scale = 1 + t**2 / size
    centre = (share + t**2 / (2 * size)) / scale
    half = t * np.sqrt(share * (1 - share) / size + t**2 / (4 * size**2)) / scale
    # at a share of 0 or 1 rounding can put an end on the wrong side of it
    return max(0.0, min(share, float(centre - half))), min(1.0, max(share, float(centre + half)))


FAILURES = 0.01
"""Share of calibrated methods that a test flags."""

SIMULATIONS = 1999
BINS = 20
LEAST_IN_BIN = 5  # least number of ranks expected in a bin


@dataclass(frozen=True)
class Uniformity:
    """What a test of uniform ranks found.

    Attributes:
        p_value: of both statistics together.
        chi2_p: of the binned ranks.
        ecdf_p: of the distribution function.
        ranks: number of ranks.
        draws: number of draws L that each rank is among.
    """

    p_value: float
    chi2_p: float
    ecdf_p: float
    ranks: int
    draws: int

    @property
    def flagged(self) -> bool:
        """Whether uniform ranks give so small a p-value in at most 1 of 100 cases."""
        return self.p_value <= FAILURES


def one_per_world(world: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Index of one value of each world, drawn at random: (worlds,) of (values,)."""
    shuffled = rng.permutation(len(world))
    _, first = np.unique(world[shuffled], return_index=True)
    return shuffled[first]


def uniformity(ranks: np.ndarray, draws: int) -> Uniformity:
    """Test (n,) independent ranks among this number of draws.

    The simulated ranks are the same at every call, so results are reproducible.
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
    """(draws, ranks + 1) two-sided tail probability of each number of ranks below 1, 2, ... L."""
    from scipy.stats import binom  # slow to import, and needed for ranks over many worlds only

    shares, number = _shares(draws)[:, None], np.arange(ranks + 1)
    return 2 * np.minimum(binom.cdf(number, ranks, shares), binom.sf(number - 1, ranks, shares))


def _shares(draws: int) -> np.ndarray:
    """(draws,) shares of uniform ranks below 1, 2, ... L."""
    return np.arange(1, draws + 1) / (draws + 1)


def _tail_shares(statistic: np.ndarray) -> np.ndarray:
    """Share of all statistics that are at least as large as each one; same shape."""
    ascending = np.sort(statistic)
    return 1 - np.searchsorted(ascending, statistic, side="left") / len(statistic)
