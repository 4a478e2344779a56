from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from epiclick.simulate import policy, threefry
from epiclick.simulate.policy import pl_rank_gradient, sample_rankings, train_policy
from epiclick.simulate.world_items import QueryGroups, label_relevance, synthetic_rankings

pytestmark = pytest.mark.slow


def ranking_probability(scores, ranking):
    """Plackett-Luce: items are drawn one after another without replacement; scores may be complex."""
    odds = np.exp(scores)
    probability, left = 1.0, odds.sum()
    for doc in ranking:
        probability = probability * odds[doc] / left
        left = left - odds[doc]
    return probability


def all_rankings(docs, positions):
    return list(permutations(range(docs), min(docs, positions)))


def expected_reward(scores, relevance, weights):
    return sum(
        ranking_probability(scores, y) * sum(weights[k] * relevance[d] for k, d in enumerate(y))
        for y in all_rankings(len(scores), len(weights))
    )


def one_query(docs):
    return QueryGroups(np.arange(docs), np.array([0, docs]))


def pattern_counts(rankings, docs, positions):
    index = {y: i for i, y in enumerate(all_rankings(docs, positions))}
    return np.bincount([index[tuple(y)] for y in rankings], minlength=len(index))


def test_sampled_rankings_have_plackett_luce_probabilities():
    """Chi-square over all 12 top-2 rankings; a correct sampler fails once in 10,000 seeds."""
    scores, pages = np.array([0.5, -1.0, 1.2, 0.0]), 30_000
    page_query = np.zeros(pages, dtype=int)
    shown = sample_rankings(scores, one_query(4), page_query, 2, np.random.default_rng(0)).rows
    counts = pattern_counts(shown, 4, 2)

    def pvalue(scores):
        expected = [pages * ranking_probability(scores, y) for y in all_rankings(4, 2)]
        return chisquare(counts, expected).pvalue

    assert pvalue(scores) > 1e-4
    assert pvalue(1.1 * scores) < 1e-6, "the check must notice a slightly sharper policy"


@pytest.mark.parametrize(("strength", "as_if"), [(0.0, 0.0), (2.0, 2.0)])
def test_strength_multiplies_the_scores(strength, as_if):
    scores, pages = np.array([0.5, -1.0, 1.2]), 20_000
    page_query = np.zeros(pages, dtype=int)
    shown = sample_rankings(
        scores, one_query(3), page_query, 3, np.random.default_rng(1), strength=strength
    ).rows
    counts = pattern_counts(shown, 3, 3)
    expected = [pages * ranking_probability(as_if * scores, y) for y in all_rankings(3, 3)]
    assert chisquare(counts, expected).pvalue > 1e-4
    unscaled = [pages * ranking_probability(scores, y) for y in all_rankings(3, 3)]
    assert chisquare(counts, unscaled).pvalue < 1e-6


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    positions=st.integers(1, 7),
    candidates=st.sampled_from([1, 20, 10_000]),
    taste_sd=st.sampled_from([0.0, 1.0]),
    seed=st.integers(0, 2**16),
)
def test_pages_of_ragged_queries(sizes, positions, candidates, taste_sd, seed):
    rng = np.random.default_rng(seed)
    ids = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))  # rows in random order
    groups = QueryGroups.of(pa.chunked_array([ids]))
    page_query = rng.integers(len(sizes), size=40)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy, "CANDIDATES", candidates)
        shown = sample_rankings(
            rng.normal(size=len(ids)), groups, page_query, positions, rng, taste_sd=taste_sd
        )
    assert shown.rows.shape == shown.taste.shape == (40, positions)
    for query, page, taste in zip(page_query, shown.rows, shown.taste, strict=True):
        members = groups.rows[groups.starts[query] : groups.starts[query + 1]]
        depth = min(positions, len(members))
        assert len(set(page[:depth])) == depth, "no document twice"
        assert set(page[:depth]) <= set(members)
        assert (page[depth:] == -1).all()
        assert (taste[depth:] == 0).all()
        assert ((taste[:depth] != 0) == (taste_sd > 0)).all()


