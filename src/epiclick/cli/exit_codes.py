"""How a call ends: an exit code, and one message where something was wrong or stopped it."""

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
from epiclick.cli.help import UsageError, mistake
from epiclick.errors import (
    BAD_INPUT,
    MACHINE_FAILED,
    InputError,
    cannot_use,
    cannot_write,
    refusal_of,
)

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


INTERNAL = 70  # as sysexits.h counts an error of the software itself
INTERRUPTED = 128 + 2  # as a shell counts a call that Ctrl-C ended
NO_READER = 128 + 13  # as it counts one whose output nobody reads any more

TRACEBACK = "EPICLICK_TRACEBACK"
"""Environment variable that has the traceback printed above the message."""


def end_code(call: Callable[[], Any]) -> int:
    """Make a call of the command line; what went wrong is said in words, not in a traceback."""
    with steady_streams(), ends_like_ctrl_c() as ended:
        code = _code(call)
    return 128 + ended[0] if ended and code == INTERRUPTED else code


def _code(call: Callable[[], Any]) -> int:
    if sys.stdout is None:
        return _say(
            "standard output is closed, so the result would be lost. Send it to a file, as in "
            "> result.txt, or nowhere, as in > /dev/null.",
            BAD_INPUT,
        )
    try:
        code = call()
        sys.stdout.flush()
    except UsageError as error:
        return _say(mistake(error), BAD_INPUT)
    except InputError as error:
        return _refused(error)
    except Interrupted as stopped:
        return _say(f"stopped; {stopped}", INTERRUPTED)
    except typer.Abort as abort:
        if isinstance(abort.__cause__, EOFError):  # Typer takes it for Ctrl-D
            return _internal(abort.__cause__)
        code = INTERRUPTED
    except KeyboardInterrupt:
        code = INTERRUPTED
    except MemoryError as error:
        return _say(str(error) or "out of memory", MACHINE_FAILED)
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
    except Exception as error:  # noqa: BLE001 - the last resort: whatever it is gets a message
        return _internal(error)
    if code == INTERRUPTED:
        return _say("stopped; nothing was written. The same command starts anew.", INTERRUPTED)
    return code if isinstance(code, int) else 0


def _say(message: str, code: int) -> int:
    if os.environ.get(TRACEBACK) and sys.exc_info()[0] is not None:
        traceback.print_exc()
    print(f"epiclick: {message}", file=sys.stderr)
    return code


def _refused(error: InputError) -> int:
    """A refusal in the words it has; where the system is behind it, the code says so."""
    refusal = refusal_of(error)
    return _say(str(error), BAD_INPUT if refusal is None else refusal.code)


def _refused_by_system(error: OSError) -> int:
    refusal = refusal_of(error)
    assert refusal is not None
    if error.filename == OUTPUT:
        return _say(f"{cannot_write(OUTPUT, error)} What was printed is incomplete.", refusal.code)
    return _say(cannot_use(error), refusal.code)


def _unwritable_letters(error: UnicodeEncodeError) -> int:
    """Bytes of a file's name that are no letters, which engines and pages cannot hold."""
    name = re.search("[^'\"\\s]*[\ud800-\udfff][^'\"\\s]*", error.object)
    if name is None:
        return _internal(error)
    return _say(
        f"{name[0]} is not UTF-8, and tables and pages can be neither read nor written under such "
        "a name. Rename the file or folder.",
        BAD_INPUT,
    )


def _internal(error: BaseException) -> int:
    """An error that nobody foresaw, unless an engine says in its own words what the system said."""
    from epiclick import __version__

    refusal = refusal_of(error)
    if refusal is not None:
        return _say(f"{refusal.why}. {refusal.remedy} ({_named(error)})", refusal.code)
    if "RESOURCE_EXHAUSTED" in str(error):  # jax's word for it
        return _say(f"out of memory. Use less data at a time. ({_named(error)})", MACHINE_FAILED)
    where = f"epiclick {__version__}, Python {platform.python_version()}, {platform.system()}"
    return _say(
        f"internal error: {_named(error)} ({where}). This is a bug in epiclick: please report it "
        f"with the command, and with the traceback that {TRACEBACK}=1 before it shows.",
        INTERNAL,
    )


def _named(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


@contextmanager
def ends_like_ctrl_c() -> Iterator[list[int]]:
    """Take a request to end, or a terminal that is closed, for Ctrl-C; the list has its number.

    So files half-written are removed, and what is kept is said, whoever stops the call.
    """
    ended: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        ended.append(number)
        # training holds Ctrl-C back until its step is done; one that is ignored would not come
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
