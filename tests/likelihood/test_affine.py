"""Clicks on unattractive items: every kernel against integrals over relevance at 30 digits."""

from functools import cache
from itertools import pairwise

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.special import betaln

from epiclick.click_models.click_model import Emission
from epiclick.likelihood.closed_form import exact_log_likelihood, exact_posterior
from epiclick.likelihood.pairs import known_log_likelihoods, log_likelihoods, pair_log_likelihoods
from epiclick.likelihood.quadrature import quadrature_log_likelihood, quadrature_moments
from epiclick.likelihood.sampled import log_likelihood_of_samples
from epiclick.likelihood.tilting import tilted

pytestmark = pytest.mark.slow

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


def of_each(log_likelihood):
    """Values and gradients (A, B, alpha, beta) of pairs, each with an emission of its own."""

    def single(a, b, alpha, beta, *counts):
        emission = Emission(a, 1 - a, b, 1 - b)
        return log_likelihood(emission, alpha[None], beta[None], *(c[None] for c in counts))[0]

    def both(*pair):
        value, slopes = jax.value_and_grad(single, (0, 1, 2, 3))(A, B, *pair)
        return value, jnp.concatenate([jnp.atleast_1d(each) for each in slopes])

    return jax.jit(jax.vmap(both))


def check(found, pairs: list[tuple], tolerance: float) -> None:
    for value, gradient, pair in zip(*found, pairs, strict=True):
        expected, slopes, *_ = reference(pair)
        assert abs(value - expected) <= tolerance * (1 + abs(expected))
        np.testing.assert_allclose(gradient, slopes, rtol=1e3 * tolerance, atol=1e3 * tolerance)


def test_the_closed_form_of_few_displays() -> None:
    alpha, beta, clicks, _ = columns(FEW)
    found = of_each(exact_log_likelihood)(alpha, beta, clicks, orders(FEW))
    check(found, FEW, 1e-11)


@pytest.mark.parametrize("pairs", [FEW, HEADS], ids=["few", "heads"])
def test_the_quadrature(pairs: list[tuple]) -> None:
    check(of_each(quadrature_log_likelihood)(*columns(pairs)), pairs, 1e-9)
    mean, variance = jax.jit(quadrature_moments)(EMISSION, *columns(pairs))
    expected = np.array([reference(pair)[2:] for pair in pairs])
    np.testing.assert_allclose(mean, expected[:, 0], rtol=1e-8)
    np.testing.assert_allclose(variance, expected[:, 1], rtol=1e-7)


def test_taking_unattractive_items_as_never_clicked_would_be_noticed() -> None:
    """The control: without B all pairs with clicks disagree."""
    pairs = FEW[1:]
    own = jax.jit(quadrature_log_likelihood)(Emission(A, 1 - A), *columns(pairs))
    expected = np.array([reference(pair)[0] for pair in pairs])
    assert np.all(abs(own - expected) > 1e-3)


def test_the_mixture_has_the_moments_of_the_posterior() -> None:
    alpha, beta, clicks, _ = columns(FEW)
    weights, first, second = jax.jit(exact_posterior)(EMISSION, alpha, beta, clicks, orders(FEW))
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-12)
    means = first / (first + second)
    mean = (weights * means).sum(axis=1)
    spread = means * (1 - means) / (first + second + 1)
    variance = (weights * (spread + (means - mean[:, None]) ** 2)).sum(axis=1)
    expected = np.array([reference(pair)[2:] for pair in FEW])
    np.testing.assert_allclose(mean, expected[:, 0], rtol=1e-10)
    np.testing.assert_allclose(variance, expected[:, 1], rtol=1e-9)


def test_a_batch_of_few_displays_and_heads(make_batch) -> None:
    pairs = FEW + HEADS
    alpha, beta, clicks, unclicked = columns(pairs)
    batch = make_batch((clicks + unclicked).astype(int), clicks.astype(int), affine=True)
    order = np.argsort((clicks + unclicked).sum(axis=1) > 16, kind="stable")
    by_bucket = np.concatenate(
        [np.asarray(b.clicks + b.unclicked).sum(axis=1) for b in batch.buckets]
    )
    rows = [int(np.flatnonzero((clicks + unclicked).sum(axis=1) == n)[0]) for n in by_bucket]
    assert sorted(rows) == sorted(order)
    samples = jax.tree.map(lambda part: jnp.stack([part, part]), EMISSION)
    each = jax.jit(pair_log_likelihoods)(samples, alpha[rows], beta[rows], batch)
    expected = np.array([reference(pairs[row])[0] for row in rows])
    np.testing.assert_allclose(each, np.stack([expected] * 2), rtol=1e-10)
    whole = jax.jit(log_likelihoods)(samples, alpha[rows], beta[rows], batch)
    np.testing.assert_allclose(whole, each @ batch.weight, rtol=1e-12)


