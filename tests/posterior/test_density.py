"""The log density, its gradient and Hessian, and the scores of queries."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import expit

from epiclick.batching.pairset import PairSet
from epiclick.click_models.click_model import Emission
from epiclick.click_models.pbm import PositionBased
from epiclick.click_models.priors import UniformPrior
from epiclick.data.counts import ClickCounts
from epiclick.posterior import density as module
from epiclick.posterior.climbing import _reweighted
from epiclick.posterior.density import Density, mean_square_inputs, query_clusters
from epiclick.posterior.laplace import make_density

from .small_worlds import (
    brute_log_density,
    counts_of,
    density_of,
    differences,
    log_prior,
    pairs_of,
    start_of,
    with_features,
    world,
)

pytestmark = pytest.mark.slow

THETA = (1.0, 0.6, 0.3)
KINDS = {"ids, anchored": (False, 0), "features, last anchored": (True, 2), "free": (True, None)}


@pytest.fixture(params=KINDS, ids=list(KINDS))
def problem(request: pytest.FixtureRequest) -> tuple[ClickCounts, int | None, Density, np.ndarray]:
    """Counts, anchor, density, and a vector away from the mode."""
    features, anchor = KINDS[request.param]
    counts = world(40, THETA)
    counts = with_features(counts) if features else counts
    density = density_of(counts, anchor)
    free = 3 if anchor is None else 2
    size = free + 2 * ((4 if features else 3) + 1)
    return counts, anchor, density, np.random.default_rng(3).normal(0, 0.6, size)


def test_values_are_those_of_brute_force(problem) -> None:
    counts, anchor, density, vector = problem
    vectors = np.stack([vector, -vector, vector / 3])
    values = density.value(vectors)
    own = [density.curvature(v).value for v in vectors]
    brute = [brute_log_density(counts, anchor, v) + log_prior(density, v) for v in vectors]
    # densities are known up to a constant; inputs of the network are float32
    np.testing.assert_allclose(np.diff(values), np.diff(brute), rtol=1e-5)
    np.testing.assert_allclose(np.diff(own), np.diff(brute), rtol=1e-5)


def test_relative_values_are_differences_of_values(problem) -> None:
    counts, anchor, density, vector = problem
    vectors = vector + np.random.default_rng(4).normal(0, 0.1, (5, len(vector)))
    found = density.relative(vector, vectors)
    brute = [
        brute_log_density(counts, anchor, v) + log_prior(density, v) for v in (vector, *vectors)
    ]
    np.testing.assert_allclose(found, np.array(brute[1:]) - brute[0], rtol=1e-5)


def test_gradients_alone_are_those_of_differences_of_values(problem) -> None:
    _, _, density, vector = problem
    value, gradient = density.slope(vector)
    assert value == pytest.approx(density.value(vector[None])[0], rel=1e-13)
    by_value = differences(lambda v: density.value(v[None])[0], vector)
    np.testing.assert_allclose(gradient, by_value, atol=1e-7)
    np.testing.assert_allclose(gradient, density.curvature(vector).gradient, atol=1e-7)


def test_derivatives_are_those_of_differences(problem) -> None:
    _, _, density, vector = problem
    own = density.curvature(vector)
    by_value = differences(lambda v: density.curvature(v).value, vector)
    by_slope = differences(lambda v: density.curvature(v).gradient, vector)
    np.testing.assert_allclose(own.gradient, by_value, atol=1e-7)
    np.testing.assert_allclose(own.hessian, by_slope, atol=1e-7)


def test_scores_are_the_gradients_of_each_query(problem) -> None:
    counts, _, density, vector = problem
    own, prior = density.curvature(vector), density.prior.gradient(vector)
    assert own.scores.shape == (counts.num_queries, len(vector))
    np.testing.assert_allclose(own.scores.sum(axis=0) + prior, own.gradient, atol=1e-9)
    for query in (0, 5):
        part = pairs_of(counts.subset(np.flatnonzero(counts.query == query)))
        alone = replace(density, pairs=part).curvature(vector).gradient - prior
        np.testing.assert_allclose(own.scores[query], alone, atol=1e-9)


@pytest.mark.parametrize("far", [1e3, -1e3])
def test_a_step_that_goes_too_far_is_never_an_improvement(far: float) -> None:
    """Betas whose parameters underflow, and biases that do; a climb halves such a step."""
    density = density_of(world(40, THETA))
    here = np.zeros(10)
    value = density.value(here[None])[0]
    for part in (slice(0, 2), slice(2, 10)):
        there = here.copy()
        there[part] = far
        assert not density.slope(there)[0] >= value
        assert not density.value(there[None])[0] >= value
        assert not density.curvature(there).value >= value


def test_batches_add_up() -> None:
    """Batches that are padded with pairs that were never shown."""
    counts = with_features(world(40, THETA))
    density = density_of(counts)
    vector = np.random.default_rng(4).normal(size=2 + 2 * 5)
    small = replace(density, pairs=pairs_of(counts, 11))
    parts = list(small.parts())
    assert len(parts) == 4
    assert all(len(part.pairs) == len(part.given) == len(part.batch.weight) for part in parts)
    assert any((part.pairs < 0).any() for part in parts)
    for one, other in zip(density.curvature(vector), small.curvature(vector), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-10)
    # hidden units are float32, whose sums depend on the shape of the batch
    np.testing.assert_allclose(small.value(vector[None]), density.value(vector[None]), rtol=1e-7)
    np.testing.assert_allclose(small.slope(vector)[1], density.slope(vector)[1], atol=1e-6)


def test_parts_that_do_not_fit_in_memory_are_computed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    density = density_of(with_features(world(40, THETA)))
    vector = np.random.default_rng(4).normal(size=2 + 2 * 5)
    kept = density.slope(vector)
    assert density._cached is not None
    monkeypatch.setattr(module, "CACHED_BYTES", 0)
    streamed = replace(density)
    assert streamed._cached is None
    assert streamed.slope(vector)[0] == kept[0]
    np.testing.assert_array_equal(streamed.slope(vector)[1], kept[1])


class Nonlinear(PositionBased):
    """Logits that are no linear function of the parameters; unattractive items are clicked too.

    logit A = (p_0 p_1, -, p_0 - p_2^2), of which the second is an anchor, and
    logit B = (-2 - p_2, exp(p_1), -3 + p_0 p_2).
    """

    def size(self, contexts: int) -> int:
        return 3

    def free(self, contexts: int, anchor: int | None) -> np.ndarray:
        return np.arange(3)

    def prior(self, contexts: pa.Table, anchor: int | None) -> UniformPrior:
        return UniformPrior.of(3)

    def emission(self, parameters, anchor, xp=np) -> Emission:
        p, q, r = parameters
        logit = np.array([p * q, 0, p - r**2, -2 - r, np.exp(q), -3 + p * r])
        value, rest = expit(logit), expit(-logit)
        value[1], rest[1] = 1, 0
        return Emission(value[:3], rest[:3], value[3:], rest[3:])

    def logit_jacobian(self, parameters, anchor) -> np.ndarray:
        p, q, r = parameters
        rows = [(q, p, 0), (0, 0, 0), (1, 0, -2 * r), (0, 0, -1), (0, np.exp(q), 0), (r, 0, p)]
        return np.array(rows, float)

    def logit_bend(self, parameters, anchor, slope) -> np.ndarray:
        bend = np.zeros((3, 3))
        bend[0, 1] = bend[1, 0] = slope[0]
        bend[2, 2] = -2 * slope[2]
        bend[1, 1] = slope[4] * np.exp(parameters[1])
        bend[0, 2] = bend[2, 0] = slope[5]
        return bend


def test_the_chain_rule_of_a_nonlinear_click_model() -> None:
    """Gradient and Hessian against differences, with both kinds of buckets."""
    rng = np.random.default_rng(3)
    displays = rng.integers(0, 4, (40, 3)) * rng.choice([1, 30], (40, 1))
    displays[:, 0] += 1
    counts = counts_of(displays, rng.binomial(displays, 0.3))
    pairs = PairSet.of(counts, None, 100, affine=True)
    (batch,) = [pairs.batches.assemble(chosen) for chosen in pairs.batches.epoch()]
    assert {bucket.order is None for bucket in batch.buckets} == {False, True}
    density = make_density(pairs, start_of(counts), Nonlinear(), 1)
    vector = np.r_[0.7, -0.4, 0.9, rng.normal(0, 0.4, 2 * 4)]
    own = density.curvature(vector)
    by_value = differences(lambda v: density.curvature(v).value, vector)
    by_slope = differences(lambda v: density.curvature(v).gradient, vector)
    np.testing.assert_allclose(own.gradient, by_value, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(own.hessian, by_slope, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(density.slope(vector)[1], own.gradient, rtol=1e-6, atol=1e-6)

    # the control: without the bend of the logits the Hessian is another one
    class Straight(Nonlinear):
        def logit_bend(self, parameters, anchor, slope) -> np.ndarray:
            return np.zeros((3, 3))

    straight = replace(density, emitter=replace(density.emitter, clicks=Straight()))
    assert abs(straight.curvature(vector).hessian - by_slope).max() > 0.1


DISTINCT = {"rtol": 1e-10, "atol": 1e-10}


def repeated() -> tuple[ClickCounts, np.ndarray]:
    """Pairs of which most have the same counts as another, heads among them, and a vector."""
    counts = world(400, THETA)
    displays, clicks = counts.dense()
    displays[::50] = [40, 3, 2]
    clicks[::50] = [[7, 1, 0], [0, 0, 0]] * 4
    return counts_of(displays, clicks), np.random.default_rng(3).normal(0, 0.6, 2 + 2 * 4)


def test_distinct_vectors_have_the_density_of_all_pairs() -> None:
    counts, vector = repeated()
    whole = density_of(counts)
    pairs = PairSet.distinct(counts, 40)
    assert len(pairs.batches.counts) < len(counts) / 4
    few = make_density(pairs, start_of(counts), PositionBased(), 0)
    np.testing.assert_allclose(few.prior.layer_sd, whole.prior.layer_sd, rtol=1e-12)
    vectors = np.stack([vector, -vector])
    np.testing.assert_allclose(few.value(vectors), whole.value(vectors), **DISTINCT)
    for one, other in zip(few.slope(vector), whole.slope(vector), strict=True):
        np.testing.assert_allclose(one, other, **DISTINCT)
    for one, other in zip(few.curvature(vector), whole.curvature(vector), strict=True):
        np.testing.assert_allclose(one, other, **DISTINCT)


def test_distinct_vectors_with_weights_have_the_density_of_weighted_pairs() -> None:
    """The weights of a bootstrap, which differ between pairs with equal counts."""
    counts, vector = repeated()
    weight = np.random.default_rng(5).poisson(1, counts.num_queries).astype(float)[counts.query]
    few = make_density(PairSet.distinct(counts, 40), start_of(counts), PositionBased(), 0)
    few = _reweighted(few, weight)
    pairs = PairSet.of(counts, None, 1_000, weight=weight)
    whole = replace(few, pairs=pairs)
    np.testing.assert_allclose(few.value(vector[None]), whole.value(vector[None]), **DISTINCT)
    for one, other in zip(few.curvature(vector), whole.curvature(vector), strict=True):
        np.testing.assert_allclose(one, other, **DISTINCT)
    exact, quick = few.curvature(vector), few.slope(vector)
    np.testing.assert_allclose(quick[1], exact.gradient, atol=1e-6)
    by_value = differences(lambda v: few.curvature(v).value, vector)
    np.testing.assert_allclose(exact.gradient, by_value, atol=1e-6)
    # the control: the weights count
    assert abs(exact.gradient - density_of(counts).curvature(vector).gradient).max() > 1


def test_a_sample_of_distinct_vectors_represents_all_pairs() -> None:
    counts, vector = repeated()
    few = make_density(PairSet.distinct(counts, 40), start_of(counts), PositionBased(), 0)
    prior = few.prior.gradient(vector)
    expected = few.slope(vector)[1] - prior
    size = len(few.pairs.batches.counts)
    found = []
    for seed in range(200):
        found.append(few.sample(size // 2, seed).slope(vector)[1] - prior)
    error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    assert np.all(abs(np.mean(found, axis=0) - expected) < 4 * error)


def test_a_rough_hessian_is_close_to_the_exact_one() -> None:
    counts = with_features(world(4_000, THETA))
    density = density_of(counts, batch_size=500)
    vector = 0.1 * np.random.default_rng(0).standard_normal(12)
    exact = density.curvature(vector).hessian
    whole, part = (density.rough_hessian(vector, most) for most in (4_000, 2_000))
    # a Hessian serves as a start if it is as steep as the exact one in every direction
    np.testing.assert_allclose(np.linalg.eigvals(np.linalg.solve(whole, exact)), 1, atol=1e-2)
    ratios = np.linalg.eigvals(np.linalg.solve(part, exact)).real
    assert 0.6 < ratios.min() < 0.99  # fewer pairs were used
    assert ratios.max() < 1.7


def test_every_query_is_its_own_cluster_unless_there_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = replace(world(8), query_id=pa.array(["b", "b", "c", "c", "c", "d", "e", "e"]))
    np.testing.assert_array_equal(query_clusters(counts), [0, 0, 1, 1, 1, 2, 3, 3])
    monkeypatch.setattr(module, "MOST_CLUSTERS", 3)
    np.testing.assert_array_equal(query_clusters(counts), [0, 0, 1, 1, 1, 2, 0, 0])


def test_the_mean_square_of_inputs_ignores_padding() -> None:
    counts = with_features(world(40, THETA))
    ((weight, bias),) = start_of(counts).layers[:-1]
    assert counts.features is not None
    x = counts.features.matrix[counts.feature_row]
    hidden = np.maximum(np.sign(x) * np.log1p(abs(x)) @ weight + bias, 0)
    np.testing.assert_allclose(
        mean_square_inputs(density_of(counts)), np.square(hidden).mean(axis=0), rtol=1e-5
    )
