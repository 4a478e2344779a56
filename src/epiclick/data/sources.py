"""Whatever holds rows, opened as an Ibis table: files, data frames, Arrow and Ibis tables."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from epiclick.arguments import check_path
from epiclick.data.connections import ConnectedTable, open_connected
from epiclick.data.databases import names_database, open_databases
from epiclick.data.engine import Source, connect, engine_errors
from epiclick.data.files import find_files, paths_in
from epiclick.data.formats import Place, open_files, same_names
from epiclick.data.other_tables import opener_of
from epiclick.data.two_sources import TwoTables
from epiclick.errors import InputError

if TYPE_CHECKING:
    import ibis.expr.types as ir

NESTED = (list, tuple, dict, np.ndarray)
PANDAS_INDEX = re.compile(r"__index_level_\d+__")


def open_source(source: Any, header: Sequence[str] = (), place: Place | None = None) -> Source:
    """Open a log: path, glob or folder (or several), a data frame, an Arrow or Ibis table.

    An index column stored by pandas is left out. A source that is open already stays as it is.

    Args:
        source: what holds the rows.
        header: names of the columns of CSV files that have no header line.
        place: where to open files and tables in memory, default a connection of their own.
    """
    if isinstance(source, Source):
        return source
    opened = _open(source, header, place)
    if header and not opened.text:
        unused = f"{opened.name} has column names of its own; --columns is not used"
        opened = replace(opened, notes=(*opened.notes, unused))
    index = [name for name in opened.table.columns if PANDAS_INDEX.fullmatch(name)]
    return replace(opened, table=opened.table.drop(*index)) if index else opened


def held(opened: Source, condition: str = "TRUE") -> Source:
    """Rows of files that meet a condition in SQL, read once into a table of our own DuckDB.

    For many passes over a log; the table spills to disk beyond the limit of memory.
    """
    backend = opened.table.get_backend()
    rows = f"SELECT * FROM ({backend.compile(opened.table)}) WHERE {condition}"
    backend.raw_sql(f"CREATE OR REPLACE TEMP TABLE epiclick_held AS {rows}")
    return replace(opened, table=backend.table("epiclick_held"))


def open_two(both: TwoTables, header: Sequence[str] = ()) -> Source:
    """Open impressions, with the clicks on them as `beside`, in one engine."""
    sides = {"impressions": both.impressions, "clicks": both.clicks}
    if any(_has_engine(side) for side in sides.values()):
        opened = {role: open_source(side, header) for role, side in sides.items()}
        engines = [each.table.get_backend() for each in opened.values()]
        if engines[0] is not engines[1]:
            raise InputError(
                "impressions and clicks are on different connections, so they cannot be joined; "
                "take both from one connection, or give files",
                code="different-connections",
            )
    else:
        files = [file for side in sides.values() for file in find_files(paths_in(side))]
        connection = connect(files)
        opened = {
            role: open_source(side, header, Place(connection, f"epiclick_{role}"))
            for role, side in sides.items()
        }
    return replace(opened["impressions"], beside=opened["clicks"])


def _has_engine(source: Any) -> bool:
    """Whether rows stay where they are, and are not read by a connection of our own."""
    import ibis.expr.types as ir  # slow to import

    paths = paths_in(source)
    if paths:
        return names_database([check_path("the source", path) for path in paths])
    in_memory = isinstance(source, pd.DataFrame | pa.Table | pa.RecordBatch)
    return isinstance(source, ir.Table) or not in_memory


def _open(source: Any, header: Sequence[str], place: Place | None) -> Source:
    import ibis.expr.types as ir  # slow to import

    if isinstance(source, ir.Table):
        return _open_ibis(source)
    if isinstance(source, pd.DataFrame):
        return _open_frame(source, place)
    if isinstance(source, pa.Table | pa.RecordBatch):
        table = source if isinstance(source, pa.Table) else pa.table(source)
        return _open_arrow(table, "table", place)
    if isinstance(source, str | Path):
        return _open_paths([check_path("the source", source)], header, place)
    if isinstance(source, Sequence) and source and all(isinstance(s, str | Path) for s in source):
        return _open_paths([check_path("each source", each) for each in source], header, place)
    if isinstance(source, list) and source and all(isinstance(s, ConnectedTable) for s in source):
        return open_connected(source)
    if (opener := opener_of(source)) is not None:
        return opener(source)
    raise InputError(
        f"cannot read a log from {type(source).__name__}; give a path, a glob, a folder, a list of "
        "them, a pandas, polars or Spark DataFrame, an Arrow table or dataset, or an Ibis table",
        code="invalid-type",
    )


def _open_paths(paths: Sequence[Path], header: Sequence[str], place: Place | None) -> Source:
    return open_databases(paths) if names_database(paths) else open_files(paths, header, place)


def _open_ibis(table: "ir.Table") -> Source:
    import ibis

    try:
        backend = table.get_backend()
    except ibis.IbisError as error:
        raise InputError(
            "the Ibis table is not bound to a connection, so it cannot be read; take it from one, "
            "as in ibis.duckdb.connect(...).table(...)",
            code="unbound-table",
        ) from error
    return Source(table=table, name=f"{backend.name} table")


def _open_frame(frame: pd.DataFrame, place: Place | None) -> Source:
    """A DataFrame; columns of mixed Python types become text and are listed in `mixed`."""
    frame = frame.rename(columns=str)
    if problems := same_names(list(frame.columns)):
        raise InputError.of("DataFrame", problems)
    mixed = tuple(
        name
        for name in frame.columns
        if frame[name].dtype == object
        and pd.api.types.infer_dtype(frame[name]).startswith("mixed")
        and not frame[name].dropna().map(lambda value: isinstance(value, NESTED)).all()
    )
    for name in mixed:
        missing = frame[name].isna()
        frame = frame.assign(**{name: frame[name].map(str).mask(missing, None)})
    # pandas converts integers to floats if one is missing: convert them back
    for name in frame.select_dtypes(float).columns:
        values = frame[name].dropna()
        if len(values) and (values % 1 == 0).all() and (values.abs() < 2**63).all():
            frame = frame.assign(**{name: frame[name].astype("Int64")})
    with engine_errors("DataFrame"):
        table = pa.Table.from_pandas(frame, preserve_index=False)
    return _open_arrow(table, "DataFrame", place, mixed)


def _open_arrow(
    table: pa.Table, name: str, place: Place | None, mixed: tuple[str, ...] = ()
) -> Source:
    if problems := same_names(table.column_names):
        raise InputError.of(name, problems)
    place = place or Place(connect())
    with engine_errors(name):
        place.connection.con.register(place.view, table)
    return Source(place.connection.table(place.view), name, mixed=mixed, owned=True)
