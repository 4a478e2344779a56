"""Ratios of position bias without a bound: against brute force, and their errors against simulated logs."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy import optimize, stats

from epiclick.data.counts import ClickCounts
from epiclick.data.readers import read_log
from epiclick.identification.unbounded import unbounded_bias

from ..device_worlds import DESKTOP, PHONE, device_counts

pytestmark = pytest.mark.slow


def counts_of(rows: list[tuple[int, int, int, int, int]]) -> ClickCounts:
    """Of (query, doc, position, displays, clicks)."""
    names = ("query_id", "doc_id", "position", "displays", "clicks")
    return ClickCounts.from_table(
        pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    )


def brute_force(counts: ClickCounts) -> np.ndarray:
    """Logarithms of bias by a Poisson regression with a number for every clicked pair."""
    displays, clicks = counts.dense()
    clicked = clicks.sum(axis=1) > 0
    displays, clicks = displays[clicked], clicks[clicked]
    contexts = displays.shape[1]

    def loss(vector: np.ndarray) -> tuple[float, np.ndarray]:
        log_bias = np.append(0.0, vector[: contexts - 1])
        log_mean = log_bias + vector[contexts - 1 :, None]
        mean = displays * np.exp(log_mean)
        over = mean - clicks
        slope = np.append(over.sum(axis=0)[1:], over.sum(axis=1))
        return float(np.sum(mean - clicks * log_mean)), slope

    start = np.append(np.zeros(contexts - 1), np.full(len(displays), -1.0))
    found = optimize.minimize(
        loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 5_000, "ftol": 1e-14}
    )
    return np.append(0.0, found.x[: contexts - 1])


def test_it_is_the_poisson_regression_with_a_number_for_every_pair() -> None:
    counts = device_counts(1.3, queries=12, docs=4, shown=3)
    values = unbounded_bias(counts).values(0)
    np.testing.assert_allclose(values, brute_force(counts), atol=2e-4)
    # negative control: rates of clicks, which better items at the top raise, are something else
    rates = counts.by_context()["click_rate"].to_numpy()
    assert np.abs(np.log(rates / rates[0]) - values).max() > 0.02


def test_the_slope_is_zero_there() -> None:
    bias = unbounded_bias(device_counts(1.11, seed=3))
    np.testing.assert_allclose(bias.scores.sum(axis=0), 0, atol=1e-4)


WORLDS = 300


def test_errors_are_those_of_repeated_worlds() -> None:
    found = [
        unbounded_bias(device_counts(1.11, queries=40, docs=4, seed=seed)).ratio(DESKTOP, PHONE)
        for seed in range(WORLDS)
    ]
    value, error, freedom = np.array(found).T
    spread, noise = value.std(ddof=1), (2 * (WORLDS - 1)) ** -0.5
    # mean and error are right, and so is the coverage of the lower bound
    assert abs(value.mean() - np.log(1.11)) < 4 * spread / np.sqrt(WORLDS)
    assert abs(np.sqrt(np.mean(error**2)) / spread - 1) < 4 * noise
    beyond = np.sum([ratio.lower(0.1) > np.log(1.11) for ratio in found])
    low, high = stats.binom.ppf([0.0005, 0.9995], WORLDS, 0.1)
    assert low <= beyond <= high
    assert not low <= np.sum((value - np.log(1.11)) / (0.6 * error) > stats.norm.isf(0.1)) <= high
    assert np.all((freedom > 20) & (freedom < 40))


def test_a_large_query_counts_for_one() -> None:
    counts = device_counts(1.0, queries=20, docs=4)
    times = np.where(counts.query[counts.pair] == 0, 200, 1)
    table = counts.to_table()
    scaled = {name: table[name].to_numpy() * times for name in ("displays", "clicks")}
    for name, values in scaled.items():
        at = table.column_names.index(name)
        table = table.set_column(at, name, pa.array(values))
    large = ClickCounts.from_table(table, context=("device", "position"))
    even, uneven = (unbounded_bias(c).ratio(DESKTOP, PHONE) for c in (counts, large))
    assert even.freedom > 10
    assert uneven.freedom < 1.5 or np.isnan(uneven.freedom)


def test_rows_in_parts_or_without_clicks_change_nothing() -> None:
    rows = [(1, 1, 1, 9, 4), (1, 1, 2, 8, 2), (1, 2, 1, 7, 3), (1, 2, 2, 9, 3), (2, 1, 1, 6, 3)]
    rows += [(2, 1, 2, 6, 2)]
    expected = unbounded_bias(counts_of(rows)).values(0)
    more = [*rows, (3, 1, 1, 50, 0), (3, 1, 2, 50, 0), (4, 1, 1, 10, 9)]
    np.testing.assert_allclose(unbounded_bias(counts_of(more)).values(0), expected, atol=1e-9)
    days = [(*row[:3], row[3] - 1, row[4], 0) for row in rows]
    days += [(*row[:3], 1, 0, 1) for row in rows]
    names = ("query_id", "doc_id", "position", "displays", "clicks", "part")
    table = pa.table(dict(zip(names, map(list, zip(*days, strict=True)), strict=True)))
    split = ClickCounts.from_table(table)
    assert len(split.pair) == 2 * len(rows)
    np.testing.assert_allclose(unbounded_bias(split).values(0), expected, atol=1e-9)


def test_ratios_that_are_not_finite() -> None:
    # nothing was ever clicked at 3; 1 and 2 were, on the same item
    rows = [(1, 1, 1, 9, 4), (1, 1, 2, 8, 2), (1, 1, 3, 20, 0), (2, 5, 4, 9, 1), (2, 5, 5, 9, 2)]
    bias = unbounded_bias(counts_of([*rows, (1, 2, 1, 9, 3), (1, 2, 2, 9, 2)]))
    values = bias.values(0)
    assert np.isfinite(values[:2]).all()
    assert values[2] == -np.inf
    assert np.isnan(values[3:]).all()
    assert bias.values(2)[0] == np.inf
    assert np.isfinite(bias.values(3)[4])
    # a single query does not show how queries differ
    assert np.isnan(bias.ratio(1, 0).error)
    assert np.isnan(bias.ratio(2, 0).lower(0.1))


@pytest.mark.parametrize(
    "rows",
    [
        [(1, 1, 1, 5, 1), (2, 1, 2, 5, 0)],
        [(1, 1, 1, 5, 0), (1, 1, 2, 5, 0)],
        [(1, 1, 1, 5, 5)],
    ],
)
def test_a_log_without_comparisons(rows: list) -> None:
    values = unbounded_bias(counts_of(rows)).values(0)
    assert values[0] == 0
    assert np.isnan(values[1:]).all()


def test_real_clicks_agree_with_what_a_fit_finds(shared_data: Callable[[str], Path]) -> None:
    log = shared_data("yandex-counts/counts.csv")
    with pytest.warns(UserWarning, match="capped"):
        counts = read_log(log, position_base=0, clip_clicks=True)
    values = unbounded_bias(counts).values(0)
    assert np.all(values[1:] < -0.3)
    assert np.all(np.isfinite(values))
