"""Pairs whose unattractive items are clicked too, and their integrals over relevance at 30 digits."""

from functools import cache
from itertools import pairwise

import mpmath
import numpy as np
from mpmath import mp, mpf

from epiclick.click_models.click_model import Emission

A = np.array([1.0, 0.7, 0.3, 0.15])  # the first is an anchor
B = np.array([0.05, 0.2, 0.0, 0.01])  # in the third, unattractive items are never clicked
EMISSION = Emission(A, 1 - A, B, 1 - B)

FEW = [
    # alpha, beta, clicks, unclicked
    (0.7, 1.8, (0, 0, 0, 0), (1, 0, 2, 0)),
    (0.02, 0.05, (1, 0, 0, 0), (0, 0, 0, 0)),
    (3.0, 0.5, (1, 2, 1, 0), (3, 0, 2, 1)),
    (1.2, 4.0, (0, 0, 2, 1), (5, 4, 0, 2)),
    (40.0, 9.0, (4, 3, 0, 0), (0, 1, 3, 4)),
]
HEADS = [
    (0.7, 1.8, (0, 0, 0, 0), (40, 0, 100_000, 9)),
    (0.05, 0.3, (3, 0, 1, 0), (60, 700, 40, 3)),
    (1.5, 2.5, (30_000, 9_000, 4_000, 0), (40_000, 11_000, 6_000, 0)),
    (0.3, 2.0, (0, 9_000, 0, 900), (0, 40_000, 0, 90_000)),
    (1e-3, 1e-3, (20, 0, 0, 1), (900, 0, 0, 1)),
]


@cache
def reference(pair: tuple) -> tuple[float, np.ndarray, float, float]:
    """Log-likelihood, its gradient (A, B, alpha, beta), mean and variance, by Gauss-Legendre."""
    alpha, beta, clicks, unclicked = pair
    with mp.workdps(30):
        a, b = mpf(alpha), mpf(beta)
        big, small = [mpf(x) for x in A], [mpf(x) for x in B]

        def parts(u):
            odds = mp.exp(u)
            z, other = odds / (1 + odds), 1 / (1 + odds)
            p = [x * z + y * other for x, y in zip(big, small, strict=True)]
            log_f = a * mp.log(z) + b * mp.log(other)
            for click, m, w in zip(p, clicks, unclicked, strict=True):
                log_f += (m * mp.log(click) if m else 0) + (w * mp.log(1 - click) if w else 0)
            return z, other, p, log_f

        grid = [mpf(u) / 8 for u in range(-400, 401)]
        peak = max(grid, key=lambda u: parts(u)[3])
        low, high = peak - mpf(1) / 8, peak + mpf(1) / 8
        for _ in range(80):  # of one peak
            left, right = low + (high - low) / 3, high - (high - low) / 3
            low, high = (left, high) if parts(left)[3] < parts(right)[3] else (low, right)
        top = parts(low)[3]
        width = 1 / mp.sqrt(max(-mp.diff(lambda u: parts(u)[3], low, 2), mpf(10) ** -4))
        near = [low + min(width, 1) * step for step in range(-12, 13, 2)]
        far = [mpf(2) ** step for step in range(0, 17)]
        bends = [mpf(step) for step in range(-12, 13, 2)]
        ends = sorted({*near, *bends, *(low - x for x in far), *(low + x for x in far)})
        rule = mpmath.calculus.quadrature.GaussLegendre(mp).calc_nodes(4, mp.prec)
        total, moments = mpf(0), [mpf(0)] * 12
        for start, end in pairwise(ends):
            half, middle = (end - start) / 2, (end + start) / 2
            if max(parts(x)[3] for x in (start, middle, end)) < top - 120 and start > -60:
                continue
            for x, weight in rule:
                z, other, p, log_f = parts(middle + half * x)
                mass = weight * half * mp.exp(log_f - top)
                total += mass
                by_p = [
                    (m / click if m else 0) - (w / (1 - click) if w else 0)
                    for click, m, w in zip(p, clicks, unclicked, strict=True)
                ]
                values = [*(s * z for s in by_p), *(s * other for s in by_p)]
                values += [mp.log(z), mp.log(other), z, z**2]
                moments = [old + mass * v for old, v in zip(moments, values, strict=True)]
        moments = [each / total for each in moments]
        *slopes, log_z, log_other, mean, square = moments
        both = mp.digamma(a + b)
        slopes += [log_z - mp.digamma(a) + both, log_other - mp.digamma(b) + both]
        log_beta = mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)
        value = mp.log(total) + top - log_beta
        return float(value), np.array(slopes, float), float(mean), float(square - mean**2)


def columns(pairs: list[tuple]) -> list[np.ndarray]:
    """alpha, beta (pairs,) and clicks, unclicked (pairs, contexts)."""
    return [np.array([pair[i] for pair in pairs], float) for i in range(4)]


def orders(pairs: list[tuple], width: int = 16) -> np.ndarray:
    """Every display, clicks coded after the contexts."""
    rows = [np.r_[np.repeat(np.arange(4), w), np.repeat(np.arange(4, 8), m)] for *_, m, w in pairs]
    return np.array([np.r_[row, np.full(width - len(row), -1)] for row in rows]).astype(int)
