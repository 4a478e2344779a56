"""How each file that epiclick writes is read back: a function of its place, to what was read.

The functions run in a process that was forked for them. `files` are the names whose bytes are
changed, in a copy of the stock's folder.
"""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from torture.damage.written import FEATURED


@dataclass(frozen=True)
class Reader:
    """A kind of file and what reads it.

    Attributes:
        name: of the kind.
        place: file or folder in the stock.
        read: the folder it was copied to -> what was read; None where the library drops damaged
            files on purpose.
        also: other places in the stock that are needed.
    """

    name: str
    place: str
    read: Callable[[Path], Any]
    also: tuple[str, ...] = ()

    def files(self, stock: Path) -> list[str]:
        """Names of the files to damage."""
        root = stock / self.place
        found = [root] if root.is_file() else root.rglob("*")
        return sorted(str(path.relative_to(stock)) for path in found if path.is_file())

    def copy(self, stock: Path, folder: Path) -> None:
        """Copy what is read into a folder."""
        for place in (self.place, *self.also):
            source, target = stock / place, folder / place
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target)
            else:
                shutil.copy2(source, target)


def _counts(folder: Path) -> Any:
    from epiclick.data.counts import ClickCounts

    return ClickCounts.from_parquet(folder / "counts.parquet")


def _parts(folder: Path) -> Any:
    from epiclick.data.counts import ClickCounts

    return ClickCounts.from_parquet(folder / "parts.parquet")


def _model(name: str) -> Callable[[Path], Any]:
    def read(folder: Path) -> Any:
        from epiclick.api import load

        return load(folder / name).fitted_

    return read


def _world(name: str) -> Callable[[Path], Any]:
    def read(folder: Path) -> Any:
        from epiclick.evaluation.truth import read_truth
        from epiclick.simulate.world import World

        truth = read_truth(folder / name)
        world = World.load(folder / name)
        parts = [world.features.keys, world.features.names, world.features.matrix, world.log]
        parts += [world.relevance, world.position_bias, world.prior, world.satisfaction]
        return [*parts, world.purchases, world.settings.to_dict(), truth.keys, truth.worth]

    return read


def _selection(folder: Path) -> Any:
    from epiclick.selection.selection_file import read_selection

    return read_selection(folder / "selection.json")


def _ranking(place: str, column: str | None) -> Callable[[Path], Any]:
    def read(folder: Path) -> Any:
        from epiclick.comparison.rankings import read_ranking

        source = str(folder / place)
        return read_ranking(source if column is None else (source, column), "new")

    return read


def _bias(folder: Path) -> Any:
    import numpy as np
    import pyarrow as pa

    from epiclick.posterior.known_bias import read_known_bias

    contexts = pa.table({"position": np.arange(1, 4)})
    return read_known_bias(str(folder / "bias.json"), contexts, 0, 0.9)


def _answers(folder: Path) -> Any:
    from epiclick.calibration.runner import load_answers

    return load_answers(folder / "answers.npz")


def _cell_rows(folder: Path) -> Any:
    from epiclick.paper.cells import read_rows

    return read_rows(folder / "R/cells/pointwise/00.parquet")


def _cell_metadata(folder: Path) -> Any:
    from epiclick.paper.cells import CellFiles
    from epiclick.paper.variants import VARIANTS

    # the digest may be lost alone
    found = CellFiles(folder / "R", VARIANTS["pointwise"], 0).load_metadata()
    kept = {name: found[name] for name in ("method", "run", "seconds", "rankers") if name in found}
    return kept or None


class _Captured(BaseException):
    """A fit has come to its checkpoint."""


