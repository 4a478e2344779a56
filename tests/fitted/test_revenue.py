"""The value of conversions, against formulas of two-level normal models and brute force."""

import numpy as np
import pyarrow as pa
import pytest

from epiclick.data.counts import ClickCounts
from epiclick.data.schema import LogOptions
from epiclick.fitted.revenue import Revenue

MEAN, BETWEEN, WITHIN = 20.0, 9.0, 25.0


def counts_of(queries: int, docs: int, seed: int, *, positions: int = 4) -> ClickCounts:
    """Conversions of items at several positions, worth N(item's mean, WITHIN) each."""
    rng = np.random.default_rng(seed)
    shape = (queries, docs, positions)
    number = rng.poisson(1.5, shape)
    own = rng.normal(MEAN, np.sqrt(BETWEEN), (queries, docs, 1))
    value = np.maximum(rng.normal(number * own, np.sqrt(number * WITHIN)), 0)
    query, doc, place = (index.ravel() for index in np.indices(shape))
    table = pa.table(
        {
            "query_id": query,
            "doc_id": doc,
            "position": place + 1,
            "displays": number.ravel() + 1,
            "clicks": number.ravel(),
            "conversions": number.ravel(),
            "value": value.ravel(),
        }
    )
    return ClickCounts.from_table(table, options=LogOptions(conversion="buy", value="paid"))


def test_variances_and_mean_are_recovered() -> None:
    found = [Revenue.of(counts_of(60, 6, seed), 0, keep=False) for seed in range(30)]
    for name, truth in (("mean", MEAN), ("within", WITHIN), ("between", BETWEEN)):
        values = np.array([getattr(each, name) for each in found])
        assert abs(values.mean() - truth) < 4 * values.std(ddof=1) / np.sqrt(len(values))
    spread = np.std([each.mean for each in found], ddof=1)
    bootstrap = np.mean([each.draws.std() for each in found])
    assert bootstrap == pytest.approx(spread, rel=4 / np.sqrt(2 * 29))


def test_an_item_is_shrunk_as_bayes_rule_says() -> None:
    revenue = Revenue(MEAN, np.array([MEAN - 1, MEAN + 1]), WITHIN, BETWEEN)
    number, value = np.array([0.0, 1.0, 7.0]), np.array([0.0, 50.0, 70.0])
    mean, variance = revenue.moments(number, value, revenue.draws)
    for i, (count, total) in enumerate(zip(number, value, strict=True)):
        precision = 1 / BETWEEN + count / WITHIN
        assert variance[i] == pytest.approx(1 / precision)
        for row, prior in zip(mean, revenue.draws, strict=True):
            assert row[i] == pytest.approx((prior / BETWEEN + total / WITHIN) / precision)


@pytest.mark.parametrize(("within", "between"), [(0.0, 0.0), (0.0, 4.0), (4.0, 0.0)])
def test_degenerate_variances_leave_finite_moments(within: float, between: float) -> None:
    revenue = Revenue(5.0, np.full(3, 5.0), within, between)
    mean, variance = revenue.moments(np.array([0.0, 2.0]), np.array([0.0, 20.0]), revenue.draws)
    own = 10.0 if between > 0 else 5.0  # what is certain is not shrunk, equal items are one
    np.testing.assert_allclose(mean, np.tile([5.0, own], (3, 1)))
    np.testing.assert_allclose(variance, [between, 0.0])


def test_one_entry_per_item_still_gives_variances() -> None:
    found = Revenue.of(counts_of(40, 5, 1, positions=1), 0, keep=True)
    assert found.within > 0
    assert found.between > 0
    assert found.items is not None
    assert found.items.shape == (200, 2)


def test_arrays_restore_everything() -> None:
    found = Revenue.of(counts_of(20, 4, 2), 3, keep=True)
    again = Revenue.from_arrays(found.to_arrays())
    assert (again.mean, again.within, again.between) == (found.mean, found.within, found.between)
    np.testing.assert_array_equal(again.draws, found.draws)
    np.testing.assert_array_equal(again.items, found.items)
