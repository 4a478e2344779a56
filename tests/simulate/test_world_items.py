import numpy as np
import pytest
from scipy.stats import kurtosis, spearmanr
from sklearn.ensemble import ExtraTreesRegressor

from epiclick.simulate import world_items
from epiclick.simulate.world_items import LABEL_PROPORTIONS, synthetic_rankings

QUERIES, DOCS, FEATURES = 500, 20, 20


@pytest.fixture(scope="module")
def table():
    return synthetic_rankings(QUERIES, DOCS, FEATURES, np.random.default_rng(0))


def labels_of(table):
    return table.keys["label"].to_numpy()


def split_of(table):
    return table.keys["split"].to_numpy()


def test_keys_and_names(table):
    assert table.keys["query_id"].to_pylist() == [q for q in range(QUERIES) for _ in range(DOCS)]
    assert table.keys["doc_id"].to_pylist() == list(range(DOCS)) * QUERIES
    assert table.names == tuple(f"f{j}" for j in range(FEATURES))
    assert str(table.keys.schema.field("label").type) == "int8"
    assert np.isfinite(table.matrix).all()


def test_label_proportions_are_those_of_mslr(table):
    pairs = len(table)
    shares = np.bincount(labels_of(table), minlength=5) / pairs
    target = np.array(LABEL_PROPORTIONS)
    assert shares.sum() == pytest.approx(1)
    assert (np.abs(shares - target) < np.sqrt(target * (1 - target) / pairs)).all()


def test_splits_are_by_query_and_sixty_twenty_twenty(table):
    by_query = split_of(table).reshape(QUERIES, DOCS)
    assert (by_query == by_query[:, :1]).all()
    names, counts = np.unique(by_query[:, 0], return_counts=True)
    assert dict(zip(names, counts, strict=True)) == {"train": 300, "vali": 100, "test": 100}


@pytest.mark.parametrize("queries", [1, 2, 3, 4, 7])
def test_even_the_fewest_queries_have_one_to_train_on(queries):
    table = synthetic_rankings(queries, 1, 1, np.random.default_rng(0))
    assert "train" in split_of(table)
    assert len(table) == queries


def test_features_are_correlated_and_heavy_tailed_on_many_scales(table):
    correlation = np.corrcoef(np.argsort(np.argsort(table.matrix, axis=0), axis=0).T)
    between = np.abs(correlation[np.triu_indices(FEATURES, 1)])
    assert np.mean(between) > 5 / np.sqrt(len(table)), "independent features would be at 1/sqrt(n)"
    spread = table.matrix.std(axis=0)
    assert spread.max() / spread.min() > 1e3
    tails = kurtosis(table.matrix, axis=0)  # 0 for a normal
    assert (tails > 10).sum() >= FEATURES // 4
    assert (tails < 1).any()


def test_some_features_are_counts_and_some_belong_to_the_query(table):
    whole = (table.matrix == np.floor(table.matrix)).all(axis=0)
    assert (whole & (table.matrix >= 0).all(axis=0)).sum() >= FEATURES // 5 - 1
    by_query = table.matrix.reshape(QUERIES, DOCS, FEATURES)
    constant = (by_query == by_query[:, :1]).all(axis=(0, 1))
    assert np.flatnonzero(constant).tolist() == [9, 19]


def predictions(table, labels):
    """Held-out labels and their predictions by a few randomised trees."""
    train, test = split_of(table) == "train", split_of(table) == "test"
    model = ExtraTreesRegressor(30, min_samples_leaf=5, random_state=0)
    model.fit(table.matrix[train], labels[train])
    shape = (-1, table.keys["doc_id"].to_numpy().max() + 1)
    return labels[test].reshape(shape), model.predict(table.matrix[test]).reshape(shape)


def test_labels_can_be_learned_but_not_perfectly(table):
    truth, guess = predictions(table, labels_of(table))
    overall = spearmanr(truth.ravel(), guess.ravel()).statistic
    within = np.mean(
        [spearmanr(y, p).statistic for y, p in zip(truth, guess, strict=True) if np.ptp(y)]
    )
    between = spearmanr(truth.mean(axis=1), guess.mean(axis=1)).statistic
    assert 0.4 < overall < 0.8
    assert 0.25 < within < 0.8
    assert 0.5 < between < 0.98


def test_shuffled_labels_cannot_be_learned(table):
    shuffled = np.random.default_rng(0).permutation(labels_of(table))
    truth, guess = predictions(table, shuffled)
    assert abs(spearmanr(truth.ravel(), guess.ravel()).statistic) < 4 / np.sqrt(truth.size)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("features", [1, 3])
def test_few_features_tell_the_label_too(features, seed):
    table = synthetic_rankings(300, 20, features, np.random.default_rng(seed))
    truth, guess = predictions(table, labels_of(table))
    assert 0.25 < spearmanr(truth.ravel(), guess.ravel()).statistic < 0.8


def test_pairs_made_in_many_blocks_follow_the_same_law(monkeypatch):
    monkeypatch.setattr(world_items, "PAIRS_AT_ONCE", 64)
    table = synthetic_rankings(200, 20, 3, np.random.default_rng(2))
    truth, guess = predictions(table, labels_of(table))
    assert spearmanr(truth.ravel(), guess.ravel()).statistic > 0.25
    assert len(np.unique(table.matrix[:, 0])) > 0.99 * len(table)
