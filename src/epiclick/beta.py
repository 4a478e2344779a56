"""Beta distributions, of relevances and position biases, with numpy and scipy alone."""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from epiclick.arguments import as_numbers, check_level, shown
from epiclick.errors import InputError

LEAST_CONFIDENCE = 1e-6  # alpha + beta of the widest distribution that moments are matched with
STIRLING_FROM = 10.0  # seven terms of Stirling's series are exact to 4e-16 from here on
_K = np.arange(1, 8)
_BERNOULLI = np.array([1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6])  # B_2k


@dataclass(frozen=True, eq=False)
class Beta:
    """Beta distributions, one per element of the parameter arrays.

    Attributes:
        alpha: first parameters, above 0; a read-only float64 array of any shape.
        beta: second parameters, above 0; of the same shape.

    >>> theta = Beta([8.0, 2.0], [2.0, 2.0])
    >>> theta.mean
    array([0.8, 0.5])
    """

    alpha: np.ndarray
    beta: np.ndarray

    def __post_init__(self) -> None:
        """Copy, broadcast and check the parameters."""
        alpha, beta = as_numbers("alpha", self.alpha), as_numbers("beta", self.beta)
        try:
            parameters = np.broadcast_arrays(alpha, beta)
        except ValueError as error:
            raise InputError(
                f"alpha and beta must have one shape, not {alpha.shape} and {beta.shape}",
                code="shape-mismatch",
            ) from error
        for name, values in zip(("alpha", "beta"), parameters, strict=True):
            _check_positive(name, values)
            object.__setattr__(self, name, values.copy())
            getattr(self, name).flags.writeable = False

    @classmethod
    def from_mean(cls, mean: ArrayLike, confidence: ArrayLike) -> "Beta":
        r"""Betas with the given mean and confidence (paper, section 6).

        .. math:: \alpha = \mu\nu, \quad \beta = (1 - \mu)\nu

        >>> Beta.from_mean(0.25, 8)
        Beta(alpha=array(2.), beta=array(6.))
        """
        mu, nu = as_numbers("mean", mean), as_numbers("confidence", confidence)
        inside = (mu > 0) & (mu < 1)
        _check("mean must lie strictly between 0 and 1", mu, inside, "mean-out-of-range")
        _check_positive("confidence", nu)
        return cls(mu * nu, (1 - mu) * nu)

    @classmethod
    def from_moments(cls, mean: ArrayLike, variance: ArrayLike) -> "Beta":
        r"""Betas with the given mean and variance.

        .. math:: \nu = \mu (1 - \mu) / \sigma^2 - 1

        No distribution on [0, 1] has a variance above mu (1 - mu): larger ones are clipped to just
        below it.

        >>> Beta.from_moments(0.5, 0.05)
        Beta(alpha=array(2.), beta=array(2.))
        """
        mu, sigma2 = as_numbers("mean", mean), as_numbers("variance", variance)
        _check("variance must be above 0", sigma2, sigma2 > 0, "not-positive")
        return cls.from_mean(mu, np.maximum(mu * (1 - mu) / sigma2 - 1, LEAST_CONFIDENCE))

    @property
    def mean(self) -> np.ndarray:
        """mu = alpha / (alpha + beta)."""
        return self.alpha / self.confidence

    @property
    def confidence(self) -> np.ndarray:
        """nu = alpha + beta."""
        return self.alpha + self.beta

    @property
    def variance(self) -> np.ndarray:
        """mu (1 - mu) / (nu + 1)."""
        nu = self.confidence
        return (self.alpha / nu) * (self.beta / nu) / (nu + 1)

    @property
    def sd(self) -> np.ndarray:
        """Standard deviation."""
        return np.sqrt(self.variance)

    def log_density(self, x: ArrayLike, *, rest: ArrayLike | None = None) -> np.ndarray:
        """log f(x); x broadcasts against the parameters.

        Args:
            x: in [0, 1].
            rest: 1 - x, where the caller knows it more accurately than the difference (x near 1).

        >>> float(np.exp(Beta(2.0, 1.0).log_density(0.3)).round(12))
        0.6
        """
        x = _unit_interval("x", x)
        rest = 1 - x if rest is None else _unit_interval("rest", rest)
        total = x + rest
        _check("x and rest must add to 1", total, np.abs(total - 1) < 1e-6, "not-complementary")
        # the smaller of the two is the more accurate: take both logarithms from it
        with np.errstate(divide="ignore"):
            log_x = np.where(x < 0.5, np.log(x), np.log1p(-rest))
            log_rest = np.where(x < 0.5, np.log1p(-x), np.log(rest))
        return self.log_density_from_logs(log_x, log_rest)

    def log_density_from_logs(self, log_x: ArrayLike, log_rest: ArrayLike) -> np.ndarray:
        """(alpha - 1) log x + (beta - 1) log(1 - x) - log B, also for an x that underflows."""
        a, b = self.alpha, self.beta
        # at an end of [0, 1] a logarithm is infinite; a factor of 0 must still cancel it
        from_x = (a - 1) * np.where(a == 1, 0.0, log_x)
        from_rest = (b - 1) * np.where(b == 1, 0.0, log_rest)
        return from_x + from_rest - _log_beta_function(a, b)

    def entropy(self) -> np.ndarray:
        r"""Differential entropy (paper, section 4.2), without the usual formula's cancellation.

        .. math:: H = \log B(\alpha, \beta) - (\alpha - 1) \psi(\alpha) - (\beta - 1) \psi(\beta)
                  + (\nu - 2) \psi(\nu), \quad \nu = \alpha + \beta

        With log-gamma and digamma written as Stirling's leading terms plus the remainders delta and
        eta, every term that grows with nu cancels analytically, which leaves the Gaussian limit and
        small corrections:

        .. math:: H = \tfrac12 \log \frac{2 \pi e\, \alpha \beta}{\nu^3} - \frac{1}{2 \alpha}
                  - \frac{1}{2 \beta} + \frac{1}{\nu} + g_1(\alpha) + g_1(\beta) - g_2(\nu),
                  \quad g_c(x) = \delta(x) + (x - c)\, \eta(x)

        >>> float(Beta(1.0, 1.0).entropy().round(12))
        0.0
        """
        a, b, nu = self.alpha, self.beta, self.confidence
        gaussian = 0.5 * (np.log(2 * np.pi) + 1 + np.log(a) + np.log(b) - 3 * np.log(nu))
        (delta_a, eta_a), (delta_b, eta_b), (delta, eta) = map(_stirling_remainders, (a, b, nu))
        return (
            gaussian
            + (delta_a + (a - 1) * eta_a - 0.5 / a)
            + (delta_b + (b - 1) * eta_b - 0.5 / b)
            - (delta + (nu - 2) * eta - 1 / nu)
        )

    def cdf(self, x: ArrayLike) -> np.ndarray:
        """P(X <= x); x broadcasts against the parameters."""
        return scipy.special.betainc(self.alpha, self.beta, _unit_interval("x", x))

    def quantile(self, p: ArrayLike) -> np.ndarray:
        """The x with cdf(x) = p; p broadcasts against the parameters."""
        return scipy.special.betaincinv(self.alpha, self.beta, _unit_interval("p", p))

    def interval(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """(low, high) of the central interval that contains a probability of `level`.

        >>> low, high = Beta(1.0, 1.0).interval(0.9)
        >>> print(low.round(3), high.round(3))
        0.05 0.95
        """
        check_level("level", level)
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    def sample_logs(
        self, rng: np.random.Generator, size: int | tuple[int, ...] = ()
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draws of (log X, log(1 - X)), (*size, *shape) each; accurate for small parameters too.

        X = A / (A + B) with A ~ Gamma(alpha), B ~ Gamma(beta), so logit X = log A - log B.
        """
        logit = self._sample_logit(rng, size)
        return scipy.special.log_expit(logit), scipy.special.log_expit(-logit)

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...] = ()) -> np.ndarray:
        """Draws, (*size, *shape); those nearest to 0 and 1 are rounded to them."""
        return scipy.special.expit(self._sample_logit(rng, size))

    def _sample_logit(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> np.ndarray:
        if not isinstance(rng, np.random.Generator):
            raise InputError(
                f"rng must be numpy.random.default_rng(seed), not {shown(rng)}", code="invalid-rng"
            )
        shape = (*(size if isinstance(size, tuple) else (size,)), *self.alpha.shape)
        return _draw_log_gamma(rng, self.alpha, shape) - _draw_log_gamma(rng, self.beta, shape)


def _stirling_remainders(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Remainders of Stirling's leading terms of log-gamma and digamma: delta and eta, like x.

    .. math:: \log\Gamma(x) = (x - \tfrac12) \log x - x + \tfrac12 \log 2\pi + \delta(x),
              \quad \psi(x) = \log x - \frac{1}{2x} - \eta(x)
    """
    small, large = np.minimum(x, STIRLING_FROM), np.maximum(x, STIRLING_FROM)
    t = (1 / large) ** 2
    delta = np.polyval((_BERNOULLI / (2 * _K * (2 * _K - 1)))[::-1], t) / large
    eta = np.polyval((_BERNOULLI / (2 * _K))[::-1], t) * t
    leading = (small - 0.5) * np.log(small) - small + 0.5 * np.log(2 * np.pi)
    near = x < STIRLING_FROM
    return (
        np.where(near, scipy.special.gammaln(small) - leading, delta),
        np.where(near, np.log(small) - 0.5 / small - scipy.special.digamma(small), eta),
    )


def _log_beta_function(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """log B(a, b) from ratios to a + b, as differences of large log-gammas lose accuracy."""
    delta_a, delta_b, delta = (_stirling_remainders(x)[0] for x in (a, b, a + b))
    ratios = (0.5 - a) * np.log1p(b / a) + (0.5 - b) * np.log1p(a / b)
    return ratios + 0.5 * (np.log(2 * np.pi) - np.log(a + b)) + delta_a + delta_b - delta


def _draw_log_gamma(rng: np.random.Generator, a: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Logarithms of Gamma(a) draws: of Gamma(a + 1) U^(1/a), which cannot underflow."""
    return np.log(rng.standard_gamma(a + 1, shape)) - rng.standard_exponential(shape) / a


def _unit_interval(name: str, values: ArrayLike) -> np.ndarray:
    """The values as float64, required to lie in [0, 1]."""
    array = as_numbers(name, values)
    inside = (array >= 0) & (array <= 1)
    _check(f"{name} must lie in [0, 1]", array, inside, "outside-unit-interval")
    return array


def _check_positive(name: str, values: np.ndarray) -> None:
    good = (values > 0) & np.isfinite(values)
    _check(f"{name} must be finite and above 0", values, good, "not-positive")


def _check(rule: str, values: np.ndarray, good: np.ndarray, code: str) -> None:
    """Raise InputError with the first offender unless all values are good."""
    if not np.all(good):
        first = tuple(np.argwhere(~good)[0].tolist())
        where = f" at index {first}" if first else ""
        raise InputError(f"{rule}, got {values[first]}{where}", code=code)


def entropy_slope(alpha: np.ndarray, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Derivatives of the differential entropy of Betas in their two parameters.

    .. math:: \frac{\partial H}{\partial \alpha} = (\nu - 2) \psi'(\nu)
              - (\alpha - 1) \psi'(\alpha), \quad \nu = \alpha + \beta
    """
    total = alpha + beta
    both = (total - 2) * scipy.special.polygamma(1, total)
    by_alpha, by_beta = (
        both - (each - 1) * scipy.special.polygamma(1, each) for each in (alpha, beta)
    )
    return by_alpha, by_beta
