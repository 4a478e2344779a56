"""The contract of every relevance head, against samples and formulas."""

import numpy as np
import pytest
from scipy import stats

from epiclick.relevance.heads import HEADS, RelevanceHead
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
