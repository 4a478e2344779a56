r"""Pages that an experiment needs to detect a difference.

The mean of n pages is tested on both sides at significance alpha. With mu the expected mean and
sigma^2 the variance per page, the test finds the difference with the wanted power from

.. math:: n = (z_{1 - \alpha / 2} + z_{\text{power}})^2\, \sigma^2 / \mu^2

pages on. Where intervals are clustered by query, their squared standard error has a part that does
not fall with n: for shares w_q of the pages and means mu_q,

.. math:: \operatorname{se}^2 = \sigma^2 / n + S, \qquad S = \sum_q w_q^2 (\mu_q - \mu)^2,

while the mean itself, of the same queries, still varies by sigma^2 / n alone. n then solves
mu = z_{1 - alpha/2} sqrt(sigma^2/n + S) + z_power sigma / sqrt(n), if mu > z_{1 - alpha/2} sqrt(S).
"""

import numpy as np
from scipy import optimize, special


def pages_to_detect(
    mean: float, variance: float, power: float, significance: float, floor: float = 0.0
) -> float | None:
    """Pages after which a test finds a mean; None if no number of them is enough.

    Args:
        mean: expected per page.
        variance: per page.
        power: probability that the test is significant.
        significance: of the two-sided test.
        floor: S, what clustering adds to the squared standard error.
    """
    size, a, b = abs(mean), special.ndtri(1 - significance / 2), special.ndtri(power)
    rest = size**2 - a**2 * floor
    if rest <= 0:
        return None
    # the smaller root of (b^2 - a^2) s^2 - 2 b size s + rest = 0, s = sigma / sqrt(n)
    error = rest / (b * size + np.sqrt(b**2 * size**2 - (b**2 - a**2) * rest))
    return float(max(variance / error**2, 1.0))


def power_of(
    mean: np.ndarray, variance: float, pages: float, significance: float, floor: float = 0.0
) -> np.ndarray:
    """Probability that the test is significant in the direction of each mean, (means,)."""
    error = np.sqrt(variance / pages)
    least = special.ndtri(1 - significance / 2) * np.sqrt(error**2 + floor)
    return special.ndtr((np.abs(mean) - least) / error)


def variance_to_reach(difference: float, variance: float, sure: float, power: float) -> float:
    r"""Largest posterior variance with which new clicks settle a difference, with some power.

    New clicks reduce the variance from V to V_1. If the difference is as expected, its mean given
    all clicks varies by V_1 (1 - V_1 / V), and the lead has probability `sure` with the wanted
    power if

    .. math:: |\delta| \ge \sqrt{V_1}\,
              \big(z_{\text{sure}} + z_{\text{power}} \sqrt{1 - V_1 / V}\big).

    Args:
        difference: expected.
        variance: V, by what is known now.
        sure: probability of being better at which a ranker is preferred.
        power: at least 0.5.
    """
    lead, a, b = abs(difference) / np.sqrt(variance), special.ndtri(sure), special.ndtri(power)
    if lead >= a:
        return variance

    def excess(share: float) -> float:
        return float(np.sqrt(share) * (a + b * np.sqrt(1 - share)) - lead)

    # excess rises from -lead, and once positive stays so: there is one root
    return float(variance * optimize.brentq(excess, 0.0, 1.0, xtol=1e-14))
