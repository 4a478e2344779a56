"""Beta distributions against exact arithmetic, scipy, numerical integration and closed forms."""

import doctest
import re
import subprocess
import sys
from dataclasses import FrozenInstanceError
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from math import comb

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special, stats

import epiclick
import epiclick.beta
from epiclick.beta import Beta, entropy_slope

from .raising import raises_code

PARAMETER = st.floats(-3, 6).map(lambda power: 10.0**power)
PROBABILITY = st.floats(1e-6, 1 - 1e-6)
PI = Decimal("3.14159265358979323846264338327950288419716939937510")
EPS = np.finfo(float).eps
UNDERFLOWS = 1e-300  # quantiles below may have been rounded to 0 or to the least float64


@cache
def bernoulli(n: int) -> Fraction:
    """B_n by its recurrence."""
    if n == 0:
        return Fraction(1)
    return -sum((comb(n + 1, k) * bernoulli(k) for k in range(n)), Fraction(0)) / (n + 1)


def gamma_logs(x: Decimal) -> tuple[Decimal, Decimal]:
    """log-gamma and digamma to 40 digits: the recurrence up to 60, Stirling's series from there."""
    log_gamma = digamma = Decimal(0)
    while x < 60:
        log_gamma, digamma, x = log_gamma - x.ln(), digamma - 1 / x, x + 1
    log_gamma += (x - Decimal("0.5")) * x.ln() - x + (2 * PI).ln() / 2
    digamma += x.ln() - 1 / (2 * x)
    for k in range(1, 25):
        b = Decimal(bernoulli(2 * k).numerator) / bernoulli(2 * k).denominator
        log_gamma += b / (2 * k * (2 * k - 1)) / x ** (2 * k - 1)
        digamma -= b / (2 * k) / x ** (2 * k)
    return log_gamma, digamma


def exact_log_beta_and_entropy(alpha: float, beta: float) -> tuple[float, float]:
    """log B and the entropy as the paper writes it (section 4.2), in 50 digits."""
    with localcontext() as context:
        context.prec = 50
        a, b = Decimal(alpha), Decimal(beta)
        (log_a, psi_a), (log_b, psi_b), (log_s, psi_s) = map(gamma_logs, (a, b, a + b))
        log_beta = log_a + log_b - log_s
        entropy = log_beta - (a - 1) * psi_a - (b - 1) * psi_b + (a + b - 2) * psi_s
        return float(log_beta), float(entropy)


def exact_log_density(alpha: float, beta: float, x: float) -> float:
    with localcontext() as context:
        context.prec = 50
        a, b, z = Decimal(alpha), Decimal(beta), Decimal(x)
        log_beta = gamma_logs(a)[0] + gamma_logs(b)[0] - gamma_logs(a + b)[0]
        return float((a - 1) * z.ln() + (b - 1) * (1 - z).ln() - log_beta)


def test_the_exact_oracle_is_right():
    assert float(gamma_logs(Decimal(7))[0]) == pytest.approx(np.log(720), rel=1e-15)
    assert float(gamma_logs(Decimal(1))[1]) == pytest.approx(-np.euler_gamma, rel=1e-15)


