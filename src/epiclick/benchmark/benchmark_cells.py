"""The cells of a benchmark, one for each fit: data set x click model x version.

Every finished cell is a JSON file of its own, which later runs with the same settings reuse.
"""

import json
import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from epiclick import __version__
from epiclick.benchmark.cell_scores import CellScores, score_cell
from epiclick.benchmark.page_data import BenchmarkData
from epiclick.benchmark.versions import VERSIONS
from epiclick.data.checksums import MALFORMED, check_record, with_digest
from epiclick.data.writing import written_aside
from epiclick.errors import InputWarning
from epiclick.memory import peak_memory

CELLS = "cells"
FORMAT = 1  # of the files of cells; another number makes earlier ones be measured again


@dataclass(frozen=True)
class CellKey:
    """What a cell measures.

    Attributes:
        dataset: name of the data set.
        model: name of the click model.
        version: name of the version.
        digest: of the data.
        peer: release of the peer; empty for versions of our own.
    """

    dataset: str
    model: str
    version: str
    digest: str
    peer: str = ""

    def to_dict(self) -> dict[str, Any]:
        """A record for JSON, with the release that measures."""
        return {**asdict(self), "epiclick": __version__, "format": FORMAT}

    def path(self, folder: Path) -> Path:
        """Its file in the folder of a benchmark."""
        return folder / CELLS / self.dataset / f"{self.model}-{self.version}.json"


@dataclass(frozen=True)
class CellResult:
    """A finished cell.

    Attributes:
        scores: on the held-out pages.
        processor_seconds: from training pages in memory to the fitted model, libraries loaded.
        process_seconds: of the process, with start, libraries and the prediction of held-out pages
            (of a peer until it is fitted).
        peak_memory: largest resident memory of that process, in bytes.
        notes: warnings of the fit; of a peer, how many epochs it took.
    """

    scores: CellScores
    processor_seconds: float
    process_seconds: float
    peak_memory: int
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """A record for JSON."""
        return {**asdict(self), "notes": list(self.notes)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        scores = CellScores.from_dict(stored["scores"])
        return cls(**{**stored, "scores": scores, "notes": tuple(stored["notes"])})


def measure_cell(path: Path, model: str, version: str) -> CellResult:
    """Fit a version of a model to the data in a file, and score it; for a process of its own."""
    data = BenchmarkData.load(path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", InputWarning)
        fitted = VERSIONS[version].fit(data, model)
    process_seconds, memory = time.process_time(), peak_memory()
    said = dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, InputWarning))
    scores = score_cell(data, fitted.displays, fitted.relevance)
    return CellResult(scores, fitted.processor_seconds, process_seconds, memory, tuple(said))


def load_cell(key: CellKey, folder: Path) -> CellResult | None:
    """The result of a cell; None where it is not done, or was done with other settings."""
    try:
        record = json.loads(key.path(folder).read_text("utf-8"))
        check_record(record)
        if record["cell"] != key.to_dict():
            return None
        return CellResult.from_dict(record["result"])
    except (OSError, *MALFORMED):  # a damaged cell is measured again
        return None


def save_cell(key: CellKey, result: CellResult, folder: Path) -> None:
    """Write a finished cell, atomically."""
    record = with_digest({"cell": key.to_dict(), "result": result.to_dict()})
    with written_aside(key.path(folder)) as aside:
        aside.write_text(json.dumps(record) + "\n", encoding="utf-8")
