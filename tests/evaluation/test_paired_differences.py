"""Intervals of paired differences, compared with a bootstrap of queries and with Student's t."""

import numpy as np
import pytest
from scipy import stats

from epiclick.evaluation.paired_differences import paired_difference


def unequal(queries: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Queries of very different sizes, whose gain per display varies between queries."""
    rng = np.random.default_rng(seed)
    displays = rng.geometric(0.02, queries)
    return displays * rng.normal(0.003, 0.01, queries), displays


def test_intervals_agree_with_a_bootstrap_of_queries() -> None:
    gain, displays = unequal(800, 0)
    rng = np.random.default_rng(1)
    drawn = rng.integers(800, size=(4_000, 800))
    means = gain[drawn].sum(axis=1) / displays[drawn].sum(axis=1)
    found = paired_difference(gain, displays, 0.9)
    assert found.difference == gain.sum() / displays.sum()
    width = found.high - found.low
    assert found.low == pytest.approx(np.quantile(means, 0.05), abs=0.06 * width)
    assert found.high == pytest.approx(np.quantile(means, 0.95), abs=0.06 * width)
    # the control: displays that are taken for independent give a far narrower interval
    per_display = np.repeat(gain / displays, displays)
    naive = 2 * 1.645 * per_display.std() / np.sqrt(len(per_display))
    assert naive < 0.3 * width


@pytest.mark.parametrize("queries", [2, 3, 8])
def test_queries_of_one_size_give_the_interval_of_students_t(queries: int) -> None:
    mean = np.random.default_rng(queries).normal(1, 2, queries)
    found = paired_difference(50 * mean, np.full(queries, 50), 0.8)
    own = stats.ttest_1samp(mean, 0).confidence_interval(0.8)
    assert (found.low, found.high) == pytest.approx((own.low, own.high))


def test_a_large_query_among_many_counts_as_few() -> None:
    gain, displays = unequal(100, 2)
    even = paired_difference(gain, displays, 0.9)
    gain[0], displays[0] = gain[0] / displays[0] * 20_000, 20_000
    assert displays.sum() ** 2 / np.square(displays).sum() < 2
    one = paired_difference(gain, displays, 0.9)
    assert one.high - one.low > 3 * (even.high - even.low)


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_of_few_queries_cover_the_truth_as_often_as_they_say(level: float) -> None:
    rng = np.random.default_rng(3)
    displays = np.array([300, 200, 250, 100, 150, 400, 300, 200])
    worlds, inside = 3_000, 0
    for _ in range(worlds):
        found = paired_difference(displays * rng.normal(0.1, 1, 8), displays, level)
        inside += found.low <= 0.1 <= found.high
    # exact for sizes that are equal; these differ by a factor of 4
    assert inside / worlds == pytest.approx(
        level, abs=0.02 + 3 * np.sqrt(level * (1 - level) / worlds)
    )


def test_equal_scores_differ_by_0_for_certain() -> None:
    found = paired_difference(np.zeros(5), np.arange(1, 6), 0.9)
    assert (found.difference, found.low, found.high) == (0, 0, 0)
