"""Counts and features of the same pairs, handed out batch by batch."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from epiclick.batching.batches import Batches, Shapes
from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureScaler
from epiclick.likelihood.pairs import PairBatch
from epiclick.relevance.heads import exposure

HELD = 512 * 2**20
"""Scaled features of up to so many bytes are kept; larger ones are scaled anew for each batch."""

MOST_FOR_SCALE = 250_000
"""Mean and spread of a feature are known to a five-hundredth from so many pairs."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """Scaled features of pairs of some counts, without holding them all.

    Attributes:
        counts: the pairs, with features joined.
        scaler: how features are scaled.
    """

    counts: ClickCounts
    scaler: FeatureScaler

    def take(self, pairs: np.ndarray) -> np.ndarray:
        """Inputs of some pairs, (len(pairs), features) float32; zeros for pairs of -1."""
        if self._held is not None:
            inputs = self._held[pairs]
        else:
            inputs = self.scaler.transform(self._read(pairs))
        inputs[pairs < 0] = 0
        return inputs

    @cached_property
    def _held(self) -> np.ndarray | None:
        """(pairs, features) all inputs, if they are few enough to be kept."""
        if len(self.counts) * len(self.scaler.mean) * 4 > HELD:
            return None
        return self.scaler.transform(self._read(np.arange(len(self.counts))))

    def _read(self, pairs: np.ndarray) -> np.ndarray:
        """Raw features of some pairs."""
        features, row = self.counts.features, self.counts.feature_row
        assert features is not None
        assert row is not None
        return features.rows(row[pairs])


def fit_scaler(counts: ClickCounts) -> FeatureScaler | None:
    """The scaler of these pairs' features, or of some evenly spread ones; None without features."""
    if counts.features is None or counts.feature_row is None:
        return None
    step = -(-len(counts) // MOST_FOR_SCALE)
    return FeatureScaler.fit(counts.features.rows(counts.feature_row[::step]))


@dataclass(frozen=True, eq=False)
class PairSet:
    """Pairs to train on or to score.

    Attributes:
        batches: how counts are dealt to batches.
        inputs: scaled features of the same pairs; None without features.
    """

    batches: Batches
    inputs: Inputs | None

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
    ) -> "PairSet":
        """Pairs of some counts in batches of at most `batch_size`; see `Batches`."""
        inputs = None if scaler is None else Inputs(counts, scaler)
        return cls(Batches(counts, batch_size, weight, shapes, affine), inputs)

    @property
    def width(self) -> int:
        """Number of inputs of the network: features, or given contexts without any."""
        if self.inputs is None:
            return len(self.batches.counts.given[0])
        return len(self.inputs.scaler.mean)

    @property
    def displays(self) -> np.ndarray:
        """Displays of all pairs, weights counted: (networks,), or (1,) where they share weights."""
        return self.batches.displays

    def epoch(
        self, rng: np.random.Generator | None = None
    ) -> Iterator[tuple[np.ndarray, PairBatch]]:
        """Inputs and counts of each batch; the next one is made ready while one is worked on."""

        def load(pairs: np.ndarray) -> tuple[np.ndarray, PairBatch]:
            batch = self.batches.assemble(pairs)
            if self.inputs is not None:
                return self.inputs.take(pairs), batch
            clicks, unclicked = self.batches.dense(pairs)
            return exposure(self.batches.counts.over_given(clicks + unclicked)), batch

        with ThreadPoolExecutor(1) as background:
            waiting = None
            for pairs in self.batches.epoch(rng):
                ready, waiting = waiting, background.submit(load, pairs)
                if ready is not None:
                    yield ready.result()
            if waiting is not None:
                yield waiting.result()
