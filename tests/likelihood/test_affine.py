"""Clicks on unattractive items: every kernel against integrals over relevance at 30 digits."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import betaln

from epiclick.click_models.click_model import Emission
from epiclick.likelihood.batch_gradient import (
    batch_gradient,
    known_gradient,
    pair_log_likelihoods,
)
from epiclick.likelihood.closed_form import expand, forms, mixture_weights
from epiclick.likelihood.quadrature import (
    quadrature_gradient,
    quadrature_log_likelihood,
    quadrature_moments,
)
from epiclick.likelihood.tilting import tilted

from . import recursion
from .affine_pairs import EMISSION, FEW, HEADS, A, B, columns, orders, reference

pytestmark = pytest.mark.slow

Found = tuple[np.ndarray, np.ndarray]
"""Values (pairs,) and gradients (pairs, A, B, alpha, beta)."""


def in_closed_form(pairs: list[tuple]) -> Found:
    alpha, beta, *_ = columns(pairs)
    order = orders(pairs)
    found = expand(*forms(EMISSION), alpha, beta, order)
    by_form = np.zeros((2, len(pairs), 8))  # u and v of the skips, then of the clicks
    for kind, values in zip(by_form, (found.by_u, found.by_v), strict=True):
        for pair, row in enumerate(order):
            np.add.at(kind[pair], row[row >= 0], values[row >= 0, pair])
    return found.value, joined(*by_form, found.by_a, found.by_b)


def by_quadrature(pairs: list[tuple]) -> Found:
    found = quadrature_gradient(EMISSION, *columns(pairs))
    alone = quadrature_log_likelihood(EMISSION, *columns(pairs))
    np.testing.assert_allclose(found.value, alone, rtol=1e-14)
    return found.value, joined(found.by_u, found.by_v, found.by_alpha, found.by_beta)


def joined(by_u: np.ndarray, by_v: np.ndarray, by_a: np.ndarray, by_b: np.ndarray) -> np.ndarray:
    """Gradients in A and B, which clicks have as u and v, and skips as 1 - u and 1 - v."""
    by_form = [part[:, 4:] - part[:, :4] for part in (by_u, by_v)]
    return np.column_stack([*by_form, by_a, by_b])


def check(found, pairs: list[tuple], tolerance: float) -> None:
    for value, gradient, pair in zip(*found, pairs, strict=True):
        expected, slopes, *_ = reference(pair)
        assert abs(value - expected) <= tolerance * (1 + abs(expected))
        np.testing.assert_allclose(gradient, slopes, rtol=1e3 * tolerance, atol=1e3 * tolerance)


def test_the_closed_form_of_few_displays() -> None:
    check(in_closed_form(FEW), FEW, 1e-11)


@pytest.mark.parametrize("pairs", [FEW, HEADS], ids=["few", "heads"])
def test_the_quadrature(pairs: list[tuple]) -> None:
    check(by_quadrature(pairs), pairs, 1e-9)
    mean, variance = quadrature_moments(EMISSION, *columns(pairs))
    expected = np.array([reference(pair)[2:] for pair in pairs])
    np.testing.assert_allclose(mean, expected[:, 0], rtol=1e-8)
    np.testing.assert_allclose(variance, expected[:, 1], rtol=1e-7)


def test_taking_unattractive_items_as_never_clicked_would_be_noticed() -> None:
    """The control: without B all pairs with clicks disagree."""
    pairs = FEW[1:]
    own = quadrature_log_likelihood(Emission(A, 1 - A), *columns(pairs))
    expected = np.array([reference(pair)[0] for pair in pairs])
    assert np.all(abs(own - expected) > 1e-3)


def test_the_mixture_has_the_moments_of_the_posterior() -> None:
    alpha, beta, *counts = columns(FEW)
    weights = mixture_weights(*forms(EMISSION), alpha, beta, orders(FEW))  # (17, pairs)
    np.testing.assert_allclose(weights.sum(axis=0), 1, rtol=1e-12)
    n, shown = np.arange(17)[:, None], sum(counts).sum(axis=1)
    assert np.all(weights[n > shown] == 0)
    first, second = alpha + n, beta + np.maximum(shown - n, 0)
    means = first / (first + second)
    mean = (weights * means).sum(axis=0)
    spread = means * (1 - means) / (first + second + 1)
    variance = (weights * (spread + (means - mean) ** 2)).sum(axis=0)
    expected = np.array([reference(pair)[2:] for pair in FEW])
    np.testing.assert_allclose(mean, expected[:, 0], rtol=1e-10)
    np.testing.assert_allclose(variance, expected[:, 1], rtol=1e-9)


def in_batch(pairs: list[tuple], make_batch) -> tuple:
    """The pairs as a batch, and which of them each of its rows is."""
    _, _, clicks, unclicked = columns(pairs)
    shown = (clicks + unclicked).sum(axis=1)
    assert len(set(shown)) == len(pairs)
    batch = make_batch((clicks + unclicked).astype(int), clicks.astype(int), affine=True)
    rows = [
        int(np.flatnonzero(shown == n)[0])
        for bucket in batch.buckets
        for n in (bucket.clicks + bucket.unclicked).sum(axis=1)
    ]
    assert sorted(rows) == list(range(len(pairs)))
    return batch, rows


def test_a_batch_of_few_displays_and_heads(make_batch) -> None:
    pairs = FEW + HEADS
    batch, rows = in_batch(pairs, make_batch)
    assert {bucket.order is None for bucket in batch.buckets} == {False, True}
    alpha, beta, *_ = (part[rows] for part in columns(pairs))
    expected = np.array([reference(pairs[row])[0] for row in rows])
    slopes = np.array([reference(pairs[row])[1] for row in rows])
    samples = Emission(*(np.stack([part, part]) for part in EMISSION))
    each = pair_log_likelihoods(samples, alpha, beta, batch)
    np.testing.assert_allclose(each, np.stack([expected] * 2), rtol=1e-10)
    weight = np.random.default_rng(0).integers(1, 4, len(pairs)).astype(float)
    found = batch_gradient(EMISSION, alpha, beta, replace(batch, weight=weight))
    np.testing.assert_allclose(found.value, expected, rtol=1e-10)
    by_shape = np.stack([found.by_alpha, found.by_beta], axis=1)
    np.testing.assert_allclose(by_shape, slopes[:, 8:], rtol=1e-6, atol=1e-6)
    # an anchor and a context without clicks on unattractive items are fixed
    turn = np.r_[A * (1 - A), B * (1 - B)]
    assert np.all(found.by_logit[[0, 6]] == 0)
    np.testing.assert_allclose(found.by_logit, turn * (weight @ slopes[:, :8]), rtol=1e-6)


def test_without_clicks_on_unattractive_items_nothing_changes(make_batch) -> None:
    """B of 0 everywhere, given as numbers, has the plain values and derivatives."""
    pairs = FEW + HEADS[:3]
    alpha, beta, *counts = columns(pairs)
    a, zero = 1 / (1 + np.exp([-2.0, -0.5, 1.0, 2.0])), np.zeros(4)
    plain, affine = Emission(a, 1 - a), Emission(a, 1 - a, zero, 1 - zero)
    of_each = [quadrature_log_likelihood(each, alpha, beta, *counts) for each in (plain, affine)]
    np.testing.assert_allclose(of_each[1], of_each[0], rtol=1e-11)
    batch, rows = in_batch(pairs, make_batch)
    # buckets of an affine emission are by all displays, so that the pairs are in another order
    displays = sum(counts).astype(int)
    other = make_batch(displays, counts[0].astype(int))
    shown = [n for b in other.buckets for n in (b.clicks + b.unclicked).sum(axis=1)]
    place = [int(np.flatnonzero(displays.sum(axis=1) == n)[0]) for n in shown]
    expected = batch_gradient(plain, alpha[place], beta[place], other)
    found = batch_gradient(affine, alpha[rows], beta[rows], batch)
    for own, true in zip(found[:3], expected[:3], strict=True):
        np.testing.assert_allclose(own[np.argsort(rows)], true[np.argsort(place)], rtol=1e-8)
    np.testing.assert_allclose(found.by_logit[:4], expected.by_logit, rtol=1e-8)
    assert np.all(found.by_logit[4:] == 0)


def test_known_relevance_has_the_product_of_probabilities(make_batch) -> None:
    batch, rows = in_batch(FEW, make_batch)
    *_, clicks, unclicked = (part[rows] for part in columns(FEW))
    logit = np.random.default_rng(0).normal(size=len(FEW))
    weight = np.arange(1.0, 1 + len(FEW))

    def values(x: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        zeta = 1 / (1 + np.exp(-x[:, None]))
        p = a * zeta + b * (1 - zeta)
        return (clicks * np.log(p) + unclicked * np.log(1 - p)).sum(axis=1)

    zeta, other = 1 / (1 + np.exp(-logit)), 1 / (1 + np.exp(logit))
    found = known_gradient(EMISSION, zeta, other, replace(batch, weight=weight))
    np.testing.assert_allclose(found.value, values(logit, A, B), rtol=1e-12)
    by_relevance = recursion.slope(values, [logit, A, B], 0)
    np.testing.assert_allclose(found.by_logit_relevance, by_relevance, rtol=1e-10)
    by_probability = [
        weight @ recursion.slope(values, [logit, A, B], which, k)
        for which in (1, 2)
        for k in range(4)
    ]
    turn = np.r_[A * (1 - A), B * (1 - B)]
    np.testing.assert_allclose(found.by_logit, turn * by_probability, rtol=1e-10)
    plain = known_gradient(Emission(A, 1 - A), zeta, other, replace(batch, weight=weight))
    zero = recursion.slope(values, [logit, A, 0 * B], 0)
    np.testing.assert_allclose(plain.by_logit_relevance, zero, rtol=1e-10)


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
    own = quadrature_log_likelihood(EMISSION, alpha, beta, *counts)
    for j in range(draws):
        one = Emission(*(part[j] for part in other))
        mean, variance = quadrature_moments(one, alphas[j], betas[j], *counts)
        np.testing.assert_allclose(found.mean[j], mean, atol=0.01 * np.sqrt(variance).min())
        np.testing.assert_allclose(found.variance[j], variance, rtol=0.03)
        value = quadrature_log_likelihood(one, alphas[j], betas[j], *counts)
        shapes = betaln(alphas[j], betas[j]) - betaln(alpha, beta)
        np.testing.assert_allclose(found.log_sum[j], value - own + shapes, atol=2e-3)