def test_without_clicks_on_unattractive_items_nothing_changes() -> None:
    """B of 0 everywhere, given as numbers, is the plain program, in value and in second derivative."""
    alpha, beta, clicks, unclicked = columns(FEW + HEADS[:3])
    zero = np.zeros(4)

    @jax.jit
    def total(x, counts):
        a, rest = jax.nn.sigmoid(x), jax.nn.sigmoid(-x)
        plain = quadrature_log_likelihood(Emission(a, rest), alpha, beta, *counts)
        affine = quadrature_log_likelihood(Emission(a, rest, zero, 1 - zero), alpha, beta, *counts)
        return jnp.stack([plain.sum(), affine.sum()])

    x = np.array([2.0, 0.5, -1.0, -2.0])
    value = total(x, (clicks, unclicked))
    hessian = jax.jit(jax.hessian(total))(x, (clicks, unclicked))
    np.testing.assert_allclose(value[1], value[0], rtol=1e-11)
    np.testing.assert_allclose(hessian[1], hessian[0], rtol=1e-7)


def test_samples_and_known_relevance_are_products_of_probabilities(make_batch) -> None:
    *_, clicks, unclicked = columns(FEW)
    zeta = np.random.default_rng(0).uniform(0.05, 0.95, (len(FEW), 3))
    p = A * zeta[:, :, None] + B * (1 - zeta[:, :, None])
    expected = np.log(p ** clicks[:, None] * (1 - p) ** unclicked[:, None]).sum(axis=-1)
    got = log_likelihood_of_samples(EMISSION, np.log(zeta), np.log1p(-zeta), clicks, unclicked)
    np.testing.assert_allclose(got, expected, rtol=1e-12)
    batch = make_batch((clicks + unclicked).astype(int), clicks.astype(int), affine=True)
    shown = np.concatenate([np.asarray(b.clicks + b.unclicked).sum(axis=1) for b in batch.buckets])
    rows = [int(np.flatnonzero((clicks + unclicked).sum(axis=1) == n)[0]) for n in shown]
    known = known_log_likelihoods(EMISSION, zeta[rows, 0], 1 - zeta[rows, 0], batch)
    np.testing.assert_allclose(known, expected[rows, 0], rtol=1e-12)


@pytest.mark.parametrize("displays", [8, 1000])
def test_tilted_nodes_agree_with_the_quadrature(displays: int) -> None:
    rng = np.random.default_rng(displays)
    pairs, draws = 40, 6
    shown = rng.multinomial(displays, np.full(4, 0.25), pairs)
    zeta = rng.beta(1, 2, (pairs, 1))
    clicks = rng.binomial(shown, A * zeta + B * (1 - zeta))
    alpha, beta = rng.uniform(0.5, 3, (2, pairs))
    moved = [
        1 / (1 + np.exp(-np.log(np.maximum(part, 1e-9) / np.maximum(1 - part, 1e-9))
                        - 0.2 * rng.standard_normal((draws, 4))))
        for part in (A, B)
    ]  # fmt: skip
    other = Emission(moved[0], 1 - moved[0], moved[1], 1 - moved[1])
    scale = np.exp(0.2 * rng.standard_normal((2, draws, 1)))
    alphas, betas = scale[0] * alpha, scale[1] * beta
    counts = (clicks, shown - clicks)
    found = tilted(EMISSION, alpha, beta, *counts, other, alphas, betas)
    log_likelihood, moments = map(jax.jit, (quadrature_log_likelihood, quadrature_moments))
    own = log_likelihood(EMISSION, alpha, beta, *counts)
    for j in range(draws):
        one = Emission(*(part[j] for part in other))
        mean, variance = moments(one, alphas[j], betas[j], *counts)
        np.testing.assert_allclose(found.mean[j], mean, atol=0.01 * np.sqrt(variance).min())
        np.testing.assert_allclose(found.variance[j], variance, rtol=0.03)
        value = log_likelihood(one, alphas[j], betas[j], *counts)
        shapes = betaln(alphas[j], betas[j]) - betaln(alpha, beta)
        np.testing.assert_allclose(found.log_sum[j], value - own + shapes, atol=2e-3)
