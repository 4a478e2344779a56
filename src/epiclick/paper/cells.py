"""The cells of a reproduction: which there are, who does which, and how they are merged."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from epiclick.data.atomic import written_aside
from epiclick.errors import InputError
from epiclick.paper.files import CellFiles
from epiclick.paper.record import read_rows
from epiclick.paper.results import SCHEMA, Cost, Results, sorted_table
from epiclick.paper.settings import EXTENDS, Settings
from epiclick.paper.variants import VARIANTS, Variant

SETTINGS = "settings.json"


@dataclass(frozen=True)
class Cell:
    """A variant in a run."""

    variant: Variant
    run: int

    def files(self, folder: Path) -> CellFiles:
        """Where it is kept."""
        return CellFiles(folder, self.variant, self.run)


@dataclass(frozen=True)
class Share:
    """The part of the cells that one of several processes or machines does, from 1."""

    number: int = 1
    of: int = 1

    @classmethod
    def parse(cls, text: str) -> "Share":
        """The share that "2/3" means."""
        found = re.fullmatch(r"\s*(\d+)\s*/\s*(\d+)\s*", text)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise InputError(
                f"--cells must be i/n with i from 1 to n, such as 2/3 for the second of three "
                f"shares; got '{text}'"
            )
        return cls(int(found[1]), int(found[2]))


def all_cells(settings: Settings) -> list[Cell]:
    """Run after run, so that a run's clicks are made once; a variant's other name is no cell."""
    variants = dict.fromkeys(VARIANTS[VARIANTS[key].same_as or key] for key in settings.methods)
    return [Cell(variant, run) for run in settings.run_numbers for variant in variants]


def share_of(cells: Sequence[Cell], share: Share) -> list[Cell]:
    """The cells of a share, every n-th, so that shares are about as much work."""
    return list(cells[share.number - 1 :: share.of])


def claim_folder(folder: Path, settings: Settings) -> None:
    """Write the settings into a folder; refuse one with cells of other settings."""
    path = folder / SETTINGS
    mine = settings.to_dict()
    if path.is_file():
        theirs = _read(path)
        differ = [
            f"{name} is {theirs.get(name)!r} there and {mine[name]!r} here"
            for name in mine
            if name not in EXTENDS and theirs.get(name) != mine[name]
        ]
        if differ:
            raise InputError(
                f"{folder} holds a reproduction with other settings: {'; '.join(differ)}. Give "
                "the same settings to go on with it, or another folder"
            )
        if theirs == mine:
            return
    with written_aside(path) as aside:
        aside.write_text(json.dumps(mine, indent=1) + "\n", encoding="utf-8")


def load_settings(folder: Path) -> Settings:
    """The settings of a reproduction that was begun in a folder."""
    stored = _read(folder / SETTINGS)
    try:
        return Settings.from_dict(stored)
    except (KeyError, TypeError) as error:
        raise InputError(f"{folder / SETTINGS} is damaged ({error!r})") from error


def merge(folder: Path, settings: Settings) -> Results:
    """All rows of the cells of some settings, which must all be there."""
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
            note = files.load_note()
            cost = _cost(note)
            if cost is not None:
                costs.append(replace(cost, method=key))
            rankers = rankers or tuple(map(str, note.get("rankers", ())))
    whole = sorted_table(pa.concat_tables(tables)).combine_chunks()
    return Results(whole, settings, np.array(settings.theta), tuple(costs), rankers)


def _cost(note: Mapping[str, Any]) -> Cost | None:
    try:
        return Cost(
            str(note["method"]),
            int(note["run"]),
            float(note["training_seconds"]),
            float(note["seconds"]),
            int(note["memory"]),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise InputError(
            f"{path} cannot be read ({error}); give the folder of a reproduction, or a new one"
        ) from error
