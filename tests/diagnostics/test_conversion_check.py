"""The test whether conversions depend on position: its score, false alarms and power."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom, hypergeom

from epiclick.data.counts import ClickCounts
from epiclick.data.schema import LogOptions
from epiclick.diagnostics.conversion_check import (
    SIGNIFICANT,
    PositionCheck,
    check_positions,
    conversion_words,
)

POSITIONS = 5


def counts_of(clicks: np.ndarray, converted: np.ndarray, **contexts: np.ndarray) -> ClickCounts:
    """Counts of (queries, docs, positions) clicks and conversions."""
    query, doc, place = (index.ravel() for index in np.indices(clicks.shape))
    table = pa.table(
        {
            "query_id": query,
            "doc_id": doc,
            "position": place + 1,
            **contexts,
            "displays": clicks.ravel() + 1,
            "clicks": clicks.ravel(),
            "conversions": converted.ravel(),
        }
    )
    names = ("position", *contexts)
    options = LogOptions(conversion="buy", context=names)
    return ClickCounts.from_table(table, context=names, options=options)


def world(seed: int, slope: float = 0.0, queries: int = 60) -> ClickCounts:
    """Items whose conversions differ by query and item; log odds fall by `slope` per log2 k.

    Better items are clicked at better positions, which must not look like an effect of those.
    """
    rng = np.random.default_rng(seed)
    quality = rng.normal(-1, 0.7, (queries, 1, 1)) + rng.normal(0, 0.7, (queries, 5, 1))
    x = np.log2(np.arange(1, POSITIONS + 1))
    clicks = rng.poisson(4 * np.exp(-0.5 * x + 0.5 * quality * (1.5 - x)))
    chance = 1 / (1 + np.exp(-(quality - slope * x)))
    return counts_of(clicks, rng.binomial(clicks, chance))


def test_the_score_and_its_variance_are_those_of_a_loop() -> None:
    rng = np.random.default_rng(1)
    clicks = rng.poisson(2.0, (40, 3, POSITIONS))
    converted = rng.binomial(clicks, 0.4)
    found = check_positions(counts_of(clicks, converted))
    by_query, information, positions = np.zeros(40), 0.0, []
    for q in range(40):
        for i in range(3):
            n, y = clicks[q, i], converted[q, i]
            x = np.log2(np.arange(1, POSITIONS + 1))
            trials = np.repeat(x, n)
            total = y.sum()
            if not 0 < total < len(trials) or np.ptp(trials) == 0:
                continue
            by_query[q] += x @ (y - n * total / n.sum())
            # a sum over a sample without replacement
            information += total * (1 - total / len(trials)) * trials.var(ddof=1)
            positions += np.flatnonzero(n).tolist()
    assert found.z == pytest.approx(by_query.sum() / np.sqrt((by_query**2).sum()))
    assert (found.first, found.last) == (min(positions) + 1, max(positions) + 1)
    slope = by_query.sum() / information
    assert found.odds_ratio == pytest.approx(np.exp(slope * np.log2(found.last)))


def test_the_variance_of_a_stratum_is_hypergeometric() -> None:
    # two positions, x = 0 and 1: the score is the number of conversions at the second
    n, y = np.array([7, 5]), 4
    trials = np.repeat([0.0, 1.0], n)
    variance = y * (1 - y / 12) * trials.var(ddof=1)
    assert variance == pytest.approx(hypergeom(12, 5, y).var())


@pytest.mark.slow
def test_false_alarms_are_rare_and_real_effects_are_found() -> None:
    runs = 200
    rates = {
        slope: np.mean([check_positions(world(seed, slope)).is_violated for seed in range(runs)])
        for slope in (0.0, 0.3, 0.6)
    }
    # at a level of 1 %, more than 5 of 200 has a probability of 1.6 %, below this limit
    assert rates[0.0] <= binom.isf(0.001, runs, SIGNIFICANT) / runs <= 0.05
    assert rates[0.3] > 0.6
    assert rates[0.6] > 0.98


def test_pooling_items_would_raise_false_alarms() -> None:
    # the control: the same conversions as if every query were one item
    alarms = []
    for seed in range(20):
        counts = world(seed)
        shape = (60, 5, POSITIONS)
        clicks, converted = np.zeros(shape, int), np.zeros(shape, int)
        table = counts.to_table().to_pandas()
        at = (table["query_id"], table["doc_id"], table["position"] - 1)
        clicks[at], converted[at] = table["clicks"], table["conversions"]
        pooled = counts_of(clicks.sum(axis=1, keepdims=True), converted.sum(axis=1, keepdims=True))
        alarms.append(check_positions(pooled).is_violated)
    assert np.mean(alarms) > 0.5


def test_the_effect_is_the_odds_ratio() -> None:
    found = check_positions(world(3, slope=0.4, queries=1500))
    assert found.last == POSITIONS
    assert found.low < np.exp(-0.4 * np.log2(POSITIONS)) < found.high
    assert "position 5" in found.warnings[0]
    assert "-6" in found.sentence  # about 60 % less


def test_contexts_besides_the_position_are_kept_apart() -> None:
    # on phones items convert less, and are clicked further down
    rng = np.random.default_rng(5)
    clicks = np.zeros((80, 2, POSITIONS), int)
    device = np.where(np.arange(POSITIONS) > 1, "phone", "desktop")
    clicks[:] = rng.poisson(6.0, clicks.shape)
    chance = np.where(device == "phone", 0.1, 0.5)
    converted = rng.binomial(clicks, chance)
    assert check_positions(counts_of(clicks, converted)).is_violated
    every = np.broadcast_to(device, clicks.shape).ravel()
    assert not check_positions(counts_of(clicks, converted, device=every)).is_violated


def test_too_few_queries_are_not_checked() -> None:
    counts = world(0, queries=3)
    found = check_positions(counts)
    assert found.z is None
    assert not found.is_violated
    assert "too few" in conversion_words(counts, found)[1]
    assert PositionCheck(0.0).to_dict()["violated"] is False
