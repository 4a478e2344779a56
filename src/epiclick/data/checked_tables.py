"""Parquet tables with a digest of each row group, so that damage is detected when they are read.

Parquet itself detects little: most flipped bits in its values are read as other values.
"""

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from epiclick.data.checksums import CHANGED, MALFORMED, digest_rows

DIGESTS = b"epiclick.digests"
ROW_GROUP = 1 << 20
"""Largest number of rows of a row group."""


def write_tables(tables: Iterable[pa.Table], path: Path) -> int:
    """Write tables of the same columns one after another, a row group each; the number of rows."""
    digests: list[str] = []
    rows = 0
    with ExitStack() as stack:
        writer: pq.ParquetWriter | None = None
        for each in tables:
            table = each.replace_schema_metadata(None)
            if writer is None:
                opened = pq.ParquetWriter(path, table.schema, compression="zstd")
                writer = stack.enter_context(opened)
            table = table.cast(writer.schema)
            for start in range(0, max(len(table), 1), ROW_GROUP):
                group = table.slice(start, ROW_GROUP)
                writer.write_table(group)
                digests += [digest_rows(group)] * (len(group) > 0)
            rows += len(table)
        if writer is not None:
            writer.add_key_value_metadata({DIGESTS.decode(): ",".join(digests)})
    return rows


def check_tables(path: Path) -> None:
    """Refuse a file of `write_tables` whose rows changed; others are left to their readers."""
    with pq.ParquetFile(path) as file:
        stated = (file.metadata.metadata or {}).get(DIGESTS)
        if stated is None:
            return
        groups = (file.read_row_group(k) for k in range(file.num_row_groups))
        try:
            found = ",".join(digest_rows(group) for group in groups if len(group))
        except MALFORMED as error:
            raise ValueError(str(error)) from error
    if found.encode() != stated:
        raise ValueError(CHANGED)
