"""Pareto's k against arviz and against weights whose tail is known."""

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy.stats import genpareto

from epiclick.posterior.laplace import pareto_k


@pytest.mark.parametrize("k", [0.2, 0.5, 0.9])
def test_arviz_finds_the_same_shape(k: float) -> None:
    rng = np.random.default_rng(0)
    for draws in (100, 400, 2500, 10_000):  # of which both take the same tail
        log_weights = np.log(genpareto.rvs(k, size=draws, random_state=rng))
        # arviz takes the negative: log-likelihoods of what is left out
        arviz = float(array_stats.psislw(-log_weights)[1])
        assert pareto_k(log_weights) == pytest.approx(arviz, rel=1e-6)


@pytest.mark.parametrize("k", [0.2, 0.5, 0.9])
def test_tails_of_known_shape_are_recovered(k: float) -> None:
    rng = np.random.default_rng(1)
    found = np.array(
        [pareto_k(np.log(genpareto.rvs(k, size=4000, random_state=rng))) for _ in range(200)]
    )
    tail = np.ceil(3 * np.sqrt(4000))
    drawn_in = (tail * k + 10 * 0.5) / (tail + 10)  # by ten weights' worth of 0.5
    error = found.std() / np.sqrt(len(found))
    assert abs(found.mean() - drawn_in) < 4 * error + 0.01
    # as scattered as the estimate's theory says, about (1 + k) / sqrt(tail)
    assert found.std() == pytest.approx((1 + k) / np.sqrt(tail), rel=0.25)


def test_a_constant_changes_nothing_and_a_heavier_tail_is_detected() -> None:
    rng = np.random.default_rng(2)
    log_weights = rng.normal(0, 1.0, 2000)
    assert pareto_k(log_weights) == pytest.approx(pareto_k(log_weights + 900), rel=1e-6)
    assert pareto_k(3 * log_weights) > 0.7 > pareto_k(log_weights) > pareto_k(log_weights / 10)


def test_equal_weights_have_no_tail() -> None:
    assert pareto_k(np.zeros(100)) == -np.inf
    assert pareto_k(np.full(100, -3000.0)) == -np.inf
