"""Scores are exact for all Betas, and baselines leave one out."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from epiclick.beta import Beta
from epiclick.estimators.estimator import Betas
from epiclick.estimators.sampling import leave_one_out, weighted_log_density

GRID = np.array([1e-3, 0.3, 1.0, 4.0, 1e3, 1e6])
ALPHA, BETA = (axis.ravel() for axis in np.meshgrid(GRID, GRID))


def test_weighted_log_densities_are_those_of_the_beta() -> None:
    distribution = Beta(ALPHA, BETA)
    logs = distribution.sample_logs(np.random.default_rng(0), 7)  # (7, betas)
    weights = np.random.default_rng(1).normal(size=(len(ALPHA), 7))
    density = distribution.log_density_from_logs(*logs).T
    log_x, log_rest = (each.T for each in logs)

    def total(alpha: jax.Array, beta: jax.Array) -> tuple[jax.Array, jax.Array]:
        each = weighted_log_density(Betas(alpha, beta), log_x, log_rest, jnp.asarray(weights))
        return each.sum(), each

    slopes = jax.jit(jax.grad(total, argnums=(0, 1), has_aux=True))
    (for_alpha, for_beta), each = slopes(ALPHA, BETA)
    # log-gammas of a million cancel to 1e-9; of the value alone, which nothing depends on
    np.testing.assert_allclose(each, (weights * density).sum(axis=1), rtol=1e-9, atol=1e-7)
    both = special.digamma(ALPHA + BETA)
    for slope, own, log in ((for_alpha, ALPHA, log_x), (for_beta, BETA, log_rest)):
        score = log - (special.digamma(own) - both)[:, None]
        size = (abs(weights) * (abs(log) + abs(special.digamma(own))[:, None] + 1)).sum(axis=1)
        error = abs(np.asarray(slope) - (weights * score).sum(axis=1)) / size
        assert error.max() < 1e-14


def test_one_set_of_weights_serves_all_betas() -> None:
    logs = np.log([[0.2, 0.5], [0.9, 0.1]]), np.log([[0.8, 0.5], [0.1, 0.9]])
    betas, weights = Betas(np.array([1.0, 2.0]), np.array([3.0, 0.5])), jnp.array([0.3, 0.7])
    compiled = jax.jit(weighted_log_density)
    shared = compiled(betas, *logs, weights)
    np.testing.assert_allclose(shared, compiled(betas, *logs, jnp.stack([weights] * 2)))


def test_nothing_is_differentiated_but_the_parameters() -> None:
    betas = Betas(np.array([1.0]), np.array([3.0]))

    def value(logs: jax.Array, weights: jax.Array) -> jax.Array:
        return weighted_log_density(betas, logs, logs, weights).sum()

    slopes = jax.jit(jax.grad(value, argnums=(0, 1)))(
        jnp.array([[-1.0, -2.0]]), jnp.array([0.4, 0.6])
    )
    assert all(np.all(slope == 0) for slope in slopes)


def test_leaving_one_out() -> None:
    values = leave_one_out(jnp.array([[1.0, 2.0, 6.0], [0.0, 0.0, 3.0]]))
    np.testing.assert_allclose(values, [[-3.0, -1.5, 4.5], [-1.5, -1.5, 3.0]])
