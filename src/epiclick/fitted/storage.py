"""A fitted model as a folder: model.json for its metadata, safetensors files for its arrays.

Reading executes nothing and opens only the files that a model may have.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from safetensors.numpy import load, save

from epiclick.data import checksums, writing
from epiclick.data.checksums import (
    check_record,
    from_json,
    get,
    listed,
    read_checked,
    stated,
    to_json,
)
from epiclick.data.files import did_you_mean_path
from epiclick.data.leftovers import bring_back
from epiclick.data.writing import FolderKind
from epiclick.errors import InputError
from epiclick.fitted.metadata import describe, rebuild, upgraded
from epiclick.fitted.parameters import (
    MORE_POSTERIOR_ARRAYS,
    POSTERIOR_ARRAYS,
    Parameters,
    from_arrays,
    to_arrays,
)
from epiclick.fitted.revenue import Revenue
from epiclick.fitted.state import ITEM_NUMBERS, FittedModel, Items, QuerySets
from epiclick.fitted.validation import validate

REMEDY = (
    "Copy the whole folder again from where it was written, or remove it, then fit and save the "
    "model again."
)


def reading(path: Path) -> AbstractContextManager[None]:
    """Report which file of a model cannot be read."""
    return checksums.reading(path, REMEDY)


FORMAT = "epiclick model"
SCHEMA_VERSION = 3
"""Version 1 had neither a posterior nor members; it is read where its numbers mean the same today.
Up to version 2 all models were position-based, with a head that follows from the class."""

METADATA = "model.json"
WEIGHTS, QUERIES, ITEMS, POSTERIOR, MEMBERS = (
    f"{name}.safetensors" for name in ("weights", "queries", "items", "posterior", "members")
)
NEEDED, OPTIONAL = {WEIGHTS, QUERIES}, {ITEMS, POSTERIOR, MEMBERS}
CONVERSION, REVENUE = "conversion.", "revenue.safetensors"
"""Files of the model of conversions begin with the first; values of conversions have their own."""

OF_CONVERSIONS = {f"{CONVERSION}{name}" for name in NEEDED | OPTIONAL} | {REVENUE}
MODEL = FolderKind("model", METADATA, FORMAT)

GIVE = "Give the folder that save or `epiclick fit --out` wrote."


def metadata_json(metadata: Mapping[str, Any], contents: Mapping[str, bytes]) -> bytes:
    """The content of model.json: the metadata, and the sizes and checksums of the other files."""
    return to_json(
        {
            "format": FORMAT,
            "schema_version": SCHEMA_VERSION,
            "epiclick_version": version("epiclick"),
            **metadata,
            "files": listed(contents),
        }
    )


def read_metadata(folder: Path) -> dict[str, Any]:
    """Metadata in model.json, of a supported version and unchanged since it was written."""
    metadata = _read_any_metadata(folder)
    _check_version(metadata, folder)
    with reading(folder / METADATA):
        check_record(metadata)
        # only these files may be opened, none in another folder
        names = get(metadata, "files", dict)
        if set(names) - OPTIONAL - OF_CONVERSIONS != NEEDED:
            raise ValueError(f"it lists the files {', '.join(names) or 'none'}"[:200])
        for name in names:
            stated(metadata, name)
    return metadata


def _read_any_metadata(folder: Path) -> dict[str, Any]:
    """Metadata in model.json, of any version; InputError if there is no model in the folder."""
    path = folder / METADATA
    if not folder.exists():
        message = f"there is no model {folder}{did_you_mean_path(folder)}. {GIVE}"
        raise InputError(message, code="file-missing")
    if not folder.is_dir():
        raise InputError(f"{folder} is a file, and a model is a folder. {GIVE}", code="not-a-model")
    if not path.is_file():
        raise InputError(
            f"{folder} is not a model: it has no {METADATA}. {GIVE}", code="not-a-model"
        )
    with reading(path):
        metadata = from_json(path.read_bytes())
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise InputError(
            f"{folder} is not a model of epiclick: {path} has another format. {GIVE}",
            code="not-a-model",
        )
    return metadata


def read_file(folder: Path, metadata: Mapping[str, Any], name: str) -> bytes:
    """A file that the metadata lists, with its checksum verified."""
    path = folder / name
    if not path.is_file():
        raise InputError(f"the model {folder} lacks the file {name}. {REMEDY}", code="file-missing")
    with reading(path):
        return read_checked(path, metadata)


def _check_version(metadata: Mapping[str, Any], folder: Path) -> None:
    with reading(folder / METADATA):
        stored = get(metadata, "schema_version", int)
        if stored < 1:
            raise ValueError(f"there is no model version {stored}")
    if stored > SCHEMA_VERSION:
        raise InputError(
            f"the model {folder} was written by epiclick {metadata.get('epiclick_version')!s:.40}, "
            f"with model version {stored}; this epiclick reads up to {SCHEMA_VERSION}: upgrade",
            code="unsupported-version",
        )


Arrays = dict[str, np.ndarray]


def pack(fitted: FittedModel) -> dict[str, bytes]:
    """All arrays of a model, by file."""
    queries, items = fitted.queries, fitted.items
    files = {
        WEIGHTS: to_arrays(fitted.parameters),
        QUERIES: _pack_ids("train", queries.train) | _pack_ids("held_out", queries.held_out),
    }
    if items is not None:
        ids = _pack_ids("query_id", items.query_id) | _pack_ids("doc_id", items.doc_id)
        files[ITEMS] = ids | {name: np.asarray(getattr(items, name)) for name in ITEM_NUMBERS}
        if items.satisfied is not None:
            files[ITEMS]["satisfied"] = items.satisfied
    if fitted.posterior is not None:
        files[POSTERIOR] = {name: getattr(fitted.posterior, name) for name in POSTERIOR_ARRAYS}
        more = {name: getattr(fitted.posterior, name) for name in MORE_POSTERIOR_ARRAYS}
        files[POSTERIOR] |= {name: array for name, array in more.items() if array is not None}
    if fitted.members:
        each = [to_arrays(member) for member in fitted.members]
        files[MEMBERS] = {name: np.stack([arrays[name] for arrays in each]) for name in each[0]}
    if fitted.revenue is not None:
        files[REVENUE] = fitted.revenue.to_arrays()
    packed = {name: save(_contiguous(arrays)) for name, arrays in files.items()}
    if fitted.conversion is not None:
        packed |= {f"{CONVERSION}{name}": file for name, file in pack(fitted.conversion).items()}
    return packed


def unpack_parameters(content: bytes) -> Parameters:
    """Network and click model's lookup; raises one of MALFORMED if the file has other arrays."""
    return _parameters(load(content))


