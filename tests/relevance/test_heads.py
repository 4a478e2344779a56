"""The contract of every relevance head, against samples and formulas."""

import numpy as np
import pytest
from scipy import special, stats

from epiclick.relevance.heads import (
    FURTHEST,
    HEADS,
    RelevanceHead,
    betas_of,
    betas_slope,
    scaled_confidence,
    softplus,
)
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


def test_scaled_confidence_is_the_same_to_first_order_and_a_factor_where_it_is_large() -> None:
    centre = np.array([-6.0, -1.0, 0.5, 4.0, 60.0])
    steps = 1e-5 * np.array([[-1.0], [1.0]])
    moved = scaled_confidence(centre + steps, centre) - centre
    np.testing.assert_allclose(moved, np.broadcast_to(steps, moved.shape), rtol=1e-4)
    relative = np.array([[-2.0], [-0.5], [0.0], [1.0]])
    np.testing.assert_allclose(
        scaled_confidence(centre[-1:] * (1 + relative), centre[-1:]),
        centre[-1:] * np.exp(relative),
        rtol=1e-12,
    )
    ends = scaled_confidence(np.array([[-1e6], [1e6]]), centre)
    assert np.all(softplus(ends[0, 3:], np) > 0.6)  # confidence 1 has no probability
    np.testing.assert_allclose(ends[1, 4] / centre[4], np.exp(FURTHEST))


def test_scaled_draws_are_nearer_to_the_exact_width_than_gaussian_ones() -> None:
    """Items of confidence 9 and a known mean, shown 4 times each; the prior of x is N(0, 20^2).

    What is left is that both are centred at the mode of x, and its posterior is skewed.
    """
    mean, items, views = 0.3, 120, 4
    grid = np.linspace(-60, 200, 20_001)
    ratios = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        clicks = rng.binomial(views, rng.beta(9 * mean, 9 * (1 - mean), items))
        seen = np.bincount(clicks, minlength=views + 1)
        nu = 1 + softplus(grid, np)
        log_density = stats.norm.logpdf(grid, 0, 20) + sum(
            count * stats.betabinom.logpmf(k, views, mean * nu, (1 - mean) * nu)
            for k, count in enumerate(seen)
        )
        weight = special.softmax(log_density)
        top = np.argmax(log_density)
        curvature = -np.gradient(np.gradient(log_density, grid), grid)[top]
        drawn = grid[top] + rng.standard_normal(8_000) / np.sqrt(curvature)
        within = [
            float(np.mean(mean * (1 - mean) / (2 + softplus(x, np))))
            for x in (drawn, scaled_confidence(drawn, grid[top]))
        ]
        exact = weight @ (mean * (1 - mean) / (1 + nu))
        ratios.append(np.sqrt(within / exact))
    gaussian, scaled = np.mean(ratios, axis=0)
    assert gaussian > 1.2
    assert 1 < scaled < 1 + 0.6 * (gaussian - 1)
