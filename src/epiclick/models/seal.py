"""The seal of a model's folder: model.json vouches for the files beside it and for itself.

It carries the size and digest of every file and a digest of its own keys, so that damage is told
from a model. That does not prove who wrote it.
"""

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

from epiclick.data.nearest_path import did_you_mean_path
from epiclick.errors import InputError
from epiclick.models.damage import MEND, reading
from epiclick.models.note_values import get

FORMAT = "epiclick model"
SCHEMA_VERSION = 2
"""Version 1 had neither a posterior nor members; of it, what means the same today is read."""

NOTE = "model.json"
WEIGHTS, QUERIES, ITEMS, POSTERIOR, MEMBERS = (
    f"{name}.safetensors" for name in ("weights", "queries", "items", "posterior", "members")
)
NEEDED, OPTIONAL = {WEIGHTS, QUERIES}, {ITEMS, POSTERIOR, MEMBERS}
FILES = {NOTE, *NEEDED, *OPTIONAL}
"""All that a model's folder may hold."""

GIVE = "Give the folder that save or `epiclick fit --out` wrote."


def sealed(note: Mapping[str, Any], contents: Mapping[str, bytes]) -> bytes:
    """What model.json holds: the note, and what is to be known of the files beside it."""
    whole: dict[str, Any] = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "epiclick_version": version("epiclick"),
        **note,
        "files": {
            name: {"bytes": len(content), "blake2b": _digest(content)}
            for name, content in contents.items()
        },
    }
    whole["digest"] = _note_digest(whole)
    return (json.dumps(whole, indent=2, allow_nan=False) + "\n").encode()


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
        note = json.loads(path.read_bytes().decode(), parse_constant=_not_json)
    if not isinstance(note, dict) or note.get("format") != FORMAT:
        raise InputError(f"{folder} is not a model of epiclick: {path} says otherwise. {GIVE}")
    return note


def read_sealed_note(folder: Path) -> dict[str, Any]:
    """The same, of a version that this release reads and as it was written."""
    note = read_note(folder)
    _check_version(note, folder)
    with reading(folder / NOTE):
        if note.get("digest") != _note_digest(note):
            raise ValueError("it is not as it was written")
        # no others, such as one in another folder
        listed = get(note, "files", dict)
        if set(listed) - OPTIONAL != NEEDED:
            raise ValueError(f"it lists the files {', '.join(listed) or 'none'}"[:200])
    return note


def read_file(folder: Path, note: Mapping[str, Any], name: str) -> bytes:
    """A file that the note lists, as it was written."""
    path = folder / name
    if not path.is_file():
        raise InputError(f"the model {folder} lacks the file {name}. {MEND}")
    with reading(folder / NOTE):
        stated = get(note["files"], name, dict)
        size, digest = get(stated, "bytes", int), get(stated, "blake2b", str)
    with reading(path):
        if path.stat().st_size != size:
            raise ValueError(f"it has {path.stat().st_size:,} bytes instead of {size:,}")
        content = path.read_bytes()
        if _digest(content) != digest:
            raise ValueError("it is not as it was written")
    return content


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


def _note_digest(note: Mapping[str, Any]) -> str:
    """Digest of all other keys, however they are ordered and spaced in the file."""
    rest = {key: value for key, value in note.items() if key != "digest"}
    return _digest(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode())


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
