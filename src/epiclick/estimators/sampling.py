r"""Samples of position bias and relevance, their likelihoods, and score functions.

Score functions need samples, not derivatives of the sampling, so samples are drawn on the host:
numpy's generator is several times faster than one inside a compiled program.

For bias i and sample j of a pair, the paper's J (its section 5.2) is

.. math:: J_{ij} = \zeta_j^M \prod_{d} \big((1 - \zeta_j) + (1 - \theta^{(i)}_d) \zeta_j\big)

over the unclicked displays d, up to the thetas of the clicks, which all samples of a pair share.
`sampled_weights` sums over biases the share that each sample has under each of them,

.. math:: A_j = \sum_i \sigma_i(\log \tilde L) \frac{J_{ij}}{\sum_{j'} J_{ij'}}, \qquad
          \log \tilde L_i = \sum_{qd} \log \frac1S \sum_j J_{ij},

with the J of one bias in memory at a time: the running sum is rescaled whenever a bias is more
likely than all before it. Buckets of pairs stay separate: concatenating them would cost as much as
everything else.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from epiclick.beta import Beta
from epiclick.errors import InputError
from epiclick.estimators.estimator import Betas, Draws, Gradient
from epiclick.likelihood.pairs import Bucket, PairBatch
from epiclick.traced.batch_likelihood import (
    all_clicks,
    all_unclicked,
    by_bucket,
    clicks_by_context,
    total_clicks,
)

Array: TypeAlias = jax.Array | np.ndarray


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Estimate:
    """A function of one batch that jax differentiates.

    Attributes:
        surrogate: scalar whose gradient for the parameters is the estimated gradient. Its value has
            no meaning.
        log_likelihood: scalar, the estimated log-likelihood of the batch, pairs weighted.
        log_scale: logarithm of a factor on the gradient that would overflow float32.
    """

    surrogate: jax.Array
    log_likelihood: jax.Array
    log_scale: jax.Array | float = 0.0


jax.tree_util.register_dataclass(Draws)

BLOCK = 3_000
"""Pairs that share one generator, whatever the number of threads."""

LEAST_PARAMETER = 1e-30
"""Smaller parameters would give logarithms beyond float32."""

LEAST_GAMMA = np.float32(1e-10)
"""Gamma(1) is drawn as an exponential, which in float32 is 0 once in 2**23 draws: its logarithm
would be minus infinity. The smallest value above 0 is about 1e-8."""


def draw_position(
    rng: np.random.Generator, betas: Betas, samples: int
) -> tuple[np.ndarray, np.ndarray]:
    """log theta and log(1 - theta), each (samples, contexts) float64."""
    return Beta(np.asarray(betas.alpha), np.asarray(betas.beta)).sample_logs(rng, samples)


def draw_relevance(
    rng: np.random.Generator, betas: Betas, samples: int
) -> tuple[np.ndarray, np.ndarray]:
    """log zeta and log(1 - zeta), each (pairs, samples) float32.

    Blocks of pairs are drawn in parallel, each with its own generator. Seeds are drawn from `rng`
    rather than by `rng.spawn`, whose count of children is not part of a generator's saved state:
    so a resumed run draws the same samples as an uninterrupted one.
    """
    alpha, beta = (
        np.maximum(np.asarray(parameter), LEAST_PARAMETER).astype(np.float32)[:, None]
        for parameter in (betas.alpha, betas.beta)
    )
    log_zeta = np.empty((len(alpha), samples), np.float32)
    log_other = np.empty_like(log_zeta)
    blocks = [slice(start, start + BLOCK) for start in range(0, len(alpha), BLOCK)]
    seeds = rng.integers(2**63, size=len(blocks))

    def fill(block: slice, seed: np.int64) -> None:
        own = np.random.Generator(np.random.SFC64(int(seed)))
        logit = _draw_logits(own, alpha[block], beta[block], samples)
        _split_logits(logit, log_zeta[block], log_other[block])

    if len(blocks) > 1:
        with ThreadPoolExecutor(min(len(blocks), os.cpu_count() or 1)) as threads:
            list(threads.map(fill, blocks, seeds))
    else:
        list(map(fill, blocks, seeds))
    return log_zeta, log_other


def draw_joint(rng: np.random.Generator, relevance: Betas, position: Betas, samples: int) -> Draws:
    """As many samples of position bias as of each pair's relevance."""
    log_theta, log_rest = draw_position(rng, position, samples)
    log_zeta, log_other = draw_relevance(rng, relevance, samples)
    return Draws(log_theta, log_rest, log_zeta, log_other)


