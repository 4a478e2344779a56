"""The mean of a skewed posterior, against weighted draws from a wider distribution."""

import numpy as np
import pytest

from epiclick.posterior.mode import (
    FURTHEST,
    MOST_DIRECTIONS,
    _steps,
    bias_directions,
    find_mode,
    inverse,
    posterior_mean,
)

from .small_worlds import density_of, with_features, world

pytestmark = pytest.mark.slow

DRAWS = 3_000
FREEDOM = 5  # of the t distribution that draws are from, so that no weight is large


def weighted_mean(density, centre: np.ndarray, covariance: np.ndarray) -> tuple:
    """Mean of the parameters and its standard errors, by importance sampling."""
    rng = np.random.default_rng(3)
    size = len(centre)
    noise = rng.standard_normal((DRAWS, size)) * np.sqrt(
        FREEDOM / rng.chisquare(FREEDOM, (DRAWS, 1))
    )
    drawn = centre + noise @ np.linalg.cholesky(covariance).T
    log_proposal = (
        -0.5 * (FREEDOM + size) * np.log1p(np.square(noise).sum(axis=1, keepdims=True) / FREEDOM)
    )
    log_weights = density.value(drawn) - log_proposal[:, 0]
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    mode = weights @ drawn
    return mode, np.sqrt(np.square(weights) @ np.square(drawn - mode))


@pytest.mark.parametrize("features", [False, True])
def test_the_mean_of_biases_near_the_anchors_lies_above_the_mode(features: bool) -> None:
    counts = world(500, (1.0, 0.97, 0.93), most=4)
    counts = with_features(counts) if features else counts
    density = density_of(counts)
    mode = find_mode(density, np.zeros(2 + 2 * (5 if features else 4))).vector
    covariance = inverse(-density.curvature(mode).hessian)
    found = posterior_mean(density, mode, covariance, seed=0)
    exact, error = weighted_mean(density, found, 1.3 * covariance)
    sd = np.sqrt(np.diag(covariance))
    assert np.all(error[:2] / sd[:2] < 0.08)
    off, off_at_mode = (abs(each - exact)[:2] / sd[:2] for each in (found, mode))
    assert np.all(off_at_mode > 0.3)
    assert np.all(off < 0.5 * off_at_mode)


class Bent:
    """Stands in for a density: a Gaussian, and a third derivative in the first bias."""

    prior = density_of(world(40, (1.0, 0.6, 0.3))).prior

    def __init__(self, third: float) -> None:
        rng = np.random.default_rng(0)
        square = rng.normal(size=(10, 10))
        self.third, self.centre = third, rng.normal(size=10)
        self.precision = square @ square.T + np.eye(10)

    def sample(self, most: int, seed: int) -> "Bent":
        return self

    def slope(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        away = vector - self.centre
        gradient = -self.precision @ away
        gradient[0] += 0.5 * self.third * away[0] ** 2
        return 0.0, gradient


@pytest.mark.parametrize("third", [0.0, 0.3])
def test_third_derivatives_move_the_mean(third: float) -> None:
    density = Bent(third)
    covariance = np.linalg.inv(density.precision)
    shift = posterior_mean(density, density.centre, covariance, seed=0) - density.centre
    expected = 0.5 * third * covariance[0, 0] * covariance[0]
    np.testing.assert_allclose(shift, expected, atol=1e-9)


def test_the_mean_is_never_far_from_the_mode() -> None:
    density = Bent(1e6)
    covariance = np.linalg.inv(density.precision)
    shift = posterior_mean(density, density.centre, covariance, seed=0) - density.centre
    assert np.sqrt(shift @ density.precision @ shift) == pytest.approx(FURTHEST)
    np.testing.assert_allclose(shift / shift[0], covariance[0] / covariance[0, 0])


def test_the_layer_responds_to_position_bias_by_the_covariance() -> None:
    density = density_of(world(40, (1.0, 0.6, 0.3)))
    square = np.random.default_rng(1).normal(size=(10, 10))
    covariance = square @ square.T
    along = bias_directions(density, covariance)
    np.testing.assert_allclose(along.T @ along[:, :2], covariance[:, :2], atol=1e-9)


def test_a_sample_of_the_pairs_gives_the_mean_without_bias(monkeypatch) -> None:
    from epiclick.posterior import mode as mode_module

    density = density_of(world(4000, (1.0, 0.97)))
    mode = find_mode(density, np.zeros(7)).vector
    covariance = inverse(-density.curvature(mode).hessian)
    whole = posterior_mean(density, mode, covariance, seed=0) - mode
    monkeypatch.setattr(mode_module, "MEAN_SAMPLE", 2500)
    some = [posterior_mean(density, mode, covariance, seed=i)[0] - mode[0] for i in range(12)]
    error = np.std(some, ddof=1) / np.sqrt(12)
    assert 0 < error < 0.1 * whole[0]
    assert abs(np.mean(some) - whole[0]) < 3 * error


def test_random_steps_have_the_squares_of_all_directions() -> None:
    """Few directions are taken as they are; of many, sums with random signs are unbiased."""
    few = np.random.default_rng(0).normal(size=(MOST_DIRECTIONS, 3))
    assert all(weight == 1 for _, weight in _steps(few, 0))
    np.testing.assert_array_equal([step for step, _ in _steps(few, 0)], few)
    many = np.random.default_rng(1).normal(size=(MOST_DIRECTIONS + 8, 4))
    every = np.array(
        [sum(w * np.outer(step, step) for step, w in _steps(many, seed)) for seed in range(400)]
    )
    error = every.std(axis=0) / np.sqrt(len(every))
    assert np.all(np.abs(every.mean(axis=0) - many.T @ many) < 4.5 * error + 1e-12)
