"""The cells of a reproduction: their list, its division into shares, and the files of each."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from epiclick.data.checksums import (
    CHANGED,
    DIGEST,
    MALFORMED,
    check_record,
    digest_rows,
    reading,
    with_digest,
)
from epiclick.data.writing import written_aside
from epiclick.errors import InputError
from epiclick.paper.results import SCHEMA, Cost, Results, sorted_table
from epiclick.paper.settings import EXTENDS, Settings
from epiclick.paper.variants import VARIANTS, Variant

ROWS_DIGEST = b"epiclick.rows"

FROM_1 = ("theta", "theta_alpha", "theta_beta", "posterior_theta")
"""Quantities by position, counted from 1."""


@dataclass(eq=False)
class Record:
    """The measurements of one cell so far.

    Attributes:
        method: key of the variant.
        run: number of the run.
        parts: tables of rows, one per epoch and quantity.
    """

    method: str
    run: int
    parts: list[pa.Table] = field(default_factory=list)

    def add(self, epoch: int, measured: Mapping[str, np.ndarray]) -> None:
        """Add values by quantity: (indices,) each, or (indices, samples)."""
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
        """Write the rows with their digest, atomically."""
        table = self.table()
        table = table.replace_schema_metadata({ROWS_DIGEST: digest_rows(table)})
        with written_aside(path) as aside:
            pq.write_table(table, aside, compression="zstd")

    @classmethod
    def load(cls, method: str, run: int, path: Path, epochs: int) -> "Record":
        """The rows of a file up to an epoch."""
        table = read_rows(path)
        early = table["epoch"].to_numpy() <= epochs
        return cls(method, run, [table.filter(pa.array(early))])


def read_rows(path: Path) -> pa.Table:
    """The rows of a cell's file, verified by their digest.

    Files written before digests were introduced have none and are accepted: damage that hides a
    digest leaves the rows intact.
    """
    with reading(path, "Delete it and start again to rerun this cell."):
        stated = (pq.read_metadata(path).metadata or {}).get(ROWS_DIGEST)
        table = pq.read_table(path, schema=SCHEMA, partitioning=None)
        if stated is not None and stated != digest_rows(table).encode():
            raise ValueError(CHANGED)
    return table.replace_schema_metadata(None)


CELLS = "cells"


@dataclass(frozen=True)
class CellFiles:
    """The files of a cell.

    Attributes:
        folder: of the reproduction.
        variant: the method.
        run: number of the run.
    """

    folder: Path
    variant: Variant
    run: int

    def _path(self, suffix: str) -> Path:
        return self.folder / CELLS / self.variant.folder / f"{self.run:02d}{suffix}"

    @property
    def rows(self) -> Path:
        """The rows; the file exists once the cell is done."""
        return self._path(".parquet")

    @property
    def metadata(self) -> Path:
        """Time and memory, names of the rankers, and the epoch of divergence."""
        return self._path(".json")

    @property
    def checkpoint(self) -> Path:
        """The state of training."""
        return self._path(".checkpoint")

    @property
    def partial(self) -> Path:
        """The rows up to the checkpoint."""
        return self._path(".rows")

    @property
    def done(self) -> bool:
        """Whether the cell is done."""
        return self.rows.is_file()

    def finish(self, record: Record, cost: Cost, **others: Any) -> None:
        """Save a finished cell: its metadata, then its rows; and delete its checkpoint."""
        metadata = {**asdict(cost), **others}
        with written_aside(self.metadata) as aside:
            aside.write_text(json.dumps(with_digest(metadata), indent=1) + "\n", encoding="utf-8")
        record.save(self.rows)
        self.clear()

    def clear(self) -> None:
        """Delete the checkpoint and its rows."""
        for path in (self.checkpoint, self.partial):
            path.unlink(missing_ok=True)

    def load_metadata(self) -> dict[str, Any]:
        """The metadata; empty where lost or damaged, since no result depends on it."""
        try:
            metadata = dict(json.loads(self.metadata.read_text("utf-8")))
            if DIGEST in metadata:  # files written before digests were introduced have none
                check_record(metadata)
        except (OSError, *MALFORMED):
            return {}
        return metadata


SETTINGS = "settings.json"


@dataclass(frozen=True)
class Cell:
    """One variant in one run."""

    variant: Variant
    run: int

    def files(self, folder: Path) -> CellFiles:
        """Its files in the folder of a reproduction."""
        return CellFiles(folder, self.variant, self.run)


@dataclass(frozen=True)
class Share:
    """The part of the cells that one of several processes or machines runs, counted from 1."""

    number: int = 1
    of: int = 1

    @classmethod
    def parse(cls, text: str) -> "Share":
        """Parse a share such as "2/3"."""
        found = re.fullmatch(r"\s*(\d+)\s*/\s*(\d+)\s*", text)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise InputError(
                f"--cells must be i/n with i from 1 to n, such as 2/3 for the second of three "
                f"shares; got '{text}'",
                code="invalid-share",
            )
        return cls(int(found[1]), int(found[2]))


def all_cells(settings: Settings) -> list[Cell]:
    """All cells, run by run, so that a run's clicks are simulated once; aliases have no cells."""
    variants = dict.fromkeys(VARIANTS[VARIANTS[key].same_as or key] for key in settings.methods)
    return [Cell(variant, run) for run in settings.run_numbers for variant in variants]


