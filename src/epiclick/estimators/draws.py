"""Samples of position bias and relevance, drawn on the host by numpy.

Score functions need samples only, not derivatives of sampling, so they can be drawn between
programs: numpy's generator is several times faster than one inside them.
"""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from epiclick.beta import Beta
from epiclick.estimators.base import Betas, Draws

BLOCK = 3_000
"""Pairs that share one generator, whatever the number of threads."""

LEAST_LOG_THETA = -700.0
"""Position bias in float64 ends below; so small a one, once clicked, has no weight anyway."""

LEAST_PARAMETER = 1e-30
"""Smaller ones would give logarithms beyond float32."""

LEAST_GAMMA = np.float32(1e-10)
"""Gamma(1) is drawn as an exponential, which in float32 is 0 once in 2**23 draws: its logarithm
would be minus infinity. The least above 0 is some 1e-8."""


def draw_position(
    rng: np.random.Generator, betas: Betas, samples: int
) -> tuple[np.ndarray, np.ndarray]:
    """log theta and log(1 - theta), each (samples, contexts) float64."""
    return Beta(np.asarray(betas.alpha), np.asarray(betas.beta)).sample_logs(rng, samples)


def draw_relevance(
    rng: np.random.Generator, betas: Betas, samples: int
) -> tuple[np.ndarray, np.ndarray]:
    """log zeta and log(1 - zeta), each (pairs, samples) float32.

    Blocks of pairs are drawn side by side, each by a generator of its own. Their seeds come out of
    `rng` rather than from `rng.spawn`, whose count of children is not part of a generator's saved
    state: so a run that is resumed draws what it would have drawn.
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
        _fill(own, alpha[block], beta[block], log_zeta[block], log_other[block])

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


def _fill(
    rng: np.random.Generator,
    alpha: np.ndarray,
    beta: np.ndarray,
    log_zeta: np.ndarray,
    log_other: np.ndarray,
) -> None:
    r"""Draw the samples of one block into its arrays.

    zeta = A / (A + B) with A ~ Gamma(alpha), B ~ Gamma(beta), and Gamma(a) = Gamma(a + 1) U^(1/a),
    whose logarithm cannot underflow:

    .. math:: \mathrm{logit}\,\zeta = \log\frac{A'}{B'} - \frac{E_1}{\alpha} + \frac{E_2}{\beta},
              \quad A' \sim \Gamma(\alpha + 1),\ B' \sim \Gamma(\beta + 1),\ E \sim \mathrm{Exp}(1)

    Arrays are reused, since new ones cost as much as what is computed in them.
    """
    shape, one = log_zeta.shape, np.float32(1)
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
    # log zeta = min(logit, 0) - log(1 + exp(-|logit|)), and log(1 - zeta) the same of -logit
    np.abs(logit, out=spare)
    np.negative(spare, out=spare)
    np.exp(spare, out=spare)
    np.log1p(spare, out=spare)
    np.minimum(logit, 0, out=log_zeta)
    log_zeta -= spare
    np.negative(logit, out=logit)
    np.minimum(logit, 0, out=log_other)
    log_other -= spare