@cache
def _resumed(folder: Path) -> tuple[Any, Any]:
    """The checkpoint and the first state of a fit that is about to resume."""
    from epiclick.cli.main import app
    from epiclick.training.checkpoint import Checkpoint

    found, load = [], Checkpoint.load

    def captured(self: Checkpoint, start: Any, *_: Any) -> None:
        found.append((self, start))
        raise _Captured

    os.chdir(folder)
    Checkpoint.load = captured  # type: ignore[assignment, method-assign]
    try:
        words = ["fit", "counts.parquet", *FEATURED.split(), "--out", "stopped", "--resume"]
        app([*words, "--quiet"], standalone_mode=False)
    except _Captured:
        return found[0]
    finally:
        Checkpoint.load = load  # type: ignore[method-assign]
    raise AssertionError("the fit did not read its checkpoint")


def _checkpoint(folder: Path) -> Any:
    checkpoint, start = _resumed(folder)
    return checkpoint.load(start)


def _settings(folder: Path) -> Any:
    from dataclasses import replace

    from epiclick.paper.cells import prepare_folder
    from epiclick.paper.settings import choose_preset
    from epiclick.paper.variants import choose_methods

    # what a resumed call does: go on with the settings it was given, or refuse
    methods = choose_methods(["pointwise"], None)
    prepare_folder(folder / "R", replace(choose_preset("quick"), runs=1, epochs=1, methods=methods))
    return json.loads((folder / "R/settings.json").read_bytes())


def _pages_data(folder: Path) -> Any:
    from epiclick.benchmark.page_data import BenchmarkData

    found = BenchmarkData.load(folder / "B/data/pages.npz")
    return [dict(found.settings), found._arrays()]


def _pages_cell(folder: Path) -> Any:
    from epiclick.benchmark.benchmark_cells import CellKey, load_cell

    key = json.loads((folder / "cell.json").read_text())["cell"]
    named = {name: key[name] for name in ("dataset", "model", "version", "digest", "peer")}
    return load_cell(CellKey(**named), folder / "B")


ENTRY = ("matrix.npy", "keys.arrow", "meta.json")


def _letor(part: str) -> Callable[[Path], Any]:
    def read(folder: Path) -> Any:
        from epiclick.data.letor import read_letor

        os.environ["EPICLICK_CACHE"] = str(folder / "used")
        read_letor(folder / "letor.txt")  # the name of its entry depends on where the file is
        (entry,) = (folder / "used").iterdir()
        shutil.copy(folder / "cache" / part, entry / part)
        found = read_letor(folder / "letor.txt")
        return [found.keys, found.names, found.matrix]

    return read


READERS: tuple[Reader, ...] = (
    Reader("counts", "counts.parquet", _counts),
    Reader("counts with parts", "parts.parquet", _parts),
    Reader("model", "model", _model("model")),
    Reader("model with features", "featured", _model("featured")),
    Reader("model of conversions", "buying", _model("buying")),
    Reader("model of dcm", "dcm", _model("dcm")),
    Reader("model of sdbn", "sdbn", _model("sdbn")),
    Reader("pointwise model", "pointwise", _model("pointwise")),
    Reader("world", "world", _world("world")),
    Reader("world of purchases", "shop", _world("shop")),
    Reader("selection", "selection.json", _selection),
    Reader("table of relevance", "relevance.parquet", _ranking("relevance.parquet", "mean")),
    Reader("interleaved pages", "pages.parquet", _ranking("pages.parquet", None)),
    Reader("position bias", "bias.json", _bias),
    Reader("checkpoint", "stopped.checkpoint", _checkpoint, ("counts.parquet", "world")),
    Reader("calibration world", "answers.npz", _answers),
    Reader("reproduced rows", "R/cells/pointwise/00.parquet", _cell_rows),
    Reader("reproduced metadata", "R/cells/pointwise/00.json", _cell_metadata),
    Reader("reproduction settings", "R/settings.json", _settings),
    Reader("benchmark pages", "B/data/pages.npz", _pages_data),
    Reader("benchmark cell", "B/cells/pages/pbm-plain.json", _pages_cell, ("cell.json",)),
    *(Reader(f"LETOR {part}", f"cache/{part}", _letor(part), ("letor.txt",)) for part in ENTRY),
)
