"""The paper's experiments, cell by cell, on one process or several; rates tuned on validation."""

import json
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from epiclick.data.writing import written_aside
from epiclick.errors import InputError
from epiclick.paper.cells import Cell, Share, all_cells, claim_folder, merge, share_of
from epiclick.paper.results import Results
from epiclick.paper.settings import GRID, MOST_RUNS, Settings
from epiclick.paper.variants import VARIANTS, choose_methods
from epiclick.processes import available_cores, cores_of, start_worker, threads_of_started

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


PROGRAMS = "programs"

Told = tuple[Cell, int, float]
_worker: dict[str, Any] = {}
"""What a worker process knows: settings, path of the data, queue to tell, and later its bench."""


def run_apart(
    cells: Sequence[Cell],
    settings: Settings,
    path: str | None,
    folder: Path,
    jobs: int,
    watcher: Watcher,
) -> None:
    """Do cells on several processes, in their order."""
    context = get_context("spawn")
    cores: SimpleQueue[set[int]] = context.SimpleQueue()
    told: SimpleQueue[Told | None] = context.SimpleQueue()
    for own in cores_of(jobs):
        cores.put(own)
    pool = ProcessPoolExecutor(
        jobs,
        mp_context=context,
        initializer=_start,
        initargs=(settings, path, str(folder), cores, told),
    )
    listener = threading.Thread(target=_listen, args=(told, watcher), daemon=True)
    listener.start()
    try:
        with threads_of_started(jobs):
            submitted = {pool.submit(_do, cell, folder): cell for cell in cells}
        for done in as_completed(submitted):
            done.result()
            watcher.done(submitted[done])
        told.put(None)
        listener.join()
    except BrokenProcessPool as error:
        raise MemoryError(
            "a process of the reproduction was ended from outside, often for want of memory; run "
            "the same command with fewer jobs to go on"
        ) from error
    except BaseException:
        # cells under way have checkpoints; the next run goes on from them
        for process in list((pool._processes or {}).values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _listen(told: "SimpleQueue[Told | None]", watcher: Watcher) -> None:
    """Hand on what worker processes tell."""
    while (each := told.get()) is not None:
        watcher.epoch(*each)


def _start(
    settings: Settings,
    path: str | None,
    folder: str,
    cores: "SimpleQueue[set[int]]",
    told: "SimpleQueue[Told | None]",
) -> None:
    """Become a worker, and know what all cells need; jax comes later."""
    start_worker(str(Path(folder, PROGRAMS)), cores)
    _worker.update(settings=settings, path=path, told=told)


def _do(cell: Cell, folder: Path) -> None:
    """Do a cell in a worker process."""
    from epiclick.paper.cell import run_cell
    from epiclick.paper.worlds import make_bench

    if "bench" not in _worker:
        _worker["bench"] = make_bench(_worker["settings"], _worker["path"])
    told = _worker["told"]
    run_cell(
        _worker["bench"],
        cell.variant,
        cell.run,
        folder,
        lambda epoch, likelihood: told.put((cell, epoch, likelihood)),
    )


RESULTS = "results.parquet"


def reproduce(
    settings: Settings,
    folder: str | Path,
    path: str | Path | None = None,
    *,
    share: Share | None = None,
    jobs: int | None = None,
    progress: bool = True,
) -> Results | None:
    """Do all cells that are not done yet; results are the same however often that was stopped.

    Args:
        settings: what is measured; all methods unless it names some.
        folder: where cells are kept; one that was begun with the same settings is gone on with.
        path: LETOR data, unless they are synthetic.
        share: the part of the cells to do; all unless told.
        jobs: processes; as many as cores, or as cells if they are fewer, unless told. Numbers
            may differ in their last digits with the cores that a process has.
        progress: show a table of the cells under way, on a terminal.

    Returns:
        What was measured, or None where cells of other shares are not done yet.
    """
    folder = Path(folder)
    settings = replace(settings, methods=settings.methods or choose_methods())
    settings.check()
    settings = with_data(settings, path)
    claim_folder(folder, settings)
    cells = all_cells(settings)
    mine = share_of(cells, share or Share())
    left = [cell for cell in mine if not cell.files(folder).done]
    # by all cells of the share, not those left: a run that goes on must have the same cores
    jobs = jobs or max(1, min(len(available_cores()), len(mine)))
    with watcher(left, settings.epochs, shown=progress) as told:
        if jobs > 1:
            run_apart(left, settings, None if path is None else str(path), folder, jobs, told)
        elif left:
            _run_here(left, settings, path, folder, told)
    if any(not cell.files(folder).done for cell in cells):
        return None
    results = merge(folder, settings)
    results.save(folder / RESULTS)
    return results


def with_data(settings: Settings, path: str | Path | None) -> Settings:
    """The settings with a digest of the data that lie at a path."""
    if settings.dataset == "synthetic":
        if path is not None:
            raise InputError(
                "synthetic data have no path; name the dataset, mslr, istella or letor"
            )
        return settings
    if path is None:
        raise InputError(f"where are the data of {settings.dataset}? Give their folder with --path")
    from epiclick.paper.worlds import digest_items, read_items

    digest = digest_items(read_items(path))
    return replace(settings, data=digest, queries=None, docs=None, features=None)


def _run_here(
    cells: list[Cell],
    settings: Settings,
    path: str | Path | None,
    folder: Path,
    told: Watcher,
) -> None:
    """Do cells in this process, one after the other."""
    from epiclick.paper.cell import run_cell
    from epiclick.paper.worlds import make_bench

    bench = make_bench(settings, path)
    for cell in cells:
        run_cell(bench, cell.variant, cell.run, folder, partial(told.epoch, cell))
        told.done(cell)


TUNING = "tuning"
RATES = "rates.json"
TRIED = "tried.json"


@dataclass(frozen=True)
class Tuned:
    """Likelihood per display of the validation queries after the last epoch, by rate.

    Attributes:
        method: key of the method.
        tried: rate -> log-likelihood; minus infinity where training diverged.
    """

    method: str
    tried: dict[float, float]

    @property
    def rate(self) -> float:
        """The best rate, the lower one of two that are as good."""
        return max(sorted(self.tried), key=lambda rate: self.tried[rate])

    @property
    def at_the_edge(self) -> bool:
        """Whether a rate beyond those tried might be better still."""
        return self.rate in (min(self.tried), max(self.tried))


def tune(
    settings: Settings,
    folder: str | Path,
    path: str | Path | None = None,
    *,
    grid: tuple[float, ...] = GRID,
    jobs: int | None = None,
    progress: bool = True,
) -> list[Tuned]:
    """Try every rate of a grid with every method that has one; write the best, and all scores.

    Args:
        settings: of the reproduction; the methods among them decide what is tuned.
        folder: of the reproduction; cells are kept in a folder within.
        path: LETOR data, unless they are synthetic.
        grid: rates of the network.
        jobs: processes.
        progress: show a table of the cells under way, on a terminal.
    """
    asked = dict.fromkeys(VARIANTS[key].tuned for key in settings.methods or VARIANTS)
    tried: dict[str, dict[float, float]] = {method: {} for method in asked}
    for rate in grid:
        trial = replace(
            settings,
            rates=dict.fromkeys(asked, rate),
            scored="vali",
            methods=tuple(asked),
            runs=1,
            first_run=MOST_RUNS,
        )
        place = Path(folder) / TUNING / f"{rate:g}"
        found = reproduce(trial, place, path, jobs=jobs, progress=progress)
        assert found is not None, "all cells were done"
        for method in asked:
            score = float(found.last(method, "per_display")[0, 0])
            tried[method][rate] = -np.inf if np.isnan(score) else score
    tuned = [Tuned(method, scores) for method, scores in tried.items()]
    scores = {
        each.method: {f"{r:g}": s if np.isfinite(s) else None for r, s in each.tried.items()}
        for each in tuned
    }
    for name, told in ((TRIED, scores), (RATES, {each.method: each.rate for each in tuned})):
        with written_aside(Path(folder) / name) as aside:
            aside.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return tuned