def _draw_logits(
    rng: np.random.Generator, alpha: np.ndarray, beta: np.ndarray, samples: int
) -> np.ndarray:
    r"""Logits of relevance of one block: (pairs, samples) float32; parameters are (pairs, 1).

    zeta = A / (A + B) with A ~ Gamma(alpha), B ~ Gamma(beta), and Gamma(a) = Gamma(a + 1) U^(1/a),
    whose logarithm cannot underflow:

    .. math:: \mathrm{logit}\,\zeta = \log\frac{A'}{B'} - \frac{E_1}{\alpha} + \frac{E_2}{\beta},
              \quad A' \sim \Gamma(\alpha + 1),\ B' \sim \Gamma(\beta + 1),\ E \sim \mathrm{Exp}(1)

    Arrays are reused, since allocating new ones costs as much as the arithmetic.
    """
    shape, one = (len(alpha), samples), np.float32(1)
    logit = rng.standard_gamma(alpha + one, shape, dtype=np.float32)
    other = rng.standard_gamma(beta + one, shape, dtype=np.float32)
    for gamma in (logit, other):
        np.maximum(gamma, LEAST_GAMMA, out=gamma)
    logit /= other
    np.log(logit, out=logit)
    spare = rng.standard_exponential(dtype=np.float32, out=other)
    spare /= alpha
    logit -= spare
    rng.standard_exponential(dtype=np.float32, out=spare)
    spare /= beta
    logit += spare
    return logit


def _split_logits(logit: np.ndarray, log_zeta: np.ndarray, log_other: np.ndarray) -> None:
    """Write log zeta and log(1 - zeta) of logits, which are overwritten.

    log zeta = min(logit, 0) - log(1 + exp(-|logit|)), and log(1 - zeta) the same of -logit.
    """
    remainder = log_other
    np.abs(logit, out=remainder)
    np.negative(remainder, out=remainder)
    np.exp(remainder, out=remainder)
    np.log1p(remainder, out=remainder)
    np.minimum(logit, 0, out=log_zeta)
    log_zeta -= remainder
    np.negative(logit, out=logit)
    np.minimum(logit, 0, out=logit)
    np.subtract(logit, remainder, out=log_other)


def weighted_log_density(
    betas: Betas, log_x: Array, log_rest: Array, weights: jax.Array
) -> jax.Array:
    r"""Weighted sum of the log-densities of each Beta's samples: (betas,) float64.

    .. math:: \sum_j w_j \log p(x_j \mid \alpha, \beta) = (\alpha - 1) \sum_j w_j \log x_j
              + (\beta - 1) \sum_j w_j \log(1 - x_j) - \log B(\alpha, \beta) \sum_j w_j

    Its gradient for alpha and beta is the weighted sum of scores. Sums over samples come first, so
    that only two numbers per Beta are differentiated.

    Args:
        betas: (betas,).
        log_x: (betas, samples) logarithms of the samples.
        log_rest: (betas, samples) logarithms of 1 - the samples.
        weights: (betas, samples), or (samples,) if the same for all.
    """
    total, of_x, of_rest = (
        jax.lax.stop_gradient(each).sum(axis=-1, dtype=jnp.float64)
        for each in (weights, weights * log_x, weights * log_rest)
    )
    return _log_density(betas, total, of_x, of_rest)


