"""A call in a process of its own, so that its time and memory can be measured."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from epiclick.processes import cores_of, start_worker

Result = TypeVar("Result")


def call_in_process(function: Callable[..., Result], *arguments: Any, programs: Path) -> Result:
    """The result of a function of a module, called in a new process that ends with this one.

    Args:
        function: can be imported by its name.
        *arguments: its arguments.
        programs: folder for programs that jax compiles.
    """
    context = get_context("spawn")
    cores = context.SimpleQueue()
    cores.put(cores_of(1)[0])
    pool = ProcessPoolExecutor(
        1, mp_context=context, initializer=start_worker, initargs=(str(programs), cores)
    )
    try:
        return pool.submit(function, *arguments).result()
    except BrokenProcessPool as error:
        raise MemoryError(
            "a process of the benchmark was killed, often for lack of memory; run the same "
            "command again to continue"
        ) from error
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
