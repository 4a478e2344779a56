r"""Relevance of each pair given its own clicks, position bias being known.

The prior Beta(a, b) of a pair, from its features, becomes

.. math:: p(\zeta \mid \text{clicks}) \propto \zeta^{a + M - 1} (1 - \zeta)^{b - 1}
          \prod_k (1 - \theta_k \zeta)^{W_k},

which depends on the M clicks only by their number, and on each of the W_k unclicked displays by how
sure it is that somebody looked.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np

from epiclick.beta import Beta
from epiclick.data.counts import ClickCounts
from epiclick.errors import InputError
from epiclick.likelihood.exact import exact_posterior
from epiclick.likelihood.pairs import SWITCH_OVER, Bucket
from epiclick.likelihood.quadrature import quadrature_moments
from epiclick.posterior.heads import HeadPosterior
from epiclick.posterior.mixture import BetaMixture, matched_beta
from epiclick.training.batches import Batches

MANY = 4096  # pairs with few unclicked displays that are worked on at once
HEADS = 512  # the same of others, which take up to a hundred nodes each by context


@dataclass(frozen=True, eq=False)
class ItemPosterior:
    """What is known of each pair's relevance; (pairs,) each.

    Attributes:
        mean: posterior mean.
        variance: posterior variance.
        low: lower end of the central interval.
        high: upper end.
    """

    mean: np.ndarray
    variance: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def betas(self) -> Beta:
        """The Betas of the same mean and variance."""
        return matched_beta(self.mean, self.variance)


def item_posterior(
    counts: ClickCounts,
    theta: np.ndarray,
    rest: np.ndarray,
    alpha: np.ndarray,
    beta: np.ndarray,
    level: float,
    chunk: int = 65_536,
) -> ItemPosterior:
    """Relevance of each pair of `counts`, in their order.

    With up to 16 unclicked displays all is exact to rounding. With more, moments are those of
    `quadrature_moments` and the probability below `low` and `high` is right to 2e-7.

    Args:
        counts: displays and clicks.
        theta: (contexts,) position bias.
        rest: (contexts,) 1 - theta, given apart so that it is exact near 1.
        alpha: (pairs,) first parameter of the prior.
        beta: (pairs,) second parameter.
        level: probability that `low` to `high` holds.
        chunk: pairs worked on at a time, which bounds memory.
    """
    theta, rest, alpha, beta = (np.asarray(v, np.float64) for v in (theta, rest, alpha, beta))
    _check(counts, theta, rest, alpha, beta, level)
    result = np.empty((4, len(counts)))  # mean, variance, low, high
    ends = np.array([(1 - level) / 2, (1 + level) / 2])
    batches = Batches(counts, chunk)
    with jax.enable_x64(True):
        for pairs in batches.epoch():
            start = 0
            for bucket in batches.assemble(pairs).buckets:
                own = pairs[start : start + len(bucket.clicks)]
                start += len(own)
                rows, size = np.flatnonzero(own >= 0), HEADS if bucket.order is None else MANY
                for block in (rows[i : i + size] for i in range(0, len(rows), size)):
                    pair = own[block]
                    result[:, pair] = _of_block(bucket, block, rest, alpha[pair], beta[pair], ends)
    return ItemPosterior(*result)


def _of_block(
    bucket: Bucket,
    rows: np.ndarray,
    rest: np.ndarray,
    alpha: np.ndarray,
    beta: np.ndarray,
    ends: np.ndarray,
) -> np.ndarray:
    """Mean, variance, low and high of some pairs of a bucket: (4, pairs)."""
    clicks = np.asarray(bucket.clicks)[rows].astype(np.float64)
    if bucket.order is None:
        unclicked = np.asarray(bucket.unclicked)[rows].astype(np.float64)
        moments = _padded(_head_moments, HEADS, rest, alpha, beta, clicks, unclicked)
        posterior = HeadPosterior(rest, alpha + clicks.sum(axis=1), beta, unclicked)
        return np.stack([*moments, *posterior.quantiles(ends)])
    order = np.asarray(bucket.order)[rows]
    width = order.shape[1]
    # one width for all buckets, as a program more costs more than the steps it saves
    widened = np.pad(order, ((0, 0), (0, SWITCH_OVER - width)), constant_values=-1)
    weights, alphas, betas = (
        part[:, : width + 1] for part in _padded(_mixture, MANY, rest, alpha, beta, clicks, widened)
    )
    mixture = BetaMixture(weights, alphas, betas, last=(order >= 0).sum(axis=1))
    return np.stack([*mixture.moments(), *(mixture.quantile(end) for end in ends)])


_mixture = jax.jit(exact_posterior)
_head_moments = jax.jit(quadrature_moments)


def _padded(
    program: Callable[..., tuple[jax.Array, ...]], size: int, rest: np.ndarray, *columns: np.ndarray
) -> list[np.ndarray]:
    """What a program makes of up to `size` pairs, given as columns (pairs, ...).

    The first pair fills them up, so that a program compiles once for logs of all sizes.
    """
    pairs = len(columns[0])
    index = np.r_[np.arange(pairs), np.zeros(size - pairs, int)]
    return [np.asarray(part)[:pairs] for part in program(rest, *(c[index] for c in columns))]


def _check(
    counts: ClickCounts,
    theta: np.ndarray,
    rest: np.ndarray,
    alpha: np.ndarray,
    beta: np.ndarray,
    level: float,
) -> None:
    if not 0 < level < 1:
        raise InputError(f"level must lie strictly between 0 and 1, got {level}; 0.9 is usual")
    for name, values, of, size in (
        ("theta", theta, "context", len(counts.contexts)),
        ("rest", rest, "context", len(counts.contexts)),
        ("alpha", alpha, "pair", len(counts)),
        ("beta", beta, "pair", len(counts)),
    ):
        if values.shape != (size,):
            raise InputError(f"{name}: one value a {of} is needed, {size:,}; got {values.shape}")
    assert np.all(abs(theta + rest - 1) < 1e-6), "rest must be 1 - theta"
    for name, values in (("alpha", alpha), ("beta", beta)):
        bad = np.flatnonzero(~((values > 0) & np.isfinite(values)))
        if len(bad):
            raise InputError(
                f"{name} must be finite and above 0; {len(bad):,} of {len(values):,} are not, "
                f"first at pair {bad[0]}: {values[bad[0]]}"
            )
