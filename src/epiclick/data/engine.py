"""The engine that runs over rows: DuckDB of our own, or the one an Ibis table is bound to."""

import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import ibis
import ibis.expr.types as ir
import pyarrow as pa
import sqlglot

from epiclick.errors import InputError, Problem, did_you_mean

MEMORY_LIMIT = "3GB"
"""DuckDB spills to disk beyond this, so that reading a log stays below about 4 GB."""


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
    """

    table: ir.Table
    name: str
    text: bool = False
    mixed: tuple[str, ...] = ()
    partial: Mapping[str, int] = field(default_factory=dict)
    unreadable: Callable[[], list[Problem]] = list


def connect() -> Any:
    """A DuckDB of our own: bounded memory, spilling into the system's temporary folder."""
    spill = Path(tempfile.gettempdir()) / f"epiclick-{os.getpid()}"
    limit = os.environ.get("EPICLICK_MEMORY_LIMIT", MEMORY_LIMIT)
    return ibis.duckdb.connect(memory_limit=limit, temp_directory=str(spill))


@contextmanager
def engine_errors(name: str) -> Iterator[None]:
    """Turn what the engine says of unreadable input into an InputError that names the input."""
    try:
        yield
    except (duckdb.OutOfMemoryException, duckdb.InternalException):
        raise
    except (duckdb.Error, pa.ArrowInvalid) as error:
        said = str(error).strip().split("\n")[0].rstrip(".")
        raise InputError(f"{name} cannot be read: {said}.") from error


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


def select_where(source: Source, condition: str) -> ir.Table:
    """The rows that meet an SQL condition; text that holds numbers is compared as numbers."""
    dialect = source.table.get_backend().dialect
    try:
        tree = sqlglot.parse_one(f"SELECT 1 FROM log WHERE ({condition}\n)", dialect=dialect)
    except sqlglot.ParseError as error:
        raise InputError(f"where is not an SQL condition: {condition}") from error
    used = {column.name.lower() for column in tree.find_all(sqlglot.exp.Column)}
    names = source.table.columns
    if unknown := sorted(used - {name.lower() for name in names}):
        hints = ", ".join(f"{name}{did_you_mean(name, names)}" for name in unknown)
        raise InputError(f"where names columns that {source.name} does not have: {hints}")
    query = f"SELECT * FROM log WHERE ({condition}\n)"
    if source.text:
        # values stay text in the result, and are numbers only for the comparison
        compared = [
            f"TRY_CAST(raw.{quote_name(name)} AS DOUBLE) AS {quote_name(name)}"
            if _holds_numbers(source.table, name)
            else f"raw.{quote_name(name)}"
            for name in names
            if name.lower() in used
        ]
        rows = f"SELECT {', '.join(['raw', *compared])} FROM log AS raw"
        query = f"SELECT raw.* FROM ({rows}) WHERE ({condition}\n)"
    try:
        with engine_errors(source.name):
            return source.table.alias("log").sql(query)
    except InputError as error:
        raise InputError(f'where "{condition}": {error}') from error


def _holds_numbers(table: ir.Table, column: str) -> bool:
    """Whether the first values of a text column are all numbers."""
    head = table.filter(table[column].notnull()).select(value=table[column]).limit(10_000)
    return bool(head.value.try_cast("float64").notnull().all().to_pyarrow().as_py())


def quote_name(column: str) -> str:
    """A column name as SQL writes it."""
    return '"' + column.replace('"', '""') + '"'


def quote_text(value: str) -> str:
    """A text as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"
