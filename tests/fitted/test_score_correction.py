"""Correction of scores by simulated pages, against loops over pages and least squares by hand."""

import numpy as np
import pytest

from epiclick.data.placement import BANDS, Placement
from epiclick.fitted.score_correction import FEWEST, Correction, simulated_placement


def test_a_correction_makes_the_expectation_of_a_score_its_mean() -> None:
    rng = np.random.default_rng(0)
    size = 20_000
    expected, variance = rng.standard_normal(size), 0.2 + 0.1 * rng.random(size)
    shift = rng.standard_normal(size)
    mean = expected + shift
    # posterior means that are twice as far from what features suggest as the scores are
    actual = expected + shift / 2 + 0.3 + 0.4 * rng.standard_normal(size)
    found = Correction.fit(actual, expected, mean, variance)
    corrected, left = found.apply(expected, mean, variance)
    error = 0.4 / np.sqrt(size)
    assert abs((actual - corrected).mean()) < 1e-9
    slope = np.polyfit(corrected - expected, actual - expected, 1)[0]
    assert slope == pytest.approx(1, abs=4 * error / (corrected - expected).std())
    assert left.mean() == pytest.approx(0.16, rel=0.05)
    plain, same = Correction.none().apply(expected, mean, variance)
    assert np.array_equal(plain, mean)
    assert np.array_equal(same, variance)
    control = np.polyfit(shift, actual - expected, 1)[0]
    assert control == pytest.approx(0.5, abs=0.02)


def test_few_items_correct_nothing() -> None:
    few = np.linspace(-1, 1, FEWEST - 1)
    found = Correction.fit(few + 1, few, few, np.ones(len(few)))
    assert found.ratio == 1
    assert not found.weights.any()


def test_simulated_pages_show_the_best_of_each_query() -> None:
    query = np.array([0, 0, 0, 0, 1, 1, 2])
    score = np.array([0.1, 0.9, -2.0, 0.5, -1.0, 1.0, 0.0])
    pages = np.array([3.0] * 4 + [7.4] * 2 + [np.nan])
    slots = np.array([2.0] * 4 + [5.0] * 2 + [np.nan])
    placement = Placement(np.zeros((7, len(BANDS))), pages, slots)
    found = simulated_placement(score, 0.0, query, placement, 5, np.random.default_rng(0))
    expected = np.zeros((7, len(BANDS)))
    expected[1, 0] = expected[3, 1] = 3  # the two best of the first query on its 3 pages
    expected[5, 0] = expected[4, 1] = 5  # both of the second on at most 5
    assert np.array_equal(found.displays, expected)
    assert found.pages.tolist() == [3, 3, 3, 3, 5, 5, 0]


def test_noise_moves_items_as_often_as_its_size_says() -> None:
    from scipy.stats import norm

    queries, pages = 2_000, 10
    query = np.repeat(np.arange(queries), 2)
    score = np.tile([0.5, 0.0], queries)
    size = len(query)
    placement = Placement(
        np.zeros((size, len(BANDS))), np.full(size, float(pages)), np.full(size, 1.0)
    )
    found = simulated_placement(score, 0.3, query, placement, 30, np.random.default_rng(1))
    share = found.displays[::2, 0].sum() / (queries * pages)
    chance = norm.cdf(0.5 / np.sqrt(2 * 0.3))
    assert share == pytest.approx(chance, abs=4 * np.sqrt(chance * (1 - chance) / queries / pages))
