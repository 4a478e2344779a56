"""The engine that runs over rows: DuckDB of our own, or the one an Ibis table is bound to."""

import os
import signal
import tempfile
import threading
import uuid
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


CANONICAL_INTEGER = r"^(0|-?[1-9][0-9]{0,17})$"
"""An integer as it would be written back; 007 and +7 are text, since 7 is not what they say."""

CANONICAL_DECIMAL = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?$"


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


def connect() -> Any:
    """A DuckDB of our own: bounded memory, spilling into the system's temporary folder."""
    # connections that shared a folder would remove each other's files
    spill = Path(tempfile.gettempdir()) / f"epiclick-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    limit = os.environ.get("EPICLICK_MEMORY_LIMIT", MEMORY_LIMIT)
    return ibis.duckdb.connect(memory_limit=limit, temp_directory=str(spill))


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
    except duckdb.InternalException:
        raise
    except (duckdb.Error, pa.ArrowInvalid, pa.ArrowNotImplementedError, ibis.IbisError) as error:
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
    except sqlglot.errors.SqlglotError as error:
        raise InputError(f"where is not an SQL condition: {condition}") from error
    # a condition may come with a model, and must not read anything but the log
    if (
        len(list(tree.find_all(sqlglot.exp.Select))) > 1
        or len(list(tree.find_all(sqlglot.exp.Table))) > 1
    ):
        raise InputError(f"where must be a condition on the log's columns alone: {condition}")
    names = source.table.columns
    used = {column.name.lower() for column in tree.find_all(sqlglot.exp.Column)}
    if unknown := sorted(used - {name.lower() for name in names}):
        hints = ", ".join(f"{name}{did_you_mean(name, names)}" for name in unknown)
        raise InputError(f"where names columns that {source.name} does not have: {hints}")
    query = f"SELECT * FROM log WHERE ({condition}\n)"
    try:
        with engine_errors(source.name):
            if source.text:
                query = _typed_query(source.table, tree, condition)
            return source.table.alias("log").sql(query)
    except InputError as error:
        raise InputError(f'where "{condition}": {error}') from error


def _typed_query(table: ir.Table, tree: Any, condition: str) -> str:
    """A query over text columns that compares those with numbers in them as numbers.

    Values stay text in the result. A column that the condition compares with text stays text there
    as well.
    """
    beside_text = {
        column.name.lower()
        for column in tree.find_all(sqlglot.exp.Column)
        if column.parent and any(x.is_string for x in column.parent.find_all(sqlglot.exp.Literal))
    }
    used = {column.name.lower() for column in tree.find_all(sqlglot.exp.Column)}
    compared = []
    for name in table.columns:
        if name.lower() in used:
            kind = "VARCHAR" if name.lower() in beside_text else _number_type(table[name])
            column = quote_name(name)
            compared.append(f"CAST(epiclick_row.{column} AS {kind}) AS {column}")
    rows = f"SELECT {', '.join(['epiclick_row', *compared])} FROM log AS epiclick_row"
    return f"SELECT epiclick_row.* FROM ({rows}) WHERE ({condition}\n)"


def _number_type(column: ir.Value) -> str:
    """The SQL type of a text column's values: numbers if all are, written as numbers are."""
    for kind, pattern in (("BIGINT", CANONICAL_INTEGER), ("DOUBLE", CANONICAL_DECIMAL)):
        if column.re_search(pattern).all().to_pyarrow().as_py():
            return kind
    return "VARCHAR"


def quote_name(column: str) -> str:
    """A column name as SQL writes it."""
    return '"' + column.replace('"', '""') + '"'


def quote_text(value: str) -> str:
    """A text as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"
