"""Exposure against rankers whose scores are known, and against numerical integration."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

from epiclick.data.placement import BANDS, Placement
from epiclick.fitted.exposure import (
    LAPSE,
    ExposureModel,
    Peers,
    with_exposure,
    without_exposure,
)
from epiclick.fitted.score_correction import Correction
from epiclick.relevance.network import apply_mlp, init_relevance

CANDIDATES, SLOTS = 20, 5


def simulated(left: float, noise: float, *, queries: int = 400, pages: int = 20, seed: int = 0):
    """Units, queries, placement and true scores of a ranker that sorts by noisy Gaussian scores."""
    rng = np.random.default_rng(seed)
    known = 1 - left - noise
    units = rng.standard_normal((queries, CANDIDATES, 3))
    expected = np.sqrt(known) * units[:, :, 0]
    score = expected + np.sqrt(left) * rng.standard_normal((queries, CANDIDATES))
    displays = np.zeros((queries, CANDIDATES, len(BANDS)))
    row = np.arange(queries)
    for _ in range(pages):
        drawn = score + np.sqrt(noise) * rng.standard_normal(score.shape)
        best = np.argsort(-drawn, axis=1)[:, :SLOTS]
        for k in range(SLOTS):
            displays[row, best[:, k], np.searchsorted(BANDS, k + 1)] += 1
    size = queries * CANDIDATES
    placement = Placement(
        displays.reshape(size, -1), np.full(size, float(pages)), np.full(size, float(SLOTS))
    )
    query = np.repeat(row, CANDIDATES)
    return units.reshape(size, 3), query, placement, expected.ravel(), score.ravel()


def exposed(units, query, placement):
    model = ExposureModel.fit(units, query, placement)
    expected = units @ model.weights
    centre = np.bincount(query, expected) / CANDIDATES
    peers = Peers(np.full(len(query), float(CANDIDATES)), centre[query])
    return model, model.exposure(expected, placement, peers)


@pytest.mark.parametrize(("left", "noise"), [(0.5, 0.2), (0.2, 0.5), (0.6, 0.1)])
def test_variances_of_a_ranker_are_recovered(left: float, noise: float) -> None:
    units, query, placement, _, _ = simulated(left, noise)
    model, _ = exposed(units, query, placement)
    # candidates of a query compete, so its scores are not quite independent: a twentieth of 1
    assert abs(model.left - left) < 0.08
    assert abs(model.noise - noise) < 0.08
    assert abs(model.weights[1]) < 0.05
    assert abs(model.weights[2]) < 0.05


@pytest.mark.parametrize("noise", [0.3, 0.1])
def test_what_a_ranker_knows_beyond_the_features_is_predicted_without_bias(noise: float) -> None:
    """Both of items that were shown, and of items that were not; features alone predict 0."""
    units, query, placement, expected, score = simulated(0.5, noise)
    _, found = exposed(units, query, placement)
    beyond = score - expected
    beyond -= (np.bincount(query, beyond) / CANDIDATES)[query]
    for group in (placement.shown, ~placement.shown):
        error = (found.shift - beyond)[group]
        level = beyond[group].mean()
        assert abs(level) > 0.2  # control: features alone would be wrong by this much
        assert abs(error.mean()) < 0.15 * abs(level)
    slope = np.polyfit(found.shift, beyond, 1)[0]
    assert abs(slope - 1) < 0.1


@pytest.mark.parametrize("noise", [0.3, 0.1, 0.0])
def test_scores_of_shown_items_differ_as_much_as_predicted(noise: float) -> None:
    """A slope learned from the items shown is right only if their exposure is to scale."""
    units, query, placement, expected, score = simulated(0.5, noise, queries=800)
    model, found = exposed(units, query, placement)
    beyond = score - expected
    beyond -= (np.bincount(query, beyond) / CANDIDATES)[query]
    known = np.column_stack([np.ones(len(query)), expected])

    def slope(shift: np.ndarray, group: np.ndarray) -> float:
        columns = np.column_stack([known, shift])[group]
        return float(np.linalg.lstsq(columns, beyond[group], rcond=None)[0][2])

    assert abs(slope(found.shift, placement.shown) - 1) < 0.08
    plain = replace(model, corrections=(Correction.none(), Correction.none()))
    own = units @ model.weights
    centre = (np.bincount(query, own) / CANDIDATES)[query]
    peers = Peers(np.full(len(query), float(CANDIDATES)), centre)
    uncorrected = plain.exposure(own, placement, peers).shift
    if noise < 0.3:  # control: competition left out
        assert slope(uncorrected, placement.shown) < 0.9
    assert model.is_deterministic == (noise == 0)
    assert model.centre == pytest.approx(found.shift[placement.shown].mean(), abs=1e-6)


def test_a_ranker_that_follows_the_features_exposes_nothing() -> None:
    units, query, placement, _, score = simulated(1e-9, 0.3)
    model, found = exposed(units, query, placement)
    assert model.left < 0.05
    assert np.abs(found.shift).mean() < 0.1 * score.std()


def test_scores_are_those_of_numerical_integration() -> None:
    model = ExposureModel(np.zeros(0), left=0.5, noise=0.2, usual=0.1)
    displays = np.zeros((2, len(BANDS)))
    displays[0, [0, 2]] = 3, 2
    placement = Placement(displays, np.array([9.0, 9.0]), np.array([5.0, 5.0]))
    peers = Peers(np.full(2, float(CANDIDATES)), np.zeros(2))
    expected = np.array([0.3, 0.3])
    mean, variance = model.scores(expected, placement, peers)
    cuts = stats.norm.isf(np.minimum(BANDS, SLOTS) / CANDIDATES)

    def density(u: float, times: np.ndarray) -> float:
        among = stats.norm.cdf((u - cuts) / np.sqrt(model.noise))
        chance = np.diff(np.concatenate([[0.0], among, [1.0]]))
        chance = (1 - LAPSE) * chance + LAPSE / len(chance)
        return stats.norm.pdf(u, 0.3, np.sqrt(model.left)) * np.prod(chance**times)

    for pair in range(2):
        times = np.append(displays[pair], 9 - displays[pair].sum())
        total, first, second = (
            integrate.quad(
                lambda u, p=p, t=times: u**p * density(u, t), -6, 6, limit=200, epsabs=0
            )[0]
            for p in range(3)
        )
        assert abs(mean[pair] - first / total) < 2e-3
        assert abs(variance[pair] - (second / total - (first / total) ** 2)) < 2e-3


def test_never_shown_on_two_pages_is_not_never_shown_on_two_thousand() -> None:
    model = ExposureModel(np.zeros(0), left=0.5, noise=0.2, usual=0.05)
    pages = np.array([np.nan, 0.0, 2.0, 20.0, 2_000.0])
    size = len(pages)
    placement = Placement(np.zeros((size, len(BANDS))), pages, np.full(size, 5.0))
    found = model.exposure(
        np.zeros(size), placement, Peers(np.full(size, float(CANDIDATES)), np.zeros(size))
    )
    assert found.shift[0] == 0
    assert abs(found.shift[1]) < 1e-9
    assert np.all(np.diff(found.shift[1:]) < 0)
    assert np.all(np.diff(found.spread[1:]) < 0)
    assert found.spread[0] == pytest.approx(model.left - model.usual)


def test_columns_of_exposure_change_no_prediction_until_they_have_weights() -> None:
    rng = np.random.default_rng(0)
    layers = init_relevance(rng, 4, (6, 5), outputs=2, mean=0.3, wide=True)
    x, shift = rng.standard_normal((7, 4)), rng.standard_normal((7, 1))
    exposed = with_exposure(layers)
    both = np.column_stack([x, shift])
    assert np.allclose(apply_mlp(exposed, both), apply_mlp(layers, x))
    assert all(
        np.array_equal(a, b)
        for one, other in zip(without_exposure(exposed), layers, strict=True)
        for a, b in zip(one, other, strict=True)
    )
    *body, (weight, bias) = exposed
    weight = weight.copy()
    weight[4] = 2.0, 7.0
    moved = apply_mlp((*body, (weight, bias)), both) - apply_mlp(layers, x)
    assert np.allclose(moved, np.column_stack([2.0 * shift, 7.0 * shift]))


def test_the_model_survives_json() -> None:
    corrections = (
        Correction(np.arange(6) / 7, 0.9),
        Correction(np.arange(6)[::-1] / 3, 1.2),
    )
    model = ExposureModel(np.array([0.1, -2.0]), 0.4, 0.3, 0.1, 0.7, corrections)
    again = ExposureModel.from_dict(model.to_dict())
    assert again.to_dict() == model.to_dict()
