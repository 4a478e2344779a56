"""Conversion of parameters to vectors, and the draws that predictions are averaged over."""

from dataclasses import replace

import numpy as np
import pytest

from epiclick.click_models.pbm import PositionBased
from epiclick.fitted.parameters import (
    DRAWS,
    PointLookup,
    from_vector,
    mirrored_draws,
    parameter_draws,
    to_vector,
    without_uncertainty,
)

from .hand_made import LOGITS, POSITIONS, by_features, by_ids, with_bias_betas, with_members


@pytest.mark.parametrize("anchor", [None, 0, 2])
def test_a_vector_holds_the_logits_then_the_layer_row_by_row(anchor: int | None) -> None:
    own = by_features().parameters
    vector = to_vector(own, PositionBased(), anchor)
    free = [k for k in range(POSITIONS) if k != anchor]
    np.testing.assert_array_equal(PositionBased().free(POSITIONS, anchor), free)
    weight, bias = own.layers[-1]
    np.testing.assert_array_equal(vector[: len(free)], LOGITS[free])
    np.testing.assert_array_equal(vector[len(free) :].reshape(-1, 2), [*weight, bias])
    moved = from_vector(own, PositionBased(), anchor, vector + 1)
    np.testing.assert_array_equal(to_vector(moved, PositionBased(), anchor), vector + 1)
    np.testing.assert_array_equal(moved.layers[-1][0], np.asarray(weight, float) + 1)
    assert moved.layers[0][0] is own.layers[0][0]  # the body's very arrays
    if anchor is not None:
        assert moved.position.logit[anchor] == LOGITS[anchor]
    np.testing.assert_array_equal(own.position.logit, LOGITS)  # nothing is changed in place


def test_mirrored_draws_have_the_mean_and_the_covariance() -> None:
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(3, 2))  # of less than full rank
    mode, covariance = np.array([1.0, -2.0, 30.0]), factor @ factor.T
    drawn = mirrored_draws(mode, covariance, 40_000, rng)
    np.testing.assert_allclose(drawn.mean(axis=0), mode, rtol=1e-12)
    found = np.cov(drawn, rowvar=False)
    # mirrored, 20,000 are independent
    error = np.sqrt((np.outer(*2 * [np.diag(covariance)]) + covariance**2) / 20_000)
    assert np.all(abs(found - covariance) < 5 * error + 1e-9)
    assert mirrored_draws(mode, covariance, 5, rng).shape == (5, 3)


def test_draws_come_from_the_kind_that_is_asked_for() -> None:
    fitted = by_ids(0.4)  # robust; bayes is half as wide
    for kind, sd in (("robust", 0.4), ("bayes", 0.2)):
        draws = parameter_draws(fitted, 4000, kind=kind)
        vectors = np.array([to_vector(draw, PositionBased(), fitted.anchor) for draw in draws])
        assert vectors.std(axis=0) == pytest.approx(sd, rel=5 / np.sqrt(2 * 2000))
    first, again, other = (parameter_draws(fitted, seed=seed) for seed in (0, 0, 1))
    assert len(first) == DRAWS
    same = [
        [
            np.array_equal(to_vector(a, PositionBased(), 0), to_vector(b, PositionBased(), 0))
            for a, b in zip(first, o, strict=True)
        ]
        for o in (again, other)
    ]
    assert (all(same[0]), any(same[1])) == (True, False)


def test_samples_by_chains_are_drawn_from_for_bayes() -> None:
    fitted = by_ids()
    assert fitted.posterior is not None
    samples = fitted.posterior.mean + np.arange(7)[:, None]
    fitted = replace(fitted, posterior=replace(fitted.posterior, samples=samples))
    shifts = [
        to_vector(draw, PositionBased(), 0)[0] - samples[0, 0]
        for draw in parameter_draws(fitted, 200, kind="bayes")
    ]
    assert set(np.round(shifts, 9)) == set(range(7))
    robust = parameter_draws(fitted, 200)
    assert (
        abs(np.mean([to_vector(draw, PositionBased(), 0)[0] for draw in robust]) - samples[0, 0])
        < 1e-9
    )


def test_betas_of_positions_are_drawn_as_points() -> None:
    fitted = with_bias_betas(by_features())
    draws = parameter_draws(fitted, 20_000)
    assert all(isinstance(draw.position, PointLookup) for draw in draws[:10])
    theta = 1 / (1 + np.exp(-np.array([draw.position.logit for draw in draws])))
    mean = 1 / (1 + np.exp(-LOGITS))
    sd = np.sqrt(mean * (1 - mean) / (21 + 1))
    assert np.all(abs(theta.mean(axis=0) - mean) < 5 * sd / np.sqrt(20_000) + 1e-12)
    # the first, next to 1, is too skewed for its deviation to be estimated from these draws
    np.testing.assert_allclose(theta.std(axis=0)[1:], sd[1:], rtol=0.05)


def test_members_come_before_all_else_and_points_are_themselves() -> None:
    fitted = with_members(by_features(), 3)
    assert parameter_draws(fitted, 50) is fitted.members
    certain = without_uncertainty(fitted)
    assert parameter_draws(certain) == [certain.parameters]
    pointwise = by_features(kind="PointwisePBM")
    assert parameter_draws(pointwise, 50) == [pointwise.parameters]
