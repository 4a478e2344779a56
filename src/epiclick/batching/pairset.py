"""Counts and features of the same pairs, batch by batch."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np

from epiclick.batching.batches import Batches, Shapes
from epiclick.batching.distinct import distinct_counts
from epiclick.batching.shares import Share
from epiclick.collective import ALONE, Collective
from epiclick.data.counts import ClickCounts
from epiclick.data.feature_encoding import LEAST_DEVIATION
from epiclick.data.features import FeatureScaler
from epiclick.likelihood.pairs import PairBatch
from epiclick.relevance.heads import exposure

Loaded = TypeVar("Loaded")

CACHED_BYTES = 512 * 2**20
"""Scaled features up to this size are cached; larger ones are scaled again for each batch."""

MOST_FOR_SCALE = 250_000
"""Pairs to fit the scaler on: enough to know a feature's mean to 1/500 of its spread."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """Scaled features of the pairs of some counts, read on demand where they are large.

    Attributes:
        counts: the pairs, with features joined.
        scaler: how features are scaled.
        exposure: (pairs, columns) float32 of exposure (`fitted.exposure`), which follow the
            features; None for none.
        own: (pairs,) whether a pair is used; None for all.
    """

    counts: ClickCounts
    scaler: FeatureScaler
    exposure: np.ndarray | None = None
    own: np.ndarray | None = None

    def take(self, pairs: np.ndarray) -> np.ndarray:
        """Inputs of some pairs, (len(pairs), inputs) float32; zeros for pairs of -1."""
        if self._cached is None:
            inputs = self._computed(pairs)
        else:
            inputs = self._cached[pairs if self._row is None else self._row[pairs]]
        inputs[pairs < 0] = 0
        return inputs

    @property
    def width(self) -> int:
        """Number of inputs."""
        return len(self.scaler.mean) + (0 if self.exposure is None else self.exposure.shape[1])

    @property
    def are_cached(self) -> bool:
        """Whether all of them are small enough to cache."""
        used = len(self.counts) if self.own is None else int(self.own.sum())
        return used * self.width * 4 <= CACHED_BYTES

    @cached_property
    def _cached(self) -> np.ndarray | None:
        """All inputs, (pairs, inputs), or those of pairs in use, if they are cached."""
        if not self.are_cached:
            return None
        used = np.arange(len(self.counts)) if self.own is None else np.flatnonzero(self.own)
        return self._computed(used)

    @cached_property
    def _row(self) -> np.ndarray | None:
        """(pairs,) where the inputs of each pair in use are cached; None if all are in use."""
        return None if self.own is None else np.cumsum(self.own) - 1

    def _computed(self, pairs: np.ndarray) -> np.ndarray:
        """Scaled features of some pairs, and their exposure."""
        features, row = self.counts.features, self.counts.feature_row
        assert features is not None
        assert row is not None
        scaled = self.scaler.transform(features.rows(row[pairs]))
        if self.exposure is None:
            return scaled
        return np.concatenate([scaled, self.exposure[pairs]], axis=1)


def fit_scaler(counts: ClickCounts) -> FeatureScaler | None:
    """A scaler fitted to the pairs' features, or to evenly spaced ones; None without features."""
    if counts.features is None or counts.feature_row is None:
        return None
    scaler = FeatureScaler.fit(counts.features.rows(rows_for_scale(counts)))
    if counts.features.encoder is None:
        return scaler
    # signed logarithms of 0 and 1 differ by log 2
    least = LEAST_DEVIATION * np.log(2)
    rare = counts.features.encoder.encoding.is_binary & (scaler.scale < least)
    return FeatureScaler(scaler.mean, np.where(rare, least, scaler.scale))


