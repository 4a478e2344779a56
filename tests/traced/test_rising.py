"""Rising factorials and binomial coefficients against sums of logarithms and integers."""

import math

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epiclick.traced.expansion import log_binomial, log_rising

positive = st.floats(-3, 6).map(lambda e: 10.0**e)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(x=positive, n=st.integers(0, 400))
def test_rising_factorial_is_the_sum_of_logarithms(x: float, n: int) -> None:
    with jax.enable_x64(True):
        expected = math.fsum(math.log(x + i) for i in range(n))
        assert float(log_rising(jnp.float64(x), jnp.float64(n))) == pytest.approx(
            expected, rel=2e-14, abs=2e-14
        )


@settings(max_examples=100, deadline=None)
@given(x=st.floats(-3, 3).map(lambda e: 10.0**e), n=st.integers(0, 200))
def test_rising_factorial_keeps_its_digits_in_float32(x: float, n: int) -> None:
    x = float(np.float32(x))
    expected = math.fsum(math.log(x + i) for i in range(n))
    got = float(log_rising(jnp.float32(x), jnp.float32(n)))
    assert abs(got - expected) <= 2e-6 * (1 + abs(expected))


def test_a_difference_of_log_gammas_would_not() -> None:
    """The control: the plain way loses what the test above demands."""
    x, expected = jnp.float32(1000), math.log(1000.0)
    plain = float(jax.lax.lgamma(x + 1) - jax.lax.lgamma(x))
    assert abs(plain - expected) > 2e-6 * (1 + expected)


@pytest.mark.parametrize(("x", "n"), [(0.001, 3.0), (2.5, 0.5), (40.0, 1e6), (1e4, 0.0)])
def test_derivatives_are_differences_of_digammas(x: float, n: float) -> None:
    from scipy.special import digamma

    by_x, by_n = jax.grad(log_rising, (0, 1))(jnp.float64(x), jnp.float64(n))
    assert float(by_x) == pytest.approx(digamma(x + n) - digamma(x), rel=1e-12, abs=1e-12)
    assert float(by_n) == pytest.approx(digamma(x + n), rel=1e-12)


@pytest.mark.parametrize(
    ("n", "k"), [(0, 0), (1, 1), (7, 3), (300, 150), (10**6, 3), (5 * 10**6, 4_999_990)]
)
def test_binomial_coefficients_are_those_of_integers(n: int, k: int) -> None:
    expected = math.log(math.comb(n, k))
    assert float(log_binomial(jnp.float64(n), jnp.float64(k))) == pytest.approx(
        expected, rel=1e-13, abs=1e-13
    )


@pytest.mark.parametrize("x", [1e-3, 1.0, 50.0, 1e8])
@pytest.mark.parametrize("n", [0.0, 7.0, 1e6])
def test_derivatives_are_differences_of_polygammas(x: float, n: float) -> None:
    with jax.enable_x64(True), mpmath.workdps(40):
        lower, upper = mpmath.mpf(x), mpmath.mpf(x) + n
        by_x, by_n = jax.grad(log_rising, argnums=(0, 1))(x, n)
        twice = jax.grad(jax.grad(log_rising))(x, n)
        expected = float(mpmath.digamma(upper) - mpmath.digamma(lower))
        assert float(by_x) == pytest.approx(expected, rel=2e-15)
        assert float(by_n) == pytest.approx(float(mpmath.digamma(upper)), rel=2e-15, abs=2e-15)
        expected = float(mpmath.psi(1, upper) - mpmath.psi(1, lower))
        assert float(twice) == pytest.approx(expected, rel=4e-15)
