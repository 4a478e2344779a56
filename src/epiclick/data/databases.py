"""Tables of DuckDB and SQLite files, named as FILE:TABLE, opened to be read only."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa

from epiclick.data.engine import Source, connect, engine_errors, quote_name
from epiclick.data.files import DATABASES, find_files, kind_of, repeated_files, split_table
from epiclick.data.formats import kind_of_all, same_names
from epiclick.errors import InputError, did_you_mean

VIEW = "epiclick_source"
BATCH = 1 << 16
MOST_LISTED = 30  # tables in a message

Tables = Sequence[tuple[Path, str]]
"""Files, each with the name of a table."""


def names_database(sources: Sequence[str | Path]) -> bool:
    """Whether any of some paths names a database or a table of one."""
    return any(kind_of(Path(split_table(source)[0])) in DATABASES for source in sources)


def open_databases(sources: Sequence[str | Path]) -> Source:
    """Open tables of databases of one kind as the rows of one table; columns match by name."""
    tables = [(file, split_table(each)[1]) for each in sources for file in find_files([each])]
    files = [file for file, _ in tables]
    first = ":".join(filter(None, map(str, tables[0])))
    name = first if len(tables) == 1 else f"{first} and {len(tables) - 1} more"
    kind = kind_of_all(files, name)
    with engine_errors(name):
        table, mixed, partial = OPENERS[kind](tables, name)
    named = len(set(tables)) == len(tables)
    notes = () if named else tuple(repeated_files(files))
    return Source(table, name, mixed=mixed, partial=partial, notes=notes)


def find_table(wanted: str, tables: Sequence[str], file: Path) -> str:
    """The name of a table that a database has; otherwise a message lists what it has.

    Args:
        wanted: the name that was given, "" for none.
        tables: the database's tables and views.
        file: the database.
    """
    if wanted in tables:
        return wanted
    same = [name for name in tables if name.lower() == wanted.lower()]
    if len(same) == 1:
        return same[0]
    listed = ", ".join(tables[:MOST_LISTED])
    if len(tables) > MOST_LISTED:
        listed += f" and {len(tables) - MOST_LISTED} more"
    if not tables:
        raise InputError(f"{file} has no tables", code="no-tables")
    if not wanted:
        raise InputError(
            f"{file} is a database; name one of its tables, as in {file}:{tables[0]}. It has "
            f"{listed}.",
            code="table-not-named",
        )
    raise InputError(
        f"{file} has no table '{wanted}'{did_you_mean(wanted, tables)}; it has {listed}.",
        code="unknown-table",
    )


def _open_duckdb(tables: Tables, name: str) -> tuple[Any, tuple[str, ...], dict[str, int]]:
    """Tables of DuckDB files, read where they are: nothing is copied."""
    import duckdb

    attached = {file: f"database_{i}" for i, file in enumerate(dict.fromkeys(f for f, _ in tables))}
    try:
        connection = connect(databases={own: file for file, own in attached.items()})
    except duckdb.IOException as error:
        if "lock" not in str(error).lower():
            raise
        raise InputError(
            f"{name} is open for writing in another process. Close it there, or copy the file.",
            code="database-locked",
        ) from error
    selected = []
    for file, wanted in tables:
        found = _duckdb_tables(connection, attached[file])
        schema, table = found[find_table(wanted, list(found), file)]
        selected.append(".".join(map(quote_name, (attached[file], schema, table))))
    columns = [[row[0] for row in _described(connection, table)] for table in selected]
    kinds = [dict(_described(connection, table)) for table in selected]
    rows = " UNION ALL BY NAME ".join(f"SELECT * FROM {table}" for table in selected)
    connection.raw_sql(f"CREATE VIEW {VIEW} AS {rows}")
    every = {column: None for own in columns for column in own}
    is_text = {
        column: {own[column] == "VARCHAR" for own in kinds if column in own} for column in every
    }
    mixed = tuple(column for column, text in is_text.items() if len(text) > 1)
    return connection.table(VIEW), mixed, _partial(columns)


def _duckdb_tables(connection: Any, database: str) -> dict[str, tuple[str, str]]:
    """Tables and views of a DuckDB file by name; those of other schemas as schema.table."""
    found = connection.raw_sql(
        "SELECT schema_name, table_name FROM duckdb_tables() "
        f"WHERE database_name = '{database}' AND NOT internal "
        "UNION ALL SELECT schema_name, view_name FROM duckdb_views() "
        f"WHERE database_name = '{database}' AND NOT internal ORDER BY ALL"
    ).fetchall()
    return {
        table if schema == "main" else f"{schema}.{table}": (schema, table)
        for schema, table in found
    }


def _described(connection: Any, table: str) -> list[tuple[str, str]]:
    """Names and types of a table's columns."""
    return [row[:2] for row in connection.raw_sql(f"DESCRIBE SELECT * FROM {table}").fetchall()]


