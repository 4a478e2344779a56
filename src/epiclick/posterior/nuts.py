r"""MCMC samples of the posterior (the No-U-Turn sampler of numpyro).

The target is the log density whose Gaussian approximation `laplace.py` computes, in coordinates
in which that Gaussian is standard,

.. math:: x = \hat x + L z, \qquad L L^\top = \text{covariance},

so that chains start at likely values and need only a short warm-up.
"""

import sys
import warnings
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from epiclick.click_models.click_model import Emission
from epiclick.errors import InputError, InputWarning
from epiclick.likelihood.pairs import PairBatch
from epiclick.posterior.density import Density
from epiclick.posterior.laplace import require_numpyro
from epiclick.relevance.heads import betas_of
from epiclick.traced.batch_likelihood import pair_log_likelihoods

SAMPLES = 1000
CHAINS = 4
WARMUP = 200  # discarded steps of each chain
LARGEST_R_HAT = 1.05


def sample(
    density: Density,
    mode: np.ndarray,
    covariance: np.ndarray,
    seed: int,
    *,
    samples: int = SAMPLES,
    chains: int = CHAINS,
    warmup: int = WARMUP,
    progress: bool = True,
) -> np.ndarray:
    """Draws of the vector of parameters, chain after chain: (samples, size).

    Warns if chains disagree or diverge.

    Args:
        density: of the vector.
        mode: (size,) its maximum.
        covariance: (size, size) approximate covariance of the posterior.
        seed: of the chains.
        samples: of all chains together; a multiple of their number.
        chains: number of chains.
        warmup: steps of each chain before its samples.
        progress: whether to show a progress bar on a terminal.
    """
    require_numpyro()
    from numpyro.diagnostics import split_gelman_rubin
    from numpyro.infer import MCMC, NUTS

    if samples % chains:
        raise InputError(
            f"samples must be a multiple of {chains} chains, not {samples}",
            code="samples-not-multiple-of-chains",
        )
    factor = np.linalg.cholesky(covariance)
    starts = np.random.default_rng([seed, 6]).standard_normal((chains, len(mode)))
    with jax.enable_x64(True):
        log_density = whole_log_density(density)

        def potential(z: jax.Array) -> jax.Array:
            return -log_density(mode + factor @ z)

        chain = MCMC(
            NUTS(potential_fn=potential),
            num_warmup=warmup,
            num_samples=samples // chains,
            num_chains=chains,
            chain_method="sequential",
            progress_bar=progress and sys.stderr.isatty(),
        )
        chain.run(
            jax.random.key(seed),
            init_params=jnp.asarray(starts if chains > 1 else starts[0]),
            extra_fields=("diverging",),
        )
        drawn = mode + np.asarray(chain.get_samples(group_by_chain=True)) @ factor.T
        divergences = int(np.sum(chain.get_extra_fields()["diverging"]))
    positions = drawn[..., : density.prior.free]
    r_hat = np.asarray(split_gelman_rubin(positions)) if positions.size else np.ones(1)
    _check(r_hat, divergences, samples)
    return drawn.reshape(samples, -1)


def whole_log_density(density: Density) -> Callable[[jax.Array], jax.Array]:
    """The log density of a vector (size,) as one function that jax can trace.

    Call it within `jax.enable_x64(True)`. All pairs are in memory, but are processed batch by
    batch; intermediate values of a batch are recomputed for the gradient, so that only those of one
    batch are in memory at a time.
    """
    batches = [(part.given, part.batch) for part in density.parts()]
    if len(batches) == 1:
        # nothing to save, and without a loop it compiles in half the time
        only, clicks = jnp.asarray(batches[0][0]), batches[0][1]
        return lambda vector: (
            density.prior.log_density(vector, jnp) + _log_likelihood(density, vector, only, clicks)
        )
    stacked = jax.tree.map(lambda *parts: jnp.stack(parts), *batches)

    def log_density(vector: jax.Array) -> jax.Array:
        @jax.checkpoint
        def add(total: jax.Array, part: tuple) -> tuple[jax.Array, None]:
            given, batch = part
            return total + _log_likelihood(density, vector, given, batch), None

        start = density.prior.log_density(vector, jnp)
        return jax.lax.scan(add, start, stacked)[0]

    return log_density


def _log_likelihood(
    density: Density, vector: jax.Array, given: jax.Array, batch: PairBatch
) -> jax.Array:
    """Of a batch, in closed form where possible, which is faster to differentiate."""
    emitter, free = density.emitter, density.prior.free
    parameters = (
        jnp.zeros(emitter.clicks.size(emitter.contexts)).at[emitter.free].set(vector[:free])
    )
    own = emitter.clicks.emission(parameters, emitter.anchor, jnp)
    raw = given @ vector[free:].reshape(-1, 2)
    alpha, beta = betas_of(raw[:, 0], raw[:, 1], jnp, smooth=True)
    emission = Emission(*(None if part is None else part[None] for part in own))
    return batch.weight @ pair_log_likelihoods(emission, alpha, beta, batch)[0]


def _check(r_hat: np.ndarray, divergences: int, samples: int) -> None:
    """Warn if chains disagree or diverged."""
    remedy = 'compare position_bias(kind="robust"), and give the log more clicks if you can'
    if np.nanmax(r_hat) > LARGEST_R_HAT:
        _warn(
            "the Markov chains of position bias do not agree with each other (r-hat "
            f"{np.nanmax(r_hat):.2f}, should be below {LARGEST_R_HAT}), so their intervals are "
            f"unreliable; {remedy}"
        )
    if divergences:
        _warn(
            f"{divergences:,} of {samples:,} steps of the Markov chains of position bias diverged, "
            f"so intervals may be too narrow; {remedy}"
        )


def _warn(message: str) -> None:
    warnings.warn(message, InputWarning, stacklevel=4)
