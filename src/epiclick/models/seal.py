"""The files of a model's folder; model.json holds the checksums of all (`data.checksums`)."""

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from epiclick.data.checksums import check_record, listed, read_checked, stated, to_json
from epiclick.data.nearest_path import did_you_mean_path
from epiclick.data.replacing import FolderKind
from epiclick.data.stored_json import from_json, get
from epiclick.errors import InputError
from epiclick.models.damage import MEND, reading

FORMAT = "epiclick model"
SCHEMA_VERSION = 3
"""Version 1 had neither a posterior nor members; of it, what means the same today is read.
Up to version 2 all were position-based models, whose head follows from the class."""

WITH_CLICK_MODELS = 3
"""The first version that names click model and relevance head."""

NOTE = "model.json"
WEIGHTS, QUERIES, ITEMS, POSTERIOR, MEMBERS = (
    f"{name}.safetensors" for name in ("weights", "queries", "items", "posterior", "members")
)
NEEDED, OPTIONAL = {WEIGHTS, QUERIES}, {ITEMS, POSTERIOR, MEMBERS}
MODEL = FolderKind("model", NOTE, FORMAT)

GIVE = "Give the folder that save or `epiclick fit --out` wrote."


def sealed(note: Mapping[str, Any], contents: Mapping[str, bytes]) -> bytes:
    """What model.json holds: the note, and what is to be known of the files beside it."""
    return to_json(
        {
            "format": FORMAT,
            "schema_version": SCHEMA_VERSION,
            "epiclick_version": version("epiclick"),
            **note,
            "files": listed(contents),
        }
    )


def read_note(folder: Path) -> dict[str, Any]:
    """What model.json says, of any version; InputError if there is none or it is not ours."""
    path = folder / NOTE
    if not folder.exists():
        raise InputError(f"there is no model {folder}{did_you_mean_path(folder)}. {GIVE}")
    if not folder.is_dir():
        raise InputError(f"{folder} is a file, and a model is a folder. {GIVE}")
    if not path.is_file():
        raise InputError(f"{folder} is not a model: it has no {NOTE}. {GIVE}")
    with reading(path):
        note = from_json(path.read_bytes())
    if not isinstance(note, dict) or note.get("format") != FORMAT:
        raise InputError(f"{folder} is not a model of epiclick: {path} says otherwise. {GIVE}")
    return note


def read_sealed_note(folder: Path) -> dict[str, Any]:
    """The same, of a version that this release reads and as it was written."""
    note = read_note(folder)
    _check_version(note, folder)
    with reading(folder / NOTE):
        check_record(note)
        # no others, such as one in another folder
        names = get(note, "files", dict)
        if set(names) - OPTIONAL != NEEDED:
            raise ValueError(f"it lists the files {', '.join(names) or 'none'}"[:200])
        for name in names:
            stated(note, name)
    return note


def read_file(folder: Path, note: Mapping[str, Any], name: str) -> bytes:
    """A file that the note lists, as it was written."""
    path = folder / name
    if not path.is_file():
        raise InputError(f"the model {folder} lacks the file {name}. {MEND}")
    with reading(path):
        return read_checked(path, note)


def _check_version(note: Mapping[str, Any], folder: Path) -> None:
    with reading(folder / NOTE):
        stored = get(note, "schema_version", int)
        if stored < 1:
            raise ValueError(f"there is no model version {stored}")
    if stored > SCHEMA_VERSION:
        raise InputError(
            f"the model {folder} was written by epiclick {note.get('epiclick_version')!s:.40}, "
            f"with model version {stored}; this epiclick reads up to {SCHEMA_VERSION}: upgrade"
        )
