"""Derivatives by moments over quadrature nodes, against those of the closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

from epiclick.click_models.base import Emission
from epiclick.likelihood.pairs import Bucket, PairBatch, pair_log_likelihoods
from epiclick.posterior.curvature import PairCurvature, pair_curvature
from epiclick.relevance.links import betas_of

from .small_worlds import differences

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
    """Of each pair alone: Hessians are otherwise summed over pairs."""

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
    assert np.all(np.asarray(own.by_logit)[:, 1] == 0)  # the anchor is held
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
