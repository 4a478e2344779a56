"""Processes: workers that share the cores and end with their parent; forks in which jax hangs."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import connection
from multiprocessing.queues import SimpleQueue
from pathlib import Path

from epiclick.errors import InputError

_forked_with_jax = threading.Event()


def _note_fork() -> None:
    """Remember, in a child, that jax had started in the parent."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    # importing jax is harmless: its threads are started with its first array
    if bridge is not None and getattr(bridge, "backends_are_initialized", lambda: True)():
        _forked_with_jax.set()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


def refuse_after_fork() -> None:
    """Refuse to run jax in a process that was forked after jax had started.

    A fork copies none of jax's threads, and the first program would wait for them without end.
    To be called by whatever is about to run jax; all else works in a forked process.
    """
    if _forked_with_jax.is_set():
        raise InputError(
            "this process was forked after jax had started, and jax cannot run in it: a fork does "
            "not copy its threads. Start processes with multiprocessing.get_context('spawn') "
            "(joblib: backend='loky'), or fork before the first fit. Loading a model, "
            "position_bias, relevance and predict_clicks do not need jax and work here."
        )


def available_cores() -> list[int]:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def cores_of(jobs: int) -> list[set[int]]:
    """Cores for each process, which makes as many threads; more would be in each other's way."""
    cores = available_cores()
    return [set(cores[job::jobs]) or {cores[job % len(cores)]} for job in range(jobs)]


@contextmanager
def threads_of_started(jobs: int) -> Iterator[None]:
    """Processes started meanwhile multiply matrices in as many threads as they have cores.

    Unless told otherwise. It is read when numpy is imported, which is before a process could set it
    for itself.
    """
    name = "OPENBLAS_NUM_THREADS"
    if name in os.environ:
        yield
        return
    os.environ[name] = str(max(map(len, cores_of(jobs))))
    try:
        yield
    finally:
        del os.environ[name]


def start_worker(programs: str, cores: "SimpleQueue[set[int]]") -> None:
    """Take cores, leave Ctrl-C to the parent, share compiled programs; before jax is imported."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    own = cores.get()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, own)
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(programs).absolute()))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
    threading.Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    """End with the parent, however it ends; two runs in one folder would do the same twice."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)
