"""Scores of groups that share pairs: the jackknife of users, and of queries as a special case."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy import special, stats

from epiclick.batching.pairset import PairSet
from epiclick.click_models.click_model import ClickModel
from epiclick.click_models.registry import CLICK_MODELS
from epiclick.data.clusters import ClusterCounts
from epiclick.data.counts import ClickCounts
from epiclick.fitted.parameters import Parameters, PointLookup
from epiclick.posterior.cluster_scores import (
    WIDENED_AT,
    between_groups,
    cluster_scores,
    student_widening,
)
from epiclick.posterior.density import Density
from epiclick.posterior.laplace import covariances, find_posterior, make_density
from epiclick.posterior.mode import find_mode
from epiclick.relevance.network import init_exposure

from .small_worlds import density_of, pairs_of, start_of, with_features, world
from .user_logs import POSITIONS, counted, true_bias, user_log

pytestmark = pytest.mark.slow

THETA = (1.0, 0.6, 0.3)
LEVEL = 0.9


def grouped_by_query(counts: ClickCounts, groups: int) -> ClusterCounts:
    """Whole queries in so many groups."""
    group = (counts.query % groups)[counts.pair]
    entries = (counts.pair, counts.context, group, counts.displays, counts.clicks)
    return ClusterCounts("query", groups, tuple(map(str, range(groups))), *entries)


def vector_of(density: Density, seed: int = 3) -> np.ndarray:
    size = density.prior.free + 2 * (density.width + 1)
    return np.random.default_rng(seed).normal(0, 0.5, size)


@pytest.mark.parametrize("features", [False, True])
def test_scores_of_queries_are_those_of_their_own_likelihood(features: bool) -> None:
    counts = world(100, THETA, most=30)
    counts = with_features(counts) if features else counts
    density = density_of(counts, batch_size=32)
    vector = vector_of(density)
    own = density.curvature(vector).scores
    found = cluster_scores(density, vector, grouped_by_query(counts, counts.num_queries))
    np.testing.assert_allclose(found, own, atol=1e-6 * abs(own).max())


def test_pairs_that_stand_for_others_count_for_the_groups_of_each() -> None:
    counts = world(200, THETA, most=3)
    own = density_of(counts)
    distinct = replace(own, pairs=PairSet.distinct(counts, 10_000))
    assert len(distinct.pairs.batches.counts) < 100
    clusters, vector = grouped_by_query(counts, 7), vector_of(own)
    found = [cluster_scores(each, vector, clusters) for each in (own, distinct)]
    np.testing.assert_allclose(*found, atol=1e-9)


MODELS: dict[str, tuple[int, int]] = {"pbm": (3, 12), "trust": (3, 4), "ubm": (40, 12)}
"""Contexts and displays per pair; many contexts are laid out by slots, trust is affine."""


def user_counts(model: str) -> tuple[ClickCounts, ClusterCounts, ClickModel]:
    """Counts of random displays by three groups, which share all pairs."""
    rng, (contexts, most) = np.random.default_rng(5), MODELS[model]
    displays = rng.multinomial(most, np.full(contexts, 1 / contexts), (3, 12))
    clicks = rng.binomial(displays, 0.3)
    table = {"position": np.arange(1, contexts + 1)}
    pair, context = np.nonzero(displays.sum(axis=0))
    counts = ClickCounts(
        query_id=pa.array(np.zeros(12, np.int64)),
        doc_id=pa.array(np.arange(12)),
        contexts=pa.table(table),
        pair=pair,
        context=context,
        displays=displays.sum(axis=0)[pair, context],
        clicks=clicks.sum(axis=0)[pair, context],
    )
    group, *at = np.nonzero(displays)
    own = (group, *at)
    clusters = ClusterCounts("user", 3, tuple("abc"), *at, group, displays[own], clicks[own])
    # a UBM of pages is a PBM of (position, last click), whose contexts are many
    return counts, clusters, CLICK_MODELS["pbm" if model == "ubm" else model]


@pytest.mark.parametrize("model", MODELS)
def test_a_score_is_what_leaving_a_group_out_changes(model: str) -> None:
    """By the gradient of counts without the group, features making inputs independent of them."""
    counts, clusters, clicks = user_counts(model)
    counts = with_features(counts)
    parameters = start_of(counts)._replace(
        position=PointLookup(np.zeros(clicks.size(len(counts.contexts))))
    )

    def density(of: ClickCounts) -> Density:
        pairs = pairs_of(of)
        batches = replace(pairs.batches, affine=clicks.is_affine)
        return make_density(replace(pairs, batches=batches), parameters, clicks, 0)

    whole = density(counts)
    vector = vector_of(whole)
    found = cluster_scores(whole, vector, clusters)
    shown, clicked = counts.dense()
    for group in range(3):
        less = [np.zeros_like(shown), np.zeros_like(shown)]
        own = clusters.group == group
        for part, amount in zip(less, (clusters.displays, clusters.clicks), strict=True):
            np.add.at(part, (clusters.pair[own], clusters.context[own]), amount[own])
        left = shown - less[0]
        pair, context = np.nonzero(left)
        rest = replace(
            counts,
            pair=pair,
            context=context,
            displays=left[pair, context],
            clicks=(clicked - less[1])[pair, context],
        )
        # the same prior, whose spread depends on the inputs alone
        lost = whole.slope(vector)[1] - density(rest).with_prior(whole.prior).slope(vector)[1]
        np.testing.assert_allclose(found[group], lost, atol=1e-5)
        # the clicks of a group alone have another likelihood: relevance is learned from all
        np.testing.assert_array_less(1e-2, abs(found.sum(axis=0) - whole.slope(vector)[1]).max())


def test_widening_is_that_of_student() -> None:
    end = (1 + WIDENED_AT) / 2
    for freedom in (1, 6, 49, 10_000):
        expected = (stats.t.ppf(end, freedom) / stats.norm.ppf(end)) ** 2
        assert student_widening(freedom) == pytest.approx(expected, rel=1e-9)


def test_between_groups_is_the_jackknife_of_a_sum() -> None:
    """Of G terms the jackknife variance of their sum is G times their sample variance."""
    scores = np.random.default_rng(0).normal((1.0, -3.0), size=(12, 2))
    total, groups = scores.sum(axis=0), len(scores)
    without = (total - scores) * groups / (groups - 1)  # estimates of the sum from the others
    away = without - without.mean(axis=0)
    jackknife = (groups - 1) / groups * away.T @ away
    expected = jackknife * student_widening(groups - 1)
    np.testing.assert_allclose(between_groups(scores), expected, rtol=1e-12)
    np.testing.assert_allclose(jackknife, groups * np.cov(scores.T), rtol=1e-12)


def variances(seed: int) -> np.ndarray:
    """Of two logits: the sandwich of queries, and the jackknife of 20 groups of them."""
    counts = world(1000, THETA, seed=seed)
    density = density_of(counts)
    mode = find_mode(density, np.zeros(10))
    scores = cluster_scores(density, mode.vector, grouped_by_query(counts, 20))
    found = [
        np.diag(covariances(mode, density.prior, own)[1])[:2] / widening
        for own, widening in ((None, 1.0), (scores, student_widening(19)))
    ]
    return np.array(found)


def test_jackknife_and_sandwich_agree_in_expectation() -> None:
    found = np.array([variances(seed) for seed in range(24)])
    ratio = found[:, 1] / found[:, 0]
    error = ratio.std(axis=0, ddof=1) / np.sqrt(len(ratio))
    assert np.all(error < 0.1)
    # a variance of 19 degrees of freedom, divided by another estimate of little noise
    assert np.all(abs(ratio.mean(axis=0) - 1) < 3 * error)
    # with widths x 0.7 the same check fails
    assert np.all(abs(0.49 * ratio.mean(axis=0) - 1) > 3 * error)


def covered(seed: int) -> np.ndarray:
    """(kinds, positions) whether intervals, robust and of the model, contain the true bias."""
    log = user_log(seed)
    counts = counted(log, log["user_id"] % 50)
    layers = init_exposure(POSITIONS, outputs=2, mean=0.3)
    start = Parameters(layers, PointLookup(np.zeros(POSITIONS)))
    pairs = PairSet.of(counts, None, 10_000)
    _, posterior, _ = find_posterior(pairs, start, CLICK_MODELS["pbm"], 0)
    off = abs(posterior.mean[:2] - special.logit(true_bias()[1:]))
    wide = stats.norm.ppf((1 + LEVEL) / 2)
    return np.array(
        [off < wide * np.sqrt(np.diag(c)[:2]) for c in (posterior.robust, posterior.bayes)]
    )


def test_intervals_from_users_cover_where_those_of_the_model_do_not() -> None:
    """Users differ in how far they look, so that clicks of one user depend on each other."""
    logs = 40
    found = np.array([covered(seed) for seed in range(logs)])  # (logs, kinds, positions)
    robust, bayes = found.sum(axis=0)
    # the central 99.9 % of a binomial of 90 %, for each position
    low, high = stats.binom.ppf([0.0005, 0.9995], logs, LEVEL)
    assert np.all((robust >= low) & (robust <= high)), robust
    assert np.all(bayes < low), bayes
