"""The engine that runs queries: our own DuckDB, or the one an Ibis table is bound to."""

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
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from epiclick.data.credentials import hidden
from epiclick.errors import InputError, Problem

if TYPE_CHECKING:
    import duckdb
    import ibis.expr.types as ir

MEMORY_LIMIT = "3GB"
"""Beyond this DuckDB spills to disk, so that reading a log takes less than about 4 GB."""


CANONICAL_INTEGER = r"^(0|-?[1-9][0-9]{0,17})$"
"""An integer in its standard form; 007 and +7 are text, since they would become 7."""

CANONICAL_DECIMAL = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?$"


CLEARER_MESSAGES = {
    "CSV Parser state machine reached an invalid state": (
        "it has mixed line endings (CR, LF or both). Use one kind throughout, such as with dos2unix"
    ),
}
"""Unhelpful message of an engine -> what is wrong."""


@dataclass(frozen=True)
class MatchedClicks:
    """Displays with a click, from a pass over all rows of a log that has every display once.

    Attributes:
        counted: those whose click counts.
        late: those whose click came too late.
    """

    counted: int
    late: int


class JoinedClicks(Protocol):
    """Clicks that were joined to displays.

    If the displays with a click are given, they are not joined again.
    """

    def orphans(self, matched: MatchedClicks | None) -> list[Problem]:
        """Clicks without a display."""
        ...

    def remarks(self, matched: MatchedClicks | None) -> list[str]:
        """Clicks that were not counted."""
        ...

    def sampled(self, rows: "ir.Table", least: int) -> "ir.Table":
        """The rows of the pages from a level on, of a table made from the joined rows."""
        ...


@dataclass(frozen=True)
class Source:
    """Opened rows.

    Attributes:
        table: the rows, bound to the engine that will run over them.
        name: what to call them in messages.
        text: all values are text (CSV); types are inferred later.
        mixed: columns that mix numbers and text, read as text.
        partial: columns that only some files have -> how many files lack them.
        unreadable: returns the lines that could not be read; to be called after a pass.
        notes: further remarks for the user.
        remarks: returns what a format found on the way to rows; to be called after a pass.
        format: name of the format that the rows were in.
        owned: the engine is our own, so tables may be stored in it.
        displays: the same rows in the order they were written, without outcomes, where these come
            from a join: enough to check pages, and cheaper to read.
        beside: the clicks, where these are the impressions of a log in two tables.
        joined: the clicks, where these were joined to the rows.
    """

    table: "ir.Table"
    name: str
    text: bool = False
    mixed: tuple[str, ...] = ()
    partial: Mapping[str, int] = field(default_factory=dict)
    unreadable: Callable[[], list[Problem]] = list
    notes: tuple[str, ...] = ()
    remarks: Callable[[], list[str]] = list
    format: str = "rows"
    owned: bool = False
    displays: "ir.Table | None" = None
    beside: "Source | None" = None
    joined: JoinedClicks | None = None


def connect(files: Sequence[Path] = (), databases: Mapping[str, Path] | None = None) -> Any:
    """Our own DuckDB: bounded memory, spilling into the system's temporary folder.

    Whatever a query asks for, it reads only the given files and registered tables: no other file,
    no extension, no network. Its settings are locked. DuckDB databases are attached under the given
    names, to be read only.
    """
    import ibis  # slow to import

    connection = ibis.duckdb.connect(**_settings())
    for name, file in (databases or {}).items():
        path = quote_text(str(file))
        connection.con.execute(f"ATTACH {path} AS {quote_name(name)} (TYPE duckdb, READ_ONLY)")
    if databases is not None and len(databases) == 1:
        # its views may name tables of its main schema without the schema
        connection.con.execute(f"SET search_path = 'memory.main,{next(iter(databases))}.main'")
    _restrict(connection.con, files)
    return connection


def connect_without_ibis() -> "duckdb.DuckDBPyConnection":
    """The same for SQL over registered tables: Ibis takes longer to import than most queries."""
    import duckdb

    connection = duckdb.connect(config={**_settings(), "python_enable_replacements": False})
    _restrict(connection, ())
    return connection


def _settings() -> dict[str, Any]:
    # connections that share a folder would remove each other's files
    spill = Path(tempfile.gettempdir()) / f"epiclick-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    return {
        "memory_limit": os.environ.get("EPICLICK_MEMORY_LIMIT", MEMORY_LIMIT),
        "temp_directory": str(spill),
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }


