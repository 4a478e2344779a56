"""Sums over the processes that share a fit; with one process, there is nothing to add."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np


class Collective(Protocol):
    """The processes of a fit. All of them call the same methods in the same order."""

    @property
    def count(self) -> int:
        """Number of processes."""
        ...

    @property
    def rank(self) -> int:
        """Number of this one, from 0. Number 0 writes files."""
        ...

    def sum(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Sums over processes of arrays that have the same shapes in all of them, float64.

        All processes get the same bits.
        """
        ...

    def from_first(self, data: bytes) -> bytes:
        """What process 0 gives."""
        ...

    def close(self) -> None:
        """Wait for all processes to get here, and disconnect."""
        ...


class Alone:
    """A fit in one process, with the arithmetic of several: it gives the model that they give."""

    count, rank = 1, 0

    def sum(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The arrays themselves."""
        return list(arrays)

    def from_first(self, data: bytes) -> bytes:
        """The data itself."""
        return data

    def close(self) -> None:
        """Do nothing."""


ALONE = Alone()
"""The default: a fit in one process, in whole batches."""
