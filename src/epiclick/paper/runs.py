"""Running a reproduction cell by cell, in one process or several, and tuning learning rates."""

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
from epiclick.paper.cells import Cell, Share, all_cells, merge, prepare_folder, share_of
from epiclick.paper.results import Results
from epiclick.paper.settings import GRID, MOST_RUNS, Settings
from epiclick.paper.variants import VARIANTS, choose_methods
from epiclick.processes import available_cores, cores_of, start_worker, threads_of_started

if TYPE_CHECKING:
    from rich.table import Table

RESULTS = "results.parquet"
PROGRAMS = "programs"
TUNING = "tuning"
RATES = "rates.json"
TRIED = "tried.json"

WORK = {
    "pointwise": 0.3,
    "marginal": 1.0,
    "naive": 1.0,
    "self_normalized": 1.0,
    "exact": 1.0,
    "conditioned": 1.8,
}
"""Relative cost of an epoch, that of `exact` being 1; used only to estimate the time left."""

REFRESH_SECONDS = 0.25


class Progress(Protocol):
    """Callbacks on the progress of cells."""

    def epoch(self, cell: Cell, epoch: int, log_likelihood: float) -> None:
        """A cell has finished an epoch."""
        ...

    def done(self, cell: Cell) -> None:
        """A cell is done."""
        ...


class NoProgress:
    """Shows nothing."""

    def epoch(self, cell: Cell, epoch: int, log_likelihood: float) -> None:
        """Do nothing."""

    def done(self, cell: Cell) -> None:
        """Do nothing."""


class ProgressTable:
    """Cells under way with run, epoch and likelihood; the number of cells done; the time left."""

    def __init__(self, cells: Sequence[Cell], epochs: int) -> None:
        """Prepare a table for the cells to be run."""
        self._epochs, self._cells = epochs, len(cells)
        self._work = sum(_work(cell) for cell in cells)
        self._resumed = 0.0  # work done by an earlier process
        self._finished = 0.0
        self._began = time.monotonic()
        self._latest: dict[Cell, tuple[int, float]] = {}
        self._done: set[Cell] = set()

    def epoch(self, cell: Cell, epoch: int, log_likelihood: float) -> None:
        """Show the epoch of a cell."""
        if cell in self._done:  # a late report
            return
        if cell not in self._latest:
            self._resumed += _work(cell) * (epoch - 1) / self._epochs
        self._latest[cell] = epoch, log_likelihood

    def done(self, cell: Cell) -> None:
        """Count a cell as done."""
        self._done.add(cell)
        self._latest.pop(cell, None)
        self._finished += _work(cell)

    @property
    def _under_way(self) -> list[tuple[Cell, tuple[int, float]]]:
        """Cells under way; a copy, since another thread may update them meanwhile."""
        return list(self._latest.items())

    @property
    def seconds_left(self) -> float | None:
        """Time left at the speed so far; None before the first epoch."""
        under_way = sum(_work(c) * epoch / self._epochs for c, (epoch, _) in self._under_way)
        done = self._finished + under_way
        if done <= self._resumed:
            return None
        rate = (time.monotonic() - self._began) / (done - self._resumed)
        return rate * max(self._work - done, 0.0)

    def table(self) -> "Table":
        """The current table."""
        from rich.table import Table

        left = self.seconds_left
        estimate = "" if left is None else f", about {_duration(left)} left"
        table = Table(title=f"{len(self._done)} of {self._cells} cells done{estimate}")
        for name in ("method", "run", "epoch", "log-likelihood per display"):
            table.add_column(name, justify="left" if name == "method" else "right")
        for cell, (epoch, likelihood) in self._under_way:
            row = (str(cell.run), f"{epoch:,} of {self._epochs:,}", f"{likelihood:.4f}")
            table.add_row(cell.variant.key, *row)
        return table