class TestParameters:
    def test_broadcast_to_one_shape_as_float64(self):
        theta = Beta(np.ones((3, 1), np.float32), [1, 2])
        assert theta.alpha.shape == theta.beta.shape == (3, 2)
        assert theta.alpha.dtype == theta.beta.dtype == np.float64

    def test_cannot_be_changed_from_outside(self):
        given_alpha = np.array([1.0, 2.0])
        theta = Beta(given_alpha, 1.0)
        given_alpha[0] = -5
        assert theta.alpha[0] == 1
        with pytest.raises(ValueError, match="read-only"):
            theta.alpha[0] = 3
        with pytest.raises(FrozenInstanceError):
            theta.alpha = given_alpha

    @pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
    def test_must_be_finite_and_positive(self, bad):
        with raises_code("not-positive") as caught:
            Beta(bad, 1.0)
        assert re.search(rf"^alpha .* got {bad}$", str(caught.value))
        with raises_code("not-positive") as caught:
            Beta(1.0, [[1.0], [bad]])
        assert re.search(rf"^beta .* got {bad} at index \(1, 0\)$", str(caught.value))

    @pytest.mark.parametrize(
        ("make", "code", "named"),
        [
            (lambda: Beta.from_mean(1.0, 3.0), "mean-out-of-range", "mean .* got 1.0"),
            (lambda: Beta.from_mean(0.5, np.nan), "not-positive", "confidence .* got nan"),
            (lambda: Beta.from_moments(0.5, 0.0), "not-positive", "variance .* got 0.0"),
            (lambda: Beta(1.0, 1.0).cdf(1.5), "outside-unit-interval", "x .* got 1.5"),
            (lambda: Beta(1.0, 1.0).quantile(np.nan), "outside-unit-interval", "p .* got nan"),
            (lambda: Beta(1.0, 1.0).log_density(-0.1), "outside-unit-interval", "x .* got -0.1"),
            (lambda: Beta(1.0, 1.0).log_density(0.5, rest=0.4), "not-complementary", "got 0.9"),
            (lambda: Beta(1.0, 1.0).interval(1.0), "level-out-of-range", "level .* not 1.0"),
        ],
    )
    def test_mistakes_are_named(self, make, code, named):
        with raises_code(code) as caught:
            make()
        assert re.search(named, str(caught.value))

    @given(PARAMETER, PARAMETER)
    def test_moments_are_those_of_scipy(self, a, b):
        theta, oracle = Beta(a, b), stats.beta(a, b)
        np.testing.assert_allclose(theta.mean, oracle.mean(), rtol=1e-14)
        np.testing.assert_allclose(theta.variance, oracle.var(), rtol=1e-13)
        np.testing.assert_allclose(theta.sd**2, theta.variance, rtol=1e-14)
        assert theta.confidence == a + b

    @given(st.floats(1e-6, 1 - 1e-6), PARAMETER)
    def test_mean_and_confidence_come_back(self, mean, confidence):
        theta = Beta.from_mean(mean, confidence)
        np.testing.assert_allclose(theta.mean, mean, rtol=1e-9)
        np.testing.assert_allclose(theta.confidence, confidence, rtol=1e-14)
        again = Beta.from_moments(theta.mean, theta.variance)
        # 1 - mean and ratio - 1 keep the digits of 1, not of what they leave
        rounding = 8 * EPS / (1 - mean) * (1 + 1 / confidence)
        np.testing.assert_allclose(again.alpha, theta.alpha, rtol=rounding)
        np.testing.assert_allclose(again.beta, theta.beta, rtol=rounding)

    def test_a_variance_no_distribution_has_is_cut(self):
        theta = Beta.from_moments([0.2, 0.2], [0.16, 0.3])
        np.testing.assert_allclose(theta.mean, 0.2)
        assert (theta.variance < 0.16).all()
        np.testing.assert_allclose(theta.variance, 0.16, rtol=1e-5)


