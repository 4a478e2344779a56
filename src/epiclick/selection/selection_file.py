"""The file that `epiclick select --out` writes, read back for a report."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from epiclick.data.checksums import DIGEST, check_record, from_json, get, reading, texts
from epiclick.data.files import did_you_mean_path
from epiclick.errors import InputError
from epiclick.selection import result_in_words
from epiclick.selection.parsimony import ModelScores, best_of, chosen_of

REMEDY = "Write it again with epiclick select LOG --out select.json."
SCHEMA_VERSION = 1

TYPES: Mapping[str, tuple[type, ...]] = {
    "click_model": (str,),
    "unit": (str,),
    "parameters": (int,),
    "impossible": (int,),
    "is_redundant": (bool,),
    "is_contradicted": (bool,),
}
"""Types of the fields of a model's scores; all others are numbers, or null."""

NUMBER = (float, int, type(None))


@dataclass(frozen=True)
class StoredSelection:
    """What a selection found, without the fitted models.

    Attributes:
        scores: of each model.
        level: probability of the intervals.
        pages: held-out pages; None where they are unknown.
        displays: held-out displays.
        queries: held-out queries.
        last_position: the position of `ModelScores.relative_bias`.
        notes: what was left out or assumed.
    """

    scores: tuple[ModelScores, ...]
    level: float
    pages: int | None
    displays: int
    queries: int
    last_position: str
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> ModelScores | None:
        """The model with the highest held-out log-likelihood."""
        return best_of(self.scores)

    @property
    def chosen(self) -> ModelScores | None:
        """The model that the rule chooses."""
        return chosen_of(self.scores)

    @property
    def verdict(self) -> str:
        """Which model to choose, by how much, and what the choice changes."""
        return result_in_words.verdict(self.scores, self.last_position)


def read_selection(path: str | Path) -> StoredSelection:
    """The selection in a file that `epiclick select` wrote, with --out or --json."""
    path = Path(path)
    if not path.is_file():
        raise InputError(
            f"--selection {path} does not exist{did_you_mean_path(path)}. Give the file that "
            "`epiclick select --out` wrote",
            code="file-missing",
        )
    with reading(path, REMEDY):
        record = from_json(path.read_bytes())
        if not isinstance(record, dict) or "models" not in record:
            raise ValueError("it is not a selection of click models")
        if get(record, "schema_version", int) != SCHEMA_VERSION:
            raise ValueError(f"its schema_version is not {SCHEMA_VERSION}")
        if DIGEST in record:  # what --json prints has none
            check_record(record)
        rows = get(record, "models", list)
        if not rows or not all(type(row) is dict for row in rows):
            raise ValueError("'models' must be a list of scores")
        found = StoredSelection(
            scores=tuple(map(_scores, rows)),
            level=float(get(record, "level", float, int)),
            pages=get(record, "pages", int, type(None)),
            displays=get(record, "displays", int),
            queries=get(record, "queries", int),
            last_position=get(record, "last_position", str),
            notes=texts(record, "notes"),
        )
        best = found.best
        if best is not None and best.difference != 0:
            raise ValueError("differences are not from the best model")
    return found


def _scores(row: Mapping[str, Any]) -> ModelScores:
    """The scores of one model, of which those that decide must be complete."""
    known = {
        field.name: get(row, field.name, *TYPES.get(field.name, NUMBER))
        for field in fields(ModelScores)
        if field.name in row or field.default is MISSING
    }
    scores = ModelScores(**known)
    needed = ("difference", "low", "high", "perplexity")
    if scores.is_scored and any(getattr(scores, name) is None for name in needed):
        raise ValueError(f"'{scores.click_model}' lacks its difference or perplexity")
    return scores
