"""Worker processes that share the cores and end with their parent; detection of unsafe forks."""

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


def _record_fork() -> None:
    """Record, in a child process, that jax was running in the parent."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    # importing jax is harmless: its threads start with its first array
    if bridge is not None and getattr(bridge, "backends_are_initialized", lambda: True)():
        _forked_with_jax.set()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_record_fork)


def refuse_after_fork() -> None:
    """Raise InputError in a process that was forked after jax had started.

    A fork does not copy jax's threads, so the first computation would wait for them for ever. To be
    called before jax is used; everything else works in a forked process.
    """
    if _forked_with_jax.is_set():
        raise InputError(
            "this process was forked after jax had started, and jax cannot run in it: a fork does "
            "not copy its threads. Start processes with multiprocessing.get_context('spawn') "
            "(joblib: backend='loky'), or fork before jax starts. Only the paper's estimators, "
            "theta_posterior='nuts' and distributed() need jax; all else works here.",
            code="forked-after-jax",
        )


def available_cores() -> list[int]:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run matrix products on the calling thread, in this context or a function decorated with it.

    Our products are many and small. Threads of BLAS would spend more processor time on waiting for
    each other than on arithmetic, ten times as much on a machine that is busy; where work is large,
    parts of it run on threads of ours.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        yield


def cores_of(jobs: int) -> list[set[int]]:
    """The cores of each process, disjoint where possible; it runs one thread on each."""
    cores = available_cores()
    return [set(cores[job::jobs]) or {cores[job % len(cores)]} for job in range(jobs)]


@contextmanager
def threads_of_started(jobs: int) -> Iterator[None]:
    """Limit OpenBLAS in processes started in this context to one thread per core they get.

    A value that is already set is kept. OpenBLAS reads it when numpy is imported, before a process
    could set it itself.
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
    """Pin to cores, leave Ctrl-C to the parent, share compiled programs; before jax is imported."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    own = cores.get()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, own)
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(programs).absolute()))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
    threading.Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    """Exit when the parent does, however it ends: two runs in one folder would duplicate work."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)
