"""Rows of one cell, as they come; see `paper.results` for the table they end in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from epiclick.data.atomic import written_aside
from epiclick.data.checksums import CHANGED
from epiclick.data.damage import reading
from epiclick.data.row_digest import digest_rows
from epiclick.paper.results import SCHEMA, sorted_table

DIGEST = b"epiclick.rows"

FROM_1 = ("theta", "theta_alpha", "theta_beta")
"""Quantities by position, which is counted from 1."""


@dataclass(eq=False)
class Record:
    """What was measured of one cell so far.

    Attributes:
        method: key of the variant.
        run: number of the run.
        parts: tables of rows, one for each epoch.
    """

    method: str
    run: int
    parts: list[pa.Table] = field(default_factory=list)

    def add(self, epoch: int, measured: Mapping[str, np.ndarray]) -> None:
        """Note values by quantity: (indices,) each, or (indices, samples)."""
        for quantity, values in measured.items():
            values = np.asarray(values, np.float64)
            first = 1 if quantity in FROM_1 else 0
            index = np.arange(first, first + len(values), dtype=np.int32)
            index = np.repeat(index, values.size // len(values))
            rows = len(index)
            columns = {
                "method": pa.repeat(self.method, rows),
                "run": np.full(rows, self.run, np.int32),
                "epoch": np.full(rows, epoch, np.int32),
                "quantity": pa.repeat(quantity, rows),
                "index": index,
                "value": values.ravel(),
            }
            self.parts.append(pa.table(columns, schema=SCHEMA))

    def table(self) -> pa.Table:
        """All rows, sorted."""
        return sorted_table(pa.concat_tables(self.parts) if self.parts else SCHEMA.empty_table())

    def save(self, path: Path) -> None:
        """Write the rows with a digest of them; whole or not at all."""
        table = self.table()
        table = table.replace_schema_metadata({DIGEST: digest_rows(table)})
        with written_aside(path) as aside:
            pq.write_table(table, aside, compression="zstd")

    @classmethod
    def load(cls, method: str, run: int, path: Path, epochs: int) -> "Record":
        """The rows of a file up to an epoch."""
        table = read_rows(path)
        early = table["epoch"].to_numpy() <= epochs
        return cls(method, run, [table.filter(pa.array(early))])


def read_rows(path: Path) -> pa.Table:
    """The rows of a cell's file, as they were written.

    Files of before there were digests have none, and are read: whatever hides a digest that is
    there leaves the rows as they were.
    """
    with reading(path, "Delete it and start again to do this cell anew."):
        stated = (pq.read_metadata(path).metadata or {}).get(DIGEST)
        table = pq.read_table(path, schema=SCHEMA, partitioning=None)
        if stated is not None and stated != digest_rows(table).encode():
            raise ValueError(CHANGED)
    return table.replace_schema_metadata(None)
