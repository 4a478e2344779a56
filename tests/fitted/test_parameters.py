"""Points and Betas by context: they have the same methods, and files distinguish them."""

import jax
import numpy as np
import pytest

from epiclick.beta import Beta
from epiclick.click_models.registry import CLICK_MODELS
from epiclick.fitted.parameters import (
    BetaLookup,
    Parameters,
    PointLookup,
    from_arrays,
    init_betas,
    position_betas,
    to_arrays,
)
from epiclick.relevance.network import init_relevance

PBM = CLICK_MODELS["pbm"]


def test_position_betas_start_as_in_the_paper() -> None:
    alpha, beta = position_betas(init_betas(3), np)
    np.testing.assert_allclose(alpha, beta)
    np.testing.assert_allclose(alpha + beta, 1.1)


def test_position_points_start_at_relative_click_rates_and_the_anchor_stays() -> None:
    lookup = PointLookup(PBM.start(np.array([0.4, 0.2, np.nan, 0.5]), 0))
    theta, rest, *_ = lookup.emission(PBM, 0, np)
    np.testing.assert_allclose(theta, [1, 0.5, (0.98 + 0.5 + 0.98) / 3, 0.98])
    np.testing.assert_allclose(theta + rest, 1)
    assert rest[0] == 0
    free = PointLookup(PBM.start(np.array([0.4, 0.2]), None)).emission(PBM, None, np).attractive
    np.testing.assert_allclose(free, [0.5, 0.25])


def test_parameters_survive_their_names() -> None:
    layers = init_relevance(np.random.default_rng(2), 3, (4, 2), outputs=2, mean=0.5)
    for position in (init_betas(2), PointLookup(np.array([0.1, 0.2]))):
        back = from_arrays(to_arrays(Parameters(layers, position)))
        assert type(back.position) is type(position)
        for a, b in zip(*map(jax.tree.leaves, (back, Parameters(layers, position))), strict=True):
            np.testing.assert_array_equal(a, b)
    assert isinstance(
        from_arrays(to_arrays(Parameters(layers, init_betas(2)))).position, BetaLookup
    )


def test_points_answer_for_themselves() -> None:
    lookup = PointLookup(np.array([9.0, 0.0, -1.0]))
    assert lookup.is_point
    assert lookup.betas(np) is None
    assert lookup.points is lookup
    assert lookup.with_confidence(np.negative) is lookup
    assert lookup.drawn(np.random.default_rng(0), 7) == [lookup]
    for one, other in zip(
        lookup.emission(PBM, 0, np), PBM.emission(lookup.logit, 0, np), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_betas_answer_by_their_mean_and_their_draws() -> None:
    lookup = BetaLookup(np.array([1.0, -1.0]), np.array([-4.0, 30.0]))
    betas = Beta(*position_betas(lookup, np))
    emission = lookup.emission(PBM, None, np)
    np.testing.assert_allclose(emission.attractive, betas.mean, rtol=1e-14)
    np.testing.assert_allclose(emission.attractive_rest, 1 - betas.mean, rtol=1e-14)
    assert not emission.is_affine
    assert not lookup.is_point
    assert lookup.with_confidence(np.negative).confidence.tolist() == [4.0, -30.0]
    with pytest.raises(TypeError, match="points are needed"):
        _ = lookup.points
    drawn = lookup.drawn(np.random.default_rng(1), 20_000)
    theta = np.array([each.emission(PBM, None, np).attractive for each in drawn])
    error = betas.sd / np.sqrt(len(theta))
    assert np.all(abs(theta.mean(axis=0) - betas.mean) < 4 * error)
    np.testing.assert_allclose(theta.std(axis=0), betas.sd, rtol=0.03)
