"""The log density, its gradient and Hessian, and the scores of queries."""

from dataclasses import replace

import jax
import numpy as np
import pyarrow as pa
import pytest

from epiclick.data.counts import ClickCounts
from epiclick.posterior import density as module
from epiclick.posterior.density import Density, mean_square_inputs, query_clusters

from .small_worlds import (
    brute_log_density,
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
    with jax.enable_x64(True):
        density = density_of(counts, anchor)
    free = 3 if anchor is None else 2
    size = free + 2 * ((4 if features else 3) + 1)
    return counts, anchor, density, np.random.default_rng(3).normal(0, 0.6, size)


def test_values_are_those_of_brute_force(problem) -> None:
    counts, anchor, density, vector = problem
    vectors = np.stack([vector, -vector, vector / 3])
    with jax.enable_x64(True):
        values = density.value(vectors)
        own = [density.curvature(v).value for v in vectors]
    brute = [brute_log_density(counts, anchor, v) + log_prior(density, v) for v in vectors]
    # densities are known up to a constant; inputs of the network are float32
    np.testing.assert_allclose(np.diff(values), np.diff(brute), rtol=1e-5)
    np.testing.assert_allclose(np.diff(own), np.diff(brute), rtol=1e-5)


@pytest.mark.parametrize("away", [0.2, 3.0])
def test_changes_are_differences_of_values(problem, away: float) -> None:
    """Nearby, and so far away that the quadrature is repeated."""
    _, _, density, vector = problem
    others = vector + away * np.random.default_rng(5).standard_normal((6, len(vector)))
    with jax.enable_x64(True):
        expected = density.value(others) - density.value(vector[None])
        np.testing.assert_allclose(density.change(vector, others), expected, rtol=1e-3, atol=2e-3)


def test_derivatives_are_those_of_differences(problem) -> None:
    _, _, density, vector = problem
    with jax.enable_x64(True):
        own = density.curvature(vector)
        by_value = differences(lambda v: density.curvature(v).value, vector)
        by_slope = differences(lambda v: density.curvature(v).gradient, vector)
    np.testing.assert_allclose(own.gradient, by_value, atol=1e-7)
    np.testing.assert_allclose(own.hessian, by_slope, atol=1e-7)


def test_scores_are_the_gradients_of_each_query(problem) -> None:
    counts, _, density, vector = problem
    with jax.enable_x64(True):
        own, prior = density.curvature(vector), density.prior.gradient(vector)
        assert own.scores.shape == (counts.num_queries, len(vector))
        np.testing.assert_allclose(own.scores.sum(axis=0) + prior, own.gradient, atol=1e-9)
        for query in (0, 5):
            part = pairs_of(counts.subset(np.flatnonzero(counts.query == query)))
            alone = replace(density, pairs=part).curvature(vector).gradient - prior
            np.testing.assert_allclose(own.scores[query], alone, atol=1e-9)


def test_chunks_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one is padded with pairs that were never shown."""
    density = density_of(with_features(world(40, THETA)))
    vector = np.random.default_rng(4).normal(size=2 + 2 * 5)
    with jax.enable_x64(True):
        whole, value = density.curvature(vector), density.value(vector[None])
        monkeypatch.setattr(module, "CHUNK", 11)
        assert [len(chunk.pairs) for chunk in density.chunks()] == [11] * 4
        for one, other in zip(whole, density.curvature(vector), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-10)
        # hidden units are float32, whose sums depend on the shape of the chunk
        np.testing.assert_allclose(density.value(vector[None]), value, rtol=1e-7)


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