def _restrict(connection: "duckdb.DuckDBPyConnection", files: Sequence[Path]) -> None:
    """Allow these files only, set what holds for one session, and lock the settings."""
    allowed = ", ".join(map(quote_text, {name for file in files for name in names_of(file)}))
    connection.execute(
        # in notebooks and `python -c` DuckDB draws a progress bar on standard output
        "SET enable_progress_bar = false; "
        # with the default of 1 MB all threads but one wait while Python takes rows from a stream
        "SET streaming_buffer_size = '50MB'; "
        f"SET allowed_paths = [{allowed}]; SET enable_external_access = false; "
        "SET lock_configuration = true"
    )


def names_of(file: Path) -> tuple[str, str]:
    """A file's name as DuckDB opens it, and escaped for queries, where [1] would be a pattern."""
    return str(file), glob.escape(str(file))


def stored(source: Source, table: "ir.Table") -> "ir.Table":
    """Rows stored in our own engine, which spills them to disk: what they come from runs once.

    In an engine that is not ours nothing is written.
    """
    if not source.owned:
        return table
    import ibis  # slow to import

    name = ibis.util.gen_name("epiclick_rows")
    return source.table.get_backend().create_table(name, table, temp=True)


@contextmanager
def engine_errors(name: str) -> Iterator[None]:
    """Turn errors of the engine into an InputError that names the input."""
    import duckdb  # all of these are slow to import
    import ibis
    import sqlglot

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise MemoryError(
            f"{name} needs more memory than DuckDB may use; raise EPICLICK_MEMORY_LIMIT "
            f"(now {os.environ.get('EPICLICK_MEMORY_LIMIT', MEMORY_LIMIT)})"
        ) from error
    except pa.ArrowMemoryError as error:
        raise MemoryError(f"{name} needs more memory than there is; is it damaged?") from error
    except (duckdb.InternalException, duckdb.FatalException) as error:
        raise InputError(
            f"{name} cannot be read: DuckDB failed on it ({_first_line(error)}). "
            "Is it damaged? Copy or write it again, complete.",
            code="engine-failed",
        ) from error
    except RecursionError as error:
        raise InputError(
            f"{name} cannot be read: it is nested too deeply.", code="nested-too-deeply"
        ) from error
    except (
        duckdb.Error,
        pa.ArrowException,
        ibis.IbisError,
        sqlglot.errors.SqlglotError,
        OSError,
        UnicodeError,
    ) as error:
        raise InputError(
            f"{name} cannot be read: {_first_line(error)}.", code="source-unreadable"
        ) from error
    except Exception as error:
        if not _is_of_driver(error):
            raise
        raise InputError(
            f"{name} cannot be read: {_first_line(error)}.", code="source-unreadable"
        ) from error


DRIVERS = frozenset(
    {
        *("pyspark", "py4j", "polars", "sqlite3", "psycopg", "psycopg2", "google", "snowflake"),
        *("databricks", "trino", "MySQLdb", "pymysql", "clickhouse_connect", "pyodbc", "oracledb"),
        *("pyathena", "botocore", "pyexasol", "impala", "datafusion", "grpc", "requests"),
    }
)
"""Packages whose exceptions come from an engine, or from the way to it."""


def _is_of_driver(error: Exception) -> bool:
    """Whether an exception is one of an engine's own, which it need not be installed to decide."""
    return any(kind.__module__.split(".")[0] in DRIVERS for kind in type(error).__mro__)


def _first_line(error: Exception) -> str:
    """The first line of an engine's message, or a clearer one where we have it."""
    message = hidden(str(error).strip().split("\n")[0].rstrip("."))
    clearer = (ours for theirs, ours in CLEARER_MESSAGES.items() if theirs in message)
    return next(clearer, message)


@contextmanager
def stoppable(table: "ir.Table") -> Iterator[None]:
    """Let Ctrl-C stop DuckDB at once; by default its other threads first run to the end."""
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
        # raised by DuckDB for an interrupt, in place of our handler's exception
        if str(error) == "Query interrupted":
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, before)


def quote_name(column: str) -> str:
    """A column name quoted for SQL."""
    return '"' + column.replace('"', '""') + '"'


def quote_text(value: str) -> str:
    """A string quoted for SQL."""
    return "'" + value.replace("'", "''") + "'"