def _log_density(betas: Betas, total: jax.Array, of_x: jax.Array, of_rest: jax.Array) -> jax.Array:
    """The same from weighted sums over samples: of 1, of log x and of log(1 - x); (betas,) each."""
    alpha, beta = betas.alpha, betas.beta
    log_beta_function = gammaln(alpha) + gammaln(beta) - gammaln(alpha + beta)
    return (alpha - 1) * of_x + (beta - 1) * of_rest - log_beta_function * total


def leave_one_out(weights: jax.Array) -> jax.Array:
    r"""Each weight minus the mean of the others along the last axis (paper, section 4.1).

    .. math:: w_i - \frac{1}{S - 1} \sum_{j \ne i} w_j

    The mean of the others does not depend on sample i, whose score has mean 0: subtracting it
    reduces the variance and leaves the expectation as it is. This is true of weights of score
    functions only.
    """
    others = weights.sum(axis=-1, keepdims=True) - weights
    return weights - others / (weights.shape[-1] - 1)


def likelihood_shares(log_likelihoods: jax.Array) -> jax.Array:
    """Share of each sample in the sum of likelihoods, not differentiated: (samples,)."""
    return jax.lax.stop_gradient(jax.nn.softmax(log_likelihoods))


def log_mean(log_likelihoods: jax.Array) -> jax.Array:
    """Logarithm of the mean likelihood of the samples: a scalar."""
    return jax.nn.logsumexp(log_likelihoods) - jnp.log(len(log_likelihoods))


SMALLEST_UNSEEN = 1e-37
"""Sums in float32 below this are replaced by their larger term."""


def joint_log_likelihoods(batch: PairBatch, draws: Draws) -> jax.Array:
    r"""Log-likelihood of the batch at each joint sample of bias and relevance: (samples,) float64.

    .. math:: \log \tilde L^{(i)} = \sum_{qd} \sum_k M_k \log(\theta_k^{(i)} \zeta_{qd}^{(i)})
              + W_k \log(1 - \theta_k^{(i)} \zeta_{qd}^{(i)})

    Binomial coefficients are omitted. A pair of weight 2 counts its one sample twice.
    """
    log_zeta, log_other = draws.relevance  # (pairs, samples)
    attracted = total_clicks(batch).astype(jnp.float32)[:, None] * log_zeta
    if batch.has_slots:
        each_bucket = zip(
            by_bucket(batch, log_zeta), by_bucket(batch, log_other), batch.buckets, strict=True
        )
        unclicked = jnp.concatenate(
            [
                log_unclicked(zeta, other, draws.log_rest, bucket.unclicked, bucket.slots)
                for zeta, other, bucket in each_bucket
            ]
        )
    else:
        unclicked = log_unclicked(log_zeta, log_other, draws.log_rest, all_unclicked(batch))
    by_context = clicks_by_context(batch, draws.log_theta.shape[1])
    examined = jnp.dot(draws.log_theta, by_context)  # (samples,)
    return examined + jnp.dot(batch.weight, (attracted + unclicked).astype(jnp.float64))


def score_surrogate(
    relevance: Betas,
    position: Betas,
    batch: PairBatch,
    draws: Draws,
    of_relevance: jax.Array,
    of_position: jax.Array,
) -> jax.Array:
    r"""Surrogate of the paper's score-function gradients (sections 4.1 and 5.3); a scalar.

    .. math:: \sum_{qd} \sum_j w_{qd}^{(j)} \log p(\zeta_{qd}^{(j)})
              + \sum_i w_\theta^{(i)} \log p(\theta^{(i)})

    Args:
        relevance: (pairs,) Betas.
        position: (contexts,) Betas.
        batch: counts of the pairs.
        draws: samples of both.
        of_relevance: weights of the relevance samples, (pairs, samples), or (samples,) if the same
            for all pairs.
        of_position: (samples,) weights of the samples of position bias.
    """
    of_pairs = weighted_log_density(relevance, *draws.relevance, of_relevance)
    return jnp.dot(batch.weight, of_pairs) + position_surrogate(position, draws, of_position)