@contextmanager
def show_progress(cells: Sequence[Cell], epochs: int, *, shown: bool) -> Iterator[Progress]:
    """A live table on a terminal; nothing elsewhere."""
    if not (shown and cells and sys.stderr.isatty()):
        yield NoProgress()
        return
    from rich.console import Console
    from rich.live import Live

    table = ProgressTable(cells, epochs)
    with Live(
        get_renderable=table.table,
        console=Console(stderr=True),
        refresh_per_second=1 / REFRESH_SECONDS,
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


EpochReport = tuple[Cell, int, float]
"""A cell, the number of its epoch and its training log-likelihood per display."""

_worker: dict[str, Any] = {}
"""State of a worker process: settings, path of the data, queue of reports, and later its bench."""


def _run_in_processes(
    cells: Sequence[Cell],
    settings: Settings,
    path: str | None,
    folder: Path,
    jobs: int,
    progress: Progress,
) -> None:
    """Run cells in several processes, in order."""
    context = get_context("spawn")
    cores: SimpleQueue[set[int]] = context.SimpleQueue()
    reports: SimpleQueue[EpochReport | None] = context.SimpleQueue()
    for own in cores_of(jobs):
        cores.put(own)
    pool = ProcessPoolExecutor(
        jobs,
        mp_context=context,
        initializer=_start,
        initargs=(settings, path, str(folder), cores, reports),
    )
    listener = threading.Thread(target=_listen, args=(reports, progress), daemon=True)
    listener.start()
    try:
        with threads_of_started(jobs):
            submitted = {pool.submit(_run_cell, cell, folder): cell for cell in cells}
        for done in as_completed(submitted):
            done.result()
            progress.done(submitted[done])
        reports.put(None)
        listener.join()
    except BrokenProcessPool as error:
        raise MemoryError(
            "a process of the reproduction was killed, often for lack of memory; run the same "
            "command with fewer jobs to continue"
        ) from error
    except BaseException:
        # cells under way have checkpoints, from which the next call resumes
        for process in list((pool._processes or {}).values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _listen(reports: "SimpleQueue[EpochReport | None]", progress: Progress) -> None:
    """Forward the reports of worker processes."""
    while (report := reports.get()) is not None:
        progress.epoch(*report)


def _start(
    settings: Settings,
    path: str | None,
    folder: str,
    cores: "SimpleQueue[set[int]]",
    reports: "SimpleQueue[EpochReport | None]",
) -> None:
    """Set up a worker process, without jax, which is imported with the first cell."""
    start_worker(str(Path(folder, PROGRAMS)), cores)
    _worker.update(settings=settings, path=path, reports=reports)


def _run_cell(cell: Cell, folder: Path) -> None:
    """Run a cell in a worker process."""
    from epiclick.paper.cell import run_cell
    from epiclick.paper.worlds import make_bench

    if "bench" not in _worker:
        _worker["bench"] = make_bench(_worker["settings"], _worker["path"])
    reports = _worker["reports"]
    run_cell(
        _worker["bench"],
        cell.variant,
        cell.run,
        folder,
        lambda epoch, likelihood: reports.put((cell, epoch, likelihood)),
    )


def reproduce(
    settings: Settings,
    folder: str | Path,
    path: str | Path | None = None,
    *,
    share: Share | None = None,
    jobs: int | None = None,
    progress: bool = True,
) -> Results | None:
    """Run all cells that are not done yet; interruptions do not change the results.

    Args:
        settings: of the reproduction; all methods if it names none.
        folder: for the cells; a reproduction with the same settings is continued there.
        path: LETOR data; None for synthetic data.
        share: the part of the cells to run; default all.
        jobs: processes; by default one per core, at most one per cell. The last digits of
            numbers may depend on how many cores a process has.
        progress: show a table of the cells under way, on a terminal.

    Returns:
        The results, or None while cells of other shares are not done yet.
    """
    folder = Path(folder)
    settings = replace(settings, methods=settings.methods or choose_methods())
    settings.check()
    settings = with_data(settings, path)
    prepare_folder(folder, settings)
    cells = all_cells(settings)
    mine = share_of(cells, share or Share())
    left = [cell for cell in mine if not cell.files(folder).done]
    # from all cells of the share, not those left: a resumed call must use the same cores
    jobs = jobs or max(1, min(len(available_cores()), len(mine)))
    with show_progress(left, settings.epochs, shown=progress) as shown:
        if jobs > 1:
            data = None if path is None else str(path)
            _run_in_processes(left, settings, data, folder, jobs, shown)
        elif left:
            _run_here(left, settings, path, folder, shown)
    if any(not cell.files(folder).done for cell in cells):
        return None
    results = merge(folder, settings)
    results.save(folder / RESULTS)
    return results


def with_data(settings: Settings, path: str | Path | None) -> Settings:
    """The settings with a digest of the LETOR data at a path, if they are not synthetic."""
    if settings.dataset == "synthetic":
        if path is not None:
            raise InputError(
                "synthetic data have no path; give --dataset mslr, istella or letor",
                code="path-without-dataset",
            )
        return settings
    if path is None:
        raise InputError(
            f"the data of {settings.dataset} are missing. Give their folder with --path",
            code="missing-path",
        )
    from epiclick.paper.worlds import digest_items, read_items

    digest = digest_items(read_items(path))
    return replace(settings, data=digest, queries=None, docs=None, features=None)


def _run_here(
    cells: list[Cell],
    settings: Settings,
    path: str | Path | None,
    folder: Path,
    progress: Progress,
) -> None:
    """Run cells in this process, one after the other."""
    from epiclick.paper.cell import run_cell
    from epiclick.paper.worlds import make_bench

    bench = make_bench(settings, path)
    for cell in cells:
        run_cell(bench, cell.variant, cell.run, folder, partial(progress.epoch, cell))
        progress.done(cell)


@dataclass(frozen=True)
class Tuned:
    """Validation log-likelihood per display after the last epoch, by learning rate.

    Attributes:
        method: key of the method.
        tried: rate -> log-likelihood; minus infinity if training diverged.
    """

    method: str
    tried: dict[float, float]

    @property
    def rate(self) -> float:
        """The best rate; the lowest of ties."""
        return max(sorted(self.tried), key=lambda rate: self.tried[rate])

    @property
    def at_the_edge(self) -> bool:
        """Whether a rate outside the grid might be better."""
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
    """Try every rate of a grid with every tuned method; write the best rates and all scores.

    Args:
        settings: of the reproduction; their methods determine what is tuned.
        folder: of the reproduction; cells are saved in a subfolder.
        path: LETOR data; None for synthetic data.
        grid: learning rates of the network.
        jobs: processes.
        progress: show a table of the cells under way, on a terminal.
    """
    methods = dict.fromkeys(VARIANTS[key].tuned for key in settings.methods or VARIANTS)
    tried: dict[str, dict[float, float]] = {method: {} for method in methods}
    for rate in grid:
        trial = replace(
            settings,
            rates=dict.fromkeys(methods, rate),
            scored="vali",
            methods=tuple(methods),
            runs=1,
            first_run=MOST_RUNS,
        )
        place = Path(folder) / TUNING / f"{rate:g}"
        found = reproduce(trial, place, path, jobs=jobs, progress=progress)
        assert found is not None, "all cells were done"
        for method in methods:
            score = float(found.last(method, "per_display")[0, 0])
            tried[method][rate] = -np.inf if np.isnan(score) else score
    tuned = [Tuned(method, scores) for method, scores in tried.items()]
    scores = {
        each.method: {f"{r:g}": s if np.isfinite(s) else None for r, s in each.tried.items()}
        for each in tuned
    }
    for name, content in ((TRIED, scores), (RATES, {each.method: each.rate for each in tuned})):
        with written_aside(Path(folder) / name) as aside:
            aside.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return tuned
