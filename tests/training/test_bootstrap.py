"""Weights of a bootstrap are Poisson by query, whatever the order of the log."""

import numpy as np
import pyarrow as pa
import pytest

from epiclick.data.counts import ClickCounts
from epiclick.training.ensemble import bootstrap_weights


def counts_of(queries: int, docs: int, order: np.ndarray | None = None) -> ClickCounts:
    pair = np.arange(queries * docs)
    table = pa.table(
        {
            "query_id": [f"q{i}" for i in pair // docs],
            "doc_id": pair % docs,
            "position": np.ones(len(pair), int),
            "displays": pair % 7 + 1,
            "clicks": pair % 2,
        }
    )
    return ClickCounts.from_table(table if order is None else table.take(order))


def test_weights_are_poisson_and_whole_queries_share_them() -> None:
    queries, docs, members = 400, 3, 50
    counts = counts_of(queries, docs)
    weight = bootstrap_weights(counts, members, seed=0)
    assert weight.shape == (1 + members, queries * docs)
    np.testing.assert_array_equal(weight[0], 1)
    by_query = weight[1:].reshape(members, queries, docs)
    np.testing.assert_array_equal(by_query, by_query[:, :, :1].repeat(docs, axis=2))
    drawn = by_query[:, :, 0].astype(float)
    n = drawn.size
    # Poisson(1): variance 1, fourth central moment 4, so the variance of a sample's is 3 / n
    assert abs(drawn.mean() - 1) < 4 * np.sqrt(1 / n)
    assert abs(drawn.var() - 1) < 4 * np.sqrt(3 / n)
    # members, and queries, are independent of each other
    for rows in (drawn, drawn.T):
        r = np.corrcoef(rows)[np.triu_indices(len(rows), 1)]
        assert abs(r.mean()) < 4 / np.sqrt(len(r) * rows.shape[1])
    # each pair for itself would be found out
    alone = np.random.default_rng(0).poisson(1, by_query.shape)
    assert np.any(alone != alone[:, :, :1])


def test_a_seed_repeats_weights_in_any_order_of_rows() -> None:
    one = bootstrap_weights(counts_of(30, 4), 5, seed=3)
    shuffled = counts_of(30, 4, np.random.default_rng(1).permutation(120))
    np.testing.assert_array_equal(bootstrap_weights(shuffled, 5, seed=3), one)
    assert np.any(bootstrap_weights(counts_of(30, 4), 5, seed=4) != one)
    # more members leave the first ones as they are
    np.testing.assert_array_equal(bootstrap_weights(counts_of(30, 4), 9, seed=3)[:6], one)


@pytest.mark.parametrize("queries", [1, 2])
def test_no_member_is_left_without_any_query(queries: int) -> None:
    weight = bootstrap_weights(counts_of(queries, 2), 100, seed=0)
    assert weight.sum(axis=1).min() > 0
    # of Poisson weights a good many would be: exp(-queries) of them
    plain = np.random.default_rng(0).poisson(1, (100, queries))
    assert plain.sum(axis=1).min() == 0
