"""Standard output and standard error, whatever stands behind them: closed, full, read by nobody."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

OUTPUT = "standard output"
"""What an error of standard output names as its file."""


class Stream(io.FileIO):
    """A standard stream; after its first failure whatever is still printed is let go.

    Otherwise Python fails once more when it closes the streams, with a code of its own.
    """

    def __init__(self, number: int, *, required: bool) -> None:
        """Write to a file that is open; its failures are raised if it is required."""
        super().__init__(number, "w", closefd=False)
        self.required = required
        self.failed = False

    def write(self, data: Any) -> int:
        """Write as much as can be at once."""
        if not self.failed:
            try:
                return super().write(data) or 0
            except OSError as error:
                self.failed = True
                if self.required:
                    raise OSError(error.errno, error.strerror, OUTPUT) from error
        return memoryview(data).nbytes


@contextmanager
def steady_streams() -> Iterator[None]:
    """Failures of standard output name it; notes that cannot be written are left out.

    Letters that an encoding lacks are written as \\xe9 and the like. UTF-8 lacks some, too: bytes
    of a file's name that are none.
    """
    before = sys.stdout, sys.stderr
    _fill_closed()
    sys.stdout = _steady(sys.stdout, 1, required=True)
    sys.stderr = _steady(sys.stderr, 2, required=False)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and stream not in before:
                with suppress(OSError):  # the call has its code already
                    stream.flush()
        sys.stdout, sys.stderr = before


def _fill_closed() -> None:
    """Keep files that are opened from now on from being taken for a stream that is closed."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    while nowhere <= 2:
        nowhere = os.dup(nowhere)
    os.close(nowhere)


def _steady(stream: Any, number: int, *, required: bool) -> Any:
    """The stream in a form that does not fail twice; others' stand-ins, and a closed output, stay.

    Windows writes to its console in a way of its own.
    """
    own = stream is (sys.__stdout__, sys.__stderr__)[number - 1]
    if not own or os.name != "posix" or (stream is None and required):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(Stream(number, required=required)),
        encoding="utf-8" if stream is None else stream.encoding,
        errors="backslashreplace",
        line_buffering=number == 2 or stream.line_buffering,
        write_through=stream is not None and stream.write_through,
    )
