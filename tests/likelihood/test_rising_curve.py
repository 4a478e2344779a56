"""The second derivative of the rising factorial, against mpmath."""

import mpmath
import numpy as np

from epiclick.likelihood.rising import rising_curve


def test_second_derivative_is_a_difference_of_trigammas() -> None:
    x = np.array([1e-3, 0.2, 1.0, 3.7, 40.0, 1e4])
    for n in (0.0, 1.0, 2.5, 17.0, 1e5):
        with mpmath.workdps(40):
            expected = [
                float(mpmath.psi(1, mpmath.mpf(float(v)) + mpmath.mpf(n)) - mpmath.psi(1, float(v)))
                for v in x
            ]
        found = rising_curve(x, np.full_like(x, n))
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-14)
