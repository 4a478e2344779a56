"""Batches contain every pair once, in fixed shapes."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from epiclick.batching import batches as batches_module
from epiclick.batching.batches import Batches, Shapes
from epiclick.click_models.click_model import Emission
from epiclick.data.counts import ClickCounts
from epiclick.likelihood.batch_gradient import batch_gradient
from epiclick.likelihood.pairs import SWITCH_OVER, PairBatch, bucket_of

from ..raising import raises_code


def random_counts(pairs: int = 500, contexts: int = 4, seed: int = 0) -> ClickCounts:
    rng = np.random.default_rng(seed)
    displays = rng.integers(0, 4, (pairs, contexts))
    displays[rng.random(pairs) < 0.1] *= 20  # some heads
    displays[:, 1] += 1
    clicks = rng.binomial(displays, 0.2)
    pair, context = np.nonzero(displays)
    return ClickCounts.from_table(
        pa.table(
            {
                "query_id": pair // 10,
                "doc_id": pair % 10,
                "position": context + 1,
                "displays": displays[pair, context],
                "clicks": clicks[pair, context],
            }
        )
    )


def counts_in(batch: PairBatch) -> tuple[np.ndarray, np.ndarray]:
    """Clicks and unclicked displays of all pairs of a batch, (pairs, contexts) each."""
    return tuple(
        np.concatenate([getattr(bucket, name) for _, bucket in batch.parts()])
        for name in ("clicks", "unclicked")
    )


def shapes_of(batch: PairBatch) -> tuple:
    arrays = [part for bucket in batch.buckets for part in vars(bucket).values()]
    return tuple(None if part is None else part.shape for part in (*arrays, batch.weight))


@pytest.mark.parametrize("batch_size", [1, 37, 100, 500, 10_000])
def test_an_epoch_deals_every_pair_once_in_equal_shapes(batch_size: int) -> None:
    counts = random_counts()
    batches = Batches(counts, batch_size)
    dealt = list(batches.epoch(np.random.default_rng(1)))
    assert len(dealt) == len(batches) == -(-500 // batch_size)
    assert len({len(batch) for batch in dealt}) == 1
    everyone = np.concatenate(dealt)
    np.testing.assert_array_equal(np.sort(everyone[everyone >= 0]), np.arange(500))
    assert max(int((batch >= 0).sum()) for batch in dealt) <= batch_size + len(batches.capacity)


def test_epochs_are_reshuffled_and_a_seed_repeats_them() -> None:
    batches = Batches(random_counts(), 100)
    first, again, other = (
        np.concatenate(list(batches.epoch(np.random.default_rng(seed)))) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)


def test_a_batch_holds_the_counts_of_its_pairs() -> None:
    counts = random_counts()
    batches = Batches(counts, 100)
    shapes = set()
    for pairs in batches.epoch(np.random.default_rng(3)):
        batch = batches.assemble(pairs)
        shapes.add(shapes_of(batch))
        displays, clicks = counts.dense(np.maximum(pairs, 0))
        displays[pairs < 0] = clicks[pairs < 0] = 0
        own_clicks, own_unclicked = counts_in(batch)
        np.testing.assert_array_equal(own_clicks, clicks)
        np.testing.assert_array_equal(own_unclicked, displays - clicks)
        np.testing.assert_array_equal(batch.weight, pairs >= 0)
        parts = list(batch.parts())
        assert [part.start for part, _ in parts[1:]] == [part.stop for part, _ in parts[:-1]]
        assert (parts[0][0].start, parts[-1][0].stop) == (0, len(pairs))
        for _, bucket in parts:
            unclicked = bucket.unclicked
            if bucket.order is None:
                assert np.all((unclicked.sum(axis=1) > SWITCH_OVER) | (unclicked.sum(axis=1) == 0))
                continue
            for row, order in zip(unclicked, bucket.order, strict=True):
                listed = np.bincount(order[order >= 0], minlength=len(row))
                np.testing.assert_array_equal(listed, row)
    assert len(shapes) == 1


@pytest.mark.parametrize("contexts", [4, 40])
def test_counts_laid_out_once_are_those_of_each_batch(
    contexts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = random_counts(contexts=contexts)
    pairs = [*Batches(counts, 64).epoch(np.random.default_rng(0))]
    once, again = Batches(counts, 64), Batches(counts, 64)
    kept = [once.assemble(own) for own in pairs]
    monkeypatch.setattr(batches_module, "KEPT_BYTES", 0)
    for own, batch in zip(pairs, kept, strict=True):
        for (_, first), (_, second) in zip(batch.parts(), again.assemble(own).parts(), strict=True):
            for name in ("clicks", "unclicked", "order", "slots"):
                np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert once._kept is not None
    assert again._kept is None


def test_parts_of_a_log_add_up() -> None:
    """One row split in two, such as by day, is the same display count."""
    whole = random_counts()
    table = whole.to_table()
    day = pa.array(np.arange(len(table)) % 2)
    twice = pa.concat_tables([table.append_column("part", day), table.append_column("part", day)])
    split = ClickCounts.from_table(twice)
    assert split.part is not None
    doubled = Batches(split, 1000)
    single = Batches(whole, 1000)
    pairs = np.arange(len(whole))
    once = dict(zip(*_rows(single), strict=True))
    for pair, row in zip(*_rows(doubled), strict=True):
        np.testing.assert_array_equal(row, 2 * once[pair])
    assert len(once) == len(pairs)


def _rows(batches: Batches) -> tuple[list[int], np.ndarray]:
    pairs = next(batches.epoch())
    batch = batches.assemble(pairs)
    present = pairs >= 0
    both = np.concatenate(counts_in(batch), axis=1)
    return pairs[present].tolist(), both[present]


def test_weights_follow_their_pairs() -> None:
    counts = random_counts()
    weight = np.random.default_rng(5).poisson(1, len(counts)).astype(float)
    batches = Batches(counts, 120, weight)
    for pairs in batches.epoch(np.random.default_rng(0)):
        np.testing.assert_array_equal(
            batches.assemble(pairs).weight, np.where(pairs >= 0, weight[pairs], 0)
        )


def test_buckets_are_of_the_pairs_own_displays() -> None:
    counts = random_counts()
    batches = Batches(counts, 500)
    displays, clicks = counts.dense()
    sizes = np.bincount(bucket_of((displays - clicks).sum(axis=1)), minlength=9)
    assert batches.capacity == tuple(sizes)


@pytest.mark.parametrize("shown", [(), (0, 2), (1, 3)], ids=["none", "first", "last"])
def test_pairs_that_were_never_shown_have_a_bucket_too(shown: tuple[int, ...]) -> None:
    """Without displays, and not that of the next pair."""
    counts = random_counts(4)
    kept = np.isin(counts.pair, shown)
    entries = {name: getattr(counts, name)[kept] for name in ("pair", "context", "clicks")}
    counts = replace(counts, **entries, displays=50 * counts.displays[kept])
    batches = Batches(counts, 10)
    (pairs,) = batches.epoch()
    unclicked = counts_in(batches.assemble(pairs))[1].sum(axis=1)
    displays, clicks = counts.dense(pairs)
    np.testing.assert_array_equal(unclicked, (displays - clicks).sum(axis=1))
    expected = np.bincount(bucket_of(np.array([0 if i not in shown else 99 for i in range(4)])))
    assert batches.capacity[: len(expected)] == tuple(expected)


def test_batches_of_small_logs_are_never_empty() -> None:
    """Remainders are spread over batches, across buckets."""
    for pairs in (18, 20, 61):
        counts = random_counts(pairs, seed=pairs)
        sizes = [int((batch >= 0).sum()) for batch in Batches(counts, 3).epoch()]
        assert min(sizes) >= 1
        assert max(sizes) - min(sizes) <= 1


def test_weights_of_several_networks_follow_their_pairs() -> None:
    counts = random_counts()
    weight = np.random.default_rng(5).poisson(1, (3, len(counts))).astype(np.uint8)
    batches = Batches(counts, 120, weight)
    for pairs in batches.epoch(np.random.default_rng(0)):
        own = batches.assemble(pairs).weight
        assert own.dtype == np.float64
        np.testing.assert_array_equal(own, np.where(pairs >= 0, weight[:, pairs], 0))
    displays = counts.dense()[0].sum(axis=1)
    np.testing.assert_array_equal(batches.displays, weight.astype(int) @ displays)
    np.testing.assert_array_equal(Batches(counts, 120).displays, [displays.sum()])


def test_common_shapes_suffice_for_all_and_no_more() -> None:
    several = [random_counts(pairs, seed=pairs) for pairs in (300, 347, 260)]
    shapes = Shapes.common(several, 4)
    room = [Batches(counts, 1, shapes=Shapes(4, (999,) * 9)).capacity for counts in several]
    assert set(room) == {(999,) * 9}
    for bucket, most in enumerate(shapes.capacity):
        sizes = [
            int(np.sum(bucket_of((d - c).sum(axis=1)) == bucket))
            for d, c in (counts.dense() for counts in several)
        ]
        assert most == -(-max(sizes) // 4)
    leaves = set()
    for counts in several:
        batches = Batches(counts, 1, shapes=shapes)
        dealt = list(batches.epoch(np.random.default_rng(0)))
        assert len(dealt) == len(batches) == 4
        everyone = np.concatenate(dealt)
        np.testing.assert_array_equal(np.sort(everyone[everyone >= 0]), np.arange(len(counts)))
        for pairs in dealt:
            leaves.add(shapes_of(batches.assemble(pairs)))
    assert len(leaves) == 1


def test_shapes_that_are_too_small_are_refused() -> None:
    counts = random_counts()
    enough = Shapes.common([counts], 5)
    assert Batches(counts, 100, shapes=enough).capacity == enough.capacity
    for bucket, most in enumerate(enough.capacity):
        less = list(enough.capacity)
        less[bucket] = most - 1
        with raises_code("shapes-too-small") as caught:
            Batches(counts, 100, shapes=Shapes(5, tuple(less)))
        assert "500 pairs in 5 batches" in str(caught.value)
        assert "Shapes.common" in str(caught.value)
    with raises_code("shapes-too-small"):
        Batches(counts, 100, shapes=Shapes(5, enough.capacity[:-1]))


def test_padding_changes_no_pair_of_a_batch() -> None:
    counts = random_counts()
    plain = Batches(counts, 100)
    wide = Shapes(len(plain), tuple(room + 3 for room in plain.capacity))
    padded = Batches(counts, 100, shapes=wide)
    for few, more in zip(
        *(b.epoch(np.random.default_rng(2)) for b in (plain, padded)), strict=True
    ):
        np.testing.assert_array_equal(few[few >= 0], more[more >= 0])


def test_small_buckets_are_joined_and_likelihoods_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = random_counts()
    (pairs,) = Batches(counts, 1_000).epoch()
    rng = np.random.default_rng(1)
    alpha, beta = rng.gamma(2.0, size=(2, len(pairs)))
    theta = np.linspace(1, 0.2, len(counts.contexts))
    found, buckets = [], []
    for joined in (0, 100_000):
        monkeypatch.setattr(batches_module, "JOINED", joined)
        batch = Batches(counts, 1_000).assemble(pairs)
        buckets.append(len(batch.buckets))
        found.append(batch_gradient(Emission(theta, 1 - theta), alpha, beta, batch))
    assert buckets[0] > 5
    assert buckets[1] == 2  # few displays, and many
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12)


def test_large_buckets_stay_apart() -> None:
    whole = (0, 2_000, 0, 2_000, 0, 0, 5, 7, 3)
    assert batches_module._joined(whole) == [
        (range(0, 3), 2_000),
        (range(3, 4), 2_000),
        (range(4, 8), 12),
        (range(8, 9), 3),
    ]
    assert batches_module._joined((0, 0, 4, 0, 0, 0, 0, 0, 0)) == [(range(0, 3), 4)]
