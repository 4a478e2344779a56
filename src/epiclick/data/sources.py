"""Whatever holds rows, opened as an Ibis table: files, data frames, Arrow and Ibis tables."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from epiclick.arguments import check_path
from epiclick.data.connections import ConnectedTable, open_connected
from epiclick.data.databases import names_database, open_databases
from epiclick.data.engine import Source, connect, engine_errors
from epiclick.data.formats import open_files, same_names
from epiclick.data.other_tables import opener_of
from epiclick.errors import InputError

if TYPE_CHECKING:
    import ibis.expr.types as ir

PANDAS_INDEX = re.compile(r"__index_level_\d+__")


def open_source(source: Any, header: Sequence[str] = ()) -> Source:
    """Open a log: path, glob or folder (or several), a data frame, an Arrow or Ibis table.

    An index column stored by pandas is left out.

    Args:
        source: what holds the rows.
        header: names of the columns of CSV files that have no header line.
    """
    opened = _open(source, header)
    if header and not opened.text:
        unused = f"{opened.name} has column names of its own; --columns is not used"
        opened = replace(opened, notes=(*opened.notes, unused))
    index = [name for name in opened.table.columns if PANDAS_INDEX.fullmatch(name)]
    return replace(opened, table=opened.table.drop(*index)) if index else opened


def _open(source: Any, header: Sequence[str] = ()) -> Source:
    import ibis.expr.types as ir  # slow to import

    if isinstance(source, ir.Table):
        return _open_ibis(source)
    if isinstance(source, pd.DataFrame):
        return _open_frame(source)
    if isinstance(source, pa.Table | pa.RecordBatch):
        return _open_arrow(source if isinstance(source, pa.Table) else pa.table(source), "table")
    if isinstance(source, str | Path):
        return _open_paths([check_path("the source", source)], header)
    if isinstance(source, Sequence) and source and all(isinstance(s, str | Path) for s in source):
        return _open_paths([check_path("each source", each) for each in source], header)
    if isinstance(source, list) and source and all(isinstance(s, ConnectedTable) for s in source):
        return open_connected(source)
    if (opener := opener_of(source)) is not None:
        return opener(source)
    raise InputError(
        f"cannot read a log from {type(source).__name__}; give a path, a glob, a folder, a list of "
        "them, a pandas, polars or Spark DataFrame, an Arrow table or dataset, or an Ibis table",
        code="invalid-type",
    )


def _open_paths(paths: Sequence[Path], header: Sequence[str]) -> Source:
    return open_databases(paths) if names_database(paths) else open_files(paths, header)


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


def _open_frame(frame: pd.DataFrame) -> Source:
    """A DataFrame; columns of mixed Python types become text and are listed in `mixed`."""
    frame = frame.rename(columns=str)
    if problems := same_names(list(frame.columns)):
        raise InputError.of("DataFrame", problems)
    mixed = tuple(
        name
        for name in frame.columns
        if frame[name].dtype == object and pd.api.types.infer_dtype(frame[name]).startswith("mixed")
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
    return _open_arrow(table, "DataFrame", mixed)


def _open_arrow(table: pa.Table, name: str, mixed: tuple[str, ...] = ()) -> Source:
    if problems := same_names(table.column_names):
        raise InputError.of(name, problems)
    connection = connect()
    with engine_errors(name):
        connection.con.register("epiclick_source", table)
    return Source(table=connection.table("epiclick_source"), name=name, mixed=mixed)