def position_surrogate(position: Betas, draws: Draws, weights: jax.Array) -> jax.Array:
    """The term of position bias alone; a scalar."""
    return weighted_log_density(position, draws.log_theta.T, draws.log_rest.T, weights).sum()


def log_unclicked(
    log_zeta: Array,
    log_other: Array,
    log_rest: Array,
    unclicked: Array,
    slots: Array | None = None,
) -> jax.Array:
    r"""Log-probability of the displays without a click at each sample: (pairs, samples) float32.

    .. math:: \sum_k W_k \log(1 - \theta_k \zeta), \qquad
              1 - \theta_k \zeta = (1 - \zeta) + (1 - \theta_k) \zeta

    One logarithm per context and sample. Where both parts leave the range of float32, the larger
    one replaces the sum, whose logarithm is then at most log 2 larger.

    Args:
        log_zeta: (pairs, samples) float32.
        log_other: (pairs, samples) float32, of 1 - relevance.
        log_rest: (samples or 1, contexts) float64, of 1 - position bias.
        unclicked: (pairs, contexts), or (pairs, slots).
        slots: (pairs, slots) contexts of the counts; None where counts cover all contexts.
    """
    zeta, other = jnp.exp(log_zeta), jnp.exp(log_other)
    count = unclicked.astype(jnp.float32)
    total = jnp.zeros_like(log_zeta)
    for k in range(unclicked.shape[1]):
        # (samples,) of a context, (pairs, samples) of a slot
        own = log_rest[:, k] if slots is None else log_rest.T[slots[:, k]]
        rest = jnp.exp(own).astype(jnp.float32)
        larger = jnp.maximum(log_other, own.astype(jnp.float32) + log_zeta)
        unseen = other + rest * zeta
        log_unseen = jnp.where(unseen > SMALLEST_UNSEEN, jnp.log(unseen), larger)
        total = total + count[:, k, None] * log_unseen
    return total


SMALLEST_WEIGHT = 1e-30
"""Sums of products in float32 below this are not accurate."""


class Likelihoods(NamedTuple):
    """J of every sample of a bucket's pairs under one bias.

    Attributes:
        scaled: (pairs, samples) float32, J up to a factor of each pair.
        log_scale: (pairs, 1) float32, logarithm of that factor.
        total: (pairs, 1) float32, sum of `scaled` over samples.
    """

    scaled: jax.Array
    log_scale: jax.Array
    total: jax.Array

    def log_mean(self) -> jax.Array:
        """Logarithm of the mean of J over samples: (pairs,)."""
        return (self.log_scale + jnp.log(self.total / self.scaled.shape[1]))[:, 0]

    def weights(self, share: jax.Array) -> jax.Array:
        """A bias's share in the likelihood, divided among the samples of each pair."""
        return self.scaled * (share / self.total)


Likelihood: TypeAlias = Callable[[jax.Array], Likelihoods]
"""From a bias, given as log(1 - theta) (contexts,), to J of a bucket."""

State: TypeAlias = tuple[jax.Array, jax.Array, tuple[jax.Array, ...], jax.Array]
Bias: TypeAlias = tuple[jax.Array, jax.Array]


@jax.jit
def sampled_weights(batch: PairBatch, draws: Draws) -> tuple[jax.Array, jax.Array]:
    """Log-likelihood under each bias, (biases,) float64, and A, (pairs, samples) float32.

    Products in float32 are several times faster than sums of logarithms; if those of any pair leave
    its range, everything is computed again in logarithms.
    """
    log_likelihoods, weights, smallest = _accumulate(batch, draws, _products)
    return jax.lax.cond(
        smallest > SMALLEST_WEIGHT,
        lambda: (log_likelihoods, weights),
        lambda: _accumulate(batch, draws, _exponentials)[:2],
    )