def unpack_members(content: bytes) -> tuple[Parameters, ...]:
    """Networks and lookups, stacked in the file; raises as `unpack_parameters` does."""
    arrays = load(content)
    sizes = {array.shape[:1] for array in arrays.values()}
    if len(sizes) != 1 or sizes & {(), (0,)}:
        raise ValueError("its arrays do not have the same number of members, at least one")
    ((count,),) = sizes
    return tuple(
        _parameters({name: array[i] for name, array in arrays.items()}) for i in range(count)
    )


def unpack_posterior(content: bytes) -> Arrays:
    """Arrays of a posterior by name; raises as `unpack_parameters` does."""
    arrays = load(content)
    known = {name: arrays.pop(name) for name in POSTERIOR_ARRAYS}
    known |= {name: arrays.pop(name) for name in MORE_POSTERIOR_ARRAYS if name in arrays}
    _none_left(arrays)
    return known


def _parameters(arrays: Arrays) -> Parameters:
    parameters = from_arrays(arrays)
    if to_arrays(parameters).keys() != arrays.keys():
        raise ValueError(f"it has the arrays {', '.join(sorted(arrays))}")
    return parameters


def unpack_queries(content: bytes) -> QuerySets:
    """Queries of training and validation; raises as `unpack_parameters` does."""
    arrays = load(content)
    queries = QuerySets(_unpack_ids("train", arrays), _unpack_ids("held_out", arrays))
    _none_left(arrays)
    return queries


def unpack_items(content: bytes) -> Items:
    """Relevance of the training pairs; raises as `unpack_parameters` does."""
    arrays = load(content)
    ids = {name: _unpack_ids(name, arrays) for name in ("query_id", "doc_id")}
    numbers = {name: arrays.pop(name) for name in ITEM_NUMBERS}
    items = Items(**ids, **numbers, satisfied=arrays.pop("satisfied", None))
    _none_left(arrays)
    return items


def unpack_revenue(content: bytes) -> Revenue:
    """Values of conversions; raises as `unpack_parameters` does."""
    return Revenue.from_arrays(load(content))


def _contiguous(arrays: Arrays) -> Arrays:
    """Arrays in C order: safetensors writes raw memory, ignoring strides."""
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _none_left(arrays: Arrays) -> None:
    if arrays:
        raise ValueError(f"it has the unknown arrays {', '.join(sorted(arrays))}")


def _pack_ids(name: str, ids: pa.Array) -> Arrays:
    """Ids as arrays: integers unchanged, text as bytes and offsets."""
    if pa.types.is_integer(ids.type):
        return {name: ids.cast(pa.int64()).to_numpy()}
    ids = ids.cast(pa.large_string())
    offsets, text = np.zeros(1, np.int64), np.zeros(0, np.uint8)
    if len(ids):
        _, begins, content = ids.buffers()
        offsets = np.frombuffer(begins, np.int64)[ids.offset : ids.offset + len(ids) + 1]
        text = np.frombuffer(content or b"", np.uint8)[offsets[0] : offsets[-1]]
    return {f"{name}.bytes": text, f"{name}.offsets": offsets - offsets[0]}


