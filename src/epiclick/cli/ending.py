"""How a call ends: an exit code, and one message where something was wrong or stopped it."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import typer

from epiclick.cli.mistakes import UsageError, mistake
from epiclick.cli.telling import Interrupted
from epiclick.errors import InputError

BAD_INPUT = 2
INTERRUPTED = 128 + 2  # as a shell counts a call that Ctrl-C ended
NO_READER = 128 + 13  # as it counts one whose output nobody reads any more


def end_code(call: Callable[[], Any]) -> int:
    """Make a call of the command line; what went wrong is told in words, not in a traceback."""
    with ends_like_ctrl_c() as ended, any_letters():
        code = _code(call)
    return 128 + ended[0] if ended and code == INTERRUPTED else code


def _code(call: Callable[[], Any]) -> int:
    try:
        code = call()
        sys.stdout.flush()
    except UsageError as error:
        return _told(mistake(error), BAD_INPUT)
    except InputError as error:
        return _told(str(error), BAD_INPUT)
    except Interrupted as stopped:
        return _told(f"stopped; {stopped}", INTERRUPTED)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except MemoryError as error:
        return _told(str(error) or "out of memory", 1)
    except BrokenPipeError:
        return _unread()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):
            return _unread()
        code = end.code
    if code == INTERRUPTED:
        return _told("stopped; nothing was written. The same command starts anew.", INTERRUPTED)
    return code if isinstance(code, int) else 0


def _told(message: str, code: int) -> int:
    with suppress(BrokenPipeError):
        print(f"epiclick: {message}", file=sys.stderr)
    return code


def _unread() -> int:
    """Output nobody reads, as in `epiclick ... | head -1`, is no reason for words."""
    # what is still to be written would fail once more when the streams are closed
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is not None:
            with suppress(BrokenPipeError):
                stream.flush()
                continue
            os.dup2(nowhere, stream.fileno())
    return NO_READER


@contextmanager
def ends_like_ctrl_c() -> Iterator[list[int]]:
    """Take a request to end, or a terminal that is closed, for Ctrl-C; the list tells of it.

    So files half-written are removed, and what is kept is told, whoever stops the call.
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


@contextmanager
def any_letters() -> Iterator[None]:
    """Write letters that the terminal's encoding lacks as \\xe9 and the like."""
    stream: Any = sys.stdout
    if not hasattr(stream, "reconfigure") or stream.encoding.lower().startswith("utf"):
        yield
        return
    before = stream.errors
    stream.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        stream.reconfigure(errors=before)
