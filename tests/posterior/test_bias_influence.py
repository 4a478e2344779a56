"""What a model's position bias owes to each query, against a jackknife."""

import numpy as np
import pytest

from epiclick.posterior.bias_influence import bias_influence
from epiclick.posterior.density import Density
from epiclick.posterior.laplace import covariances
from epiclick.posterior.mode import find_mode

from .small_worlds import density_of, world

THETA = (1.0, 0.6, 0.3)
SIZE = 10


@pytest.mark.slow
@pytest.mark.parametrize("anchor", [0, None])
def test_influences_are_those_of_a_jackknife_by_query(anchor: int | None) -> None:
    """To a few percent: leaving a query out changes the curvature, too."""
    counts = world(400, THETA, seed=3, most=10)
    size = SIZE + (anchor is None)
    density = density_of(counts, anchor)
    start = find_mode(density, np.zeros(size)).vector

    def estimate(own: Density):
        mode = find_mode(own, start)
        found = bias_influence(own, mode, covariances(mode, own.prior)[0])
        assert found is not None
        return found

    whole = estimate(density)
    free = [k for k in range(len(THETA)) if k != (anchor or 0)]
    queries = counts.num_queries
    left_out = np.array(
        [
            estimate(density_of(counts.subset(counts.query != q), anchor)).log_bias
            for q in range(queries)
        ]
    )
    jackknife = (whole.log_bias - left_out)[:, free]
    influence = whole.influence[:, free]
    assert not whole.influence[:, anchor or 0].any()
    for k in range(len(free)):
        assert np.corrcoef(jackknife[:, k], influence[:, k])[0, 1] > 0.98
    ratio = np.square(influence).sum(axis=0) / np.square(jackknife).sum(axis=0)
    np.testing.assert_allclose(ratio, 1, atol=0.15)
    # negative control: those of another position
    assert abs(np.corrcoef(jackknife[:, 0], influence[:, 1])[0, 1]) < 0.9


def test_the_pull_of_the_prior_is_taken_away() -> None:
    """Towards the maximum of the likelihood, which a flat prior in logits would have."""
    counts = world(400, THETA, seed=3, most=4)
    density = density_of(counts)
    mode = find_mode(density, np.zeros(SIZE))
    found = bias_influence(density, mode, covariances(mode, density.prior)[0])
    assert found is not None

    vector = mode.vector.copy()
    for _ in range(20):
        here = density.curvature(vector)
        free = density.prior.free
        gradient, hessian = here.gradient.copy(), here.hessian.copy()
        gradient[:free] -= density.prior.gradient(vector)[:free]
        hessian[:free, :free] -= density.prior.hessian(vector)[:free, :free]
        vector = vector - np.linalg.solve(hessian, gradient)
    best = density.emitter.emission(vector[: density.prior.free]).attractive
    at_mode = density.emitter.emission(mode.vector[: density.prior.free]).attractive
    gap = abs(found.log_bias - np.log(best))
    assert np.all(gap[1:] < 0.3 * abs(np.log(at_mode) - np.log(best))[1:])
