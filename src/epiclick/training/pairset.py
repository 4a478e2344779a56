"""Counts and features of the same pairs, handed out batch by batch."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from epiclick.data.counts import ClickCounts
from epiclick.data.scaler import FeatureScaler
from epiclick.likelihood.pairs import PairBatch
from epiclick.relevance.exposure import exposure
from epiclick.training.batches import Batches, Shapes
from epiclick.training.inputs import Inputs


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
