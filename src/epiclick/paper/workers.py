"""Cells on several processes, each with cores and a bench of its own."""

import threading
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any

from epiclick.paper.cells import Cell
from epiclick.paper.progress import Watcher
from epiclick.paper.settings import Settings
from epiclick.processes import cores_of, start_worker, threads_of_started

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