def rows_for_scale(counts: ClickCounts) -> np.ndarray:
    """Rows of the features of all pairs, or of evenly spaced ones."""
    assert counts.feature_row is not None
    return counts.feature_row[:: -(-len(counts) // MOST_FOR_SCALE)]


class Origin(NamedTuple):
    """The pairs that others stand for.

    Attributes:
        counts: all pairs.
        row: (pairs,) the pair that stands for each.
        weight: (pairs,) of each of them; None for 1.
    """

    counts: ClickCounts
    row: np.ndarray
    weight: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class PairSet:
    """Pairs to train on or to score.

    Attributes:
        batches: how pairs are assigned to batches.
        inputs: scaled features of the same pairs; None without features.
        origin: where the pairs stand for groups of others, those groups.
        share: which of the pairs this process computes; None for all, as they are in batches.
    """

    batches: Batches
    inputs: Inputs | None
    origin: Origin | None = None
    share: Share | None = None

    @classmethod
    def of(
        cls,
        counts: ClickCounts,
        scaler: FeatureScaler | None,
        batch_size: int,
        *,
        weight: np.ndarray | None = None,
        shapes: Shapes | None = None,
        affine: bool = False,
        exposure: np.ndarray | None = None,
        share: Share | None = None,
    ) -> "PairSet":
        """The pairs of counts in batches of at most `batch_size`; see `Batches` and `Inputs`."""
        own = None if share is None else share.own
        inputs = None if scaler is None else Inputs(counts, scaler, exposure, own)
        return cls(Batches(counts, batch_size, weight, shapes, affine), inputs, share=share)

    @classmethod
    def distinct(
        cls,
        counts: ClickCounts,
        batch_size: int,
        *,
        affine: bool = False,
        processes: Collective = ALONE,
    ) -> "PairSet":
        """The distinct vectors of counts, weighted by their numbers, of pairs without features.

        Processes divide the vectors, each of which may stand for pairs of many queries.
        """
        found = distinct_counts(counts)
        own = counts.subset(found.first)
        batches = Batches(own, batch_size, found.size.astype(np.float64), affine=affine)
        share = None if processes.count == 1 else Share(processes, np.arange(len(own)))
        return cls(batches, None, Origin(counts, found.group), share)

    @property
    def all_counts(self) -> ClickCounts:
        """The counts of all pairs, those that others stand for included."""
        return self.batches.counts if self.origin is None else self.origin.counts

    @property
    def count(self) -> int:
        """Number of pairs, those that others stand for included."""
        return len(self.all_counts)

    @property
    def width(self) -> int:
        """Number of inputs of the network; given contexts without features."""
        return len(self.batches.counts.given[0]) if self.inputs is None else self.inputs.width

    @property
    def displays(self) -> np.ndarray:
        """Weighted displays of all pairs: (networks,), or (1,) where networks share weights."""
        return self.batches.displays

    @property
    def processes(self) -> Collective:
        """The processes that share the pairs."""
        return ALONE if self.share is None else self.share.processes

    def own_pairs(self) -> Iterator[np.ndarray]:
        """The pairs of each batch of `epoch`, in the order of the counts; -1 for padding."""
        for pairs in self.batches.epoch():
            yield pairs if self.share is None else self.share.own_pairs(pairs)

    def epoch(
        self, rng: np.random.Generator | None = None
    ) -> Iterator[tuple[np.ndarray, PairBatch]]:
        """Inputs and counts of each batch, or of those of its pairs that this process computes."""

        def load(pairs: np.ndarray) -> tuple[np.ndarray, PairBatch]:
            if self.share is None or self.share.own is None:
                return self._inputs_of(pairs), self.batches.assemble(pairs)
            own = self.share.own_pairs(pairs)
            return self._inputs_of(own), self.batches.assemble_part(own)

        yield from self._loaded(load, rng)

    def sharded_epoch(
        self, rng: np.random.Generator | None = None
    ) -> Iterator[list[tuple[np.ndarray, PairBatch]]]:
        """Inputs and counts of each shard of a batch that this process computes.

        A batch without shards is one.
        """

        def load(pairs: np.ndarray) -> list[tuple[np.ndarray, PairBatch]]:
            if self.share is None or self.share.shards is None:
                return [(self._inputs_of(pairs), self.batches.assemble(pairs))]
            whole = self.batches.total(pairs)
            return [
                (self._inputs_of(own), self.batches.assemble_part(own, whole))
                for own in self.share.own_shards(pairs)
                if len(own)
            ]

        yield from self._loaded(load, rng)

    def _inputs_of(self, pairs: np.ndarray) -> np.ndarray:
        """Scaled features of pairs, or without features their displays by given context."""
        if self.inputs is not None:
            return self.inputs.take(pairs)
        clicks, unclicked = self.batches.dense(pairs)
        return exposure(self.batches.counts.over_given(clicks + unclicked))

    def _loaded(
        self, load: Callable[[np.ndarray], Loaded], rng: np.random.Generator | None
    ) -> Iterator[Loaded]:
        """What is loaded of the pairs of each batch.

        While a batch is in use, the next is read in the background, if it has to be read. For
        copies in memory a second thread would cost 5 % more processor time.
        """
        if self.inputs is None or self.inputs.are_cached:
            yield from map(load, self.batches.epoch(rng))
            return
        with ThreadPoolExecutor(1) as background:
            waiting = None
            for pairs in self.batches.epoch(rng):
                ready, waiting = waiting, background.submit(load, pairs)
                if ready is not None:
                    yield ready.result()
            if waiting is not None:
                yield waiting.result()
