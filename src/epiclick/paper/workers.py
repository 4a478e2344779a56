"""Cells on several processes, each with cores and a bench of its own."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import connection, get_context
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any

from epiclick.paper.cells import Cell
from epiclick.paper.progress import Watcher
from epiclick.paper.settings import Settings

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
        with _threads(max(map(len, cores_of(jobs)))):
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


def available_cores() -> list[int]:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def cores_of(jobs: int) -> list[set[int]]:
    """Cores for each process, which makes as many threads; more would be in each other's way."""
    cores = available_cores()
    return [set(cores[job::jobs]) or {cores[job % len(cores)]} for job in range(jobs)]


def _listen(told: "SimpleQueue[Told | None]", watcher: Watcher) -> None:
    """Hand on what worker processes tell."""
    while (each := told.get()) is not None:
        watcher.epoch(*each)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Processes started meanwhile multiply matrices in so many threads, unless told otherwise.

    That is read when numpy is imported, which is before a process could set it for itself.
    """
    name = "OPENBLAS_NUM_THREADS"
    if name in os.environ:
        yield
        return
    os.environ[name] = str(count)
    try:
        yield
    finally:
        del os.environ[name]


def _start(
    settings: Settings,
    path: str | None,
    folder: str,
    cores: "SimpleQueue[set[int]]",
    told: "SimpleQueue[Told | None]",
) -> None:
    """Take cores, share compiled programs, and end when the parent does; jax comes later."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    own = cores.get()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, own)
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(folder, PROGRAMS).absolute()))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
    _worker.update(settings=settings, path=path, told=told)
    threading.Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    """End with the parent, however it ends; two runs in one folder would do the same twice."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


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
