"""The quadrature on hard pairs against composite Gauss-Legendre integration at 50 digits."""

from dataclasses import dataclass
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

from epiclick.click_models.click_model import Emission
from epiclick.likelihood.quadrature import (
    log_examined,
    quadrature_gradient,
    quadrature_log_likelihood,
    quadrature_moments,
)

from .hard_pairs import PAIRS, Pair

pytestmark = pytest.mark.slow

DIGITS = 50
LEVEL = 4  # 24 points per panel; 48 change nothing in the first 15 digits


@dataclass(frozen=True)
class Reference:
    """Log-likelihood, its gradient (theta, alpha, beta), mean and variance of relevance."""

    value: float
    gradient: np.ndarray
    mean: float
    variance: float


def integrate(pair: Pair) -> Reference:
    """By the definition, over u = logit(zeta), with panels that end at the mode and at bends."""
    with mp.workdps(DIGITS):
        rest = [mpf(r) for r in pair.rest]
        a, b, p = mpf(pair.alpha), mpf(pair.beta), mpf(pair.alpha) + sum(pair.clicks)
        ends = panel_ends(pair, rest, p, b)
        # of f: 1, log z, log(1 - z), z, z^2, and z / (1 - theta z) of each context
        moments = [mpf(0)] * (5 + len(rest))
        rule = mpmath.calculus.quadrature.GaussLegendre(mp).calc_nodes(LEVEL, mp.prec)
        for low, high in pairwise(ends):
            half, middle = (high - low) / 2, (high + low) / 2
            for x, weight in rule:
                u = middle + half * x
                odds = mp.exp(u)
                z, other = odds / (1 + odds), 1 / (1 + odds)
                log_z, log_other = mp.log(z), mp.log(other)
                unseen = [other + r * z for r in rest]
                log_f = p * log_z + b * log_other
                log_f += sum(w * mp.log(y) for w, y in zip(pair.unclicked, unseen, strict=True))
                mass = weight * half * mp.exp(log_f)
                parts = [1, log_z, log_other, z, z**2, *(z / y for y in unseen)]
                moments = [old + mass * part for old, part in zip(moments, parts, strict=True)]
        total, *others = moments
        log_z, log_other, mean, square, *quotients = [each / total for each in others]
        theta = [1 - r for r in rest]
        clicked = sum(m * mp.log(t) for m, t in zip(pair.clicks, theta, strict=True))
        log_beta = mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)
        gradient = [
            m / t - w * quotient
            for m, t, w, quotient in zip(pair.clicks, theta, pair.unclicked, quotients, strict=True)
        ]
        gradient += [
            log_z - mp.digamma(a) + mp.digamma(a + b),
            log_other - mp.digamma(b) + mp.digamma(a + b),
        ]
        return Reference(
            value=float(clicked + mp.log(total) - log_beta),
            gradient=np.array([float(g) for g in gradient]),
            mean=float(mean),
            variance=float(square - mean**2),
        )


def panel_ends(pair: Pair, rest: list, p, b) -> list:
    """Ends of panels: close at the mode, a logit apart around bends, doubling in the tails."""

    def slope(u):
        odds = mp.exp(u)
        pull = sum(w * (1 - r) / (1 + r * odds) for w, r in zip(pair.unclicked, rest, strict=True))
        return (p - odds * (b + pull)) / (1 + odds)

    low, high = mpf(-100), mpf(100)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    width = 1 / mp.sqrt(-mp.diff(slope, low))
    ends = [low + min(width, 1) * step for step in range(-12, 13, 2)]
    for bend in {mpf(0), -mp.log(p + b + sum(pair.unclicked)), *(-mp.log(r) for r in rest if r)}:
        ends += [bend + step for step in range(-4, 5, 2)]
    tails = [mpf(2) ** step for step in range(-1, 18)]
    return sorted({*ends, *(low + tail for tail in tails), *(low - tail for tail in tails)})


@pytest.mark.parametrize("name", PAIRS)
def test_hard_pairs(name: str) -> None:
    pair, reference = PAIRS[name], integrate(PAIRS[name])
    rest, clicks, unclicked = (np.array(part) for part in (pair.rest, pair.clicks, pair.unclicked))
    emission = Emission(1 - rest, rest)
    given = (emission, np.array([pair.alpha]), np.array([pair.beta]), clicks[None], unclicked[None])
    value = quadrature_log_likelihood(*given)[0]
    found = quadrature_gradient(*given)
    by_theta = clicks / emission.attractive - found.by_u[0]
    gradient = np.r_[by_theta, found.by_alpha, found.by_beta]
    mean, variance = quadrature_moments(*given)
    tolerance = 1e-9 * (1 + abs(reference.value))
    assert abs(value - reference.value) <= tolerance
    assert abs(log_examined(*given[::3]) + found.value - reference.value) <= tolerance
    assert np.all(abs(gradient - reference.gradient) <= 1e-6 * (1 + abs(reference.gradient)))
    assert mean[0] == pytest.approx(reference.mean, rel=1e-8)
    assert variance[0] == pytest.approx(reference.variance, rel=1e-7)


def test_the_reference_integrates_a_beta_to_one() -> None:
    """Without displays the likelihood is 1, its derivatives are 0, and the Beta is as it was."""
    a, b = 1e-3, 0.5
    reference = integrate(Pair((0.0,), a, b, (0,), (0,)))
    assert abs(reference.value) < 1e-15
    assert np.all(abs(reference.gradient) < 1e-13)
    assert reference.mean == pytest.approx(a / (a + b), rel=1e-14)
    assert reference.variance == pytest.approx(a * b / (a + b) ** 2 / (a + b + 1), rel=1e-14)