def _accumulate(
    batch: PairBatch, draws: Draws, way: Callable[[Bucket, Array, Array], Likelihood]
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The same, and the smallest total of any pair under any bias."""
    logs = draws.relevance  # (pairs, samples)
    samples = logs[0].shape[1]
    clicks = jnp.dot(batch.weight, all_clicks(batch))  # (contexts,)
    pair_weights, likelihoods = [], []
    start = 0
    for bucket in batch.buckets:
        own = slice(start, start := start + len(bucket.clicks))
        pair_weights.append(batch.weight[own])
        likelihoods.append(way(bucket, logs[0][own], logs[1][own]))

    def add(state: State, bias: Bias) -> tuple[State, jax.Array]:
        most, share, weights, smallest = state
        log_theta, log_rest = bias
        buckets = [likelihood(log_rest) for likelihood in likelihoods]
        log_likelihood = jnp.dot(clicks, log_theta)
        for bucket, weight in zip(buckets, pair_weights, strict=True):
            log_likelihood += jnp.dot(weight, bucket.log_mean().astype(jnp.float64))
            smallest = jnp.minimum(smallest, bucket.total.min())
        now_most = jnp.maximum(most, log_likelihood)
        share, weights = _rescale(share, weights, jnp.exp(most - now_most))
        own = jnp.exp(log_likelihood - now_most)
        weights = tuple(
            weight + bucket.weights(own.astype(jnp.float32))
            for weight, bucket in zip(weights, buckets, strict=True)
        )
        return (now_most, share + own, weights, smallest), log_likelihood

    state: State = (
        jnp.array(-jnp.inf, jnp.float64),
        jnp.array(0, jnp.float64),
        tuple(jnp.zeros((len(weight), samples), jnp.float32) for weight in pair_weights),
        jnp.array(jnp.inf, jnp.float32),
    )
    biases = (jnp.asarray(draws.log_theta), jnp.asarray(draws.log_rest))
    (_, share, weights, smallest), log_likelihoods = jax.lax.scan(add, state, biases)
    return log_likelihoods, jnp.concatenate(weights) / share.astype(jnp.float32), smallest


def _rescale(
    share: jax.Array, weights: tuple[jax.Array, ...], factor: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    """The running sums relative to a bias that is more likely than all before it."""
    return share * factor, tuple(weight * factor.astype(jnp.float32) for weight in weights)


def _products(bucket: Bucket, log_zeta: Array, log_other: Array) -> Likelihood:
    """J as a product over displays; factors that do not depend on the bias are computed once."""
    order = bucket.order
    if order is None:  # a product over so many displays would underflow
        return _exponentials(bucket, log_zeta, log_other)
    log_attracted = _clicks(bucket) * log_zeta
    log_scale = log_attracted.max(axis=1, keepdims=True)
    attracted = jnp.exp(log_attracted - log_scale)
    zeta, other = jnp.exp(log_zeta), jnp.exp(log_other)

    def likelihood(log_rest: jax.Array) -> Likelihoods:
        rest = _rest_or_one(log_rest)
        scaled = attracted
        for display in order.T:
            scaled = scaled * (other + rest[display][:, None] * zeta)
        return Likelihoods(scaled, log_scale, scaled.sum(axis=1, keepdims=True))

    return likelihood


def _rest_or_one(log_rest: jax.Array) -> jax.Array:
    """1 - theta of each context, then 1: a missing display, -1 in `order`, is never examined."""
    return jnp.append(jnp.exp(log_rest).astype(jnp.float32), 1)


def _exponentials(bucket: Bucket, log_zeta: Array, log_other: Array) -> Likelihood:
    """J as the exponential of a sum of logarithms, relative to the largest of each pair."""
    log_attracted = _clicks(bucket) * log_zeta

    def likelihood(log_rest: jax.Array) -> Likelihoods:
        unclicked = log_unclicked(
            log_zeta, log_other, log_rest[None], bucket.unclicked, bucket.slots
        )
        logs = log_attracted + unclicked
        log_scale = logs.max(axis=1, keepdims=True)
        scaled = jnp.exp(logs - log_scale)
        return Likelihoods(scaled, log_scale, scaled.sum(axis=1, keepdims=True))

    return likelihood


def _clicks(bucket: Bucket) -> jax.Array:
    """Clicks of each pair: (pairs, 1) float32."""
    return jnp.asarray(bucket.clicks).sum(axis=1, keepdims=True).astype(jnp.float32)


@dataclass(frozen=True)
class SamplingEstimator(ABC):
    """What the estimators that sample position bias share.

    Attributes:
        samples: samples of position bias per step.
        baseline: whether score functions have a leave-one-out baseline.
    """

    is_point: ClassVar[bool] = False
    samples: int = 60
    baseline: bool = False

    def __post_init__(self) -> None:
        """Refuse too few samples; a baseline compares each with the others."""
        least = 2 if self.baseline else 1
        if self.samples < least:
            why = " with a baseline, which is the mean of the other samples"
            raise InputError(
                f"samples must be at least {least}{why if self.baseline else ''}; "
                f"got {self.samples}",
                code="samples-out-of-range",
            )

    @abstractmethod
    def estimate(
        self, relevance: Betas, position: Betas, batch: PairBatch, draws: Draws | None
    ) -> Estimate:
        """Surrogate and log-likelihood of one batch, given its samples; pure, to be compiled."""

    def gradient(
        self, relevance: Betas, position: Betas, batch: PairBatch, draws: Draws | None
    ) -> Gradient:
        """Log-likelihood and gradient of one batch, given its samples."""
        with jax.enable_x64(True):  # products over clicks underflow in float32
            found = _gradient(self, relevance, position, batch, draws)
        (by_relevance, by_position), log_likelihood, log_scale = jax.tree.map(np.asarray, found)
        return Gradient(float(log_likelihood), by_relevance, by_position, float(log_scale))

    def centered(self, weights: jax.Array) -> jax.Array:
        """Weights of score functions, minus the baseline if there is one."""
        return leave_one_out(weights) if self.baseline else weights


@jax.jit(static_argnums=0)
def _gradient(
    estimator: SamplingEstimator, relevance: Betas, position: Betas, batch: PairBatch, draws: Draws
) -> tuple[tuple[Betas, Betas], jax.Array, jax.Array]:
    """Derivatives of the surrogate in both kinds of Betas, log-likelihood, and log of the scale."""

    def surrogate(betas: tuple[Betas, Betas]) -> tuple[jax.Array, Estimate]:
        estimate = estimator.estimate(*betas, batch, draws)
        return estimate.surrogate, estimate

    slope, estimate = jax.grad(surrogate, has_aux=True)((relevance, position))
    return slope, estimate.log_likelihood, jnp.asarray(estimate.log_scale)


@dataclass(frozen=True)
class JointEstimator(SamplingEstimator):
    """Score functions of joint samples: the i-th of every pair goes with the i-th bias."""

    @abstractmethod
    def weigh(self, log_likelihoods: jax.Array) -> tuple[jax.Array, jax.Array | float]:
        """Weights of the samples, and the logarithm of a factor on them; from (samples,)."""

    def draw(self, rng: np.random.Generator, relevance: Betas, position: Betas) -> Draws:
        """As many samples of position bias as of each pair's relevance."""
        return draw_joint(rng, relevance, position, self.samples)

    def estimate(
        self, relevance: Betas, position: Betas, batch: PairBatch, draws: Draws | None
    ) -> Estimate:
        """Surrogate and log-likelihood of one batch."""
        assert draws is not None
        log_likelihoods = joint_log_likelihoods(batch, draws)
        weights, log_scale = self.weigh(log_likelihoods)
        surrogate = score_surrogate(relevance, position, batch, draws, weights, weights)
        return Estimate(surrogate, log_mean(log_likelihoods), log_scale)
