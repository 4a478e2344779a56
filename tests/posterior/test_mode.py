"""The mode, from distant starts, against scipy's."""

import numpy as np
import pytest
from scipy import optimize

from epiclick.posterior.density import Curvature, Density
from epiclick.posterior.mode import NEAR, SETTLED, _updated, find_mode, inverse

from .small_worlds import density_of, with_features, world

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("features", [False, True])
def test_a_bad_start_leads_to_the_mode_that_scipy_finds(features: bool) -> None:
    counts = world(2048, (1.0, 0.6, 0.3))
    counts = with_features(counts) if features else counts
    size = 2 + 2 * (5 if features else 4)
    bad = np.random.default_rng(0).normal(0, 2, size)
    bad[:2] = 6, -7  # logits of position bias
    density = density_of(counts)
    mode = find_mode(density, bad)
    near = find_mode(density, np.zeros(size))
    found = optimize.minimize(
        lambda v: tuple(-part for part in density.curvature(v)[:2]),
        np.zeros(size),
        jac=True,
        method="BFGS",
        options={"gtol": 1e-5},
    )
    _, gradient, hessian, _ = density.curvature(mode.vector)
    assert np.all(np.linalg.eigvalsh(hessian) < 0)
    assert SETTLED == 1e-6
    assert gradient @ np.linalg.solve(-hessian, gradient) < SETTLED**2
    sd = np.sqrt(np.diag(np.linalg.inv(-hessian)))
    np.testing.assert_allclose((mode.vector - near.vector) / sd, 0, atol=10 * SETTLED)
    np.testing.assert_allclose((mode.vector - found.x) / sd, 0, atol=1e-3)


def test_a_sample_of_the_pairs_guides_to_the_same_mode(monkeypatch) -> None:
    from epiclick.posterior import mode

    density = density_of(with_features(world(4000, (1.0, 0.6, 0.3))), batch_size=500)
    whole = find_mode(density, np.zeros(12))
    monkeypatch.setattr(mode, "SAMPLE", 500)
    guided = find_mode(density, np.zeros(12))
    sd = np.sqrt(np.diag(np.linalg.inv(-whole.curvature.hessian)))
    assert np.any(whole.vector != guided.vector)
    np.testing.assert_allclose((whole.vector - guided.vector) / sd, 0, atol=2 * SETTLED)


def test_the_curvature_comes_from_near_the_mode(monkeypatch) -> None:
    density = density_of(with_features(world(4000, (1.0, 0.6, 0.3))))
    seen = []

    def recorded(self: Density, vector: np.ndarray) -> Curvature:
        seen.append(vector)
        return found(self, vector)

    found = Density.curvature
    monkeypatch.setattr(Density, "curvature", recorded)
    mode = find_mode(density, np.zeros(12))
    there = density.curvature(mode.vector)
    last, _ = seen  # at the end of BFGS, and here
    away = mode.vector - last
    assert SETTLED**2 < away @ -there.hessian @ away < NEAR**2
    np.testing.assert_allclose(mode.gradient, there.gradient, atol=0.05)
    spread, exact = inverse(-mode.curvature.hessian), inverse(-there.hessian)
    np.testing.assert_allclose(np.diag(spread) / np.diag(exact), 1, atol=0.02)


def test_cheap_gradients_are_those_of_the_curvature() -> None:
    rng = np.random.default_rng(4)
    for most in (2, 40, 2000):
        density = density_of(with_features(world(300, (1.0, 0.6, 0.3), most=most)))
        vector = rng.normal(0, 0.5, 12)
        value, gradient = density.slope(vector)
        exact = density.curvature(vector)
        sd = np.sqrt(np.diag(inverse(-exact.hessian)))
        assert value == pytest.approx(exact.value, abs=1e-3)
        np.testing.assert_allclose(gradient * sd, exact.gradient * sd, atol=1e-3)


def test_an_updated_inverse_maps_the_change_of_the_gradient_to_the_step() -> None:
    rng = np.random.default_rng(5)
    square = rng.normal(size=(6, 6))
    spread, moved = square @ square.T, rng.normal(size=6)
    bent = moved + 0.1 * rng.normal(size=6)
    updated = _updated(spread, moved, bent)
    np.testing.assert_allclose(updated @ bent, moved, atol=1e-12)
    np.testing.assert_allclose(updated, updated.T, atol=1e-12)
    assert np.all(np.linalg.eigvalsh(updated) > 0)


def test_a_mode_stays_where_it_is() -> None:
    density = density_of(world(400, (1.0, 0.6, 0.3)))
    mode = find_mode(density, np.zeros(10))
    again = find_mode(density, mode.vector)
    np.testing.assert_array_equal(mode.vector, again.vector)


def test_the_inverse_has_positive_eigenvalues() -> None:
    rng = np.random.default_rng(1)
    turn, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    values = np.array([5.0, 2.0, -0.5, 0.0])
    found = inverse(turn * values @ turn.T)
    # saddles and flat directions give finite ascent steps
    np.testing.assert_allclose(
        np.diag(turn.T @ found @ turn), [1 / 5, 1 / 2, 1 / 0.5, 1 / 5e-8], rtol=1e-6
    )
    positive = turn * abs(values + 1) @ turn.T
    np.testing.assert_allclose(inverse(positive) @ positive, np.eye(4), atol=1e-12)
