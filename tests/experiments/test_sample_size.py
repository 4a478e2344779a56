"""Sizes of experiments, against simulated tests of that size."""

import numpy as np
import pytest
from scipy.stats import norm

from epiclick.experiments.sample_size import pages_to_detect, power_of, variance_to_reach

TESTS = 20_000
SE = np.sqrt(0.8 * 0.2 / TESTS)


def share_significant(mean, variance, floor, pages, power_seed=0, significance=0.05) -> float:
    """Of simulated means of that many pages, tested with the larger standard error."""
    rng = np.random.default_rng(power_seed)
    found = rng.normal(mean, np.sqrt(variance / pages), TESTS)
    error = np.sqrt(variance / pages + floor)
    return float(np.mean(np.abs(found) / error > norm.ppf(1 - significance / 2)))


@pytest.mark.parametrize("floor", [0.0, 4e-5, 1e-4])
@pytest.mark.parametrize("mean", [0.03, -0.03])
def test_the_pages_give_the_power(mean: float, floor: float) -> None:
    pages = pages_to_detect(mean, 0.7, 0.8, 0.05, floor)
    assert abs(share_significant(mean, 0.7, floor, pages) - 0.8) < 4 * SE
    assert share_significant(mean, 0.7, floor, pages / 4) < 0.5
    assert power_of(np.array([mean]), 0.7, pages, 0.05, floor) == pytest.approx(0.8)


def test_without_clusters_it_is_the_textbook_formula() -> None:
    # Fleiss, two-sided 5 %, 80 %: (1.96 + 0.8416)^2 sigma^2 / delta^2
    expected = (norm.ppf(0.975) + norm.ppf(0.8)) ** 2 * 2.5 / 0.1**2
    assert pages_to_detect(0.1, 2.5, 0.8, 0.05) == pytest.approx(expected)


@pytest.mark.parametrize("power", [0.5, 0.9, 0.975, 0.99])
def test_any_power_is_reached_exactly(power: float) -> None:
    pages = pages_to_detect(0.2, 1.3, power, 0.05, 1e-3)
    assert power_of(np.array([0.2]), 1.3, pages, 0.05, 1e-3) == pytest.approx(power)


def test_no_number_of_pages_outweighs_the_clusters() -> None:
    floor = (0.03 / norm.ppf(0.975)) ** 2
    assert pages_to_detect(0.03, 0.7, 0.8, 0.05, 1.001 * floor) is None
    assert pages_to_detect(0.03, 0.7, 0.8, 0.05, 0.999 * floor) > 1e6
    assert pages_to_detect(0.0, 0.7, 0.8, 0.05) is None


def share_sure(difference: float, prior: float, after: float) -> float:
    """How often new clicks leave a lead with probability 0.95, if the difference is as expected."""
    rng = np.random.default_rng(1)
    noise = 1 / (1 / after - 1 / prior)  # variance of what the new clicks say
    measured = rng.normal(difference, np.sqrt(noise), TESTS)
    mean = after * (difference / prior + measured / noise)
    return float(np.mean(norm.cdf(mean / np.sqrt(after)) >= 0.95))


@pytest.mark.parametrize("difference", [0.01, -0.004])
def test_the_variance_to_reach_makes_sure_with_the_power(difference: float) -> None:
    prior = 1e-4
    after = variance_to_reach(difference, prior, 0.95, 0.8)
    assert after < prior
    assert abs(share_sure(abs(difference), prior, after) - 0.8) < 4 * SE
    assert share_sure(abs(difference), prior, 0.9 * prior) < 0.5


def test_a_certain_difference_needs_no_smaller_variance() -> None:
    assert variance_to_reach(0.1, 1e-4, 0.95, 0.8) == 1e-4
