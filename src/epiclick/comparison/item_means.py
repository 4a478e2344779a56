"""Moments of items, averaged over the draws of the parameters while a comparison uses them."""

from collections.abc import Callable, Iterator

import numpy as np

from epiclick.comparison.factors import Moments

Watch = Callable[[int, np.ndarray], None]
"""Called with the number of a chunk's first item and the chunk's means, (draws, items)."""


class ItemMeans:
    """Passes moments on unchanged, and keeps their averages over the draws.

    Moments of all items under every draw do not fit in memory, so they are computed only once, and
    whoever needs something of them takes it while they pass.
    """

    def __init__(self, moments: Moments, watch: Watch | None = None) -> None:
        """Moments in chunks of items; `watch` is shown the means of every chunk."""
        self._moments, self._watch = moments, watch
        self._means: list[np.ndarray] = []
        self._squares: list[np.ndarray] = []

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The moments as they were."""
        first = 0
        for mean, variance in self._moments:
            self._means.append(mean.mean(axis=0))
            self._squares.append((variance + np.square(mean)).mean(axis=0))
            if self._watch is not None:
                self._watch(first, mean)
            first += mean.shape[1]
            yield mean, variance

    @property
    def mean(self) -> np.ndarray:
        """(items,) averages of the items that have passed."""
        return np.concatenate(self._means)

    @property
    def square(self) -> np.ndarray:
        """(items,) averages of the square."""
        return np.concatenate(self._squares)
