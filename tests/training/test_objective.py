"""Gradients of the objectives against differences of what they maximise."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from epiclick.beta import Beta
from epiclick.click_models.pbm import PositionBased
from epiclick.estimators.names import make_estimator
from epiclick.fitted.parameters import (
    BetaLookup,
    Parameters,
    PointLookup,
    leaves,
    position_betas,
    with_leaves,
)
from epiclick.likelihood.pairs import Bucket, PairBatch
from epiclick.relevance.heads import relevance_betas
from epiclick.training.objective import EpistemicObjective, PointwiseObjective

PAIRS, CONTEXTS, FEATURES = 12, 3, 4
ENTROPY = 0.7


def batch_of() -> PairBatch:
    """Pairs with few displays and with many, weights, and padding of weight 0."""
    rng = np.random.default_rng(0)
    few, many = rng.integers(0, 2, (8, CONTEXTS)), rng.integers(0, 40, (4, CONTEXTS))
    order = [np.repeat(np.arange(CONTEXTS), row) for row in few]
    padded = np.array([np.r_[row, np.full(4 - len(row), -1)] for row in order])
    clicks = rng.integers(0, 3, (PAIRS, CONTEXTS))
    weight = np.array([1.0, 2, 0, 1, 1, 3, 1, 1, 2, 1, 1, 0])
    return PairBatch((Bucket(clicks[:8], few, padded), Bucket(clicks[8:], many, None)), weight)


def parameters_of(outputs: int, lookup: Any, hidden: Sequence[int] = (5,)) -> Parameters:
    """A network in float64, so that differences are exact."""
    rng = np.random.default_rng(1)
    sizes = [FEATURES, *hidden, outputs]
    layers = tuple(
        (0.5 * rng.normal(size=shape), rng.normal(size=shape[1])) for shape in pairwise(sizes)
    )
    return Parameters(layers, lookup)


INPUTS = np.random.default_rng(2).normal(size=(PAIRS, FEATURES))
POINTS = PointLookup(np.array([0.4, -0.2, -1.5]))
BETAS = BetaLookup(np.array([0.4, -0.2, -1.5]), np.array([2.0, -0.7, 5.0]))


def differences(value: Callable[[Parameters], float], at: Parameters) -> list[np.ndarray]:
    """Central differences in every number of the parameters."""
    step, found = 1e-5, []
    for which, leaf in enumerate(leaves(at)):
        slope = np.zeros(leaf.shape)
        for place in np.ndindex(leaf.shape):
            moved = []
            for sign in (1, -1):
                arrays = [each.copy() for each in leaves(at)]
                arrays[which][place] += sign * step
                moved.append(value(with_leaves(at, arrays)))
            slope[place] = (moved[0] - moved[1]) / (2 * step)
        found.append(slope)
    return found


def modified_entropy(parameters: Parameters, weight: np.ndarray) -> float:
    """Weighted mean over pairs, plus the mean over contexts where they are Betas."""
    relevance = relevance_betas(parameters.layers, INPUTS, np, smooth=parameters.smooth)
    mean = weight @ Beta(*relevance).entropy() / weight.sum()
    if parameters.position.is_point:
        return float(mean)
    return float(mean + Beta(*position_betas(parameters.position, np)).entropy().mean())


@pytest.mark.parametrize("anchor", [None, 1])
@pytest.mark.parametrize("entropy", [0.0, ENTROPY])
def test_marginal_descent_is_that_of_likelihood_and_entropy(
    entropy: float, anchor: int | None
) -> None:
    """Per pair, pairs weighted."""
    objective = EpistemicObjective(
        make_estimator("marginal"), entropy, PositionBased(), anchor, samples=1
    )
    batch, parameters = batch_of(), parameters_of(2, POINTS)

    def value(at: Parameters) -> float:
        bias = objective.draw_bias(np.random.default_rng(0), at, INPUTS)
        likelihood = objective.score(at, INPUTS, batch, bias) / batch.weight.sum()
        return -likelihood - entropy * modified_entropy(at, batch.weight)

    found = objective.descent(parameters, INPUTS, batch, None)
    for own, slope in zip(found.gradient, differences(value, parameters), strict=True):
        assert own.dtype == np.float64
        np.testing.assert_allclose(own, slope, rtol=1e-6, atol=1e-7)
    bias = objective.draw_bias(np.random.default_rng(0), parameters, INPUTS)
    expected = objective.score(parameters, INPUTS, batch, bias)
    assert found.log_likelihood == pytest.approx(expected, rel=1e-12)


def test_entropy_of_betas_is_that_of_relevance_and_position() -> None:
    """Whatever the estimator: its own gradient is left out as the difference of two descents."""
    objective = EpistemicObjective(
        make_estimator("self_normalized", 3), ENTROPY, PositionBased(), None, samples=3
    )
    parameters = parameters_of(2, BETAS)
    batch = batch_of()
    draws = objective.draw(np.random.default_rng(0), parameters, INPUTS)
    with_entropy, without = (
        each.descent(parameters, INPUTS, batch, draws).gradient
        for each in (objective, replace(objective, entropy=0.0))
    )
    expected = differences(lambda at: -ENTROPY * modified_entropy(at, batch.weight), parameters)
    unweighted = differences(lambda at: -ENTROPY * modified_entropy(at, np.ones(PAIRS)), parameters)
    for one, other, slope in zip(with_entropy, without, expected, strict=True):
        np.testing.assert_allclose(one - other, slope, rtol=1e-6, atol=1e-7)
    # the control: weights of pairs count
    assert abs(with_entropy[0] - without[0] - unweighted[0]).max() > 1e-3


@pytest.mark.parametrize("anchor", [None, 0])
@pytest.mark.parametrize("hidden", [(), (5, 3)])
def test_pointwise_descent_is_that_of_the_likelihood(
    hidden: tuple[int, ...], anchor: int | None
) -> None:
    objective = PointwiseObjective(PositionBased(), anchor)
    batch, parameters = batch_of(), parameters_of(1, POINTS, hidden)

    def log_likelihood(at: Parameters) -> float:
        raw = INPUTS
        for number, (weight, bias) in enumerate(at.layers):
            raw = raw @ weight + bias
            raw = np.maximum(raw, 0) if number < len(at.layers) - 1 else raw
        theta = expit(at.position.logit)
        theta = np.where(np.arange(CONTEXTS) == anchor, 1.0, theta)
        p = theta * expit(raw)
        total = 0.0
        for part, bucket in batch.parts():
            own = bucket.clicks * np.log(p[part]) + bucket.unclicked * np.log(1 - p[part])
            total += batch.weight[part] @ own.sum(axis=1)
        return total

    found = objective.descent(parameters, INPUTS, batch, None)
    expected = log_likelihood(parameters)
    assert found.log_likelihood == pytest.approx(expected, rel=1e-12)
    assert objective.score(parameters, INPUTS, batch, None) == pytest.approx(expected, rel=1e-12)
    slopes = differences(lambda at: -log_likelihood(at) / batch.weight.sum(), parameters)
    for own, slope in zip(found.gradient, slopes, strict=True):
        np.testing.assert_allclose(own, slope, rtol=1e-6, atol=1e-7)


def test_what_is_fixed_or_frozen_does_not_move() -> None:
    batch = batch_of()
    points = EpistemicObjective(
        make_estimator("marginal"), ENTROPY, PositionBased(), 0, samples=1, fixed=(2,)
    )
    *_, lookup = points.descent(parameters_of(2, POINTS), INPUTS, batch, None).gradient
    assert lookup[0] == lookup[2] == 0 != lookup[1]
    frozen = replace(points, frozen=True, estimator=make_estimator("self_normalized", 3))
    parameters = parameters_of(2, BETAS)
    draws = frozen.draw(np.random.default_rng(0), parameters, INPUTS)
    found = frozen.descent(parameters, INPUTS, batch, draws).gradient
    weight, bias, mean, confidence = found[-4:]
    for stays in (weight[:, 1], bias[1], confidence):
        assert not np.any(stays)
    for moves in (weight[:, 0], bias[0], mean):
        assert np.any(moves)


def test_a_batch_without_weight_moves_nothing() -> None:
    """A bootstrap may draw none of a batch's pairs."""
    batch = batch_of()
    batch = replace(batch, weight=0 * batch.weight)
    for objective, outputs in (
        (EpistemicObjective(make_estimator("marginal"), ENTROPY, PositionBased(), 0, 1), 2),
        (PointwiseObjective(PositionBased(), 0), 1),
    ):
        found = objective.descent(parameters_of(outputs, POINTS), INPUTS, batch, None)
        assert found.log_likelihood == 0
        assert not any(part.any() for part in found.gradient)
