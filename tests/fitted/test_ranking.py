"""Rankings: by mean, by either end of the interval, and by draws with the right probability of being best."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from epiclick.errors import InputError
from epiclick.fitted.parameters import parameter_draws, without_uncertainty
from epiclick.fitted.state import Items
from epiclick.fitted.tables import draws_to_rank_by, ranked

from ..raising import raises_code
from .hand_made import (
    betas_by,
    by_features,
    by_ids,
    clicks_on,
    counts_of,
    items,
    model_of,
    theta_by,
    with_bias_betas,
    with_members,
)

pytestmark = pytest.mark.slow


def test_positions_follow_scores_within_each_query_and_ties_the_docs() -> None:
    rng = np.random.default_rng(1)
    table = pd.DataFrame(
        {
            "query_id": ["b", "a", "b", "a", "b", "a"],
            "doc_id": ["z", "y", "x", "w", "v", "u"],
            "mean": [0.5, 0.1, 0.5, 0.3, 0.9, 0.2],
        }
    )
    for _ in range(5):
        found = ranked(table.sample(frac=1, random_state=int(rng.integers(99))), "mean", rng)
        assert found.to_numpy().tolist() == [
            ["a", "w", 1, 0.3],
            ["a", "u", 2, 0.2],
            ["a", "y", 3, 0.1],
            ["b", "v", 1, 0.9],
            ["b", "x", 2, 0.5],
            ["b", "z", 3, 0.5],
        ]
    assert list(found.columns) == ["query_id", "doc_id", "position", "score"]


@pytest.mark.parametrize("how", ["mean", "lower", "upper"])
def test_scores_are_columns_of_relevance(how: str) -> None:
    model, table = model_of(by_features()), items(8, 5)
    found = model.rank(table, how=how)
    column = {"mean": "mean", "lower": "low", "upper": "high"}[how]
    expected = model.relevance(table).rename(columns={column: "score"})
    merged = found.merge(expected[["query_id", "doc_id", "score"]], on=["query_id", "doc_id"])
    assert len(merged) == len(found) == 40
    np.testing.assert_array_equal(merged["score_x"], merged["score_y"])
    assert found.groupby("query_id")["score"].is_monotonic_decreasing.all()
    assert found["position"].tolist() == [1, 2, 3, 4, 5] * 8


def test_many_clicks_rank_above_few_where_it_counts_how_sure_one_is() -> None:
    table = items(1, 2)
    displays, clicks = np.zeros((2, 2, 4), int)
    displays[:, 0], clicks[:, 0] = (1000, 3), (900, 3)
    counts = counts_of(table, displays, clicks)
    bare = replace(counts, features=None, feature_row=None)
    model = model_of(by_ids(0.05))
    lower, upper = (model.rank(counts=bare, how=how) for how in ("lower", "upper"))
    assert lower["doc_id"].tolist() == [0, 1]
    assert lower["score"][0] > 0.85
    assert upper["doc_id"].tolist() == [1, 0]


def test_items_with_clicks_are_judged_by_them_and_others_by_features() -> None:
    model, table = model_of(by_features()), items(6, 5)
    some = clicks_on(table, 8).subset(np.arange(30) % 3 == 0)
    found = model.rank(table, counts=some).set_index(["query_id", "doc_id"]).sort_index()
    assert len(found) == 30
    by_clicks = model.posterior(some).set_index(["query_id", "doc_id"])["mean"]
    by_table = model.relevance(table).set_index(["query_id", "doc_id"])["mean"]
    expected = by_table.copy()
    expected.loc[by_clicks.index] = by_clicks
    assert abs(by_table.loc[by_clicks.index] - by_clicks).max() > 0.05
    np.testing.assert_allclose(found["score"], expected.sort_index(), rtol=1e-6)
    # a log without features borrows those of the items
    bare = replace(some, features=None, feature_row=None)
    again = model.rank(table, counts=bare).set_index(["query_id", "doc_id"]).sort_index()
    np.testing.assert_allclose(again["score"], found["score"], rtol=1e-6)
    assert len(model.rank(counts=some)) == len(some)


def best_share(scores: np.ndarray) -> np.ndarray:
    """How often each of (samples, items) is the largest."""
    return np.bincount(scores.argmax(axis=1), minlength=scores.shape[1]) / len(scores)


def assert_alike(found: np.ndarray, expected: np.ndarray, samples: int, of: int) -> None:
    error = np.sqrt(expected * (1 - expected) * (1 / samples + 1 / of)) + 1e-3
    assert np.all(abs(found - expected) < 4 * error)


def thompson_winners(model, table, samples: int, **given) -> np.ndarray:
    first = [
        model.rank(table, how="thompson", seed=seed, **given)["doc_id"][0]
        for seed in range(samples)
    ]
    return np.bincount(first, minlength=4) / samples


@pytest.mark.parametrize("kind", ["posterior", "members", "pointwise members"])
def test_thompson_is_best_as_often_as_an_item_is(kind: str) -> None:
    fitted = {
        "posterior": lambda: by_features(0.8),
        "members": lambda: with_members(by_features()),
        "pointwise members": lambda: with_members(by_features(kind="PointwisePBM")),
    }[kind]()
    table, rng, samples = items(1, 4), np.random.default_rng(2), 4000
    zeta = np.empty((samples, 4))
    draws = parameter_draws(fitted, samples, seed=77)
    for i in range(samples):
        draw = draws[i % len(draws)]
        if fitted.kind == "PointwisePBM":
            x = np.sign(table.matrix) * np.log1p(abs(table.matrix))
            raw = np.maximum(x @ draw.layers[0][0] + draw.layers[0][1], 0)
            zeta[i] = (raw @ draw.layers[1][0] + draw.layers[1][1])[:, 0]
        else:
            zeta[i] = rng.beta(*betas_by(fitted, draw, table.matrix))
    expected = best_share(zeta)
    found = thompson_winners(model_of(fitted), table, 500)
    assert_alike(found, expected, 500, samples)


def test_thompson_draws_parameters_once_for_all_items() -> None:
    """Drawn item by item, what all have in common would average out; the control sees it."""
    fitted = by_features(0.8)
    table, rng, samples = items(1, 4), np.random.default_rng(3), 4000
    table = replace(table, matrix=np.repeat(table.matrix[:1], 4, axis=0))
    sums = [
        model_of(fitted).rank(table, how="thompson", seed=seed)["score"].sum()
        for seed in range(400)
    ]
    draws = parameter_draws(fitted, samples, seed=78)
    alpha, beta = np.array([betas_by(fitted, d, table.matrix) for d in draws]).swapaxes(0, 1)
    together = rng.beta(alpha, beta).sum(axis=1)
    apart = sum(rng.permutation(rng.beta(alpha, beta)[:, i]) for i in range(4))
    # relative standard error of a standard deviation: about 1 / sqrt(2 n)
    tolerance = 4 * np.sqrt(1 / 800 + 1 / 8000)
    assert abs(np.std(sums) / together.std() - 1) < tolerance
    assert abs(np.std(sums) / apart.std() - 1) > tolerance


def test_thompson_with_clicks_draws_from_the_posterior() -> None:
    """Every display is at the anchor, so that the posterior of a draw is a Beta."""
    fitted = by_features(0.8)
    table, rng, samples = items(1, 4), np.random.default_rng(4), 4000
    displays, clicks = np.zeros((2, 4, 4), int)
    displays[:, 0], clicks[:, 0] = [4, 2, 9, 1], [1, 1, 3, 0]
    counts = counts_of(table, displays, clicks)
    zeta = np.empty((samples, 4))
    for i, draw in enumerate(parameter_draws(fitted, samples, seed=79)):
        assert theta_by(fitted, draw)[0] == 1
        alpha, beta = betas_by(fitted, draw, table.matrix)
        zeta[i] = rng.beta(alpha + clicks[:, 0], beta + (displays - clicks)[:, 0])
    found = thompson_winners(model_of(fitted), None, 200, counts=counts)
    assert_alike(found, best_share(zeta), 200, samples)


def test_thompson_is_the_same_for_a_seed_and_another_without() -> None:
    model, table = model_of(by_features()), items(5, 6)
    one, same = (model.rank(table, how="thompson", seed=3) for _ in range(2))
    pd.testing.assert_frame_equal(one, same)
    other = (model.rank(table, how="thompson") for _ in range(2))
    assert len({tuple(each["score"]) for each in (one, *other)}) == 3


@pytest.mark.parametrize("members", [False, True])
def test_a_draw_has_points_for_bias(members: bool) -> None:
    fitted = with_bias_betas(by_features())
    if members:
        own = fitted.parameters
        fitted = replace(fitted, members=(own, own._replace(layers=own.layers)))
    (draw,) = draws_to_rank_by(fitted, "thompson", np.random.default_rng(5))
    assert np.all(np.isfinite(draw.position.logit))
    assert len(model_of(fitted).rank(counts=clicks_on(items(2, 3), 4), how="thompson")) == 6


def test_a_model_without_features_ranks_its_own_items() -> None:
    counts = clicks_on(items(2, 3), 4)
    alpha = np.array([1.0, 2, 3, 3, 2, 1])
    own = Items(counts.query_id, counts.doc_id, alpha, 4 - alpha, alpha / 10, alpha / 5)
    model = model_of(replace(by_ids(), items=own))
    assert model.rank()["doc_id"].tolist() == [2, 1, 0, 0, 1, 2]
    assert model.rank(how="upper")["score"].tolist() == pytest.approx([0.6, 0.4, 0.2] * 2)
    assert len(model.rank(how="thompson", seed=1)) == 6
    with raises_code("trained-without-features"):
        model.rank(items(2, 3))


def test_what_cannot_be_ranked_is_refused_with_a_remedy() -> None:
    model, table = model_of(by_features()), items(2, 3)
    with raises_code("unknown-choice") as caught:
        model.rank(table, how="uper")
    assert "did you mean 'upper'?" in str(caught.value)
    with pytest.raises(InputError, match="features"):
        model.rank()
    point = model_of(by_features(kind="PointwisePBM"))
    for how in ("lower", "upper", "thompson"):
        with raises_code("no-uncertainty") as caught:
            point.rank(table, how=how)
        assert "rank by how='mean'" in str(caught.value)
    assert len(point.rank(table)) == 6
    with pytest.raises(InputError, match="does not learn from its clicks"):
        point.rank(counts=clicks_on(table, 3))


def test_a_model_that_is_sure_of_its_parameters_draws_items_only() -> None:
    sure = without_uncertainty(by_features())
    (draw,) = draws_to_rank_by(sure, "thompson", np.random.default_rng(6))
    assert draw is sure.parameters
