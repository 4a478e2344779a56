"""Parquet files of plain columns, read without an engine, which takes longer to start than they do.

Only the usual case is read here: one file, whose columns have types that every engine reads alike.
All else, and whatever is wrong with a file, is left to `sources`, which reports it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from epiclick.data.files import damage, find_files, kind_of, paths_in
from epiclick.data.formats import is_partitioned, same_names
from epiclick.data.sources import PANDAS_INDEX
from epiclick.errors import InputError


@dataclass(frozen=True)
class PlainParquet:
    """A Parquet file that can be read without an engine.

    Attributes:
        file: the file.
        schema: its columns, without an index that pandas stored.
    """

    file: Path
    schema: pa.Schema

    @property
    def name(self) -> str:
        """What to call it in messages."""
        return str(self.file)

    def has_keys(self, columns: Sequence[str]) -> bool:
        """Whether all of these columns are integers or text."""
        kinds = [self.schema.field(column).type for column in columns]
        return all(pa.types.is_integer(k) or _is_text(k) for k in kinds)

    def has_numbers(self, column: str) -> bool:
        """Whether a column has floating-point numbers of 32 or 64 bits, or integers in int64."""
        kind = self.schema.field(column).type
        if pa.types.is_integer(kind):
            return not pa.types.is_uint64(kind)
        return pa.types.is_float32(kind) or pa.types.is_float64(kind)

    def read(self, columns: Sequence[str]) -> pa.Table | None:
        """The rows of these columns, in the file's order; None if they cannot be read."""
        try:
            with pq.ParquetFile(self.file) as opened:
                return opened.read(list(columns))
        except (pa.ArrowException, OSError):  # the engine reports what is wrong with them
            return None


def plain_parquet(source: Any) -> PlainParquet | None:
    """The one Parquet file of a source; None if it is anything else, or may have a flaw."""
    try:
        files = find_files(paths_in(source))
    except InputError:  # reported by `sources`, with all that is wrong
        return None
    if len(files) != 1 or kind_of(files[0]) != "Parquet" or is_partitioned(files[0]):
        return None
    if damage(files[0], "Parquet") is not None:
        return None
    schema = pq.read_schema(files[0])
    if same_names(schema.names):
        return None
    kept = [field for field in schema if not PANDAS_INDEX.fullmatch(field.name)]
    return PlainParquet(files[0], pa.schema(kept))


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)
