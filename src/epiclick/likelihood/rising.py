r"""Rising factorials and beta functions without cancellation, with their first derivatives.

.. math:: \log (x)_n = \log\Gamma(x + n) - \log\Gamma(x)

The difference of two log-gammas loses all digits that they share. Here both are shifted up by the
recurrence, and Stirling's series is subtracted term by term. `traced.expansion` has the same for
jax.
"""

import numpy as np

SHIFT = 8
"""Steps of the recurrence before Stirling's series, which is then accurate to 1e-16."""


LEAST_SHAPE = 1e-290
"""Below it, products of four factors underflow. A search may try such parameters of a Beta."""


def log_rising(x: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Logarithm of the rising factorial (x)_n, x > 0, for real n >= 0."""
    x = np.maximum(x, LEAST_SHAPE)
    lower, upper = np.ones_like(x + n), np.ones_like(x + n)
    shifted = np.zeros_like(lower)
    for i in range(SHIFT):
        lower *= x + i
        upper *= x + n + i
        if i % 4 == 3:  # products of four stay far from overflow, and need fewer logarithms
            shifted += np.log(lower / upper)
            lower[...], upper[...] = 1, 1
    z = x + SHIFT
    leading = n * np.log(z) + (z + n - 0.5) * np.log1p(n / z) - n
    return shifted + leading + _stirling(z + n) - _stirling(z)


def rising_slope(x: np.ndarray, n: np.ndarray) -> np.ndarray:
    r"""Its derivative in x, :math:`\psi(x + n) - \psi(x)`."""
    z = x + SHIFT
    ratio = n / z
    slope = np.log1p(ratio) + ratio / (2 * (z + n)) + _digamma_rest(z + n) - _digamma_rest(z)
    for i in range(SHIFT):
        slope += n / ((x + n + i) * (x + i))
    return slope


def rising_curve(x: np.ndarray, n: np.ndarray) -> np.ndarray:
    r"""Its second derivative in x, :math:`\psi'(x + n) - \psi'(x)`."""
    z = x + SHIFT
    curve = _trigamma(z + n) - _trigamma(z)
    for i in range(SHIFT):
        curve += 1 / (x + n + i) ** 2 - 1 / (x + i) ** 2
    return curve


def _trigamma(z: np.ndarray) -> np.ndarray:
    """Derivative of digamma, for z >= 8."""
    square = 1 / (z * z)
    series = 1 / 30 - square * (5 / 66 - square * (691 / 2730 - square * 7 / 6))
    series = 1 / 6 - square * (1 / 30 - square * (1 / 42 - square * series))
    return 1 / z + square / 2 + square * series / z


def log_beta(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """log B(a, b) = log Gamma(small) - log (large)_small, without cancellation."""
    small, large = np.minimum(a, b), np.maximum(a, b)
    log_gamma = log_rising(np.ones_like(small), small) - np.log(small)
    return log_gamma - log_rising(large, small)


def _digamma_rest(z: np.ndarray) -> np.ndarray:
    """What log z - 1 / (2 z) leaves of digamma, for z >= 8."""
    square = 1 / (z * z)
    series = 1 / 132 - square * (691 / 32_760 - square / 12)
    series = 1 / 252 - square * (1 / 240 - square * series)
    return -square * (1 / 12 - square * (1 / 120 - square * series))


def _stirling(z: np.ndarray) -> np.ndarray:
    """Remainder of Stirling's formula for log-gamma, for z >= 8."""
    square = 1 / (z * z)
    series = 1 / 1188 - square * (691 / 360_360 - square / 156)
    series = 1 / 1260 - square * (1 / 1680 - square * series)
    return (1 / 12 - square * (1 / 360 - square * series)) / z