def test_the_policy_sees_the_users_taste():
    page_query, zero = np.zeros(4_000, dtype=int), np.zeros(6)

    def tastes(strength):
        rng = np.random.default_rng(0)
        return sample_rankings(
            zero, one_query(6), page_query, 3, rng, strength=strength, taste_sd=1.5
        ).taste

    # With negligible noise, items are ranked by taste.
    assert (np.diff(tastes(1e9), axis=1) < 0).all()
    # Taste enters in the units of the scores: the first item is a softmax draw from the tastes.
    drawn = 1.5 * np.random.default_rng(1).normal(size=(200_000, 6))
    softmax = np.exp(drawn) / np.exp(drawn).sum(axis=1, keepdims=True)
    first = tastes(1.0)[:, 0]
    expected, error = (softmax * drawn).sum(axis=1).mean(), first.std() / np.sqrt(len(first))
    assert abs(first.mean() - expected) < 4.5 * error
    # A policy of strength 0 ignores taste.
    blind = tastes(0.0)
    assert np.abs(blind.mean(axis=0)).max() < 4.5 * 1.5 / np.sqrt(len(blind))
    assert blind.std() == pytest.approx(1.5, rel=0.05)


@pytest.mark.parametrize(("docs", "positions"), [(4, 2), (4, 4), (5, 3), (3, 5), (1, 2)])
def test_pl_rank_is_unbiased(docs, positions):
    """Its expectation over all rankings is the derivative of the enumerated expected reward."""
    rng = np.random.default_rng(docs)
    scores, relevance = 1.5 * rng.normal(size=docs), rng.random(docs)
    weights = 1 / np.log2(1 + np.arange(1, positions + 1)) * rng.uniform(0.5, 1.5, positions)
    # Complex step: Im f(x + ih) / h has no cancellation, hence no loss of digits.
    exact = [
        expected_reward(scores + 1e-30j * np.eye(docs)[d], relevance, weights).imag / 1e-30
        for d in range(docs)
    ]
    rankings = all_rankings(docs, positions)
    padded = np.full((len(rankings), positions), -1)
    padded[:, : len(rankings[0])] = rankings
    probabilities = np.array([ranking_probability(scores, y) for y in rankings])
    each = len(rankings)  # one query for each ranking
    estimates = pl_rank_gradient(
        np.tile(scores, (each, 1)), np.tile(relevance, (each, 1)), padded[:, None], weights
    )
    assert estimates.dtype == np.float64
    np.testing.assert_allclose(probabilities @ estimates, exact, atol=1e-10)
    if docs > 1:
        assert np.abs(exact).max() > 1e-3


def of_one_query(scores, relevance, rankings, weights):
    return pl_rank_gradient(scores[None], relevance[None], rankings[None], weights)[0]


def test_pl_rank_averages_samples_and_ignores_padding():
    scores, relevance = np.array([0.3, -0.2, 1.0]), np.array([1.0, 0.0, 0.5])
    weights, rankings = np.array([1.0, 0.6, 0.5, 0.4]), np.array([[0, 2, 1, -1], [2, 1, 0, -1]])
    both = of_one_query(scores, relevance, rankings, weights)
    each = [of_one_query(scores, relevance, y[None], weights) for y in rankings]
    np.testing.assert_allclose(both, np.mean(each, axis=0), atol=1e-15)
    padded = of_one_query(np.append(scores, -np.inf), np.append(relevance, 0.7), rankings, weights)
    np.testing.assert_allclose(padded, np.append(both, 0), atol=1e-15)


def test_pl_rank_survives_a_policy_that_is_certain():
    scores = np.array([500.0, 0.0, -500.0])
    rankings = np.array([[0, 1, 2]])
    gradient = of_one_query(scores, np.array([0.1, 1.0, 0.5]), rankings, np.ones(3))
    np.testing.assert_allclose(gradient, 0, atol=1e-12)


def test_noise_is_that_of_jax():
    """Bit for bit but for the rounding of logarithms."""
    import jax

    for seed in (0, 2**31 + 7, 2**32 - 1):
        keys = jax.random.split(jax.random.key(seed), 3)
        own = threefry.split((0, np.uint32(seed)), 3)
        np.testing.assert_array_equal(np.stack(own, axis=-1), jax.random.key_data(keys))
        expected = [jax.random.gumbel(key, (40,)) for key in keys]
        np.testing.assert_allclose(threefry.gumbel(own, 40), expected, rtol=2e-6, atol=1e-6)