def share_of(cells: Sequence[Cell], share: Share) -> list[Cell]:
    """The cells of a share: every n-th, so that shares take about equally long."""
    return list(cells[share.number - 1 :: share.of])


def prepare_folder(folder: Path, settings: Settings) -> None:
    """Write the settings into a folder; reject a folder with cells of other settings."""
    path = folder / SETTINGS
    given = settings.to_dict()
    if path.is_file():
        stored = _read_settings(path)
        differ = [
            f"{name} is {stored.get(name)!r} there and {given[name]!r} here"
            for name in given
            if name not in EXTENDS and stored.get(name) != given[name]
        ]
        if differ:
            raise InputError(
                f"{folder} contains a reproduction with other settings: {'; '.join(differ)}. Use "
                "the same settings to continue it, or another folder",
                code="settings-differ",
            )
        if stored == given:
            return
    with written_aside(path) as aside:
        aside.write_text(json.dumps(given, indent=1) + "\n", encoding="utf-8")


def merge(folder: Path, settings: Settings) -> Results:
    """The results of all cells of the settings, which must all be done."""
    tables: list[pa.Table] = []
    costs: list[Cost] = []
    rankers: tuple[str, ...] = ()
    for key in settings.methods:
        variant = VARIANTS[VARIANTS[key].same_as or key]
        for run in settings.run_numbers:
            files = CellFiles(folder, variant, run)
            table = read_rows(files.rows)
            if key != variant.key:
                place = SCHEMA.get_field_index("method")
                table = table.set_column(place, SCHEMA.field(place), pa.repeat(key, len(table)))
            tables.append(table)
            metadata = files.load_metadata()
            cost = _cost(metadata)
            if cost is not None:
                costs.append(replace(cost, method=key))
            rankers = rankers or tuple(map(str, metadata.get("rankers", ())))
    whole = sorted_table(pa.concat_tables(tables)).combine_chunks()
    return Results(whole, settings, np.array(settings.theta), tuple(costs), rankers)


def _cost(metadata: Mapping[str, Any]) -> Cost | None:
    try:
        return Cost(
            str(metadata["method"]),
            int(metadata["run"]),
            float(metadata["training_seconds"]),
            float(metadata["seconds"]),
            int(metadata["memory"]),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _read_settings(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise InputError(
            f"{path} cannot be read ({error}); give the folder of a reproduction, or a new one",
            code="damaged-file",
        ) from error
