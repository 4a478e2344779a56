"""The engine that runs over rows: DuckDB of our own, or the one an Ibis table is bound to."""

import glob
import os
import signal
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import ibis
import ibis.expr.types as ir
import pyarrow as pa
import sqlglot

from epiclick.errors import InputError, Problem

MEMORY_LIMIT = "3GB"
"""DuckDB spills to disk beyond this, so that reading a log stays below about 4 GB."""


CANONICAL_INTEGER = r"^(0|-?[1-9][0-9]{0,17})$"
"""An integer as it would be written back; 007 and +7 are text, since 7 is not what they say."""

CANONICAL_DECIMAL = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?$"


ENGINE_ERRORS = (
    duckdb.Error,
    pa.ArrowException,
    ibis.IbisError,
    sqlglot.errors.SqlglotError,
    OSError,
    UnicodeError,
)
"""What engines raise for input that they cannot read."""

CLEARER = {
    "CSV Parser state machine reached an invalid state": (
        "its lines end in different ways (CR, LF or both). Write them all alike, such as with "
        "dos2unix"
    ),
}
"""Messages of the engines that do not say what is wrong -> what is."""


@dataclass(frozen=True)
class Source:
    """Opened rows.

    Attributes:
        table: the rows, bound to the engine that will run over them.
        name: what to call them in messages.
        text: values are all text (CSV); types are found out later.
        mixed: columns that hold numbers and text together, as text.
        partial: columns that only some files have -> how many lack them.
        unreadable: looks for lines that could not be read at all; to be called after a pass.
        notes: what else to tell whoever opened them.
    """

    table: ir.Table
    name: str
    text: bool = False
    mixed: tuple[str, ...] = ()
    partial: Mapping[str, int] = field(default_factory=dict)
    unreadable: Callable[[], list[Problem]] = list
    notes: tuple[str, ...] = ()


def connect(files: Sequence[Path] = ()) -> Any:
    """A DuckDB of our own: bounded memory, spilling into the system's temporary folder.

    It reads the given files and the tables that are registered, and nothing else, whatever a query
    asks of it: no other file, no extension, no network. Its settings are locked.
    """
    # connections that shared a folder would remove each other's files
    spill = Path(tempfile.gettempdir()) / f"epiclick-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    limit = os.environ.get("EPICLICK_MEMORY_LIMIT", MEMORY_LIMIT)
    connection = ibis.duckdb.connect(
        memory_limit=limit,
        temp_directory=str(spill),
        autoinstall_known_extensions=False,
        autoload_known_extensions=False,
    )
    allowed = ", ".join(map(quote_text, {name for file in files for name in names_of(file)}))
    connection.con.execute(
        # in notebooks and `python -c` DuckDB draws a bar onto standard output
        "SET enable_progress_bar = false; "
        f"SET allowed_paths = [{allowed}]; SET enable_external_access = false; "
        "SET lock_configuration = true"
    )
    return connection


def names_of(file: Path) -> tuple[str, str]:
    """A file's name as DuckDB opens it, and as it must be asked for: [1] would be a pattern."""
    return str(file), glob.escape(str(file))


@contextmanager
def engine_errors(name: str) -> Iterator[None]:
    """Turn what the engine says of unreadable input into an InputError that names the input."""
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise MemoryError(
            f"{name} needs more memory than DuckDB may take; raise EPICLICK_MEMORY_LIMIT "
            f"(now {os.environ.get('EPICLICK_MEMORY_LIMIT', MEMORY_LIMIT)})"
        ) from error
    except pa.ArrowMemoryError as error:
        raise MemoryError(f"{name} needs more memory than there is; is it damaged?") from error
    except (duckdb.InternalException, duckdb.FatalException) as error:
        said = _first_line(error)
        remedy = "Is it damaged? Copy or write it again, whole."
        raise InputError(
            f"{name} cannot be read: DuckDB failed on it ({said}). {remedy}"
        ) from error
    except RecursionError as error:
        raise InputError(f"{name} cannot be read: it is nested too deeply.") from error
    except ENGINE_ERRORS as error:
        raise InputError(f"{name} cannot be read: {_first_line(error)}.") from error


def _first_line(error: Exception) -> str:
    """What an engine says, in one line; where its own words say little, in ours."""
    said = str(error).strip().split("\n")[0].rstrip(".")
    return next((ours for theirs, ours in CLEARER.items() if theirs in said), said)


@contextmanager
def stoppable(table: ir.Table) -> Iterator[None]:
    """Let Ctrl-C stop DuckDB at once: by itself it first lets its other threads run to the end."""
    backend = table.get_backend()
    before = signal.getsignal(signal.SIGINT)
    in_main = threading.current_thread() is threading.main_thread()
    if backend.name != "duckdb" or not in_main or before in (signal.SIG_IGN, None):
        yield
        return

    def stop(*_: object) -> None:
        backend.con.interrupt()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    except RuntimeError as error:
        # DuckDB's own word for an interrupt, in place of the exception our handler raised
        if str(error) == "Query interrupted":
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, before)


def quote_name(column: str) -> str:
    """A column name as SQL writes it."""
    return '"' + column.replace('"', '""') + '"'


def quote_text(value: str) -> str:
    """A text as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"