@pytest.fixture(scope="module")
def trained():
    """A policy and its scores on 300 queries, 30 of which it was trained on."""
    table = synthetic_rankings(300, 20, 10, np.random.default_rng(5))
    relevance = label_relevance(table.keys["label"].to_numpy())
    groups = QueryGroups.of(table.keys["query_id"])
    split = table.keys["split"].to_numpy()[groups.rows[groups.starts[:-1]]]
    training = np.flatnonzero(split == "train")
    made = [
        train_policy(table, relevance, groups, training, 5, np.random.default_rng(s))
        for s in (0, 0, 1)
    ]
    return table, relevance, groups, np.flatnonzero(split == "test"), made


def test_trained_policy_beats_chance_on_unseen_queries(trained):
    table, relevance, groups, unseen, (learned, *_) = trained
    scores, discount = learned.scores(table), 1 / np.log2(1 + np.arange(1, 6))

    def dcg(strength):
        pages = np.repeat(unseen, 20)
        rng = np.random.default_rng(0)
        rows = sample_rankings(scores, groups, pages, 5, rng, strength=strength).rows
        return (relevance[rows] @ discount).reshape(len(unseen), 20).mean(axis=1)

    gain = dcg(1.0) - dcg(0.0)
    assert gain.mean() > 5 * gain.std() / np.sqrt(len(gain))
    best = np.sort(relevance.reshape(-1, 20)[unseen], axis=1)[:, :-6:-1] @ discount
    assert dcg(1.0).mean() < 0.9 * best.mean(), "and is not perfect"


def test_typical_item_is_shown_at_several_positions(trained):
    table, _, groups, unseen, (learned, *_) = trained
    scores = learned.scores(table)

    def displays(strength):
        rng = np.random.default_rng(0)
        pages = np.repeat(unseen, 50)
        rows = sample_rankings(scores, groups, pages, 5, rng, strength=strength).rows
        shown = np.zeros((len(table), 5))
        np.add.at(shown, (rows, np.arange(5)), 1)
        return shown[shown.any(axis=1)]  # (items, positions)

    shown = displays(1.0)
    assert np.median((shown > 0).sum(axis=1)) >= 2
    assert 1 - shown.max(axis=1).sum() / shown.sum() > 0.4, "displays away from the usual position"
    stiff = displays(100.0)
    assert np.median((stiff > 0).sum(axis=1)) == 1
    assert 1 - stiff.max(axis=1).sum() / stiff.sum() < 0.1


def test_training_repeats_itself_and_depends_on_the_seed(trained):
    table, *_, (first, again, other) = trained
    np.testing.assert_array_equal(first.scores(table), again.scores(table))
    assert not np.allclose(first.scores(table), other.scores(table))


def test_network_has_the_papers_shape(trained):
    *_, (learned, *_) = trained
    assert [weight.shape for weight, _ in learned.layers] == [(10, 64), (64, 64), (64, 1)]
    assert all(isinstance(array, np.ndarray) for layer in learned.layers for array in layer)


def test_scores_do_not_depend_on_how_rows_are_chunked(trained, monkeypatch):
    table, *_, (learned, *_) = trained
    whole = learned.scores(table)
    monkeypatch.setattr(policy, "CHUNK", 7)
    np.testing.assert_allclose(learned.scores(table), whole, rtol=1e-4, atol=1e-4)


def test_only_thirty_training_queries_are_supervised(monkeypatch):
    table = synthetic_rankings(60, 20, 10, np.random.default_rng(0))
    groups = QueryGroups.of(table.keys["query_id"])
    seen = {}

    def note(layers, x, relevance, real, key, positions):
        seen.update(x=x, queries=np.asarray(relevance)[:, 0], positions=positions)
        return layers

    monkeypatch.setattr(policy, "_train", note)
    relevance = table.keys["query_id"].to_numpy()  # so that relevance identifies the query
    train_policy(table, relevance, groups, np.arange(40), 50, np.random.default_rng(0))
    assert seen["x"].shape == (30, 20, 10)
    assert len(set(seen["queries"])) == 30
    assert set(seen["queries"]) <= set(range(40))
    assert seen["positions"] == 20, "no deeper than the documents of a query"
