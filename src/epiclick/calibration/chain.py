r"""Posterior draws by a Markov chain, compiled once for all worlds of one shape.

Each move has two parts. First, a Hamiltonian move in coordinates in which the Gaussian around the
mode is standard; step lengths are random, so that no direction is periodic. Second, an elliptical
slice move (Murray, Adams and MacKay 2010) of the weights of the confidence alone: clicks often say
only that the confidence is low, so that its posterior is half of the prior, many times as wide as
the Gaussian.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from epiclick.click_models.click_model import Emission
from epiclick.likelihood.pairs import PairBatch
from epiclick.posterior.density import Density
from epiclick.relevance.heads import betas_of
from epiclick.traced.batch_likelihood import pair_log_likelihoods

WARMUP = 30  # moves before the first draw
BETWEEN = 3  # moves from one draw to the next, so that draws are nearly independent
STEPS = 5  # of the Hamiltonian part
SHORTEST, LONGEST = 0.1, 0.45  # step lengths, in standard deviations of the Gaussian
MOST_CUTS = 40  # of a slice bracket

State: TypeAlias = tuple[jax.Array, jax.Array, jax.Array]  # vector, log density, its gradient


def chain_draws(
    density: Density, mode: np.ndarray, covariance: np.ndarray, count: int, seed: int
) -> np.ndarray:
    """(count, size) draws of the density.

    Call it within `jax.enable_x64(True)`.

    Args:
        density: of pairs in a single batch; the first context is the anchor, and no position
            bias is given.
        mode: (size,) of the density.
        covariance: (size, size) of the Gaussian at the mode.
        count: number of draws.
        seed: of the chain.
    """
    assert not np.isfinite(density.prior.clicks.known_mean).any()
    factor, spread = np.linalg.cholesky(covariance), density.prior.layer_sd
    return np.asarray(_run(count, jax.random.key(seed), mode, factor, spread, *_inputs(density)))


def log_likelihoods(density: Density, vectors: np.ndarray) -> np.ndarray:
    """(draws,) log-likelihood of (draws, size) vectors, in closed form; see `chain_draws`."""
    return np.asarray(_log_likelihoods(vectors, *_inputs(density)))


def _inputs(density: Density) -> tuple[np.ndarray, PairBatch]:
    """Input of the last layer for each pair, (pairs, units + 1), and all clicks."""
    (part,) = density.parts()
    assert density.emitter.anchor == 0
    return part.given, part.batch


def _log_likelihood(vector: jax.Array, given: jax.Array, batch: PairBatch) -> jax.Array:
    """The log-likelihood of one vector."""
    positions = len(vector) - 2 * given.shape[1]  # but the first
    logit = vector[:positions]
    theta = jnp.concatenate([jnp.ones(1), jax.nn.sigmoid(logit)])
    rest = jnp.concatenate([jnp.zeros(1), jax.nn.sigmoid(-logit)])
    raw = given @ vector[positions:].reshape(-1, 2)
    alpha, beta = betas_of(raw[:, 0], raw[:, 1], jnp, smooth=True)
    emission = Emission(theta[None], rest[None])
    return batch.weight @ pair_log_likelihoods(emission, alpha, beta, batch)[0]


@jax.jit
def _log_likelihoods(vectors: jax.Array, given: jax.Array, batch: PairBatch) -> jax.Array:
    return jax.lax.map(lambda vector: _log_likelihood(vector, given, batch), vectors)


@partial(jax.jit, static_argnums=0)
def _run(
    count: int,
    key: jax.Array,
    mode: jax.Array,
    factor: jax.Array,
    layer_sd: jax.Array,
    given: jax.Array,
    batch: PairBatch,
) -> jax.Array:
    """The whole chain: (count, size)."""
    positions = len(mode) - len(layer_sd)  # but the first
    # the layer's weights alternate between mean and confidence
    spread = jnp.concatenate([jnp.zeros(positions), layer_sd.at[::2].set(0)])

    def log_prior(vector: jax.Array) -> jax.Array:
        logit, layer = vector[:positions], vector[positions:]
        uniform = jax.nn.log_sigmoid(logit) + jax.nn.log_sigmoid(-logit)
        return uniform.sum() - 0.5 * jnp.square(layer / layer_sd).sum()

    def log_density(vector: jax.Array) -> jax.Array:
        return _log_likelihood(vector, given, batch) + log_prior(vector)

    slope = jax.value_and_grad(log_density)

    def move(vector: jax.Array, key: jax.Array) -> tuple[jax.Array, None]:
        one, other = jax.random.split(key)
        return slice_move(hamiltonian_move((vector, *slope(vector)), factor, slope, one), other)

    def slice_move(state: State, key: jax.Array) -> tuple[jax.Array, None]:
        vector, value, _ = state
        turn, level, angle, cuts = jax.random.split(key, 4)
        moving, still = jnp.where(spread > 0, vector, 0), jnp.where(spread > 0, 0, vector)
        aside = spread * jax.random.normal(turn, vector.shape)
        least = value - log_prior(vector) + jnp.log(jax.random.uniform(level))

        def at(angle: jax.Array) -> jax.Array:
            return still + jnp.cos(angle) * moving + jnp.sin(angle) * aside

        def outside(now: tuple) -> jax.Array:
            number, angle, *_ = now
            there = at(angle)
            return (number < MOST_CUTS) & ~(log_density(there) - log_prior(there) > least)

        def cut(now: tuple) -> tuple:
            number, angle, low, high = now
            low, high = jnp.where(angle < 0, angle, low), jnp.where(angle < 0, high, angle)
            share = jax.random.uniform(jax.random.fold_in(cuts, number))
            return number + 1, low + share * (high - low), low, high

        first = 2 * jnp.pi * jax.random.uniform(angle)
        number, angle, *_ = jax.lax.while_loop(outside, cut, (0, first, first - 2 * jnp.pi, first))
        return jnp.where(number < MOST_CUTS, at(angle), vector), None

    def draw(vector: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        vector, _ = jax.lax.scan(move, vector, jax.random.split(key, BETWEEN))
        return vector, vector

    first, warm, rest = jax.random.split(key, 3)
    vector = mode + factor @ jax.random.normal(first, mode.shape)
    vector, _ = jax.lax.scan(move, vector, jax.random.split(warm, WARMUP))
    return jax.lax.scan(draw, vector, jax.random.split(rest, count))[1]


def hamiltonian_move(
    state: State,
    factor: jax.Array,
    slope: Callable[[jax.Array], tuple[jax.Array, jax.Array]],
    key: jax.Array,
) -> State:
    """The state after one Hamiltonian move, which may be rejected.

    Args:
        state: before the move.
        factor: (size, size) Cholesky factor of the covariance that sets the scale.
        slope: log density and its gradient.
        key: source of randomness.
    """
    push, pace, chance = jax.random.split(key, 3)
    start = jax.random.normal(push, state[0].shape)
    length = jax.random.uniform(pace, minval=SHORTEST, maxval=LONGEST)

    def step(_: int, now: tuple[State, jax.Array]) -> tuple[State, jax.Array]:
        (vector, _value, gradient), momentum = now
        momentum = momentum + length / 2 * (factor.T @ gradient)
        vector = vector + length * (factor @ momentum)
        value, gradient = slope(vector)
        return (vector, value, gradient), momentum + length / 2 * (factor.T @ gradient)

    there, end = jax.lax.fori_loop(0, STEPS, step, (state, start))
    gain = there[1] - state[1] + (jnp.square(start).sum() - jnp.square(end).sum()) / 2
    accept = jnp.log(jax.random.uniform(chance)) < gain  # never if the gain is NaN
    return jax.tree.map(lambda new, old: jnp.where(accept, new, old), there, state)
