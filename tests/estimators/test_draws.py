"""Samples follow their Betas, in any number of threads."""

import os

import numpy as np
import pytest
from scipy import special, stats

from epiclick.estimators.estimator import Betas
from epiclick.estimators.sampling import BLOCK, draw_joint, draw_position, draw_relevance

from . import checks

DRAWS = 50_000
LEAST_P = 1e-4  # of a goodness-of-fit test: one in 10,000 right samplers fails it


def draw(alpha: float, beta: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    betas = Betas(np.array([alpha]), np.array([beta]))
    log_zeta, log_other = draw_relevance(np.random.default_rng(seed), betas, DRAWS)
    return log_zeta[0], log_other[0]


def p_value(logs: np.ndarray, alpha: float, beta: float) -> float:
    return float(stats.kstest(np.exp(logs.astype(float)), stats.beta(alpha, beta).cdf).pvalue)


def test_means_of_logarithms() -> None:
    checks.check_draws()


@pytest.mark.parametrize(
    ("alpha", "beta"), [(0.2, 0.5), (1.0, 1.0), (0.7, 4.0), (30.0, 2.0), (5e3, 2e4)]
)
def test_relevance_follows_its_beta(alpha: float, beta: float) -> None:
    log_zeta, log_other = draw(alpha, beta)
    assert log_zeta.dtype == log_other.dtype == np.float32
    assert p_value(log_zeta, alpha, beta) > LEAST_P
    assert p_value(log_other, beta, alpha) > LEAST_P
    # float32 has a relative precision of 6e-8
    np.testing.assert_allclose(np.exp(log_zeta) + np.exp(log_other), 1, rtol=0, atol=1e-6)
    # the control: a sampler that is off by a twentieth of its width fails
    shifted = alpha * np.exp(0.05 / np.sqrt(1 / (alpha + 1) + 1 / (beta + 1)))
    assert p_value(log_zeta, shifted if alpha > 1 else 1.05 * alpha, beta) < LEAST_P


@pytest.mark.slow
def test_no_logarithm_is_infinite_however_many_are_drawn() -> None:
    """An exponential in float32 is 0 once in 2**23 draws: here that would be seven times."""
    tiny = Betas(np.full(1_000, 1e-9), np.full(1_000, 1e-9))
    for logs in draw_relevance(np.random.default_rng(4), tiny, 30_000):
        assert np.isfinite(logs).all()


@pytest.mark.parametrize(("alpha", "beta"), [(1e-3, 1e-3), (1e-3, 1e3), (1e-3, 1.0), (2.0, 1e-3)])
def test_tiny_parameters_are_drawn_in_logarithms(alpha: float, beta: float) -> None:
    logs = [each.astype(float) for each in draw(alpha, beta, seed=1)]
    for values, (own, other) in zip(logs, ((alpha, beta), (beta, alpha)), strict=True):
        assert np.all(np.isfinite(values))
        mean = special.digamma(own) - special.digamma(own + other)
        variance = special.polygamma(1, own) - special.polygamma(1, own + other)
        error = values.std() / np.sqrt(DRAWS)
        assert abs(values.mean() - mean) < 4 * error
        spread = np.sqrt(np.mean((values - mean) ** 4)) / variance / np.sqrt(DRAWS)
        assert abs(np.mean((values - mean) ** 2) / variance - 1) < 4 * spread
        # P(X < x) = x^a / (a B(a, b)) towards 0: far beyond the range of any float
        level = -np.log(2) / own
        below = np.exp(own * level - np.log(own) - special.betaln(own, other))
        if level < -300:
            share = np.mean(values < level)
            assert abs(share - below) < 4 * np.sqrt(below * (1 - below) / DRAWS)


def test_parameters_below_the_range_of_float32_give_finite_values() -> None:
    betas = Betas(np.array([1e-60, 1.0]), np.array([1.0, 1e-60]))
    for logs in draw_relevance(np.random.default_rng(0), betas, 100):
        assert np.all(np.isfinite(logs))


def test_the_number_of_cores_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = 2 * BLOCK + 5
    betas = Betas(np.full(pairs, 0.8), np.linspace(0.5, 5, pairs))
    drawn = []
    for cores in (1, 2, 7, None):
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        drawn.append(draw_relevance(np.random.default_rng(3), betas, 4))
    for other in drawn[1:]:
        np.testing.assert_array_equal(drawn[0], other)


def test_blocks_are_drawn_apart() -> None:
    betas = Betas(np.full(2 * BLOCK, 2.0), np.full(2 * BLOCK, 3.0))
    log_zeta, _ = draw_relevance(np.random.default_rng(4), betas, 4)
    first, second = log_zeta[:BLOCK].ravel(), log_zeta[BLOCK:].ravel()
    assert not np.any(first == second)
    assert abs(np.corrcoef(first, second)[0, 1]) < 4 / np.sqrt(len(first))


def test_a_generator_that_is_restored_draws_the_same() -> None:
    betas = Betas(np.array([1.0, 2.0]), np.array([3.0, 0.5]))
    rng = np.random.default_rng(5)
    draw_joint(rng, betas, betas, 10)
    state = rng.bit_generator.state
    expected = draw_joint(rng, betas, betas, 10)
    restored = np.random.default_rng()
    restored.bit_generator.state = state
    again = draw_joint(restored, betas, betas, 10)
    for name in ("log_theta", "log_rest", "log_zeta", "log_other"):
        np.testing.assert_array_equal(getattr(expected, name), getattr(again, name))


def test_no_pairs_no_samples() -> None:
    none = Betas(np.zeros(0), np.zeros(0))
    assert draw_relevance(np.random.default_rng(0), none, 3)[0].shape == (0, 3)


def test_position_bias_is_drawn_in_float64() -> None:
    betas = Betas(np.array([2.0, 1e-3]), np.array([1.0, 0.5]))
    log_theta, log_rest = draw_position(np.random.default_rng(6), betas, DRAWS)
    assert log_theta.shape == log_rest.shape == (DRAWS, 2)
    assert log_theta.dtype == log_rest.dtype == np.float64
    expected = special.digamma(betas.alpha) - special.digamma(betas.alpha + betas.beta)
    checks.assert_mean(log_theta, expected)
    np.testing.assert_allclose(np.exp(log_theta) + np.exp(log_rest), 1, rtol=1e-12)
