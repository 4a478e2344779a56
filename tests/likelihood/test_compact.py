"""Counts by slots give the same results as counts of all contexts."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from epiclick.batching.batches import Batches, Shapes
from epiclick.click_models.click_model import Emission
from epiclick.data.counts import ClickCounts
from epiclick.likelihood.batch_gradient import (
    batch_gradient,
    known_gradient,
    pair_log_likelihoods,
)
from epiclick.likelihood.pairs import rounded_slots, slots_needed, slots_of
from epiclick.likelihood.tilting import tilted

CONTEXTS, PAIRS = 60, 90


def random_counts(seed: int = 0) -> ClickCounts:
    """Pairs with few and with many displays, a day's in two parts."""
    rng = np.random.default_rng(seed)
    most = rng.choice([2, 200], PAIRS)
    few = rng.random((PAIRS, CONTEXTS)) * (rng.random((PAIRS, CONTEXTS)) < 0.15) + 1e-9
    displays = np.array([rng.multinomial(n, p / p.sum()) for n, p in zip(most, few, strict=True)])
    pair, context = np.nonzero(displays)
    table = pa.table(
        {
            "query_id": np.tile(pair, 2),
            "doc_id": np.tile(pair, 2),
            "position": np.tile(context + 1, 2),
            "part": np.repeat([1, 2], len(pair)),
            "displays": np.tile(displays[pair, context], 2),
            "clicks": rng.binomial(np.tile(displays[pair, context], 2), 0.3),
        }
    )
    counts = ClickCounts.from_table(table)
    contexts = pa.table({"position": np.arange(1, CONTEXTS + 1)})
    return replace(counts, contexts=contexts, context=np.repeat(context, 2))


def emission(affine: bool, samples: int = 2) -> Emission:
    rng = np.random.default_rng(9)
    a, b = rng.uniform(0.05, 0.95, (2, samples, CONTEXTS))
    a[0, 0], b = 1.0, a * b
    return Emission(a, 1 - a, b, 1 - b) if affine else Emission(a, 1 - a)


def one_of(emission: Emission, sample: int) -> Emission:
    return Emission(*(None if part is None else part[sample] for part in emission))


def test_slots_have_the_counts_of_their_pairs() -> None:
    counts = random_counts()
    displays, clicks = counts.dense()
    np.testing.assert_array_equal(slots_needed(counts), (displays > 0).sum(axis=1))
    pairs = np.array([7, -1, 0, PAIRS - 1])
    slots = slots_of(counts, pairs)
    assert slots.context.dtype == np.int32
    assert slots.context.shape[1] == rounded_slots(slots_needed(counts).max(), CONTEXTS) < CONTEXTS
    for row, pair in enumerate(pairs):
        back = np.zeros((2, CONTEXTS), int)
        np.add.at(back[0], slots.context[row], slots.clicks[row])
        np.add.at(back[1], slots.context[row], slots.unclicked[row])
        expected = np.stack([clicks[pair], (displays - clicks)[pair]]) * (pair >= 0)
        np.testing.assert_array_equal(back, expected)


def test_sizes_are_few_and_never_more_than_contexts() -> None:
    sizes = [rounded_slots(n, 210) for n in range(1, 211)]
    assert sorted(set(sizes)) == [4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 210]
    assert all(size >= n for n, size in enumerate(sizes, 1))


@pytest.mark.parametrize("affine", [False, True])
def test_a_batch_by_slots_agrees_with_one_of_all_contexts(affine: bool) -> None:
    counts, bias = random_counts(), emission(affine)
    rng = np.random.default_rng(4)
    alpha, beta = rng.uniform(0.3, 3, (2, PAIRS))
    weight = rng.integers(0, 3, PAIRS).astype(float)
    found = []
    for compact in (False, True):
        batches = Batches(counts, PAIRS, weight, affine=affine, compact=compact)
        pairs = next(batches.epoch())
        batch = batches.assemble(pairs)
        assert batch.has_slots == compact
        assert {bucket.order is None for bucket in batch.buckets} == {False, True}
        a, b = alpha[pairs], beta[pairs]
        mean = a / (a + b)
        of_each = [batch_gradient(one_of(bias, i), a, b, batch) for i in range(2)]
        known = known_gradient(one_of(bias, 1), mean, 1 - mean, batch)
        found.append([pair_log_likelihoods(bias, a, b, batch), *sum(of_each, ()), *known])
    for dense, by_slots in zip(*found, strict=True):
        np.testing.assert_allclose(by_slots, dense, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("affine", [False, True])
def test_tilting_by_slots_agrees(affine: bool) -> None:
    counts, bias = random_counts(), emission(affine, 3)
    slots = slots_of(counts, np.arange(PAIRS))
    displays, clicks = counts.dense()
    one = one_of(bias, 1)
    near = Emission(*(None if own is None else own + 0.02 * ([[0.1], [0.5]] - own) for own in one))
    alpha, beta = np.random.default_rng(5).uniform(0.3, 3, (2, PAIRS))
    others = (near, np.stack([alpha, 1.1 * alpha]), np.stack([0.9 * beta, beta]))
    dense = tilted(one, alpha, beta, clicks, displays - clicks, *others)
    by_slots = tilted(one, alpha, beta, slots.clicks, slots.unclicked, *others, slots=slots.context)
    for first, second in zip(dense, by_slots, strict=True):
        np.testing.assert_allclose(second, first, rtol=1e-9, atol=1e-9)


def test_shapes_that_are_shared_have_the_slots_of_all() -> None:
    several = [random_counts(seed) for seed in (0, 1)]
    shapes = Shapes.common(several, 3)
    assert shapes.slots is not None
    shapes_of_batches = set()
    for counts in several:
        batches = Batches(counts, 1, shapes=shapes)
        for pairs in batches.epoch(np.random.default_rng(0)):
            batch = batches.assemble(pairs)
            shapes_of_batches.add(
                tuple((bucket.slots.shape, bucket.order is None) for bucket in batch.buckets)
            )
    assert len(shapes_of_batches) == 1
