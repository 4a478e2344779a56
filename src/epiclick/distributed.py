"""Processes that fit a model together, on one machine or several, by `jax.distributed`.

Processes find each other through a coordinator, which process 0 runs, and add their arrays by
all-reduce (gloo, over TCP). jax does nothing else here: it computes none of what is added.
"""

import errno
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from threading import Event
from typing import Any, NamedTuple

import numpy as np

from epiclick.errors import InputError
from epiclick.processes import refuse_after_fork

ADDRESS, COUNT, NUMBER = "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"
"""Environment variables: address of process 0, number of processes, number of this one."""

JOB_INDEX = "JOB_COMPLETION_INDEX"
"""Number of a pod of an indexed job, which Kubernetes sets."""

TO_START = 300
"""Seconds in which all processes must have started."""

HEARTBEAT = 100
"""Seconds without a sign of life after which a machine counts as lost."""


class Place(NamedTuple):
    """Where the processes meet, how many they are, and which one this is."""

    address: str
    processes: int
    process: int


@dataclass(frozen=True, eq=False)
class JaxProcesses:
    """Processes connected by jax; see `Collective`.

    Attributes:
        count: number of processes.
        rank: number of this one.
    """

    count: int
    rank: int

    def sum(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """One all-reduce of all arrays together."""
        shapes = [np.shape(each) for each in arrays]
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
        flat = np.concatenate([np.ravel(each) for each in arrays]).astype(np.float64, copy=False)
        parts = np.split(self._all_reduce(flat), ends[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def from_first(self, data: bytes) -> bytes:
        """Sums to which all processes but the first add 0."""
        own = np.frombuffer(data if self.rank == 0 else b"", np.uint8)
        (size,) = self.sum([np.array(len(own))])
        sent = np.zeros(int(size), np.uint8)
        sent[: len(own)] = own
        return self._all_reduce(sent).tobytes()

    def close(self) -> None:
        """Wait for all processes to get here, and disconnect."""
        import jax

        self.sum([np.zeros(1)])  # which fails with a message if another process has ended
        jax.distributed.shutdown()

    def _all_reduce(self, own: np.ndarray) -> np.ndarray:
        import jax

        by_process, add = self._program
        try:
            with _quiet(self._is_connected), jax.enable_x64(True):
                here = jax.device_put(own[None], jax.local_devices(backend="cpu")[0])
                whole = jax.make_array_from_single_device_arrays(
                    (self.count, *own.shape), by_process, [here]
                )
                found = np.array(add(whole).addressable_data(0))
            self._is_connected.set()
            return found
        except (jax.errors.JaxRuntimeError, ValueError) as error:
            if "Gloo" not in str(error):  # numpy raises a ValueError where it meets the failure
                raise
            lost = ConnectionError(errno.ECONNABORTED, str(error).splitlines()[0])
            raise InputError(
                "another process of this fit has ended or cannot be reached, so this one ends as "
                f"well ({lost.strerror}). Its own message says why. The run is kept in its "
                "checkpoint, if there is one: start all processes again, with --resume",
                code="process-lost",
            ) from lost

    @cached_property
    def _is_connected(self) -> Event:
        """Whether there has been a sum."""
        return Event()

    @cached_property
    def _program(self) -> tuple[Any, Any]:
        """How an array is divided among devices, one per process; the compiled sum."""
        import jax
        from jax.sharding import Mesh, NamedSharding, PartitionSpec

        first: dict[int, Any] = {}
        for device in jax.devices("cpu"):
            first.setdefault(device.process_index, device)
        mesh = Mesh(np.array([first[i] for i in range(self.count)]), ("process",))
        by_process = NamedSharding(mesh, PartitionSpec("process"))

        def add(arrays: Any) -> Any:
            return arrays.sum(axis=0, dtype=arrays.dtype)

        everywhere = NamedSharding(mesh, PartitionSpec())
        return by_process, jax.jit(add, out_shardings=everywhere)


def is_connected() -> bool:
    """Whether this process shares a fit with others."""
    jax = sys.modules.get("jax")
    return jax is not None and jax.distributed.is_initialized()


@contextmanager
def _quiet(connected: Event) -> Iterator[None]:
    """Keep a note of gloo, when it connects, out of standard output, which is for results."""
    if connected.is_set() or os.name != "posix":
        yield
        return
    sys.stdout.flush()
    before, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(before, 1)
        os.close(before)
        os.close(nowhere)


def distributed(
    coordinator: str | None = None, processes: int | None = None, process: int | None = None
) -> JaxProcesses:
    """Connect this process with the others that fit the same model.

    To be called once, before jax is used, in every process of the job:
    `EpistemicPBM().fit(counts, processes=distributed())`. Arguments that are not given are read
    from the environment: variables of jax, an indexed job of Kubernetes, Slurm, Open MPI.

    Args:
        coordinator: address of process 0 and a free port there, such as "10.0.0.1:1234".
        processes: number of processes.
        process: number of this one, from 0. Process 0 writes the checkpoint.
    """
    place = _place(os.environ, coordinator, processes, process)
    refuse_after_fork()
    import jax

    if jax.distributed.is_initialized():
        return JaxProcesses(jax.process_count(), jax.process_index())
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        jax.distributed.initialize(
            None if place is None else place.address,
            None if place is None else place.processes,
            None if place is None else place.process,
            cluster_detection_method=None if place is None else "deactivate",
            initialization_timeout=TO_START,
            heartbeat_timeout_seconds=HEARTBEAT,
        )
    except ValueError as error:
        raise InputError(
            "no cluster was found: neither Slurm nor Open MPI started this process. Set "
            f"{ADDRESS}=host:port, {COUNT} and {NUMBER} in every process",
            code="no-cluster",
        ) from error
    except RuntimeError as error:
        if "before" in str(error):
            raise InputError(
                "jax has already computed something in this process, and cannot be connected any "
                "more; call distributed() first",
                code="jax-already-started",
            ) from error
        where = "" if place is None else f" at {place.address}"
        raise InputError(
            f"the processes did not meet{where} within {TO_START} seconds; is process 0 "
            f"running, and can its port be reached? ({str(error).splitlines()[0]})",
            code="no-coordinator",
        ) from ConnectionError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
    return JaxProcesses(jax.process_count(), jax.process_index())


def _place(
    environment: Mapping[str, str],
    coordinator: str | None,
    processes: int | None,
    process: int | None,
) -> Place | None:
    """Where the processes meet, by arguments or environment; None if neither says anything."""
    given: dict[str, Any] = {ADDRESS: coordinator, COUNT: processes, NUMBER: process}
    found = {
        name: environment.get(name) if value is None else value for name, value in given.items()
    }
    if all(value in (None, "") for value in found.values()):
        return None
    if found[NUMBER] in (None, ""):
        found[NUMBER] = environment.get(JOB_INDEX)
    if missing := [name for name, value in found.items() if value in (None, "")]:
        raise InputError(
            f"{' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} not set; a process "
            f"needs {ADDRESS}, {COUNT} and {NUMBER}, or none of them on Slurm and Open MPI",
            code="incomplete-cluster",
        )
    address = str(found[ADDRESS])
    if not re.fullmatch(r".+:\d{1,5}", address):
        raise InputError(
            f"{ADDRESS} must be host:port, such as 10.0.0.1:1234, not {address!r}",
            code="invalid-cluster",
        )
    count, number = (_whole(name, found[name]) for name in (COUNT, NUMBER))
    if count < 1 or not 0 <= number < count:
        raise InputError(
            f"{NUMBER} must be from 0 to {COUNT} - 1, and is {number} of {count}",
            code="invalid-cluster",
        )
    return Place(address, count, number)


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not re.fullmatch(r"\d{1,9}", str(value)):
        raise InputError(f"{name} must be a whole number, not {value!r}", code="invalid-cluster")
    return int(value)
