"""Calls of the command line, each in a process of its own that is forked from this one.

Starting Python and loading the library takes longer than most calls do, so a process that has
loaded them is forked. It must not have used any library that starts threads.
"""

import gc
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

LIMIT = 120.0
"""Seconds after which a call hangs."""

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

OUT, ERR = ".stdout", ".stderr"
"""Files next to the folder of a call that receive what it prints."""


@dataclass(frozen=True)
class Ended:
    """How a call ended.

    Attributes:
        code: its exit code; negative if a signal killed it.
        out: what it printed to standard output.
        err: the same for standard error.
        hung: whether it was killed because it did not end.
    """

    code: int
    out: str
    err: str
    hung: bool = False

    @property
    def fault(self) -> str | None:
        """What must never happen, whatever the input: None if nothing of it did."""
        if self.hung:
            return f"no end after {LIMIT:.0f} s"
        if self.code < 0:
            return f"killed by signal {-self.code}"
        if "Traceback (most recent" in self.err or "internal error" in self.err or self.code == 70:
            return f"traceback: {self.err[-600:]}"
        if unsafe := [sign for sign in self.out + self.err if _is_control(sign)]:
            return f"raw control characters were printed: {unsafe[:5]!r}"
        if self.code not in (0, 1, 2):
            return f"exit code {self.code}: {self.err[-300:]}"
        lines = [line for line in self.err.splitlines() if line.startswith("epiclick: ")]
        messages = [line for line in lines if not line.startswith("epiclick: warning: ")]
        if self.code == 2 and len(messages) != 1:
            return f"not one message: {self.err[-600:]}"
        return None

    @property
    def is_refused(self) -> bool:
        """Whether the input was refused with a message."""
        return self.code == 2 and self.err.lstrip() != ""


def _is_control(sign: str) -> bool:
    return (ord(sign) < 32 and sign not in "\n") or 127 <= ord(sign) < 160 or sign in "\u202e\u2066"


def load_library() -> None:
    """Import what calls use, so that each of them need not."""
    import duckdb  # noqa: F401
    import ibis.backends.duckdb  # noqa: F401
    import pandas  # noqa: F401
    import pyarrow.csv
    import pyarrow.dataset
    import pyarrow.parquet  # noqa: F401
    import rich.table  # noqa: F401
    import scipy.optimize
    import scipy.special
    import scipy.stats  # noqa: F401

    import epiclick.api
    import epiclick.cli.main
    import epiclick.comparison.compare_rankers
    import epiclick.experiments.plan_experiment
    import epiclick.inspection.inspect_log
    import epiclick.report.page
    import epiclick.selection  # noqa: F401

    assert "jax" not in sys.modules
    # collections in children would copy every page of the parent
    gc.collect()
    gc.freeze()


def start(
    arguments: Iterable[object],
    folder: Path,
    *,
    before: Callable[[], None] | None = None,
    environment: Mapping[str, str | None] | None = None,
) -> int:
    """Start a call in a folder; the number of its process.

    Args:
        arguments: of `epiclick`.
        folder: the current one of the call; the names of `printed` are next to it.
        before: run in the new process just before the call.
        environment: variables to set, or to remove if None.
    """
    assert threading.active_count() == 1, "a process with threads must not be forked"
    words = ["epiclick", *map(str, arguments)]
    return forked(lambda: _called(words, folder, before, environment or {}))


def forked(work: Callable[[], int | None]) -> int:
    """Do work in a process of its own, which has loaded the library already; its number.

    The process ends with the code that the work returns, or with 70 if it fails.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process:
        return process
    code = 70
    try:
        code = work() or 0
    except BaseException:  # noqa: BLE001 - nothing of this process may go on in the child
        traceback.print_exc()
    finally:
        os._exit(code)


def _called(
    words: list[str],
    folder: Path,
    before: Callable[[], None] | None,
    environment: Mapping[str, str | None],
) -> int:
    """The call itself, in the new process."""
    os.setpgid(0, 0)
    for number, name in ((1, OUT), (2, ERR)):
        file = os.open(f"{folder}{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, number)
        os.close(file)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", encoding="utf-8", closefd=False, buffering=1)
    os.chdir(folder)
    os.environ.pop("EPICLICK_TRACEBACK", None)
    os.environ["EPICLICK_CACHE"] = f"{folder}.cache"
    for name, value in environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    for number in STOPPING:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = words
    from epiclick.cli.main import run

    if before is not None:
        before()
    try:
        run()
    except SystemExit as end:
        # the call is over: a late signal would end this process instead, as it would any other
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    return code


def wait(process: int, folder: Path, seconds: float = LIMIT) -> Ended:
    """Wait for a call to end; one that does not is killed."""
    deadline = time.monotonic() + seconds
    pause = 0.0005
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return Ended(code, *printed(folder))
        if time.monotonic() > deadline:
            os.killpg(process, signal.SIGKILL)
            os.waitpid(process, 0)
            return Ended(-signal.SIGKILL, *printed(folder), hung=True)
        time.sleep(pause)
        pause = min(2 * pause, 0.01)


def printed(folder: Path) -> tuple[str, str]:
    """What the last call in a folder has printed."""
    texts = []
    for name in (OUT, ERR):
        path = Path(f"{folder}{name}")
        texts.append(path.read_text("utf-8", "backslashreplace") if path.is_file() else "")
    return texts[0], texts[1]


def call(
    *arguments: object,
    folder: Path,
    before: Callable[[], None] | None = None,
    during: Callable[[int], None] | None = None,
    environment: Mapping[str, str | None] | None = None,
    seconds: float = LIMIT,
) -> Ended:
    """Call the command line and wait for its end; `during` gets its process once it is started."""
    process = start(arguments, folder, before=before, environment=environment)
    if during is not None:
        during(process)
    return wait(process, folder, seconds)