def _open_sqlite(tables: Tables, name: str) -> tuple[Any, tuple[str, ...], dict[str, int]]:
    """Tables of SQLite files, copied into our own DuckDB, which spills to disk if they are large.

    SQLite reads rows one by one on one core, and a log is read in several passes: copying the rows
    once takes less time than counting them there. Its values have types of their own, whatever the
    type of the column, so types are those that were found.
    """
    opened = []
    try:
        for file, _ in tables:
            uri = f"{file.absolute().as_uri()}?mode=ro"
            # DuckDB takes the rows in a thread of its own
            database = sqlite3.connect(uri, uri=True, check_same_thread=False)
            opened.append(database)
            # functions in views and generated columns must be built-in ones
            database.execute("PRAGMA trusted_schema = OFF")
        selected = [
            (database, find_table(wanted, _sqlite_tables(database), file))
            for database, (file, wanted) in zip(opened, tables, strict=True)
        ]
        types = [_sqlite_types(database, table) for database, table in selected]
        if problems := [p for found in types for p in same_names(list(found))]:
            raise InputError.of(name, problems)
        every = {column: set[str]() for found in types for column in found}
        for found in types:
            for column, kinds in found.items():
                every[column] |= kinds
        schema = pa.schema([(column, _arrow_type(kinds)) for column, kinds in every.items()])
        connection = connect()
        failed: list[sqlite3.Error] = []
        batches = _recording(_sqlite_batches(selected, types, schema), failed)
        reader = pa.RecordBatchReader.from_batches(schema, batches)
        connection.con.register("epiclick_rows", reader)
        try:
            connection.raw_sql(f"CREATE TABLE {VIEW} AS SELECT * FROM epiclick_rows")
        except Exception:
            if failed:  # DuckDB's own error is about the reader, with a traceback as its text
                raise failed[0] from None
            raise
        connection.con.unregister("epiclick_rows")
    except sqlite3.Error as error:
        raise InputError(
            f"{name} cannot be read: {str(error).rstrip('.')}. Is it a complete SQLite database?",
            code="source-unreadable",
        ) from error
    finally:
        for database in opened:
            database.close()
    mixed = tuple(column for column, kinds in every.items() if _is_mixed(kinds))
    return connection.table(VIEW), mixed, _partial([list(found) for found in types])


def _sqlite_tables(database: sqlite3.Connection) -> list[str]:
    found = database.execute(
        "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') "
        "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
    )
    return [name for (name,) in found]


def _sqlite_types(database: sqlite3.Connection, table: str) -> dict[str, set[str]]:
    """Columns of a SQLite table and the types of their values, of all rows."""
    with closing(database.execute(f"SELECT * FROM {quote_name(table)} LIMIT 0")) as none:
        names = [column[0] for column in none.description]
    kinds = ", ".join(f"typeof({quote_name(name)})" for name in names)
    found = database.execute(f"SELECT DISTINCT {kinds} FROM {quote_name(table)}").fetchall()
    return {name: {row[i] for row in found} - {"null"} for i, name in enumerate(names)}


def _is_mixed(kinds: set[str]) -> bool:
    return len(kinds) > 1 and kinds != {"integer", "real"}


def _arrow_type(kinds: set[str]) -> pa.DataType:
    """The Arrow type for values of some SQLite types; text if they differ."""
    if _is_mixed(kinds):
        return pa.large_string()
    known: Mapping[str, pa.DataType] = {
        "real": pa.float64(),
        "integer": pa.int64(),
        "blob": pa.large_binary(),
    }
    return next((kind for name, kind in known.items() if name in kinds), pa.large_string())


def _sqlite_batches(
    selected: Sequence[tuple[sqlite3.Connection, str]],
    types: Sequence[Mapping[str, set[str]]],
    schema: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """The rows of some tables; columns that one lacks are NULL."""
    for (database, table), own in zip(selected, types, strict=True):
        named = ", ".join(map(quote_name, own))
        with closing(database.execute(f"SELECT {named} FROM {quote_name(table)}")) as rows:
            while block := rows.fetchmany(BATCH):
                values = dict(zip(own, zip(*block, strict=True), strict=True))
                yield pa.record_batch([_column(values, f, len(block)) for f in schema], schema)


def _recording(
    batches: Iterator[pa.RecordBatch], failed: list[sqlite3.Error]
) -> Iterator[pa.RecordBatch]:
    """The same batches; what fails in reading them is kept as well as raised."""
    try:
        yield from batches
    except sqlite3.Error as error:
        failed.append(error)
        raise


def _column(values: Mapping[str, Sequence[Any]], field: pa.Field, rows: int) -> pa.Array:
    if field.name not in values:
        return pa.nulls(rows, field.type)
    if pa.types.is_large_string(field.type):
        texts = [v if v is None or isinstance(v, str) else _text(v) for v in values[field.name]]
        return pa.array(texts, field.type)
    return pa.array(values[field.name], field.type)


def _text(value: int | float | bytes) -> str:
    return value.hex() if isinstance(value, bytes) else repr(value)


def _partial(columns: Sequence[Sequence[str]]) -> dict[str, int]:
    """Columns that only some tables have -> how many lack them."""
    every = {column: None for own in columns for column in own}
    lacking = {column: sum(column not in own for own in columns) for column in every}
    return {column: count for column, count in lacking.items() if count}


Opener = Callable[[Tables, str], tuple[Any, tuple[str, ...], dict[str, int]]]
OPENERS: Mapping[str, Opener] = {"DuckDB": _open_duckdb, "SQLite": _open_sqlite}
