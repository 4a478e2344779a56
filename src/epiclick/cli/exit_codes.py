"""Exit codes, and one message for whatever went wrong or stopped the call."""

import io
import os
import platform
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import typer

from epiclick.cli.console import Interrupted
from epiclick.cli.help import UsageError, usage_message
from epiclick.data.credentials import hidden
from epiclick.errors import (
    BAD_INPUT,
    MACHINE_FAILED,
    InputError,
    cannot_use,
    cannot_write,
    printable,
    refusal_of,
)
from epiclick.spelling import as_flags

OUTPUT = "standard output"
"""File name in errors of standard output."""


class Stream(io.FileIO):
    """A standard stream that drops all output after its first failure.

    Otherwise Python would fail again when it closes the streams, with another exit code.
    """

    def __init__(self, number: int, *, required: bool) -> None:
        """Write to an open file descriptor; failures are raised if the stream is required."""
        super().__init__(number, "w", closefd=False)
        self.required = required
        self.failed = False

    def write(self, data: Any) -> int:
        """Write as much as possible at once."""
        if not self.failed:
            try:
                return super().write(data) or 0
            except OSError as error:
                self.failed = True
                if self.required:
                    raise OSError(error.errno, error.strerror, OUTPUT) from error
        return memoryview(data).nbytes


@contextmanager
def safe_streams() -> Iterator[None]:
    """Report failures of standard output by name; drop notes that cannot be written.

    Characters that the encoding lacks are escaped, such as \\xe9. UTF-8 lacks some, too: bytes of
    a file name that are not UTF-8.
    """
    before = sys.stdout, sys.stderr
    _fill_closed()
    sys.stdout = _safe(sys.stdout, 1, required=True)
    sys.stderr = _safe(sys.stderr, 2, required=False)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and stream not in before:
                with suppress(OSError):  # the exit code is already decided
                    stream.flush()
        sys.stdout, sys.stderr = before


def _fill_closed() -> None:
    """Open closed standard descriptors, so that no other file is given their number."""
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
    except OSError:  # too many files are open: then these three are, too
        return
    while nowhere <= 2:
        nowhere = os.dup(nowhere)
    os.close(nowhere)


def _safe(stream: Any, number: int, *, required: bool) -> Any:
    """The stream in a form that does not fail twice; replaced or closed streams are kept.

    Windows has its own way to write to the console.
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


INTERNAL = 70  # EX_SOFTWARE of sysexits.h
INTERRUPTED = 128 + 2  # as shells report SIGINT
NO_READER = 128 + 13  # as shells report SIGPIPE

TRACEBACK = "EPICLICK_TRACEBACK"
"""Environment variable that turns on tracebacks."""


def exit_code(call: Callable[[], Any]) -> int:
    """Run the command line; print a message instead of a traceback if something goes wrong."""
    with as_flags(), safe_streams(), signals_as_ctrl_c() as ended:
        code = _code(call)
    return 128 + ended[0] if ended and code == INTERRUPTED else code


def _code(call: Callable[[], Any]) -> int:
    if sys.stdout is None:
        return _fail(
            "standard output is closed, so the result would be lost. Redirect it to a file, as in "
            "> result.txt, or discard it, as in > /dev/null.",
            BAD_INPUT,
        )
    try:
        code = call()
        sys.stdout.flush()
    except UsageError as error:
        return _fail(usage_message(error), BAD_INPUT)
    except InputError as error:
        return _refused(error)
    except Interrupted as stopped:
        return _fail(f"stopped; {stopped}", INTERRUPTED)
    except typer.Abort as abort:
        if isinstance(abort.__cause__, EOFError):  # Typer takes an EOFError for Ctrl-D
            return _internal(abort.__cause__)
        code = INTERRUPTED
    except KeyboardInterrupt:
        code = INTERRUPTED
    except MemoryError as error:
        return _fail(str(error) or "out of memory", MACHINE_FAILED)
    except BrokenPipeError:
        return NO_READER
    except OSError as error:
        return _refused_by_system(error)
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):
            return NO_READER
        code = end.code
    except UnicodeEncodeError as error:
        return _unwritable_letters(error)
    except Exception as error:  # noqa: BLE001 - last resort: every error gets a message
        return _internal(error)
    if code == INTERRUPTED:
        return _fail("stopped; nothing was written. The same command starts over.", INTERRUPTED)
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int) -> int:
    """Print the message to standard error; returns the code."""
    if os.environ.get(TRACEBACK) and sys.exc_info()[0] is not None:
        print(hidden(traceback.format_exc()), file=sys.stderr, end="")
    print(hidden(printable(f"epiclick: {message}")), file=sys.stderr)
    return code


def _refused(error: InputError) -> int:
    """The exit code of bad input, or of the system error that caused it."""
    refusal = refusal_of(error)
    return _fail(str(error), BAD_INPUT if refusal is None else refusal.code)


def _refused_by_system(error: OSError) -> int:
    refusal = refusal_of(error)
    assert refusal is not None
    if error.filename == OUTPUT:
        return _fail(f"{cannot_write(OUTPUT, error)} What was printed is incomplete.", refusal.code)
    return _fail(cannot_use(error), refusal.code)


def _unwritable_letters(error: UnicodeEncodeError) -> int:
    """A file name that is not UTF-8, which DuckDB, Arrow and HTML pages cannot represent."""
    name = re.search("[^'\"\\s]*[\ud800-\udfff][^'\"\\s]*", error.object)
    if name is None:
        return _internal(error)
    return _fail(
        f"the name {name[0]} is not UTF-8, so the file can be neither read nor written. Rename "
        "the file or folder.",
        BAD_INPUT,
    )


def _internal(error: BaseException) -> int:
    """An unexpected error: a bug, unless a library has wrapped an error of the system."""
    from epiclick import __version__

    refusal = refusal_of(error)
    if refusal is not None:
        return _fail(f"{refusal.why}. {refusal.remedy} ({_named(error)})", refusal.code)
    where = f"epiclick {__version__}, Python {platform.python_version()}, {platform.system()}"
    return _fail(
        f"internal error: {_named(error)} ({where}). This is a bug in epiclick: please report it "
        f"with the command and the traceback that it prints after {TRACEBACK}=1.",
        INTERNAL,
    )


def _named(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


@contextmanager
def signals_as_ctrl_c() -> Iterator[list[int]]:
    """Treat SIGTERM and SIGHUP like Ctrl-C; the list receives the signal's number.

    So partly written files are removed, and the message says what is kept, whatever stops the call.
    """
    ended: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        ended.append(number)
        # training delays Ctrl-C until its step is done; an ignored one would never arrive
        if callable(signal.getsignal(signal.SIGINT)):
            signal.raise_signal(signal.SIGINT)
        else:
            raise KeyboardInterrupt

    names = ("SIGTERM", "SIGHUP") if threading.current_thread() is threading.main_thread() else ()
    asked = [getattr(signal, name) for name in names if hasattr(signal, name)]
    ours = [number for number in asked if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, end)
    try:
        yield ended
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
