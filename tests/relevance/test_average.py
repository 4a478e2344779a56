"""Averages of Betas over draws, against scipy and samples."""

import numpy as np
import pytest
from scipy import stats

from epiclick.relevance import average as averages
from epiclick.relevance.average import BetaAverage


def spread(seed: int, pairs: int, smallest: float = -1.5) -> BetaAverage:
    """Betas whose mean and width differ between 16 draws."""
    rng = np.random.default_rng(seed)
    alpha, beta = 10 ** rng.uniform(smallest, 1.5, (2, pairs))
    wobble = np.exp(rng.normal(0, 0.5, (2, 16, pairs)))
    return BetaAverage(alpha * wobble[0], beta * wobble[1])


@pytest.mark.parametrize("probability", [0.001, 0.05, 0.5, 0.95, 0.999])
def test_quantiles_have_their_probability(probability: float) -> None:
    average = spread(1, 500)
    zeta = average.quantile(probability)
    held = (zeta > 1e-290) & (zeta < 1 - 1e-6)  # by float64
    assert held.sum() > 250
    expected = stats.beta.cdf(zeta, average.alpha, average.beta).mean(axis=0)
    np.testing.assert_allclose(expected[held], probability, rtol=1e-4, atol=1e-5)


def test_each_pair_may_have_its_own_probability_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    average = spread(2, 100, smallest=0)
    probability = np.random.default_rng(3).random(100)
    whole = average.quantile(probability)
    np.testing.assert_allclose(average.cdf(whole), probability, atol=1e-5)
    monkeypatch.setattr(averages, "BLOCK", 7)
    np.testing.assert_array_equal(average.quantile(probability), whole)
    lowest, highest = average.quantile(np.zeros(100)), average.quantile(np.ones(100))
    assert np.all(average.quantile(1e-9) > lowest)
    assert np.all(average.quantile(1 - 1e-9) <= highest)


def test_quantiles_of_heads_are_as_exact() -> None:
    """Betas after a million displays, as far apart as they are wide or further."""
    rng = np.random.default_rng(10)
    mean = rng.uniform(0.01, 0.9, 40) * (1 + rng.normal(0, 0.002, (16, 40)))
    average = BetaAverage(1e6 * mean, 1e6 * (1 - mean))
    for probability in (0.05, 0.5, 0.95):
        zeta = average.quantile(probability)
        expected = stats.beta.cdf(zeta, average.alpha, average.beta).mean(axis=0)
        np.testing.assert_allclose(expected, probability, atol=1e-5)


def test_moments_are_those_of_samples() -> None:
    average = spread(4, 5, smallest=0)
    rng = np.random.default_rng(5)
    draws, pairs = average.alpha.shape
    chosen = rng.integers(draws, size=(200_000, pairs)), np.arange(pairs)
    zeta = rng.beta(average.alpha[chosen], average.beta[chosen])
    matched = average.matched
    error = zeta.std(axis=0) / np.sqrt(len(zeta))
    assert np.all(abs(matched.mean - zeta.mean(axis=0)) < 4 * error)
    np.testing.assert_allclose(matched.variance, zeta.var(axis=0), rtol=0.02)
    within = (average.alpha * average.beta / (average.alpha + average.beta) ** 2) / (
        average.alpha + average.beta + 1
    )
    assert np.all(within.mean(axis=0) < 0.97 * matched.variance)  # what one draw would say


def test_the_matched_beta_has_other_ends() -> None:
    """The control: its lower tail is too light."""
    average = spread(6, 500)
    below = average.cdf(average.matched.quantile(0.05))
    assert np.quantile(abs(below - 0.05), 0.9) > 0.01


def test_one_draw_is_a_beta() -> None:
    rng = np.random.default_rng(7)
    alpha, beta = rng.gamma(2.0, size=(2, 1, 50))
    average = BetaAverage(alpha, beta)
    np.testing.assert_array_equal(average.quantile(0.05), average.matched.quantile(0.05))
    np.testing.assert_array_equal(average.matched.alpha, alpha[0])
