"""The test of uniform ranks: its false-alarm rate and its power."""

import numpy as np
import pytest
from scipy.stats import chisquare

from epiclick.evaluation.coverage import one_per_world, ranks_among, uniformity

pytestmark = pytest.mark.slow

WORLDS, DRAWS, SEEDS = 240, 99, 400


def p_values(scale: float, shift: float = 0.0, worlds: int = WORLDS) -> np.ndarray:
    """(seeds, 3): both statistics and each alone, for draws of a wrong scale and location."""
    found = []
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        draws = shift + scale * rng.standard_normal((worlds, DRAWS))
        test = uniformity(ranks_among(rng.standard_normal(worlds), draws, rng), DRAWS)
        found.append((test.p_value, test.chi2_p, test.ecdf_p))
    return np.array(found)


@pytest.mark.parametrize("worlds", [WORLDS, 60])
def test_correct_draws_are_rejected_at_the_nominal_rate(worlds: int) -> None:
    found = p_values(1.0, worlds=worlds)
    for level in (0.05, 0.2):
        rejected = (found <= level).mean(axis=0)
        assert np.all(abs(rejected - level) < 3 * np.sqrt(level * (1 - level) / SEEDS))


def test_widths_of_seven_tenths_are_rejected_nearly_always() -> None:
    assert (p_values(0.7) <= 0.01).mean(axis=0).min() > 0.9


def test_too_wide_and_shifted_draws_are_rejected_too() -> None:
    assert (p_values(1.5)[:, 0] <= 0.01).mean() > 0.9
    assert (p_values(1.0, 0.35)[:, 0] <= 0.01).mean() > 0.9


def test_a_fine_grid_is_not_taken_for_a_fault() -> None:
    # evenly spread ranks are as uniform as can be, at every grid point
    found = uniformity(np.repeat(np.arange(100), 3), 99)
    assert found.chi2_p == found.ecdf_p == 1
    assert not found.flagged


def test_all_ranks_alike_are_flagged() -> None:
    found = uniformity(np.full(60, 50), 99)
    assert found.p_value == 1 / 2000
    assert found.flagged


def test_the_chi2_statistic_has_scipys_p_value() -> None:
    rng = np.random.default_rng(0)
    ranks = np.minimum(rng.integers(0, 106, 2000), 99)
    bins = np.bincount(ranks // 5, minlength=20)
    expected = chisquare(bins).pvalue
    # standard error of a p-value from 1,999 simulations
    error = np.sqrt(expected * (1 - expected) / 1999)
    assert abs(uniformity(ranks, 99).chi2_p - expected) < 4 * error + 1e-3


def test_bins_of_unequal_size_are_expected_to_be_unequal() -> None:
    rng = np.random.default_rng(1)
    rejected = [uniformity(rng.integers(0, 8, 50), 7).p_value <= 0.2 for _ in range(SEEDS)]
    assert np.mean(rejected) <= 0.2 + 3 * np.sqrt(0.16 / SEEDS)


def test_one_value_of_each_world_is_taken_at_random() -> None:
    world = np.array([3, 3, 3, 7, 7, 9])
    taken = [one_per_world(world, np.random.default_rng(seed)) for seed in range(300)]
    assert all(world[index].tolist() == [3, 7, 9] for index in taken)
    share = np.bincount([index[0] for index in taken]) / 300
    assert np.all(abs(share - 1 / 3) < 3 * np.sqrt(2 / 9 / 300))
