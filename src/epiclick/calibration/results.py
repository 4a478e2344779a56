"""What methods said in each world, one small file for a world and method.

A file is named after everything it depends on, so that a run that was stopped goes on where it was,
and results of other settings are never taken for its own.
"""

import io
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from epiclick.calibration.answers import DRAWS, KEPT, LEVELS, QUANTITIES, VALUES, Answers
from epiclick.calibration.families import UNSEEN, Family
from epiclick.calibration.methods import Method
from epiclick.calibration.worlds import DAILY_CONFIDENCE, DAYS, ONE_BETA, world_seed
from epiclick.data.atomic import written_aside
from epiclick.data.checksums import with_trailer, without_trailer
from epiclick.data.damage import reading

PARTS = tuple(field.name for field in fields(Answers))


@dataclass(frozen=True)
class Task:
    """One method in one world.

    Attributes:
        family: where the world is from.
        method: who is asked.
        seed: of the run.
        index: number of the world.
    """

    family: Family
    method: Method
    seed: int
    index: int

    def path(self, folder: Path) -> Path:
        """Where its result is kept."""
        depends = {
            "family": self.family.to_dict(),
            "method": [self.method.name, self.method.words, _settings(self.method)],
            "world": world_seed(self.family, self.seed, self.index),
            "quantities": list(QUANTITIES),
            "sizes": [LEVELS, DRAWS, VALUES, KEPT, UNSEEN, ONE_BETA, DAYS, DAILY_CONFIDENCE],
            "version": version("epiclick"),
        }
        digest = sha256(json.dumps(depends, sort_keys=True).encode()).hexdigest()[:12]
        return folder / self.family.name / self.method.name / f"{self.index:05d}-{digest}.npz"


def _settings(method: Method) -> str:
    """What the method's function is called with, where it is known."""
    return json.dumps(getattr(method.answer, "keywords", {}), sort_keys=True, default=str)


def save_answers(answers: Mapping[str, Answers], path: Path) -> None:
    """Write answers with the draws of the first values only, in single precision."""
    arrays = {
        f"{name}/{part}": getattr(kept, part).astype(np.float32 if part == "draws" else np.float64)
        for name, given in answers.items()
        for kept in [replace(given, draws=given.draws[:KEPT])]
        for part in PARTS
    }
    archive = io.BytesIO()
    np.savez_compressed(archive, **arrays)
    with written_aside(path) as aside:
        aside.write_bytes(with_trailer(archive.getvalue()))


def load_answers(path: Path) -> dict[str, Answers]:
    """Read back what `save_answers` wrote; InputError where the file is damaged."""
    with reading(path, "Delete it and give the same command again to do this world anew."):
        content = without_trailer(path.read_bytes())
        try:
            return _answers(content)
        except (BadZipFile, EOFError, RuntimeError, zlib.error) as error:
            raise ValueError(str(error)) from error


def _answers(content: bytes) -> dict[str, Answers]:
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        names = dict.fromkeys(key.split("/")[0] for key in arrays.files)
        return {
            name: Answers(**{part: arrays[f"{name}/{part}"].astype(np.float64) for part in PARTS})
            for name in names
        }