class TestDensity:
    @given(PARAMETER, PARAMETER, PROBABILITY)
    def test_against_exact_arithmetic(self, a, b, p):
        x = min(max(float(special.betaincinv(a, b, p)), 1e-300), 1 - EPS)
        terms = abs((a - 1) * np.log(x)) + abs((b - 1) * np.log1p(-x)) + abs(special.betaln(a, b))
        got = Beta(a, b).log_density(x)
        # no formula with logarithms in it can do better than rounding of its terms
        np.testing.assert_allclose(
            got, exact_log_density(a, b, x), rtol=0, atol=8 * EPS * (terms + 1)
        )

    def test_integrates_to_one(self):
        for a, b in [(2.5, 0.7), (40, 3), (0.5, 0.5)]:
            theta = Beta(a, b)
            total, error = integrate.quad(lambda x, t=theta: np.exp(t.log_density(x)), 0, 1)
            assert total == pytest.approx(1, abs=max(10 * error, 1e-12))

    def test_near_one_with_the_rest_given(self):
        """f(1 - r) of Beta(a, b) is f(r) of Beta(b, a), also where 1 - r rounds to 1."""
        rest = np.array([1e-300, 1e-30, 1e-10, 0.3, 0.7])
        got = Beta(7.0, 0.01).log_density(1 - rest, rest=rest)
        np.testing.assert_allclose(got, Beta(0.01, 7.0).log_density(rest), rtol=1e-14)
        assert np.isposinf(Beta(7.0, 0.01).log_density(1.0)), "without it, 1 is the end"
        sharp = Beta(1e6, 0.01).log_density(1 - rest[:3], rest=rest[:3])
        np.testing.assert_allclose(sharp, Beta(0.01, 1e6).log_density(rest[:3]), rtol=1e-14)

    def test_from_logarithms_of_what_underflows(self):
        """Beta(a, 1) has density a x^(a-1): its log is linear in log x, however small x is."""
        log_x = np.array([-5000.0, -1000.0, -1.0])
        log_rest = np.log1p(-np.exp(log_x))
        got = Beta(1e-3, 1.0).log_density_from_logs(log_x, log_rest)
        np.testing.assert_allclose(got, np.log(1e-3) + (1e-3 - 1) * log_x, rtol=1e-13)

    def test_at_the_ends(self):
        a = np.array([0.5, 1.0, 2.0])
        np.testing.assert_allclose(Beta(a, 3.0).log_density(0.0), [np.inf, np.log(3), -np.inf])
        np.testing.assert_allclose(Beta(3.0, a).log_density(1.0), [np.inf, np.log(3), -np.inf])

    def test_broadcasts_over_parameters(self):
        x = np.linspace(0.1, 0.9, 5)[:, None]
        got = Beta([2.0, 3.0], [4.0, 1.0]).log_density(x)
        np.testing.assert_allclose(got, stats.beta.logpdf(x, [2, 3], [4, 1]), rtol=1e-12)


class TestEntropy:
    @given(PARAMETER, PARAMETER)
    def test_against_exact_arithmetic(self, a, b):
        expected = exact_log_beta_and_entropy(a, b)[1]
        assert abs(Beta(a, b).entropy() - expected) < 5e-14 * max(1, abs(expected))

    def test_where_the_series_takes_over(self):
        """Every term of it counts at 10: one left out or wrong by 1 % shows."""
        for b in (10.0, 10.5):
            exact = exact_log_beta_and_entropy(10.0, b)[1]
            assert abs(Beta(10.0, b).entropy() - exact) < 3e-15

    def test_the_paper_s_formula_cancels_and_this_does_not(self):
        """Negative control: evaluated as printed it would fail the tolerance above by far."""
        a, b = 3e5, 7e5
        printed = (
            special.betaln(a, b)
            - (a - 1) * special.digamma(a)
            - (b - 1) * special.digamma(b)
            + (a + b - 2) * special.digamma(a + b)
        )
        exact = exact_log_beta_and_entropy(a, b)[1]
        assert abs(printed - exact) > 1e-11
        assert abs(Beta(a, b).entropy() - exact) < 1e-14

    @pytest.mark.parametrize(("a", "b"), [(0.7, 2.0), (1.0, 1.0), (5.0, 30.0), (300.0, 200.0)])
    def test_against_integration_and_scipy(self, a, b):
        def integrand(x):
            log_f = stats.beta.logpdf(x, a, b)
            return -np.exp(log_f) * log_f

        low, high = stats.beta.ppf([1e-14, 1 - 1e-14], a, b)
        integral = integrate.quad(integrand, low, high, limit=200)[0]
        entropy = Beta(a, b).entropy()
        assert entropy == pytest.approx(integral, abs=1e-8)
        assert entropy == pytest.approx(stats.beta.entropy(a, b), abs=1e-11)

    def test_tends_to_the_gaussian_s(self):
        """H - log(2 pi e variance) / 2 vanishes like 1 / nu."""
        nu = 10.0 ** np.arange(2, 9)
        theta = Beta.from_mean(0.3, nu)
        gap = theta.entropy() - 0.5 * np.log(2 * np.pi * np.e * theta.variance)
        # delta = 1/(12x) and eta = 1/(12x^2) to first order; 1/2 from nu + 1 in the variance
        constant = (1 / 6 - 1 / 2) * (1 / 0.3 + 1 / 0.7) + (1 - 1 / 6) + 1 / 2
        np.testing.assert_allclose(gap[2:-2] * nu[2:-2], constant, rtol=1e-3)
        assert (np.abs(gap) < 3 / nu + 1e-14).all()


