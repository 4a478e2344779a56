"""What the relevance network is given of a pair: its features, or where it was shown."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from epiclick.data.counts import ClickCounts
from epiclick.data.scaler import FeatureScaler

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
