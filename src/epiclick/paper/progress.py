"""How a reproduction goes on: a table of the cells under way, on a terminal only."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from epiclick.paper.cells import Cell

if TYPE_CHECKING:
    from rich.table import Table

WORK = {
    "pointwise": 0.3,
    "marginal": 1.0,
    "naive": 1.0,
    "self_normalized": 1.0,
    "exact": 1.0,
    "conditioned": 1.8,
}
"""What an epoch costs, in epochs of `exact`; for the time left alone."""

MOMENT = 0.25  # seconds between two tables


class Watcher(Protocol):
    """Whoever wants to know how cells go on."""

    def epoch(self, cell: Cell, epoch: int, log_likelihood: float) -> None:
        """A cell has done an epoch."""
        ...

    def done(self, cell: Cell) -> None:
        """A cell is done."""
        ...


class Silent:
    """Tells nobody."""

    def epoch(self, cell: Cell, epoch: int, log_likelihood: float) -> None:
        """Say nothing."""

    def done(self, cell: Cell) -> None:
        """Say nothing."""


class CellTable:
    """Method, run, epoch, likelihood of the cells under way, cells done, and the time left."""

    def __init__(self, cells: Sequence[Cell], epochs: int) -> None:
        """Prepare a table for cells that are to be done."""
        self._epochs, self._cells = epochs, len(cells)
        self._work = sum(_work(cell) for cell in cells)
        self._behind = 0.0  # work that was done before, by an earlier process
        self._finished = 0.0
        self._count = 0
        self._began = time.monotonic()
        self._now: dict[Cell, tuple[int, float]] = {}
        self._over: set[Cell] = set()

    def epoch(self, cell: Cell, epoch: int, log_likelihood: float) -> None:
        """Note an epoch."""
        if cell in self._over:  # news that came late
            return
        if cell not in self._now:
            self._behind += _work(cell) * (epoch - 1) / self._epochs
        self._now[cell] = epoch, log_likelihood

    def done(self, cell: Cell) -> None:
        """Note a cell that is done."""
        self._over.add(cell)
        self._now.pop(cell, None)
        self._finished += _work(cell)
        self._count += 1

    @property
    def _cells_now(self) -> list[tuple[Cell, tuple[int, float]]]:
        """Cells under way; a copy, as another thread notes while one reads."""
        return list(self._now.items())

    @property
    def seconds_left(self) -> float | None:
        """Time left if work goes on as fast as so far; None where nothing is done yet."""
        under_way = sum(_work(c) * epoch / self._epochs for c, (epoch, _) in self._cells_now)
        done = self._finished + under_way
        if done <= self._behind:
            return None
        rate = (time.monotonic() - self._began) / (done - self._behind)
        return rate * max(self._work - done, 0.0)

    def table(self) -> "Table":
        """The table of this moment."""
        from rich.table import Table

        left = self.seconds_left
        told = "" if left is None else f", about {_duration(left)} left"
        table = Table(title=f"{self._count} of {self._cells} cells done{told}")
        for name in ("method", "run", "epoch", "log-likelihood per display"):
            table.add_column(name, justify="left" if name == "method" else "right")
        for cell, (epoch, likelihood) in self._cells_now:
            row = (str(cell.run), f"{epoch:,} of {self._epochs:,}", f"{likelihood:.4f}")
            table.add_row(cell.variant.key, *row)
        return table


@contextmanager
def watcher(cells: Sequence[Cell], epochs: int, *, shown: bool) -> Iterator[Watcher]:
    """Whoever is told how cells go on: a table on a terminal, nobody else."""
    if not (shown and cells and sys.stderr.isatty()):
        yield Silent()
        return
    from rich.console import Console
    from rich.live import Live

    table = CellTable(cells, epochs)
    with Live(
        get_renderable=table.table,
        console=Console(stderr=True),
        refresh_per_second=1 / MOMENT,
        transient=True,
    ):
        yield table


def _work(cell: Cell) -> float:
    return WORK[cell.variant.estimator]


def _duration(seconds: float) -> str:
    """Hours and minutes, or minutes and seconds."""
    large, small = divmod(round(seconds), 60)
    if large < 60:
        return f"{large} min {small:02d} s"
    return f"{large // 60} h {large % 60:02d} min"
