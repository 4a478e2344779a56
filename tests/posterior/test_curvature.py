"""Derivatives by moments over quadrature nodes, against those of the closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

from epiclick.click_models.click_model import Emission
from epiclick.likelihood.pairs import Bucket, PairBatch, pair_log_likelihoods, slots_of
from epiclick.likelihood.quadrature import quadrature_log_likelihood
from epiclick.posterior.curvature import (
    PairCurvature,
    chained,
    emission_logits,
    pair_curvature,
)
from epiclick.relevance.heads import betas_of

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


@jax.jit
def head(x, clicks, unclicked):
    """Value and gradient of a pair that is integrated by quadrature."""
    return jax.value_and_grad(one_pair)(x, clicks, unclicked, None)


@jax.jit
def derivatives(x, clicks, unclicked, order):
    """Gradients and Hessians of pairs in closed form, by jax."""
    given = (x, clicks, unclicked, order)
    return jax.vmap(jax.grad(one_pair))(*given), jax.vmap(jax.hessian(one_pair))(*given)


@jax.jit
def curvature(theta, rest, raw, clicks, unclicked) -> PairCurvature:
    """For each pair separately: Hessians are otherwise summed over pairs."""

    def alone(*pair):
        own = pair_curvature(Emission(theta, rest), *(part[None] for part in pair))
        return own._replace(logit_logit=own.logit_logit[None])

    own = jax.vmap(alone)(raw, clicks, unclicked)
    return jax.tree.map(lambda part: part[:, 0], own)


def found(logit, raw, clicks, unclicked) -> tuple[np.ndarray, np.ndarray]:
    """Gradient (pairs, 4) and Hessian (pairs, 4, 4) in the same order."""
    all_logits = np.array([logit[0], 0, logit[1]])
    theta, rest = expit(all_logits), expit(-all_logits)
    theta[1], rest[1] = 1, 0
    own = curvature(theta, rest, raw, clicks, unclicked)
    assert np.all(np.asarray(own.by_logit)[:, 1] == 0)  # the anchor is fixed
    assert np.all(np.asarray(own.logit_logit)[:, 1] == 0)
    cross, position = np.asarray(own.logit_raw)[:, FREE], np.asarray(own.logit_logit)
    position = position[:, FREE[:, None], FREE]
    hessian = np.block([[position, cross], [cross.transpose(0, 2, 1), np.asarray(own.raw_raw)]])
    return np.concatenate([np.asarray(own.by_logit)[:, FREE], own.by_raw], axis=1), hessian


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
    with jax.enable_x64(True):
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
    with jax.enable_x64(True):
        gradient, hessian = found((0.0, 0.4), raw, clicks, unclicked)
    np.testing.assert_allclose(hessian[0], hessian[0].T, rtol=1e-9, atol=1e-15)
    p = theta * mean  # of a click in the last context
    slope = (2 - 6 * p) * (1 - theta) / (1 - p)
    np.testing.assert_allclose(gradient[0, 1], slope, rtol=1e-5)
    assert hessian[0, 2, 2] < 0


AFFINE = np.array([1.5, -0.3, -1.2, -2.5, -3.0, -1.0])  # logits of A, then of B


def affine_pair(x, clicks, unclicked):
    """Log-likelihood of one pair, by logits of A and B and its raw outputs, by quadrature."""
    a, a_rest = jax.nn.sigmoid(x[:3]), jax.nn.sigmoid(-x[:3])
    b, b_rest = jax.nn.sigmoid(x[3:6]), jax.nn.sigmoid(-x[3:6])
    emission = Emission(a, a_rest, b, b_rest)
    alpha, beta = betas_of(x[6:7], x[7:8], jnp, smooth=True)
    return quadrature_log_likelihood(emission, alpha, beta, clicks[None], unclicked[None])[0]


@jax.jit
def affine_derivatives(x, clicks, unclicked):
    """Gradients of pairs, and their Hessians by differences of these."""
    slope = jax.vmap(jax.grad(affine_pair))
    steps = 1e-5 * jnp.eye(x.shape[1])
    change = jax.vmap(
        lambda step: slope(x + step, clicks, unclicked) - slope(x - step, clicks, unclicked),
        out_axes=1,
    )(steps)
    return slope(x, clicks, unclicked), change / 2e-5


def test_clicks_on_unattractive_items_against_differences_of_the_likelihood() -> None:
    rng = np.random.default_rng(1)
    displays = np.array([[4, 0, 2], [0, 7, 1], [300, 20, 0], [2000, 5000, 900]])
    clicks = rng.binomial(displays, 0.3)
    clicks[0] = 0
    raw = rng.normal((-0.5, 1.0), 0.7, (4, 2))
    with jax.enable_x64(True):
        x = np.concatenate([np.broadcast_to(AFFINE, (4, 6)), raw], axis=1)
        gradient, hessian = affine_derivatives(x, clicks, displays - clicks)
        probability, rest = expit(AFFINE), expit(-AFFINE)
        emission = Emission(probability[:3], rest[:3], probability[3:], rest[3:])
        own = jax.jit(pair_curvature)(emission, raw, clicks, displays - clicks)
    own, hessian = jax.tree.map(np.asarray, own), np.asarray(hessian)
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
    with jax.enable_x64(True):
        own = jax.jit(pair_curvature)(emission, raw, clicks, unclicked)
    assert all(np.isfinite(part).all() for part in own)
    for fixed in (0, 2):
        assert np.all(np.asarray(own.by_logit)[:, fixed] == 0)
        assert np.all(np.asarray(own.logit_logit)[fixed] == 0)


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
    with jax.enable_x64(True):
        program = jax.jit(pair_curvature)
        dense = program(emission, raw, clicks, shown - clicks)
        by_slots = program(emission, raw, slots.clicks, slots.unclicked, slots=slots.context)
    for one, other in zip(dense, by_slots, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-11)


def test_the_chain_rule_against_differences_in_the_parameters() -> None:
    """Logits that are no linear function of the parameters."""
    rng = np.random.default_rng(3)
    clicks, unclicked = rng.integers(0, 4, (2, 5, 3))
    raw = rng.normal(size=(5, 2))

    def emission_of(p):
        logit = jnp.stack([p[0] * p[1], jnp.exp(p[1]), p[0] - p[2] ** 2, -2 - p[2], p[0] - 3, p[1]])
        value, rest = jax.nn.sigmoid(logit), jax.nn.sigmoid(-logit)
        return Emission(value[:3].at[1].set(1.0), rest[:3].at[1].set(0.0), value[3:], rest[3:])

    def own(p):
        return pair_curvature(emission_of(p), raw, clicks, unclicked)

    @jax.jit
    def both(p):
        curvature = own(p)
        return curvature, chained(lambda q: emission_logits(emission_of(q)), p, curvature)

    at = np.array([0.7, -0.4, 0.9])
    with jax.enable_x64(True):
        _, found = both(at)
        by_value = differences(lambda p: np.asarray(both(p)[0].value), at)
        by_slope = differences(lambda p: np.asarray(both(p)[1].by_parameter).sum(axis=0), at)
        by_raw = differences(lambda p: np.asarray(both(p)[0].by_raw), at)
    np.testing.assert_allclose(np.asarray(found.by_parameter), by_value, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found.parameter_parameter, by_slope, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(
        np.asarray(found.parameter_raw).transpose(0, 2, 1), by_raw, rtol=1e-6, atol=1e-6
    )
