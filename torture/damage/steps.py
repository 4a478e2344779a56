"""The steps by which a process changes files, counted; it can be killed at any of them.

A step is whatever Python is about to do to a file or folder (by audit events), a part of what is
written to a file, and a file written by a library in C++, half and whole.
"""

import builtins
import io
import mmap
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

EVENTS = (
    *("os.rename", "os.remove", "os.link", "os.symlink", "os.mkdir", "os.rmdir", "os.chmod"),
    *("os.truncate", "os.utime"),
)
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class Steps:
    """Counts the steps of a process that is to be forked, and may kill it at one of them."""

    def __init__(self, folder: Path, last: int | None = None) -> None:
        """Count steps below a folder.

        Args:
            folder: what lies elsewhere is not counted.
            last: number of the step, from 0, before which the process kills itself.
        """
        self.folder, self.last = os.path.abspath(folder), last
        self._count = mmap.mmap(-1, 8)  # shared with the process

    @property
    def count(self) -> int:
        """How many there were."""
        return int.from_bytes(self._count[:8], "little")

    def watch(self) -> None:
        """Count from now on, in this process."""
        import sys

        import pyarrow.parquet as pq

        from epiclick.data import writing
        from epiclick.training import checkpoint

        opened = self._opening(io.open)
        io.open = builtins.open = opened  # type: ignore[assignment]
        pq.write_table = self._writing(pq.write_table, 1)
        pq.ParquetWriter.write_table = self._around(pq.ParquetWriter.write_table)
        pq.ParquetWriter.close = self._around(pq.ParquetWriter.close)
        checkpoint.save_file = self._writing(checkpoint.save_file, 1)
        writing.exchange = self._around(writing.exchange)
        sys.addaudithook(self._event)

    def _step(self, meanwhile: Callable[[], Any] = lambda: None) -> None:
        """Count a step; if it is the last, do what leaves it half done, and end."""
        number = self.count
        if number == self.last:
            self.last = None
            meanwhile()
            os.kill(os.getpid(), signal.SIGKILL)
        self._count[:8] = (number + 1).to_bytes(8, "little")

    def _is_here(self, path: Any) -> bool:
        if isinstance(path, int) or not isinstance(path, str | bytes | os.PathLike):
            return False
        return os.path.abspath(os.fsdecode(path)).startswith(self.folder)

    def _event(self, name: str, given: tuple[Any, ...]) -> None:
        writes = name == "open" and isinstance(given[2], int) and given[2] & WRITING
        if (writes or name in EVENTS) and self._is_here(given[0]):
            self._step()

    def _around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function with a step before and after it."""

        def called(*given: Any, **named: Any) -> Any:
            self._step()
            result = function(*given, **named)
            self._step()
            return result

        return called

    def _writing(self, function: Callable[..., Any], place: int) -> Callable[..., Any]:
        """A function that writes the file it is given, with steps: half of it, and all."""

        def written(*given: Any, **named: Any) -> Any:
            path = given[place]
            result = function(*given, **named)
            self._step(lambda: os.truncate(path, os.path.getsize(path) // 2))
            self._step()
            return result

        return written

    def _opening(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`open`, with steps in each of the writes: before it, and half of it."""

        def opened(file: Any, mode: str = "r", *given: Any, **named: Any) -> Any:
            stream = function(file, mode, *given, **named)
            if not set(mode) & set("wax+") or not self._is_here(file):
                return stream
            write = stream.write

            def part(content: Any) -> Any:
                def half() -> None:
                    write(content[: len(content) // 2])
                    stream.flush()

                self._step(stream.flush)
                self._step(half)
                return write(content)

            stream.write = part
            return stream

        return opened
