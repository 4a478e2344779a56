"""A fitted model as a folder: model.json says what it is, safetensors files hold its arrays.

Reading executes nothing and opens only the four files that a model may have.
"""

import errno
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from epiclick.data.atomic import folder_aside
from epiclick.errors import InputError
from epiclick.models.arrays import pack, unpack_items, unpack_parameters, unpack_queries
from epiclick.models.damage import MEND, reading
from epiclick.models.fitted import FittedPBM
from epiclick.models.note import describe, rebuild
from epiclick.models.seal import (
    FILES,
    ITEMS,
    NOTE,
    QUERIES,
    WEIGHTS,
    read_file,
    read_note,
    read_sealed_note,
    sealed,
)
from epiclick.models.soundness import check_sound

StrPath = str | os.PathLike[str]
Part = TypeVar("Part")


def save_model(fitted: FittedPBM, path: StrPath) -> None:
    """Write a model to a folder, whole or not at all; a model that stands there is replaced.

    All comes back as it was, but for lists in `settings` (as tuples), tuples, dates and NaN in
    `training.checks` (as lists, text and None), and ids of other integer or text types (as int64
    and large_string).
    """
    check_replaceable(path)
    check_sound(fitted, "the fitted model", "It is not saved.")
    contents = pack(fitted)
    contents[NOTE] = sealed(describe(fitted), contents)
    try:
        # the folder that a link points to is replaced, not the link
        with folder_aside(os.path.realpath(path)) as aside:
            for name, content in contents.items():
                (aside / name).write_bytes(content)
    except OSError as error:
        _cannot_write(path, error)


def load_model(path: StrPath) -> FittedPBM:
    """Read a model back; InputError where it is damaged, foreign or of a later version."""
    folder = Path(path)
    try:
        note = read_sealed_note(folder)
        parameters = _read_part(folder, note, WEIGHTS, unpack_parameters)
        queries = _read_part(folder, note, QUERIES, unpack_queries)
        known = ITEMS in note["files"]
        items = _read_part(folder, note, ITEMS, unpack_items) if known else None
    except (OSError, MemoryError) as error:
        why = getattr(error, "strerror", None) or str(error) or "not enough memory"
        raise InputError(
            f"the model {folder} cannot be read ({why}). Check its path, permissions and size."
        ) from error
    with reading(folder / NOTE):
        fitted = rebuild(note, parameters, queries, items)
    check_sound(fitted, f"the model {folder}", MEND)
    return fitted


def check_replaceable(path: StrPath) -> None:
    """Refuse a place where more than a model stands; worth asking before a long fit."""
    folder = Path(os.path.realpath(path))
    try:
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            return
        read_note(folder)
        foreign = sorted(entry.name for entry in folder.iterdir() if not _is_ours(entry))
    except InputError as error:
        raise InputError(
            f"{os.fspath(path)} holds something other than a model and is not replaced. "
            "Name a new folder, or remove this one first."
        ) from error
    except OSError as error:
        _cannot_write(path, error)
    if foreign:
        more = f" and {len(foreign) - 3} more" if len(foreign) > 3 else ""
        raise InputError(
            f"{os.fspath(path)} holds a model, but also {', '.join(foreign[:3])}{more}, and is not "
            "replaced. Name a new folder, or move what is not the model's elsewhere."
        )


def _is_ours(entry: Path) -> bool:
    """Whether this is a file of a model; a folder by such a name is none."""
    return entry.name in FILES and entry.is_file()


def _read_part(
    folder: Path, note: Mapping[str, Any], name: str, unpack: Callable[[bytes], Part]
) -> Part:
    content = read_file(folder, note, name)
    with reading(folder / name):
        return unpack(content)


def _cannot_write(path: StrPath, error: OSError) -> NoReturn:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    why = "the disk is full" if full else error.strerror or str(error)
    remedy = "Free some space or name" if full else "Name"
    raise InputError(
        f"the model cannot be written to {os.fspath(path)}: {why}. "
        f"{remedy} another folder, and save again."
    ) from error
