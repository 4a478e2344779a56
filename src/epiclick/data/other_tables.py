"""Tables of other libraries: Arrow datasets, polars frames, Spark DataFrames.

polars and Spark are recognised by name, so that neither has to be installed.
"""

import shutil
import tempfile
import uuid
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from epiclick.data.engine import Source, connect, engine_errors
from epiclick.data.formats import same_names
from epiclick.errors import InputError

VIEW = "epiclick_source"
SPARK_SETTINGS = ("spark.sql.session.timeZone", "spark.sql.mapKeyDedupPolicy")
"""Settings of the user's session that Ibis would change."""


def opener_of(source: Any) -> Callable[[Any], Source] | None:
    """The function that opens a table of another library; None if it is not known."""
    library, kind = type(source).__module__.split(".")[0], type(source).__name__
    if (library, kind) == ("pyspark", "DataFrame"):
        return open_spark
    if (library, kind) == ("polars", "LazyFrame"):
        return open_lazy
    if library == "pyarrow" and kind.endswith("Dataset"):
        return open_dataset
    # a log is read several times, which a reader of batches cannot be
    if hasattr(source, "__arrow_c_stream__") and not isinstance(source, pa.RecordBatchReader):
        return open_stream
    return None


def open_dataset(dataset: Any) -> Source:
    """An Arrow dataset, of which DuckDB reads the required columns only."""
    name = "Arrow dataset"
    _check_names(dataset.schema.names, name)
    connection = connect()
    with engine_errors(name):
        connection.con.register(VIEW, dataset)
        return Source(connection.table(VIEW), name)


def open_stream(table: Any) -> Source:
    """Whatever exports an Arrow stream, such as a polars DataFrame."""
    name = type(table).__name__
    with engine_errors(name):
        rows = pa.table(table)
        _check_names(rows.column_names, name)
        connection = connect()
        connection.con.register(VIEW, rows)
        return Source(connection.table(VIEW), name)


def open_lazy(frame: Any) -> Source:
    """A polars LazyFrame, written by polars to a temporary Parquet file without being collected."""
    name = "LazyFrame"
    with engine_errors(name):
        _check_names(frame.collect_schema().names(), name)
        file = Path(tempfile.mkdtemp(prefix="epiclick-"), "rows.parquet")
        connection = connect([file])
        weakref.finalize(connection, shutil.rmtree, file.parent, ignore_errors=True)
        frame.sink_parquet(file)
        connection.raw_sql(f"CREATE VIEW {VIEW} AS SELECT * FROM read_parquet('{file}')")
        return Source(connection.table(VIEW), name)


def open_spark(frame: Any) -> Source:
    """A Spark DataFrame, counted by Spark through a temporary view of its session."""
    import ibis  # slow to import

    name = "Spark DataFrame"
    _check_names(frame.columns, name)
    session = frame.sparkSession
    view = f"epiclick_{uuid.uuid4().hex[:12]}"
    with engine_errors(name):
        before = {key: session.conf.get(key, None) for key in SPARK_SETTINGS}
        backend = ibis.pyspark.connect(session)
        for key, value in before.items():
            _ = session.conf.unset(key) if value is None else session.conf.set(key, value)
        frame.createOrReplaceTempView(view)
        # the view is dropped with the connection; a session that ends drops it itself
        weakref.finalize(backend, session.catalog.dropTempView, view).atexit = False
        return Source(backend.table(view), name)


def _check_names(names: list[str], name: str) -> None:
    if problems := same_names(list(names)):
        raise InputError.of(name, problems)
