"""Relevance from a network's outputs: the same in numpy and jax, and as in the paper."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

from epiclick.relevance.heads import betas_of, probability, relevance_betas, relevance_points
from epiclick.relevance.network import init_exposure, init_relevance


def test_mean_by_a_sigmoid_and_confidence_by_an_absolute_value() -> None:
    logit, raw = np.array([-2.0, 0.0, 3.0]), np.array([0.5, -4.0, 0.0])
    alpha, beta = betas_of(logit, raw, np, smooth=False)
    np.testing.assert_allclose(alpha + beta, [1.5, 5.0, 1.0], rtol=1e-15)
    np.testing.assert_allclose(alpha / (alpha + beta), expit(logit), rtol=1e-14)


def test_a_smooth_confidence_is_the_same_but_near_the_kink() -> None:
    logit, raw = np.array([-2.0, 0.0, 3.0]), np.array([0.5, -4.0, 0.0])
    alpha, beta = betas_of(logit, raw, np, smooth=True)
    np.testing.assert_allclose(alpha + beta, 1 + np.log(1 + np.exp(raw)), rtol=1e-14)
    np.testing.assert_allclose(alpha / (alpha + beta), expit(logit), rtol=1e-14)

    def apart(raw: np.ndarray) -> np.ndarray:
        one, other = (sum(betas_of(np.zeros_like(raw), raw, np, smooth=s)) for s in (True, False))
        return abs(one - other)

    assert np.all(apart(np.linspace(3, 1000, 5000)) < 0.05)
    assert apart(np.array([2.9])) > 0.05
    far = betas_of(np.zeros(2), np.array([-800.0, 800.0]), np, smooth=True)
    np.testing.assert_allclose(sum(far), [1, 801])


@pytest.mark.parametrize("logit", [-700.0, -40.0, 40.0, 700.0])
def test_extreme_means_keep_their_digits_on_both_sides(logit: float) -> None:
    near, far = probability(np.array(logit), np), probability(np.array(-logit), np)
    np.testing.assert_allclose(near, expit(logit), rtol=1e-13)
    assert min(near, far) > 0


@pytest.mark.parametrize("smooth", [True, False])
def test_numpy_predicts_what_jax_was_trained_with(smooth: bool) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((50, 6)).astype(np.float32)
    layers = init_relevance(rng, 6, (16, 8), outputs=2, mean=0.3)
    own = relevance_betas(layers, x, np, smooth=smooth)
    with jax.enable_x64(True):
        predict = jax.jit(lambda layers, x: relevance_betas(layers, x, jnp, smooth=smooth))
        traced = predict(layers, x)
        for a, b in zip(own, traced, strict=True):
            assert b.dtype == jnp.float64
            np.testing.assert_allclose(a, b, rtol=1e-5)


def test_networks_start_around_the_given_mean() -> None:
    rng = np.random.default_rng(1)
    zeros = np.zeros((1, 6), np.float32)
    betas = partial(relevance_betas, smooth=True)
    for outputs, predict in ((2, betas), (1, relevance_points)):
        layers = init_relevance(rng, 6, (16,), outputs=outputs, mean=0.3)
        one, other = predict(layers, zeros, np)
        np.testing.assert_allclose(one / (one + other), 0.3, rtol=1e-6)
    alpha, beta = betas(init_exposure(4, outputs=2, mean=0.2), np.eye(4, dtype="f4"), np)
    np.testing.assert_allclose(alpha / (alpha + beta), 0.2, rtol=1e-6)
