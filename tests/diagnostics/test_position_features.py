"""A feature that nearly determines the position is found; rankers of several features are not."""

import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import spearmanr

import epiclick as ec
from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureTable
from epiclick.diagnostics.position_features import NEARLY, PositionFeatures, within_correlations


def log_of(seed: int, **settings) -> ClickCounts:
    sizes = {"queries": 80, "docs": 12, "pages": 2000, "positions": 5, "features": 6}
    world = ec.simulate(**{**sizes, **settings}, seed=seed)
    return ec.read_log(world.log, features=world.features)


def with_feature(counts: ClickCounts, name: str, values: np.ndarray) -> ClickCounts:
    """The counts with a further feature of their pairs; other candidates are left out."""
    old = counts.features
    assert old is not None
    assert counts.feature_row is not None
    matrix = np.column_stack([old.rows(counts.feature_row), values]).astype(np.float32)
    keys = pa.table({"query_id": counts.query_id, "doc_id": counts.doc_id})
    table = FeatureTable(keys, (*old.names, name), matrix)
    return replace(counts, features=table, feature_row=np.arange(len(counts)))


def mean_position(counts: ClickCounts) -> np.ndarray:
    """By a loop over the entries."""
    position = counts.contexts["position"].to_pylist()
    total, displays = np.zeros(len(counts)), np.zeros(len(counts))
    for pair, context, shown in zip(counts.pair, counts.context, counts.displays, strict=True):
        total[pair] += position[context] * shown
        displays[pair] += shown
    return total / displays


def test_the_correlation_is_that_of_ranks_within_queries() -> None:
    rng = np.random.default_rng(0)
    query = np.repeat([0, 1, 2], [7, 1, 30])
    values = rng.integers(0, 4, (38, 3)).astype(np.float32)  # with many ties
    values[:, 2] = query  # which never differs within a query
    position = rng.random(38)
    one = query == 2
    own = within_correlations(values[one], position[one], np.zeros(30, int))
    for i in range(2):
        assert own[i] == pytest.approx(spearmanr(values[one, i], position[one]).statistic)
    pooled = within_correlations(values, position, query)
    assert np.isnan(pooled[2])
    # a query's level changes nothing
    shifted = within_correlations(values[:, :2] + 10 * query[:, None], position - query, query)
    np.testing.assert_allclose(shifted, pooled[:2])


WORLDS = [{}, {"features": 2}, {"policy_strength": 3.0}, {"policy_strength": 20.0}, {"pages": 300}]


@pytest.mark.parametrize(("seed", "settings"), list(enumerate(WORLDS)))
def test_no_false_alarm_where_rankers_combine_features_and_leaks_are_found(settings, seed) -> None:
    counts = log_of(seed, **settings)
    plain = PositionFeatures.of(counts)
    assert plain is not None
    assert plain.found == ()
    assert plain.warnings == []
    assert plain.strongest is not None
    assert 0.05 < abs(plain.strongest.correlation) < NEARLY
    leaked = PositionFeatures.of(with_feature(counts, "rank", 1 / mean_position(counts)))
    assert leaked is not None
    assert [each.feature for each in leaked.found] == ["rank"]
    assert leaked.found[0].correlation == pytest.approx(-1, abs=1e-3)


@pytest.mark.slow
def test_the_warning_says_what_is_right_and_what_is_wrong() -> None:
    counts = log_of(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ec.EpistemicPBM(epochs=1, hidden=(4,))
        model.fit(with_feature(counts, "rank", mean_position(counts)), progress=False)
    (message,) = [w for w in model.fitted_.training.warnings if "nearly determines" in w]
    assert "rank (+1.00)" in message
    assert "score of the live ranker" in message
    assert "--ignore-feature" in message
    assert model.fitted_.training.checks["position_features"]["found"][0]["feature"] == "rank"


def test_nothing_is_said_without_features_or_items_to_compare() -> None:
    counts = log_of(0)
    assert PositionFeatures.of(replace(counts, features=None, feature_row=None)) is None
    assert PositionFeatures.of(counts.subset(np.arange(20))) is None
