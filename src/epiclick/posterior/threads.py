"""The same work for many pieces of a log, on all cores."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

import jax

from epiclick.processes import available_cores

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def on_all_cores(
    program: Callable[[Piece], Result], pieces: Iterable[Piece], cores: int | None = None
) -> Iterator[Result]:
    """What a program makes of each piece, in their order, so that sums come out the same.

    A compiled program for a few thousand pairs keeps one core busy. Only a few pieces at a time are
    held in memory.

    Args:
        program: of a piece; runs within `jax.enable_x64(True)`, which threads do not inherit.
        pieces: to go through.
        cores: threads; as many as there are cores unless given.
    """

    def run(piece: Piece) -> Result:
        with jax.enable_x64(True):
            return program(piece)

    cores = len(available_cores()) if cores is None else cores
    if cores == 1:
        yield from map(run, pieces)
        return
    remaining = iter(pieces)
    with ThreadPoolExecutor(cores) as threads:
        while some := list(islice(remaining, 2 * cores)):
            yield from threads.map(run, some)
