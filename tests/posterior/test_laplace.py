"""Model-based and robust covariances, and the parts of a posterior."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy.special import expit, logit

from epiclick.click_models.pbm import PositionBased
from epiclick.fitted.parameters import to_vector
from epiclick.posterior.laplace import DRAWS, KnownBias, covariances, find_posterior, make_density
from epiclick.posterior.mode import SETTLED, find_mode, posterior_mean

from .small_worlds import DOCS, counts_of, density_of, pairs_of, start_of, world

pytestmark = pytest.mark.slow

THETA = (1.0, 0.6, 0.3)
WORLDS = 30


def fitted(density, size: int = 10):
    """Mode and both covariances."""
    mode = find_mode(density, np.zeros(size))
    return mode.vector, *covariances(mode, density.prior)


@pytest.fixture(scope="module")
def worlds():
    """Modes and variances of the two logits in worlds that the model describes."""
    counts = [world(2048, THETA, seed=seed) for seed in range(WORLDS)]
    with jax.enable_x64(True):
        each = [fitted(density_of(c)) for c in counts]
    modes = np.array([mode[:2] for mode, _, _ in each])
    variances = [np.array([np.diag(e[i])[:2] for e in each]) for i in (1, 2)]
    return modes, *variances


def test_both_agree_where_the_model_is_right(worlds) -> None:
    _, bayes, robust = worlds
    ratio = robust / bayes
    error = ratio.std(axis=0) / np.sqrt(len(ratio))
    assert np.all(error < 0.03)
    assert np.all(abs(ratio.mean(axis=0) - 1) < 3 * error)


def test_modes_vary_as_both_predict(worlds) -> None:
    modes, bayes, robust = worlds
    error = np.sqrt(2 / (WORLDS - 1))  # relative, of a variance
    for variance in (bayes, robust):
        ratio = modes.var(axis=0, ddof=1) / variance.mean(axis=0)
        assert np.all(abs(ratio - 1) < 3 * error)
    # with widths x 0.7 the same check fails
    assert np.any(abs(modes.var(axis=0, ddof=1) / (0.49 * bayes.mean(axis=0)) - 1) > 3 * error)
    error_of_mean = modes.std(axis=0) / np.sqrt(WORLDS)
    assert np.all(abs(modes.mean(axis=0) - logit(THETA[1:])) < 4 * error_of_mean)


def test_clicks_counted_four_times_mislead_bayes_only() -> None:
    """Each item occurs four times under different names, with the same clicks."""
    displays, clicks = world(2048, THETA).dense()
    fourfold = (np.repeat(part, 4, axis=0) for part in (displays, clicks))
    with jax.enable_x64(True):
        mode, bayes, robust = fitted(density_of(counts_of(displays, clicks)))
        repeated, narrow, same = fitted(density_of(counts_of(*fourfold, docs=4 * DOCS)))
    sd = [np.sqrt(np.diag(each))[:2] for each in (bayes, robust, narrow, same)]
    np.testing.assert_allclose(repeated[:2], mode[:2], atol=0.3 * sd[0].min())
    np.testing.assert_allclose(sd[2] / sd[0], 0.5, rtol=0.05)
    np.testing.assert_allclose(sd[3] / sd[1], 1, rtol=0.05)


def test_queries_that_differ_widen_robust_intervals() -> None:
    """Examination differs between queries, which the model does not know."""
    rng = np.random.default_rng(0)
    queries, docs = 100, 30
    own = expit(logit(np.array(THETA[1:])) + rng.normal(0, 1.5, (queries, 2)))
    theta = np.repeat(np.column_stack([np.ones(queries), own]), docs, axis=0)
    displays = rng.multinomial(2, np.full(3, 1 / 3), queries * docs)
    clicks = rng.binomial(displays, theta * rng.beta(1.2, 1.8, (queries * docs, 1)))
    with jax.enable_x64(True):
        _, bayes, robust = fitted(density_of(counts_of(displays, clicks, docs)))
    assert np.all(np.diag(robust)[:2] > 1.2 * np.diag(bayes)[:2])


def test_without_data_both_are_the_priors() -> None:
    never = np.zeros((40, 3), int)
    with jax.enable_x64(True):
        given = density_of(world(40, THETA))
        density = replace(given, pairs=pairs_of(counts_of(never, never)))
        mode, bayes, robust = fitted(density)
    np.testing.assert_allclose(mode, 0, atol=1e-6)
    # log sigma(x) + log sigma(-x) bends by 1/2 at 0
    expected = np.concatenate([[2.0, 2.0], density.prior.layer_sd**2])
    np.testing.assert_allclose(bayes, np.diag(expected), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(robust, np.diag(expected), rtol=1e-6, atol=1e-9)


def test_a_posterior_is_centered_at_its_mean_and_keeps_the_body() -> None:
    counts = world(600, THETA)
    start = start_of(counts)
    start = start._replace(position=replace_logit(start.position, 0, 7.5))
    parameters, posterior, _ = find_posterior(pairs_of(counts), start, PositionBased(), 0)
    again = find_posterior(pairs_of(counts), start, PositionBased(), 0).posterior
    assert posterior.samples is None
    assert posterior.pareto_k == again.pareto_k
    assert posterior.pareto_k is not None
    noise = np.random.default_rng([0, 5]).standard_normal((DRAWS, 2))
    bias = posterior.bayes[:2, :2]
    drawn = noise @ np.linalg.cholesky(bias).T
    # the layer's expectation given the bias
    following = drawn @ np.linalg.inv(bias) @ posterior.bayes[:2]
    np.testing.assert_allclose(following[:, :2], drawn, atol=1e-9)
    drawn = posterior.mean + following
    density = make_density(pairs_of(counts), start, PositionBased(), 0)
    mode = find_mode(density, to_vector(start, PositionBased(), 0))
    assert posterior.gradient**2 == pytest.approx(mode.gradient @ posterior.bayes @ mode.gradient)
    assert posterior.gradient < SETTLED
    mean = posterior_mean(density, mode.vector, posterior.bayes, seed=0)
    log_weights = density.value(drawn) - density.value(posterior.mean[None])
    log_weights += 0.5 * np.square(noise).sum(axis=1)
    arviz = array_stats.psislw(-log_weights)[1]
    assert posterior.pareto_k == pytest.approx(float(arviz), rel=1e-6)
    np.testing.assert_array_equal(to_vector(parameters, PositionBased(), 0), posterior.mean)
    np.testing.assert_allclose(posterior.mean, mean, atol=1e-6)
    assert parameters.position.logit[0] == 7.5  # the anchor's is not used, and kept
    for covariance in (posterior.bayes, posterior.robust):
        np.testing.assert_allclose(covariance, covariance.T, atol=1e-8)
        assert np.all(np.linalg.eigvalsh(covariance) > 0)
    free = find_posterior(pairs_of(counts), start, PositionBased(), None)[1]
    assert len(free.mean) == len(posterior.mean) + 1
    # the scale is least certain
    assert free.bayes[0, 0] > 3 * np.diag(posterior.bayes)[:2].max()


def test_bias_known_from_elsewhere_is_weighted_by_its_precision() -> None:
    counts = world(600, THETA)
    mean, sd = np.array([np.nan, -2.0, np.nan]), np.array([np.nan, 1e-3, np.nan])
    start = start_of(counts)
    plain = find_posterior(pairs_of(counts), start, PositionBased(), 0)[1]
    sure = find_posterior(pairs_of(counts), start, PositionBased(), 0, known=KnownBias(mean, sd))[1]
    hardly = find_posterior(
        pairs_of(counts), start, PositionBased(), 0, known=KnownBias(mean, 1e3 * sd)
    )[1]
    assert sure.mean[0] == pytest.approx(-2.0, abs=1e-3)
    assert np.sqrt(sure.bayes[0, 0]) == pytest.approx(1e-3, rel=0.01)
    assert np.sqrt(sure.robust[0, 0]) == pytest.approx(1e-3, rel=0.01)
    assert sure.mean[0] < hardly.mean[0] < plain.mean[0]
    precision = 1 / plain.bayes[0, 0]
    assert 1 / hardly.bayes[0, 0] == pytest.approx(precision + 1, rel=0.4)


def replace_logit(lookup, context: int, value: float):
    changed = np.array(lookup.logit)
    changed[context] = value
    return lookup._replace(logit=changed)


def test_free_contexts_are_all_but_the_anchor() -> None:
    np.testing.assert_array_equal(PositionBased().free(4, 2), [0, 1, 3])
    np.testing.assert_array_equal(PositionBased().free(2, None), [0, 1])