class TestQuantiles:
    @given(PARAMETER, PARAMETER, PROBABILITY)
    def test_quantile_inverts_cdf(self, a, b, p):
        """To one step of x in float64; scipy's inverse may stop 1e-7 early at a parameter of 1000."""
        theta = Beta(a, b)
        x = theta.quantile(p)
        before = theta.cdf(np.nextafter(x, 0)) if x > UNDERFLOWS else 0
        assert before - 1e-6 <= p <= theta.cdf(max(np.nextafter(x, 1), UNDERFLOWS)) + 1e-6

    @pytest.mark.parametrize("other", [1e-3, 1.0, 1000.5, 1e7])
    def test_parameters_of_ten_million(self, other):
        p = np.linspace(0.01, 0.99, 25)
        theta = Beta(other, 1e7)
        x = theta.quantile(p)
        seen = x > UNDERFLOWS
        np.testing.assert_allclose(theta.cdf(x[seen]), p[seen], atol=1e-9)
        np.testing.assert_allclose(Beta(1e7, other).quantile(1 - p), 1 - x, atol=1e-15)

    def test_gaussian_limit(self):
        p = np.array([0.05, 0.5, 0.95])
        got = (Beta(1e7, 1e7).quantile(p) - 0.5) / Beta(1e7, 1e7).sd
        np.testing.assert_allclose(got, stats.norm.ppf(p), atol=1e-6)

    def test_closed_forms(self):
        p = np.array([0.0, 0.3, 0.6, 1.0])
        np.testing.assert_allclose(Beta(1e-3, 1.0).quantile(p), p**1000, rtol=1e-10)
        assert Beta(1e-3, 1.0).quantile(0.3) == 0, "0.3^1000 is below the least float64"
        np.testing.assert_allclose(Beta(1.0, 50.0).cdf(p), 1 - (1 - p) ** 50, rtol=1e-14)
        binomial = sum(comb(7, k) * 0.3**k * 0.7 ** (7 - k) for k in range(3, 8))
        assert Beta(3.0, 5.0).cdf(0.3) == pytest.approx(binomial, rel=1e-13)

    def test_interval_is_central(self):
        theta = Beta([2.0, 30.0], [5.0, 0.4])
        low, high = theta.interval(0.8)
        np.testing.assert_allclose(low, stats.beta.ppf(0.1, theta.alpha, theta.beta), rtol=1e-12)
        np.testing.assert_allclose(high, stats.beta.ppf(0.9, theta.alpha, theta.beta), rtol=1e-12)
        np.testing.assert_allclose(theta.interval(), theta.interval(0.9))


def logit_cdf(alpha: float, beta: float):
    """P(logit X <= t), exact for any t: below x = 1e-300, F(x) = x^alpha / (alpha B) to rounding."""

    def lower(log_x, a, b):
        leading = a * np.minimum(log_x, -690) - np.log(a) - special.betaln(a, b)
        return np.where(log_x < -690, np.exp(leading), special.betainc(a, b, np.exp(log_x)))

    def cdf(t):
        below = lower(special.log_expit(np.minimum(t, 0)), alpha, beta)
        above = lower(special.log_expit(-np.maximum(t, 0)), beta, alpha)
        return np.where(t < 0, below, 1 - above)

    return cdf


