"""A fitted model as a folder: model.json says what it is, safetensors files hold its arrays.

Reading executes nothing and opens only the files that a model may have.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from epiclick.data import replacing
from epiclick.errors import InputError
from epiclick.models.arrays import (
    pack,
    unpack_items,
    unpack_members,
    unpack_parameters,
    unpack_posterior,
    unpack_queries,
)
from epiclick.models.damage import MEND, reading
from epiclick.models.fitted import FittedModel
from epiclick.models.note import describe, rebuild, upgraded
from epiclick.models.seal import (
    ITEMS,
    MEMBERS,
    MODEL,
    NOTE,
    POSTERIOR,
    QUERIES,
    WEIGHTS,
    read_file,
    read_sealed_note,
    sealed,
)
from epiclick.models.soundness import check_sound

StrPath = str | os.PathLike[str]
Part = TypeVar("Part")


def save_model(fitted: FittedModel, path: StrPath) -> None:
    """Write a model to a folder, whole or not at all; a model that stands there is replaced.

    All comes back as it was, but for lists in `settings` (as tuples), tuples, dates and NaN in
    `training.checks` (as lists, text and None), a `pareto_k` of NaN (as None), and ids of other
    integer or text types (as int64 and large_string).
    """
    check_replaceable(path)
    check_sound(fitted, "the fitted model", "It is not saved.")
    contents = pack(fitted)
    contents[NOTE] = sealed(describe(fitted), contents)
    with replacing.replacing(path, MODEL) as aside:
        for name, content in contents.items():
            (aside / name).write_bytes(content)


def load_model(path: StrPath) -> FittedModel:
    """Read a model back; InputError where it is damaged, foreign or of a later version."""
    folder = Path(path)
    try:
        note = read_sealed_note(folder)
        parameters = _read_part(folder, note, WEIGHTS, unpack_parameters)
        queries = _read_part(folder, note, QUERIES, unpack_queries)
        items = _read_optional(folder, note, ITEMS, unpack_items)
        posterior = _read_optional(folder, note, POSTERIOR, unpack_posterior)
        members = _read_optional(folder, note, MEMBERS, unpack_members) or ()
    except (OSError, MemoryError) as error:
        why = getattr(error, "strerror", None) or str(error) or "not enough memory"
        raise InputError(
            f"the model {folder} cannot be read ({why}). Check its path, permissions and size."
        ) from error
    with reading(folder / NOTE):
        fitted = rebuild(upgraded(note), parameters, queries, items, posterior, members)
    check_sound(fitted, f"the model {folder}", MEND)
    _check_confidence(fitted, note["schema_version"], folder)
    return fitted


def check_replaceable(path: StrPath) -> bool:
    """Refuse a place where more than a model stands; whether one does."""
    return replacing.check_replaceable(path, MODEL)


def _read_part(
    folder: Path, note: Mapping[str, Any], name: str, unpack: Callable[[bytes], Part]
) -> Part:
    content = read_file(folder, note, name)
    with reading(folder / name):
        return unpack(content)


def _read_optional(
    folder: Path, note: Mapping[str, Any], name: str, unpack: Callable[[bytes], Part]
) -> Part | None:
    return _read_part(folder, note, name, unpack) if name in note["files"] else None


def _check_confidence(fitted: FittedModel, version: int, folder: Path) -> None:
    """Refuse a network whose second output meant another confidence; see `relevance.links`."""
    points = fitted.parameters.position.is_point
    if version == 1 and points and fitted.relevance_head.has_uncertainty:
        raise InputError(
            f"the model {folder} is of model version 1, in which confidence of relevance was "
            "another function of the network; its answers would be wrong here. Fit and save it "
            "again."
        )
