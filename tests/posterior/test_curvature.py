"""Derivatives by moments over quadrature nodes, against those of the closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

from epiclick.click_models.click_model import Emission
from epiclick.likelihood import quadrature
from epiclick.likelihood.batch_gradient import batch_gradient
from epiclick.likelihood.pairs import Bucket, PairBatch, slots_of
from epiclick.likelihood.quadrature import quadrature_gradient
from epiclick.posterior import curvature as module
from epiclick.posterior.curvature import pair_curvature
from epiclick.relevance.heads import betas_of, betas_slope
from epiclick.traced.batch_likelihood import pair_log_likelihoods

from .small_worlds import counts_of, differences

pytestmark = pytest.mark.slow

WIDTH = 3
FREE = np.array([0, 2])  # the context between is the anchor


def one_pair(x, clicks, unclicked, order):
    """Log-likelihood of one pair, by its free logits and its raw outputs, in one vector."""
    logit = jnp.zeros(3).at[FREE].set(x[:2])
    theta, rest = (jnp.exp(-jnp.logaddexp(0.0, sign * logit)) for sign in (-1, 1))
    theta, rest = theta.at[1].set(1.0), rest.at[1].set(0.0)
    alpha, beta = betas_of(x[2:3], x[3:4], jnp, smooth=True)
    bucket = Bucket(clicks[None], unclicked[None], None if order is None else order[None])
    batch = PairBatch((bucket,), jnp.ones(1))
    return pair_log_likelihoods(Emission(theta[None], rest[None]), alpha, beta, batch)[0, 0]


def emission_of(logit: np.ndarray) -> Emission:
    """Free logits (2,), and the anchor between them."""
    all_logits = np.array([logit[0], 0, logit[1]])
    theta, rest = expit(all_logits), expit(-all_logits)
    theta[1], rest[1] = 1, 0
    return Emission(theta, rest)


def head(x: np.ndarray, clicks: np.ndarray, unclicked: np.ndarray) -> tuple[float, np.ndarray]:
    """Value and gradient of a pair that is integrated by quadrature."""
    batch = PairBatch((Bucket(clicks[None], unclicked[None], None),), np.ones(1))
    found = batch_gradient(emission_of(x[:2]), *betas_of(x[2:3], x[3:], np, smooth=True), batch)
    by_raw = betas_slope(x[2:3], x[3:], found.by_alpha, found.by_beta, smooth=True)
    return found.value[0], np.concatenate([found.by_logit[FREE], *by_raw])


@jax.jit
def derivatives(x, clicks, unclicked, order):
    """Gradients and Hessians of pairs in closed form, by jax."""
    given = (x, clicks, unclicked, order)
    return jax.vmap(jax.grad(one_pair))(*given), jax.vmap(jax.hessian(one_pair))(*given)


def found(logit, raw, clicks, unclicked) -> tuple[np.ndarray, np.ndarray]:
    """Gradient (pairs, 4) and Hessian (pairs, 4, 4) in the same order."""
    given = (emission_of(np.asarray(logit)), raw, clicks, unclicked)
    own = pair_curvature(*given)
    assert np.all(own.by_logit[:, 1] == 0)  # the anchor is fixed
    assert np.all(own.logit_logit[1] == 0)
    # weights of 0 leave one pair in what is summed over pairs
    alone = [pair_curvature(*given, weight=weight).logit_logit for weight in np.eye(len(raw))]
    np.testing.assert_allclose(own.logit_logit, sum(alone), rtol=1e-10, atol=1e-12)
    cross, position = own.logit_raw[:, FREE], np.array(alone)[:, FREE[:, None], FREE]
    hessian = np.block([[position, cross], [cross.transpose(0, 2, 1), own.raw_raw]])
    return np.concatenate([own.by_logit[:, FREE], own.by_raw], axis=1), hessian


@pytest.mark.parametrize(
    ("logit", "raw_mean", "raw_confidence"),
    [((-0.5, 1.2), 0.0, 1.0), ((6.0, -4.0), -3.0, 8.0), ((0.3, 0.1), 2.0, -5.0)],
    ids=["plain", "near 1 and 0", "hardly any confidence"],
)
def test_small_pairs_against_the_hessian_of_the_closed_form(
    logit: tuple[float, float], raw_mean: float, raw_confidence: float
) -> None:
    rng = np.random.default_rng(0)
    order = np.sort(rng.integers(-1, 3, (40, WIDTH)), axis=1)[:, ::-1].copy()
    unclicked = np.stack([(order == k).sum(axis=1) for k in range(3)], axis=1)
    clicks = rng.integers(0, 3, (40, 3))
    raw = rng.normal((raw_mean, raw_confidence), 0.7, (40, 2))
    with jax.enable_x64(True):
        x = jnp.concatenate([jnp.broadcast_to(jnp.array(logit), (40, 2)), raw], axis=1)
        given = (x, clicks, unclicked, order)
        gradient, hessian = derivatives(*given)
    own_gradient, own_hessian = found(logit, raw, clicks, unclicked)
    np.testing.assert_allclose(own_gradient, gradient, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(own_hessian, hessian, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("clicked", [0, 3, 900])
def test_head_pairs_against_differences_of_the_likelihood(clicked: int) -> None:
    """Thousands of displays, theta at and near 1, alpha about 0.02."""
    x = np.array([5.0, -1.0, -4.0, 0.5])
    clicks = np.array([clicked // 3, clicked - clicked // 3, 0])
    unclicked = np.array([2500, 4000, 700])
    own_gradient, own_hessian = found(x[:2], x[None, 2:], clicks[None], unclicked[None])
    by_value = differences(lambda x: head(x, clicks, unclicked)[0], x)
    by_slope = differences(lambda x: head(x, clicks, unclicked)[1], x)
    scale = np.sqrt(abs(np.diag(by_slope)) + 1e-3)
    np.testing.assert_allclose(own_gradient[0], by_value, rtol=1e-6, atol=1e-6 * (1 + clicked))
    np.testing.assert_allclose(
        own_hessian[0] / np.outer(scale, scale), by_slope / np.outer(scale, scale), atol=1e-6
    )


def test_the_hessian_is_symmetric_and_falls_in_the_mean_of_a_known_relevance() -> None:
    """With a confidence in the millions relevance is known, and clicks are plain binomial."""
    mean, theta = 0.3, expit(0.4)
    raw = np.array([[np.log(mean / (1 - mean)), 5e6]])
    clicks, unclicked = np.array([[0, 3, 2]]), np.array([[0, 5, 4]])
    gradient, hessian = found((0.0, 0.4), raw, clicks, unclicked)
    np.testing.assert_allclose(hessian[0], hessian[0].T, rtol=1e-9, atol=1e-15)
    p = theta * mean  # of a click in the last context
    slope = (2 - 6 * p) * (1 - theta) / (1 - p)
    np.testing.assert_allclose(gradient[0, 1], slope, rtol=1e-5)
    assert hessian[0, 2, 2] < 0


AFFINE = np.array([1.5, -0.3, -1.2, -2.5, -3.0, -1.0])  # logits of A, then of B


def affine_emission(logit: np.ndarray) -> Emission:
    value, rest = expit(logit), expit(-logit)
    return Emission(value[:3], rest[:3], value[3:], rest[3:])


def affine_slope(x: np.ndarray, clicks: np.ndarray, unclicked: np.ndarray) -> np.ndarray:
    """Gradients of pairs in logits of A and B, and in raw outputs; (pairs, 8) each."""
    alpha, beta = betas_of(x[:, 6], x[:, 7], np, smooth=True)
    found = []
    for pair, row in enumerate(x):
        emission, part = affine_emission(row[:6]), slice(pair, pair + 1)
        counts = (clicks[part], unclicked[part])
        own = quadrature_gradient(emission, alpha[part], beta[part], *counts)
        turn = expit(row[:6]) * expit(-row[:6])
        by_form = np.concatenate([(by[0, 3:] - by[0, :3]) for by in (own.by_u, own.by_v)])
        shape = (x[part, 6], x[part, 7], own.by_alpha, own.by_beta)
        found.append(np.concatenate([turn * by_form, *betas_slope(*shape, smooth=True)]))
    return np.array(found)


def test_clicks_on_unattractive_items_against_differences_of_the_likelihood() -> None:
    rng = np.random.default_rng(1)
    displays = np.array([[4, 0, 2], [0, 7, 1], [300, 20, 0], [2000, 5000, 900]])
    clicks = rng.binomial(displays, 0.3)
    clicks[0] = 0
    raw = rng.normal((-0.5, 1.0), 0.7, (4, 2))
    x = np.concatenate([np.broadcast_to(AFFINE, (4, 6)), raw], axis=1)
    counts = (clicks, displays - clicks)
    gradient = affine_slope(x, *counts)
    steps = 1e-5 * np.eye(8)
    change = [affine_slope(x + step, *counts) - affine_slope(x - step, *counts) for step in steps]
    hessian = np.stack(change, axis=1) / 2e-5
    own = pair_curvature(affine_emission(AFFINE), raw, *counts)
    found = np.concatenate([own.by_logit, own.by_raw], axis=1)
    np.testing.assert_allclose(found, gradient, rtol=1e-7, atol=1e-7)
    summed = hessian.sum(axis=0)[:6, :6]
    scale = np.sqrt(abs(np.diag(summed)))
    np.testing.assert_allclose(
        own.logit_logit / np.outer(scale, scale), summed / np.outer(scale, scale), atol=1e-6
    )
    np.testing.assert_allclose(own.logit_raw, hessian[:, :6, 6:], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(own.raw_raw, hessian[:, 6:, 6:], rtol=1e-5, atol=1e-5)


def test_probabilities_of_one_and_zero_have_no_derivative() -> None:
    emission = Emission(*(np.array(v) for v in ([1, 0.5], [0, 0.5], [0, 0.1], [1, 0.9])))
    clicks, unclicked = np.array([[1, 0], [0, 2]]), np.array([[3, 1], [800, 3]])
    raw = np.array([[0.1, 0.2], [-4.0, -6.0]])
    own = pair_curvature(emission, raw, clicks, unclicked)
    assert all(np.isfinite(part).all() for part in own)
    for fixed in (0, 2):
        assert np.all(own.by_logit[:, fixed] == 0)
        assert np.all(own.logit_logit[fixed] == 0)


@pytest.mark.parametrize("affine", [False, True])
def test_counts_by_slots_give_the_same_derivatives(affine: bool) -> None:
    rng = np.random.default_rng(2)
    pairs, contexts = 12, 40
    displays = rng.multinomial(9, np.full(contexts, 1 / contexts), pairs)
    counts = counts_of(displays, rng.binomial(displays, 0.4))
    a, b = rng.uniform(0.1, 0.9, (2, contexts))
    b = b * a
    a[0] = 1.0
    emission = Emission(a, 1 - a, b, 1 - b) if affine else Emission(a, 1 - a)
    raw = rng.normal(size=(pairs, 2))
    shown, clicks = counts.dense()
    slots = slots_of(counts, np.arange(pairs))
    assert slots.context.shape[1] < 16
    weight = rng.integers(0, 3, pairs).astype(float)
    dense = pair_curvature(emission, raw, clicks, shown - clicks, weight=weight)
    by_slots = pair_curvature(
        emission, raw, slots.clicks, slots.unclicked, slots=slots.context, weight=weight
    )
    for one, other in zip(dense, by_slots, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("affine", [False, True])
def test_blocks_and_more_nodes_change_nothing(
    affine: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    displays = rng.integers(0, 60, (30, 3))
    clicks = rng.binomial(displays, 0.3)
    emission = affine_emission(AFFINE) if affine else emission_of(AFFINE[:2])
    raw, weight = rng.normal(size=(30, 2)), rng.uniform(0, 2, 30)
    given = (emission, raw, clicks, displays - clicks)
    whole = pair_curvature(*given, weight=weight)
    finer = pair_curvature(*given, nodes=2 * module.NODES, weight=weight)
    monkeypatch.setattr(quadrature, "BLOCK", 7 * module.NODES)
    for one, some, more in zip(whole, pair_curvature(*given, weight=weight), finer, strict=True):
        np.testing.assert_allclose(some, one, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(more, one, rtol=1e-7, atol=1e-7)
