"""Pairs with equal counts are grouped, exactly, and groups stand for all of their pairs."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epiclick.batching import distinct as module
from epiclick.batching.distinct import distinct_counts
from epiclick.batching.pairset import PairSet
from epiclick.data.counts import ClickCounts
from epiclick.relevance.heads import exposure

CONTEXTS = 3


def counts_of(rows: list[dict[int, tuple[int, int]]], parts: int = 1) -> ClickCounts:
    """Counts of pairs, given as context -> (displays, clicks), each entry in equal parts."""
    pair, context, part, displays, clicks = [], [], [], [], []
    for number, row in enumerate(rows):
        for place in sorted(row):
            for day in range(parts):
                shown, clicked = (
                    (total + parts - 1 - day) // parts for total in row[place]
                )  # as equal as possible
                if shown:
                    pair.append(number)
                    context.append(place)
                    part.append(day)
                    displays.append(shown)
                    clicks.append(clicked)
    number = np.arange(len(rows))
    return ClickCounts(
        query_id=pa.array(number // 4),
        doc_id=pa.array(number),
        contexts=pa.table({"position": np.arange(1, CONTEXTS + 1)}),
        pair=np.array(pair, np.int64),
        context=np.array(context, np.int64),
        displays=np.array(displays, np.int64),
        clicks=np.array(clicks, np.int64),
        **({"part": np.array(part, np.int64)} if parts > 1 else {}),
    )


entry = st.integers(1, 3).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))
pair_rows = st.dictionaries(st.integers(0, CONTEXTS - 1), entry, min_size=1)


def expected_groups(rows: list[dict]) -> list[list[int]]:
    """Pairs of each distinct vector of counts, in the order of their first pairs."""
    groups = defaultdict(list)
    for number, row in enumerate(rows):
        groups[tuple(sorted(row.items()))].append(number)
    return list(groups.values())


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(rows=st.lists(pair_rows, min_size=1, max_size=30), parts=st.integers(1, 3))
def test_groups_are_those_of_a_dictionary(rows: list[dict], parts: int) -> None:
    """However the counts of a context are split into parts."""
    counts = counts_of(rows, parts)
    found = distinct_counts(counts)
    groups = expected_groups(rows)
    np.testing.assert_array_equal(found.first, [members[0] for members in groups])
    np.testing.assert_array_equal(found.size, [len(members) for members in groups])
    for number, members in enumerate(groups):
        assert set(np.flatnonzero(found.group == number)) == set(members)


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(pair_rows, min_size=1, max_size=20), seed=st.integers(0, 100))
def test_the_order_of_pairs_decides_only_the_order_of_groups(rows: list[dict], seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(rows))
    one = distinct_counts(counts_of(rows))
    other = distinct_counts(counts_of([rows[i] for i in order]))
    same, same_moved = one.group[order], other.group
    # two pairs share a group in one exactly where they do in the other
    np.testing.assert_array_equal(
        same[:, None] == same[None], same_moved[:, None] == same_moved[None]
    )
    assert sorted(one.size) == sorted(other.size)
    assert np.all(np.diff(other.first) > 0)


def test_counts_that_differ_in_context_clicks_or_displays_are_apart() -> None:
    rows = [{0: (2, 1)}, {1: (2, 1)}, {0: (2, 2)}, {0: (3, 1)}, {0: (2, 1), 1: (2, 1)}]
    assert len(distinct_counts(counts_of(rows)).first) == 5
    large = [{0: (2**40, 5)}, {0: (2**40, 6)}, {0: (2**40 + 1, 5)}, {0: (2**40, 5)}]
    np.testing.assert_array_equal(distinct_counts(counts_of(large)).group, [0, 1, 2, 0])


def test_equal_hashes_of_different_counts_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = counts_of([{0: (2, 1)}, {1: (2, 1)}])
    monkeypatch.setattr(module, "_hashed", lambda entries: np.zeros(len(entries.pair), np.uint64))
    with pytest.raises(AssertionError, match="same hash"):
        distinct_counts(counts)


@pytest.mark.slow
def test_a_million_random_vectors_do_not_collide() -> None:
    """Hashes of 64 bits: two of a million differ but for a chance of 3e-8."""
    rng = np.random.default_rng(0)
    pairs = 1_000_000
    displays = rng.integers(1, 2**42, pairs)
    counts = replace(
        counts_of([{0: (1, 0)}]),
        query_id=pa.array(np.zeros(pairs, int)),
        doc_id=pa.array(np.arange(pairs)),
        pair=np.arange(pairs),
        context=rng.integers(0, CONTEXTS, pairs),
        displays=displays,
        clicks=displays // 3,
    )
    vectors = set(zip(counts.context.tolist(), displays.tolist(), strict=True))
    assert len(distinct_counts(counts).first) == len(vectors)


@pytest.mark.parametrize("affine", [False, True])
def test_a_set_of_distinct_pairs_stands_for_all(affine: bool) -> None:
    rng = np.random.default_rng(2)
    displays = rng.integers(0, 3, (200, CONTEXTS))
    displays[:, 0] += 1
    clicks = rng.binomial(displays, 0.4)
    rows = [
        {k: (int(n), int(m)) for k, (n, m) in enumerate(zip(*row, strict=True)) if n}
        for row in zip(displays, clicks, strict=True)
    ]
    counts = counts_of(rows)
    pairs = PairSet.distinct(counts, 50, affine=affine)
    own = pairs.batches.counts
    assert len(own) == len(expected_groups(rows)) < len(counts)
    assert pairs.count == len(counts) == 200
    assert pairs.width == CONTEXTS
    assert pairs.batches.affine == affine
    assert pairs.displays == counts.total_displays
    assert pairs.batches.weight is not None
    assert pairs.batches.weight.sum() == 200
    # every pair has the counts of the one that stands for it
    assert pairs.origin is not None
    assert pairs.origin.counts is counts
    for dense, all_pairs in zip(own.dense(), counts.dense(), strict=True):
        np.testing.assert_array_equal(dense[pairs.origin.row], all_pairs)
    # what the batches hold, times its weight, is what all pairs have together
    total = np.zeros(CONTEXTS)
    for chosen, (inputs, batch) in zip(pairs.batches.epoch(), pairs.epoch(), strict=True):
        for part, bucket in batch.parts():
            total += batch.weight[part] @ bucket.clicks
        present = chosen >= 0
        np.testing.assert_array_equal(inputs[present], exposure(own.dense(chosen[present])[0]))
    np.testing.assert_array_equal(total, clicks.sum(axis=0))