def _unpack_ids(name: str, arrays: Arrays) -> pa.Array:
    """The ids that `_pack_ids` packed, removed from the arrays."""
    if name in arrays:
        _expect(name, arrays[name], np.int64)
        return pa.array(arrays.pop(name))
    text, offsets = arrays.pop(f"{name}.bytes"), arrays.pop(f"{name}.offsets")
    _expect(f"{name}.bytes", text, np.uint8)
    _expect(f"{name}.offsets", offsets, np.int64)
    ascending = len(offsets) and np.all(offsets[1:] >= offsets[:-1])
    if not ascending or offsets[0] != 0 or offsets[-1] != len(text):
        raise ValueError(f"{name}.offsets do not divide {name}.bytes")
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    ids = pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)
    ids.validate(full=True)  # that the bytes are UTF-8
    return ids


def _expect(name: str, array: np.ndarray, dtype: type) -> None:
    if array.dtype != dtype or array.ndim != 1:
        raise ValueError(f"{name} is {array.dtype} of shape {array.shape}")


StrPath = str | os.PathLike[str]
Part = TypeVar("Part")


def save_model(fitted: FittedModel, path: StrPath) -> None:
    """Write a model to a folder, atomically; an existing model there is replaced.

    `load_model` restores everything, except that lists in `settings` become tuples, tuples, dates
    and NaN in `training.checks` become lists, text and None, a `pareto_k` of NaN becomes None, and
    ids of other integer or text types become int64 and large_string.
    """
    check_replaceable(path)
    validate(fitted, "the fitted model", "It is not saved.")
    contents = pack(fitted)
    contents[METADATA] = metadata_json(describe(fitted), contents)
    with writing.replacing(path, MODEL) as aside:
        for name, content in contents.items():
            (aside / name).write_bytes(content)


def load_model(path: StrPath) -> FittedModel:
    """Read a model; InputError if it is damaged, not a model, or of a later version."""
    folder = Path(path)
    try:
        bring_back(Path(os.path.realpath(folder)))
        metadata = read_metadata(folder)
        fitted = _read_model(folder, metadata)
    except (OSError, MemoryError) as error:
        why = getattr(error, "strerror", None) or str(error) or "not enough memory"
        raise InputError(
            f"the model {folder} cannot be read ({why}). Check its path, permissions and size.",
            code="cannot-read",
        ) from error
    validate(fitted, f"the model {folder}", REMEDY)
    _check_confidence(fitted, metadata["schema_version"], folder)
    return fitted


def _read_model(folder: Path, metadata: Mapping[str, Any], prefix: str = "") -> FittedModel:
    """A model whose files begin with the prefix, and within it its model of conversions."""
    weights, queries, *optional = (
        f"{prefix}{name}" for name in (WEIGHTS, QUERIES, ITEMS, POSTERIOR, MEMBERS)
    )
    parameters = _read_part(folder, metadata, weights, unpack_parameters)
    known = _read_part(folder, metadata, queries, unpack_queries)
    items = _read_optional(folder, metadata, optional[0], unpack_items)
    posterior = _read_optional(folder, metadata, optional[1], unpack_posterior)
    members = _read_optional(folder, metadata, optional[2], unpack_members) or ()
    conversion = revenue = None
    if not prefix and f"{CONVERSION}{WEIGHTS}" in metadata["files"]:
        conversion = _read_model(folder, metadata, CONVERSION)
        revenue = _read_optional(folder, metadata, REVENUE, unpack_revenue)
    with reading(folder / METADATA):
        own = get(metadata, "conversion", dict) if prefix else upgraded(metadata)
        described = (own, parameters, known, items, posterior, members)
        return rebuild(*described, conversion=conversion, revenue=revenue)


def check_replaceable(path: StrPath) -> bool:
    """Whether there is a model at the path; InputError if there is anything else."""
    return writing.check_replaceable(path, MODEL)


def _read_part(
    folder: Path, metadata: Mapping[str, Any], name: str, unpack: Callable[[bytes], Part]
) -> Part:
    content = read_file(folder, metadata, name)
    with reading(folder / name):
        return unpack(content)


def _read_optional(
    folder: Path, metadata: Mapping[str, Any], name: str, unpack: Callable[[bytes], Part]
) -> Part | None:
    return _read_part(folder, metadata, name, unpack) if name in metadata["files"] else None


def _check_confidence(fitted: FittedModel, version: int, folder: Path) -> None:
    """Reject a network whose second output had another meaning; see `relevance.heads`."""
    points = fitted.parameters.position.is_point
    if version == 1 and points and fitted.relevance_head.has_uncertainty:
        raise InputError(
            f"the model {folder} is of model version 1, in which confidence of relevance was "
            "another function of the network; its predictions would be wrong here. Fit and save it "
            "again.",
            code="unsupported-version",
        )
