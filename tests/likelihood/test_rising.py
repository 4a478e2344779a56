"""Rising factorials and beta functions against sums of logarithms and exact arithmetic."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln

from epiclick.likelihood.rising import log_beta, log_rising, rising_slope

positive = st.floats(-3, 6).map(lambda e: 10.0**e)


@settings(max_examples=200, deadline=None)
@given(x=positive, n=st.integers(0, 400))
def test_rising_factorial_is_the_sum_of_logarithms(x: float, n: int) -> None:
    expected = math.fsum(math.log(x + i) for i in range(n))
    found = log_rising(np.array([x]), np.array([float(n)]))[0]
    assert found == pytest.approx(expected, rel=2e-14, abs=2e-14)


def test_a_difference_of_log_gammas_would_not() -> None:
    """The control: the plain way loses what the test above demands."""
    x, expected = 1e8, math.log(1e8)
    assert abs(float(gammaln(x + 1) - gammaln(x)) - expected) > 2e-14 * (1 + expected)


@pytest.mark.parametrize("x", [1e-3, 1.0, 50.0, 1e8])
@pytest.mark.parametrize("n", [0.0, 0.5, 7.0, 1e6])
def test_values_and_slopes_are_those_of_exact_arithmetic(x: float, n: float) -> None:
    given = np.array([x]), np.array([n])
    with mpmath.workdps(40):
        lower, upper = mpmath.mpf(x), mpmath.mpf(x) + n
        value = float(mpmath.loggamma(upper) - mpmath.loggamma(lower))
        slope = float(mpmath.digamma(upper) - mpmath.digamma(lower))
    assert log_rising(*given)[0] == pytest.approx(value, rel=2e-14, abs=2e-14)
    assert rising_slope(*given)[0] == pytest.approx(slope, rel=2e-15)


@pytest.mark.parametrize("a", [1e-8, 1e-3, 1.0, 30.0, 1e4, 1e9])
@pytest.mark.parametrize("b", [1e-8, 1e-3, 0.5, 2.0, 1e6])
def test_log_beta_is_that_of_exact_arithmetic(a: float, b: float) -> None:
    with mpmath.workdps(40):
        expected = float(mpmath.log(mpmath.beta(mpmath.mpf(a), mpmath.mpf(b))))
    found = log_beta(np.array([a, b]), np.array([b, a]))
    np.testing.assert_allclose(found, expected, rtol=2e-14, atol=2e-14)


def test_arrays_of_any_shape_are_taken_element_by_element() -> None:
    x, n = np.array([[0.5], [3.0]]), np.array([0.0, 2.0, 9.0])
    for function in (log_rising, rising_slope):
        whole = function(x, n)
        assert whole.shape == (2, 3)
        one = [[function(x[i], n[j : j + 1])[0] for j in range(3)] for i in range(2)]
        np.testing.assert_array_equal(whole, one)
