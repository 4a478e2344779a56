"""Entropies in compiled programs are exact, and so are their derivatives."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from epiclick.beta import Beta
from epiclick.estimators.entropy import beta_entropy, modified_entropy
from epiclick.estimators.estimator import Betas

from . import checks

GRID = np.array([1e-3, 0.05, 0.5, 1.0, 2.0, 7.0, 10.0, 40.0, 1e3, 1e6])
ALPHA, BETA = (axis.ravel() for axis in np.meshgrid(GRID, GRID))


def test_entropies_and_their_means() -> None:
    checks.check_entropy()


def test_entropy_is_exact_from_a_thousandth_to_a_million() -> None:
    with mpmath.workdps(50):
        expected = [float(_entropy(a, b)) for a, b in zip(ALPHA, BETA, strict=True)]
    values = jax.jit(beta_entropy)(ALPHA, BETA)
    np.testing.assert_allclose(values, expected, rtol=5e-15, atol=5e-15)
    np.testing.assert_allclose(values, Beta(ALPHA, BETA).entropy(), rtol=1e-13, atol=1e-13)


def test_derivatives_are_exact_too() -> None:
    with mpmath.workdps(50):
        expected = [float(_slope(a, b)) for a, b in zip(ALPHA, BETA, strict=True)]
    slope = jax.jit(jax.grad(lambda a: beta_entropy(a, jnp.asarray(BETA)).sum()))(ALPHA)
    np.testing.assert_allclose(slope, expected, rtol=2e-13, atol=1e-14)


def test_modified_entropy_is_that_of_the_predicted_betas() -> None:
    relevance, position = Beta(ALPHA, BETA), Beta(GRID, GRID[::-1])
    value = jax.jit(modified_entropy)(
        Betas(relevance.alpha, relevance.beta),
        Betas(position.alpha, position.beta),
        np.ones(len(ALPHA)),
    )
    expected = relevance.entropy().mean() + position.entropy().mean()
    assert float(value) == pytest.approx(expected, rel=1e-13)


def _entropy(alpha: float, beta: float) -> mpmath.mpf:
    a, b = mpmath.mpf(alpha), mpmath.mpf(beta)
    psi = mpmath.digamma
    return (
        mpmath.log(mpmath.beta(a, b))
        - (a - 1) * psi(a)
        - (b - 1) * psi(b)
        + (a + b - 2) * psi(a + b)
    )


def _slope(alpha: float, beta: float) -> mpmath.mpf:
    a, b = mpmath.mpf(alpha), mpmath.mpf(beta)
    return -(a - 1) * mpmath.psi(1, a) + (a + b - 2) * mpmath.psi(1, a + b)
