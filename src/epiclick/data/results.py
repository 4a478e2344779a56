"""Results of an engine that may be large: written by the engine, then streamed back."""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from epiclick.errors import InputError

if TYPE_CHECKING:
    import ibis.expr.types as ir

FOLDER = "EPICLICK_RESULTS"
"""Environment variable: a folder or URL that the engine can write and this process can read."""

BATCH = 1 << 17
TOO_LARGE = ("maxResultSize", "OutOfMemoryError", "RESOURCE_EXHAUSTED")
"""What Spark's messages contain if a result does not fit into its driver."""


def fetch(expression: "ir.Table") -> pa.Table:
    """The rows of an expression, in its order, however many they are.

    DuckDB runs in this process and hands its rows over. Spark would collect them in its driver,
    which has room for a gigabyte by default: it writes them as partitioned Parquet instead, and the
    files are read back one after the other. All other engines send batches.
    """
    return FETCHERS.get(expression.get_backend().name, _batches)(expression)


def _at_once(expression: "ir.Table") -> pa.Table:
    return expression.to_pyarrow()


def _batches(expression: "ir.Table") -> pa.Table:
    reader = expression.to_pyarrow_batches(chunk_size=BATCH)
    return pa.Table.from_batches(reader, reader.schema)


def _by_spark(expression: "ir.Table") -> pa.Table:
    backend = expression.get_backend()
    schema = expression.schema().to_pyarrow()
    with _shared_folder(backend) as folder:
        if folder is not None:
            backend.to_parquet_dir(expression, folder)
            return _read_parts(folder, schema)
    try:
        return expression.to_pyarrow()
    except Exception as error:
        if not any(sign in str(error) for sign in TOO_LARGE):
            raise
        raise InputError(
            "the counts are too large for Spark's driver. Set EPICLICK_RESULTS to a folder that "
            "Spark can write and this process can read, as in "
            "EPICLICK_RESULTS=s3://bucket/temporary: they are then written there as Parquet, "
            "streamed back and removed.",
            code="result-too-large",
        ) from error


@contextmanager
def _shared_folder(backend: Any) -> Iterator[str | None]:
    """A new folder that Spark and this process share, removed at the end; None if there is none.

    A local Spark shares this machine's files; a cluster does not.
    """
    if chosen := os.environ.get(FOLDER):
        folder = f"{chosen.rstrip('/')}/epiclick-{uuid4().hex}"
        try:
            yield folder if "://" in folder else str(Path(folder).absolute())
        finally:
            _remove(folder)
    elif _is_local(backend):
        with tempfile.TemporaryDirectory(prefix="epiclick-") as own:
            yield str(Path(own, "rows"))
    else:
        yield None


def _is_local(backend: Any) -> bool:
    """Whether Spark runs on this machine."""
    return str(backend._session.conf.get("spark.master", "")).startswith("local")


def _file_system(folder: str) -> tuple[Any, str]:
    from pyarrow import fs

    if "://" in folder:
        return fs.FileSystem.from_uri(folder)
    return fs.LocalFileSystem(), str(Path(folder).absolute())


def _read_parts(folder: str, schema: pa.Schema) -> pa.Table:
    """The rows of Parquet files in the order of their names, which is that of the rows."""
    from pyarrow import fs

    system, path = _file_system(folder)
    found = system.get_file_info(fs.FileSelector(path))
    parts = sorted(each.path for each in found if each.path.endswith(".parquet"))

    def batches() -> Iterator[pa.RecordBatch]:
        for part in parts:
            with system.open_input_file(part) as file, pq.ParquetFile(file) as opened:
                for batch in opened.iter_batches(BATCH):
                    yield batch.cast(schema)

    return pa.Table.from_batches(batches(), schema)


def _remove(folder: str) -> None:
    from pyarrow import fs

    system, path = _file_system(folder)
    if system.get_file_info(path).type == fs.FileType.Directory:
        system.delete_dir(path)


FETCHERS: "Mapping[str, Callable[[ir.Table], pa.Table]]" = {
    "duckdb": _at_once,
    "pyspark": _by_spark,
}
"""By the name of Ibis's backend."""
