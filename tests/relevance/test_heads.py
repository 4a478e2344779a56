"""The contract of every relevance head, against samples and formulas."""

import numpy as np
import pytest
from scipy import stats

from epiclick.relevance.heads import HEADS, RelevanceHead, betas_of, betas_slope
from epiclick.relevance.network import apply_mlp

each_head = pytest.mark.parametrize("head", HEADS.values(), ids=list(HEADS))
of_betas = pytest.mark.parametrize("head", [HEADS["network_beta"], HEADS["id_beta"]])


def said(head: RelevanceHead, networks: int, pairs: int) -> tuple[np.ndarray, np.ndarray]:
    raw = np.random.default_rng(1).normal(0, 2, (networks, pairs, head.outputs))
    return head.of_outputs(raw, np, smooth=False)


def test_names_are_their_keys() -> None:
    assert {name: head.name for name, head in HEADS.items()} == {name: name for name in HEADS}
    assert list(HEADS) == ["network_beta", "id_beta", "point"]


@each_head
def test_networks_start_around_the_mean_with_as_many_outputs(head: RelevanceHead) -> None:
    layers = head.first_layers(np.random.default_rng(0), 5, (4,), mean=0.3)
    assert len(layers) == (2 if head.uses_features else 1)
    raw = apply_mlp(layers, np.zeros((1, 5), np.float32)).astype(float)
    assert raw.shape == (1, head.outputs)
    mean, _ = head.moments(*head.of_outputs(raw, np, smooth=True))
    np.testing.assert_allclose(mean, 0.3, rtol=1e-6)


@each_head
def test_draws_have_the_moments(head: RelevanceHead) -> None:
    first, second = said(head, 1, 6)
    mean, variance = head.moments(first, second)
    shape = (40_000, 6)
    drawn = head.draw(
        np.broadcast_to(first, shape), np.broadcast_to(second, shape), np.random.default_rng(2)
    )
    error = np.sqrt(variance[0] / len(drawn))
    assert np.all(abs(drawn.mean(axis=0) - mean[0]) <= 4 * error + 1e-12)
    np.testing.assert_allclose(drawn.var(axis=0), variance[0], rtol=0.05, atol=1e-20)
    assert np.all((variance > 0) == head.has_uncertainty)


@of_betas
def test_columns_are_of_the_mixture(head: RelevanceHead) -> None:
    first, second = said(head, 4, 30)
    columns = head.columns(first, second, 0.8, above=0.3)
    assert list(columns) == ["mean", "low", "high", "alpha", "beta", "prob_above"]
    np.testing.assert_allclose(columns["mean"], (first / (first + second)).mean(axis=0), rtol=1e-9)
    for end, expected in (("low", 0.1), ("high", 0.9)):
        held = stats.beta.cdf(columns[end], first, second).mean(axis=0)
        inside = (columns[end] > 1e-290) & (columns[end] < 1 - 1e-6)  # by float64
        np.testing.assert_allclose(held[inside], expected, atol=1e-4)
    np.testing.assert_allclose(
        columns["prob_above"], stats.beta.sf(0.3, first, second).mean(axis=0), atol=1e-12
    )
    assert "prob_above" not in head.columns(first, second, 0.8)


def test_columns_of_points_are_what_members_say() -> None:
    head = HEADS["point"]
    first, second = said(head, 5, 3)
    columns = head.columns(first, second, 0.5, above=0.5)
    np.testing.assert_allclose(columns["mean"], first.mean(axis=0))
    np.testing.assert_allclose(columns["low"], np.sort(first, axis=0)[1])  # a quarter of the way
    np.testing.assert_allclose(columns["high"], np.sort(first, axis=0)[3])
    np.testing.assert_allclose(columns["prob_above"], (first > 0.5).mean(axis=0))
    assert np.isnan([columns["alpha"], columns["beta"]]).all()
    alone = head.columns(first[:1], second[:1], 0.5, above=0.5)
    assert np.isnan([alone["low"], alone["high"], alone["prob_above"]]).all()


@pytest.mark.parametrize("smooth", [False, True])
def test_slopes_of_betas_are_those_of_a_complex_step(smooth: bool) -> None:
    """Far out and near 0 as well; with a kink the confidence falls where it is negative."""
    grid = np.array([-30.0, -4.0, -0.3, 1e-3, 0.8, 5.0, 40.0])
    mean_logit, confidence = (axis.ravel() for axis in np.meshgrid(grid, grid))
    by_alpha, by_beta = np.random.default_rng(0).normal(size=(2, len(mean_logit)))

    def total(x, y):
        nu = 1 + (np.log1p(np.exp(y)) if smooth else np.sign(y.real) * y)
        return nu * (by_alpha / (1 + np.exp(-x)) + by_beta / (1 + np.exp(x)))

    alpha, beta = betas_of(mean_logit, confidence, np, smooth=smooth)
    value = total(mean_logit + 0j, confidence + 0j).real
    np.testing.assert_allclose(by_alpha * alpha + by_beta * beta, value, rtol=1e-12)
    step = 1e-30j
    expected = (
        total(mean_logit + step, confidence + 0j).imag / 1e-30,
        total(mean_logit + 0j, confidence + step).imag / 1e-30,
    )
    found = betas_slope(mean_logit, confidence, by_alpha, by_beta, smooth=smooth)
    for own, true in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, true, rtol=1e-11, atol=1e-300)


def test_slopes_of_betas_are_those_of_jax() -> None:
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(1)
    raw, by_shape = rng.normal(0, 3, (2, 50)), rng.normal(size=(2, 50))
    for smooth in (False, True):
        with jax.enable_x64(True):
            _, pull = jax.vjp(lambda *own, s=smooth: betas_of(*own, jnp, smooth=s), *raw)
            expected = pull(tuple(map(jnp.asarray, by_shape)))
        found = betas_slope(*raw, *by_shape, smooth=smooth)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