class TestSampling:
    @pytest.mark.parametrize(
        ("a", "b"), [(1e-3, 1e-3), (1e-3, 2.0), (0.5, 1e-3), (0.3, 0.8), (4.0, 2.0), (3e4, 1e6)]
    )
    def test_draws_have_the_distribution(self, a, b):
        """Kolmogorov-Smirnov on logits; a right sampler fails once in 10,000 seeds a case."""
        log_x, log_rest = Beta(a, b).sample_logs(np.random.default_rng(5), 20_000)
        logits = log_x - log_rest
        assert np.isfinite(logits).all()
        assert stats.kstest(logits, logit_cdf(a, b)).pvalue > 1e-4
        # a fifth more of the smaller parameter, or of its standard deviation, must be seen
        more = 0.2 * min(a, b, min(a, b) ** 0.5)
        wrong = (a + more, b) if a <= b else (a, b + more)
        assert stats.kstest(logits, logit_cdf(*wrong)).pvalue < 1e-6

    def test_logarithms_belong_together(self):
        log_x, log_rest = Beta([1e-3, 5.0, 1e6], 0.7).sample_logs(np.random.default_rng(0), 500)
        np.testing.assert_allclose(np.logaddexp(log_x, log_rest), 0, atol=1e-14)
        # log x keeps its digits where x is next to 1, as expm1 shows
        np.testing.assert_allclose(-np.expm1(log_x), np.exp(log_rest), rtol=1e-12)

    def test_moments(self):
        """Mean and variance within 4.5 standard errors: fails once in 20,000 seeds."""
        theta, draws = Beta([0.2, 3.0, 50.0], [0.9, 1.5, 400.0]), 50_000
        x = theta.sample(np.random.default_rng(3), draws)
        squares = (x - theta.mean) ** 2
        assert (np.abs(x.mean(0) - theta.mean) < 4.5 * theta.sd / draws**0.5).all()
        assert (np.abs(squares.mean(0) - theta.variance) < 4.5 * squares.std(0) / draws**0.5).all()
        wrong = Beta.from_mean(theta.mean * 1.05, theta.confidence)
        assert (np.abs(x.mean(0) - wrong.mean) > 4.5 * theta.sd / draws**0.5).all()

    def test_shapes_seeds_and_range(self):
        theta = Beta(np.full((2, 3), 1e-3), 1.0)
        assert theta.sample(np.random.default_rng(0)).shape == (2, 3)
        assert theta.sample(np.random.default_rng(0), 4).shape == (4, 2, 3)
        x = theta.sample(np.random.default_rng(0), (5, 4))
        assert x.shape == (5, 4, 2, 3)
        assert ((x >= 0) & (x <= 1)).all()
        assert len(np.unique(theta.sample_logs(np.random.default_rng(0), (5, 4))[0])) == x.size
        np.testing.assert_array_equal(x, theta.sample(np.random.default_rng(0), (5, 4)))


def test_examples_in_docstrings():
    result = doctest.testmod(epiclick.beta)
    assert result.attempted >= 8
    assert result.failed == 0


def test_needs_numpy_and_scipy_only():
    code = """
import sys, epiclick.beta
print([m for m in ('jax', 'pandas', 'pyarrow', 'ibis', 'sklearn') if m in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_is_a_public_name():
    assert epiclick.Beta is Beta


class TestEntropySlope:
    GRID = np.array([1e-3, 0.05, 0.5, 1.0, 2.0, 7.0, 10.0, 40.0, 1e3, 1e6])

    def test_against_exact_arithmetic(self) -> None:
        alpha, beta = (axis.ravel() for axis in np.meshgrid(self.GRID, self.GRID))
        with mpmath.workdps(50):
            expected = [float(self.exact(a, b)) for a, b in zip(alpha, beta, strict=True)]
            mirrored = [float(self.exact(b, a)) for a, b in zip(alpha, beta, strict=True)]
        by_alpha, by_beta = entropy_slope(alpha, beta)
        np.testing.assert_allclose(by_alpha, expected, rtol=2e-13, atol=1e-14)
        np.testing.assert_allclose(by_beta, mirrored, rtol=2e-13, atol=1e-14)

    @staticmethod
    def exact(alpha: float, beta: float) -> mpmath.mpf:
        a, b = mpmath.mpf(alpha), mpmath.mpf(beta)
        return -(a - 1) * mpmath.psi(1, a) + (a + b - 2) * mpmath.psi(1, a + b)

    @given(PARAMETER, PARAMETER)
    def test_against_differences_of_entropies(self, a: float, b: float) -> None:
        step = 1e-4
        up, down = np.exp(step), np.exp(-step)
        by_alpha, by_beta = entropy_slope(np.array([a]), np.array([b]))
        for own, move in (
            (a * by_alpha[0], (Beta(up * a, b), Beta(down * a, b))),
            (b * by_beta[0], (Beta(a, up * b), Beta(a, down * b))),
        ):
            change = (move[0].entropy() - move[1].entropy()) / (2 * step)
            size = 1 + 1 / min(a, b, 1)  # of entropies, and of their third derivatives
            assert abs(own - change) < 1e-7 * size
