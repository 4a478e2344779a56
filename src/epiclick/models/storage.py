"""A fitted model as a folder: model.json says what it is, safetensors files hold its arrays.

Reading executes nothing and opens only the four files named here. model.json carries the size and
digest of every file and a digest of itself, so that damage is told from a model; they do not prove
who wrote it. Keys that model.json does not need are ignored: a later release may add some.
"""

import errno
import hashlib
import json
import operator
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from datetime import date, time
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import pyarrow as pa
from safetensors import SafetensorError
from safetensors.numpy import load, save

from epiclick.data.atomic import folder_aside
from epiclick.data.log import LogOptions
from epiclick.data.scaler import FeatureScaler
from epiclick.errors import InputError, Problem
from epiclick.models.fitted import FeatureSpec, FittedPBM, Items, QuerySets, TrainingSummary
from epiclick.models.parameters import Parameters, from_arrays, to_arrays
from epiclick.models.position import BetaLookup, PointLookup

FORMAT = "epiclick model"
SCHEMA_VERSION = 1
NOTE = "model.json"
WEIGHTS, QUERIES, ITEMS = (f"{name}.safetensors" for name in ("weights", "queries", "items"))

KINDS: Mapping[str, tuple[int, tuple[type, ...]]] = {
    "EpistemicPBM": (2, (BetaLookup, PointLookup)),
    "PointwisePBM": (1, (PointLookup,)),
}
"""Outputs of the relevance network and possible position lookups of each kind of model."""

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
ITEM_NUMBERS = ("alpha", "beta", "low", "high")
COUNTS = ("pairs", "displays", "clicks", "epochs", "best_epoch")

GIVE = "Give the folder that save or `epiclick fit --out` wrote."
MEND = "Copy the whole folder again from where it was written, or fit and save the model again."

MALFORMED = (
    LookupError,
    OverflowError,
    RecursionError,
    SafetensorError,
    TypeError,
    ValueError,
    pa.ArrowException,
)
"""What damaged or hostile content makes the parsers raise."""

Arrays = dict[str, np.ndarray]
StrPath = str | os.PathLike[str]


def save_model(fitted: FittedPBM, path: StrPath) -> None:
    """Write a model to a folder, whole or not at all; a model that stands there is replaced.

    All comes back as it was, but for lists in `settings` (as tuples), tuples, dates and NaN in
    `training.checks` (as lists, text and None), and ids of other integer or text types (as int64
    and large_string).
    """
    check_replaceable(path)
    _check(fitted, "the fitted model", "It is not saved.")
    contents = {name: save(_contiguous(arrays)) for name, arrays in _arrays(fitted).items()}
    note = _note(fitted)
    note["files"] = {
        name: {"bytes": len(content), "blake2b": _digest(content)}
        for name, content in contents.items()
    }
    note["digest"] = _note_digest(note)
    text = json.dumps(note, indent=2, allow_nan=False) + "\n"
    contents[NOTE] = text.encode()
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
        note = _read_note(folder)
        _check_version(note, folder)
        with _reading(folder / NOTE):
            if note.get("digest") != _note_digest(note):
                raise ValueError("it is not as it was written")
        _check_files(note, folder)
        weights, queries = (_read_arrays(folder, note, name) for name in (WEIGHTS, QUERIES))
        items = _read_arrays(folder, note, ITEMS) if ITEMS in note["files"] else None
    except (OSError, MemoryError) as error:
        why = getattr(error, "strerror", None) or str(error) or "not enough memory"
        raise InputError(
            f"the model {folder} cannot be read ({why}). Check its path, permissions and size."
        ) from error

    with _reading(folder / WEIGHTS):
        parameters = _parameters(weights)
    with _reading(folder / QUERIES):
        query_sets = QuerySets(_unpack_ids("train", queries), _unpack_ids("held_out", queries))
        _none_left(queries)
    with _reading(folder / ITEMS):
        known_items = None if items is None else _items(items)
    with _reading(folder / NOTE):
        fitted = _fitted(note, parameters, query_sets, known_items)
    _check(fitted, f"the model {folder}", MEND)
    return fitted


def check_replaceable(path: StrPath) -> None:
    """Refuse a place where something other than a model stands; worth asking before a long fit."""
    folder = Path(os.path.realpath(path))
    try:
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            return
        if folder.is_dir():
            _read_note(folder)
            return
    except InputError:
        pass  # said below, with the remedy for writing
    except OSError as error:
        _cannot_write(path, error)
    raise InputError(
        f"{os.fspath(path)} holds something other than a model and is not replaced. "
        "Name a new folder, or remove this one first."
    )


# model.json


def _note(fitted: FittedPBM) -> dict[str, Any]:
    """All of a model but its arrays, as JSON can hold it."""
    features, training = fitted.features, fitted.training
    types, records = _history_records(training.history)
    return {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "epiclick_version": version("epiclick"),
        "kind": fitted.kind,
        "settings": _plain(fitted.settings, "settings", finite=True),
        "anchor": None if fitted.anchor is None else int(fitted.anchor),
        "contexts": [_column(name, fitted.contexts[name]) for name in fitted.contexts.column_names],
        "features": None
        if features is None
        else {"names": list(features.names), "scaler": features.scaler.to_dict()},
        "options": fitted.options.to_dict(),
        "training": {
            **{name: int(getattr(training, name)) for name in COUNTS},
            "seconds": _stored_real(training.seconds),
            "log_likelihood": _stored_real(training.log_likelihood),
            "checks": _plain(training.checks, "training.checks"),
            "warnings": list(training.warnings),
            "history_types": types,
            "history": records,
        },
    }


def _fitted(
    note: Mapping[str, Any], parameters: Parameters, queries: QuerySets, items: Items | None
) -> FittedPBM:
    """The model that `_note` described; raises one of MALFORMED where that cannot be."""
    columns = {_get(c, "name", str): _column_values(c) for c in _get(note, "contexts", list)}
    if len(columns) != len(note["contexts"]):
        raise ValueError("two context columns have the same name")
    features = _get(note, "features", dict, type(None))
    return FittedPBM(
        kind=_get(note, "kind", str),
        settings=_tuples(_get(note, "settings", dict)),
        parameters=parameters,
        anchor=_get(note, "anchor", int, type(None)),
        contexts=pa.table(columns),
        features=None
        if features is None
        else FeatureSpec(
            _texts(features, "names"), FeatureScaler.from_dict(_get(features, "scaler", dict))
        ),
        options=_options(_get(note, "options", dict)),
        queries=queries,
        items=items,
        training=_training(_get(note, "training", dict)),
    )


def _options(stored: Mapping[str, Any]) -> LogOptions:
    _get(stored, "columns", dict)
    _texts(stored, "context")
    known = {field.name for field in fields(LogOptions)}
    return LogOptions.from_dict({key: stored[key] for key in stored if key in known})


def _training(stored: Mapping[str, Any]) -> TrainingSummary:
    return TrainingSummary(
        **{name: _get(stored, name, int) for name in COUNTS},
        seconds=_real(stored["seconds"]),
        log_likelihood=_real(stored["log_likelihood"]),
        history=_history(_get(stored, "history_types", dict), _get(stored, "history", list)),
        checks=_get(stored, "checks", dict),
        warnings=_texts(stored, "warnings"),
    )


def _read_note(folder: Path) -> dict[str, Any]:
    """What model.json says, of any version; InputError if there is none or it is not ours."""
    path = folder / NOTE
    if not folder.exists():
        raise InputError(f"there is no model {folder}. {GIVE}")
    if not folder.is_dir():
        raise InputError(f"{folder} is a file, and a model is a folder. {GIVE}")
    if not path.is_file():
        raise InputError(f"{folder} is not a model: it has no {NOTE}. {GIVE}")
    with _reading(path):
        note = json.loads(path.read_bytes().decode(), parse_constant=_not_json)
    if not isinstance(note, dict) or note.get("format") != FORMAT:
        raise InputError(f"{folder} is not a model of epiclick: {path} says otherwise. {GIVE}")
    return note


def _check_version(note: Mapping[str, Any], folder: Path) -> None:
    with _reading(folder / NOTE):
        stored = _get(note, "schema_version", int)
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


# Values of model.json


def _get(record: Mapping[str, Any], key: str, *types: type) -> Any:
    """A value of one of the given types; JSON's true is no number here."""
    if key not in record:
        raise ValueError(f"'{key}' is missing")
    if type(record[key]) not in types:
        raise ValueError(f"'{key}' is of the wrong type ({type(record[key]).__name__})")
    return record[key]


def _texts(record: Mapping[str, Any], key: str) -> tuple[str, ...]:
    values = _get(record, key, list)
    if not all(type(value) is str for value in values):
        raise ValueError(f"'{key}' must be texts")
    return tuple(values)


def _plain(value: Any, where: str, *, finite: bool = False) -> Any:
    """A value as JSON holds it; NaN and infinity become null, or an error if `finite`."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float) and (np.isfinite(value) or not finite):
        return value if np.isfinite(value) else None
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(v, f"{where}.{key}", finite=finite) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v, where, finite=finite) for v in value]
    if isinstance(value, date | time | Decimal):  # values of contexts
        return str(value)
    raise InputError(f"{where} is {value!r}, which a model file cannot hold. Use plain values.")


def _tuples(value: Any) -> Any:
    """Sequences as tuples, which is how a constructor takes `hidden` or a context as anchor."""
    if isinstance(value, dict):
        return {key: _tuples(v) for key, v in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _stored_real(value: float) -> float | str | None:
    """A float for JSON, which has neither NaN (null here) nor infinity (text)."""
    value = float(value)
    return value if np.isfinite(value) else None if np.isnan(value) else str(value)


def _real(stored: Any) -> float:
    if stored is None:
        return float("nan")
    if type(stored) in (int, float) or stored in ("inf", "-inf"):
        return float(stored)
    raise ValueError("a number is of the wrong type")


HISTORY_TYPES: Mapping[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "int64": (int, operator.index),
    "float64": (_stored_real, _real),
    "object": (lambda value: _plain(value, "training.history"), lambda stored: stored),
}
"""How values of a column of the history are written and read, by the column's type."""


def _history_records(history: pd.DataFrame) -> tuple[dict[str, str], list[dict[str, Any]]]:
    types = {name: str(history[name].dtype) for name in history.columns}
    types = {name: kind if kind in HISTORY_TYPES else "object" for name, kind in types.items()}
    columns = {
        name: map(HISTORY_TYPES[kind][0], history[name].tolist()) for name, kind in types.items()
    }
    rows = zip(*columns.values(), strict=True)
    return types, [dict(zip(columns, row, strict=True)) for row in rows]


def _history(types: Mapping[str, str], records: list[Mapping[str, Any]]) -> pd.DataFrame:
    readers = {name: HISTORY_TYPES[kind][1] for name, kind in types.items()}
    return pd.DataFrame(
        {
            name: pd.Series([read(row[name]) for row in records], dtype=types[name])
            for name, read in readers.items()
        }
    )


def _column(name: str, values: pa.ChunkedArray) -> dict[str, Any]:
    """A context column: what JSON has no type for, such as a date, is text that Arrow reads back.

    Floats are such text as well, as JSON has no NaN.
    """
    column = {"name": name, "type": str(values.type)}
    try:
        plain = values if _json_has(values.type) else values.cast(pa.string())
        column["values"] = plain.to_pylist()
        _column_values(column)
    except MALFORMED as error:
        raise InputError(
            f"the context column {name} of type {values.type} cannot be saved ({error}). "
            "Turn it into text before the log is counted."
        ) from error
    return column


def _column_values(column: Mapping[str, Any]) -> pa.Array:
    kind, values = _arrow_type(_get(column, "type", str)), _get(column, "values", list)
    return pa.array(values, kind) if _json_has(kind) else pa.array(values, pa.string()).cast(kind)


def _json_has(kind: pa.DataType) -> bool:
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return text or pa.types.is_integer(kind) or pa.types.is_boolean(kind)


def _arrow_type(name: str) -> pa.DataType:
    """The type that Arrow calls by this name."""
    if zoned := re.fullmatch(r"timestamp\[(s|ms|us|ns), tz=(.+)\]", name):
        return pa.timestamp(*zoned.groups())
    if decimal := re.fullmatch(r"decimal128\((\d+), (\d+)\)", name):
        return pa.decimal128(*map(int, decimal.groups()))
    return pa.type_for_alias(name)


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


# Arrays


def _arrays(fitted: FittedPBM) -> dict[str, Arrays]:
    """All arrays of a model, by file."""
    queries, items = fitted.queries, fitted.items
    files = {
        WEIGHTS: to_arrays(fitted.parameters),
        QUERIES: _pack_ids("train", queries.train) | _pack_ids("held_out", queries.held_out),
    }
    if items is not None:
        ids = _pack_ids("query_id", items.query_id) | _pack_ids("doc_id", items.doc_id)
        files[ITEMS] = ids | {name: np.asarray(getattr(items, name)) for name in ITEM_NUMBERS}
    return files


def _contiguous(arrays: Arrays) -> Arrays:
    """Arrays in C order: safetensors writes memory as it lies, whatever the strides say."""
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _check_files(note: Mapping[str, Any], folder: Path) -> None:
    """The list names the files of a model and no others, such as one in another folder."""
    with _reading(folder / NOTE):
        listed = _get(note, "files", dict)
        if set(listed) - {ITEMS} != {WEIGHTS, QUERIES}:
            raise ValueError(f"it lists the files {', '.join(listed) or 'none'}"[:200])


def _read_arrays(folder: Path, note: Mapping[str, Any], name: str) -> Arrays:
    path = folder / name
    if not path.is_file():
        raise InputError(f"the model {folder} lacks the file {name}. {MEND}")
    with _reading(folder / NOTE):
        stated = _get(note["files"], name, dict)
        size, digest = _get(stated, "bytes", int), _get(stated, "blake2b", str)
    with _reading(path):
        if path.stat().st_size != size:
            raise ValueError(f"it has {path.stat().st_size:,} bytes instead of {size:,}")
        content = path.read_bytes()
        if _digest(content) != digest:
            raise ValueError("it is not as it was written")
        return load(content)


def _parameters(arrays: Arrays) -> Parameters:
    parameters = from_arrays(arrays)
    if to_arrays(parameters).keys() != arrays.keys():
        raise ValueError(f"it holds the arrays {', '.join(sorted(arrays))}")
    return parameters


def _items(arrays: Arrays) -> Items:
    ids = {name: _unpack_ids(name, arrays) for name in ("query_id", "doc_id")}
    items = Items(**ids, **{name: arrays.pop(name) for name in ITEM_NUMBERS})
    _none_left(arrays)
    return items


def _none_left(arrays: Arrays) -> None:
    if arrays:
        raise ValueError(f"it holds the unknown arrays {', '.join(sorted(arrays))}")


def _pack_ids(name: str, ids: pa.Array) -> Arrays:
    """Ids as arrays: integers as they are, text as bytes and where each begins."""
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
    """The ids that `_pack_ids` packed, taken out of the arrays."""
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


# What makes a model


def _check(fitted: FittedPBM, source: str, remedy: str) -> None:
    """Refuse a model whose parts do not fit together, to be written or just read."""
    if problems := list(_problems(fitted)):
        raise InputError(f"{InputError.of(source, problems)}\n{remedy}", problems)


def _problems(fitted: FittedPBM) -> Iterator[Problem]:
    contexts, features = fitted.contexts.num_rows, fitted.features
    if fitted.anchor is not None and not 0 <= fitted.anchor < contexts:
        yield Problem(f"the anchor is context {fitted.anchor}, but there are {contexts}, from 0 on")
    if features is not None:
        mean, scale = features.scaler.mean, features.scaler.scale
        if not len(features.names) == len(mean) == len(scale):
            yield Problem(
                f"the scaler is of {len(mean)} features, but {len(features.names)} have names"
            )
        if not (np.isfinite(mean).all() and np.isfinite(scale).all() and np.all(scale > 0)):
            yield Problem("the scaler needs finite means and positive, finite scales")
    for name, array in to_arrays(fitted.parameters).items():
        yield from _number_problems(name, array)
    if fitted.kind in KINDS:
        yield from _network_problems(fitted)
    else:
        known = ", ".join(KINDS)
        yield Problem(
            f"'{fitted.kind:.40}' is not a kind of model that this epiclick has ({known})",
            remedy="Upgrade epiclick if a later release wrote it.",
        )
    for name, array in fitted.parameters.position._asdict().items():
        if np.shape(array) != (contexts,):
            yield Problem(
                f"position.{name} has shape {np.shape(array)}, but there are {contexts} contexts"
            )
    for name in ("train", "held_out"):
        yield from _id_problems(f"queries.{name}", getattr(fitted.queries, name))
    if fitted.items is not None:
        yield from _item_problems(fitted.items)


def _network_problems(fitted: FittedPBM) -> Iterator[Problem]:
    """Layers take what the one before gives, from the features to the outputs of the kind."""
    outputs, lookups = KINDS[fitted.kind]
    width = len(fitted.contexts) if fitted.features is None else len(fitted.features.names)
    for i, (weight, bias) in enumerate(fitted.parameters.layers):
        if np.ndim(weight) != 2 or np.shape(bias) != np.shape(weight)[1:]:
            yield Problem(
                f"layer {i} has weights of shape {np.shape(weight)} and biases of {np.shape(bias)}"
            )
            return
        if len(weight) != width:
            yield Problem(f"layer {i} takes {len(weight)} inputs, but is given {width}")
        width = len(bias)
    if not fitted.parameters.layers:
        yield Problem("the network has no layers")
    elif width != outputs:
        yield Problem(f"the network has {width} outputs, but {fitted.kind} needs {outputs}")
    if not isinstance(fitted.parameters.position, lookups):
        yield Problem(f"{fitted.kind} has no {type(fitted.parameters.position).__name__}")


def _item_problems(items: Items) -> Iterator[Problem]:
    pairs = len(items.query_id)
    for name in ("query_id", "doc_id"):
        yield from _id_problems(f"items.{name}", getattr(items, name))
    for name in ("doc_id", *ITEM_NUMBERS):
        if (shape := np.shape(getattr(items, name))) != (pairs,):
            yield Problem(f"items.{name} has shape {shape}, but there are {pairs} pairs")
            return
    for name in ITEM_NUMBERS:
        yield from _number_problems(f"items.{name}", getattr(items, name))
    for name in ("alpha", "beta"):
        if count := int(np.sum(np.asarray(getattr(items, name)) <= 0)):
            yield Problem(f"items.{name} must be positive", count, "value")
    if count := int(np.sum(np.asarray(items.low) > np.asarray(items.high))):
        yield Problem("items.low must not exceed items.high", count, "value")


def _number_problems(name: str, array: np.ndarray) -> Iterator[Problem]:
    if array.dtype not in FLOATS:
        yield Problem(f"{name} is {array.dtype}, not float32 or float64")
    elif count := int(np.sum(~np.isfinite(array))):
        yield Problem(f"{name} must be finite numbers", count, "value")


def _id_problems(name: str, ids: pa.Array) -> Iterator[Problem]:
    kind = ids.type
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not (text or pa.types.is_integer(kind)):
        yield Problem(f"{name} is {kind}, not integers or text")
    elif ids.null_count:
        yield Problem(f"{name} lacks ids", ids.null_count, "value")


# Errors


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Say of which file it is that something cannot be read."""
    try:
        yield
    except MALFORMED as error:
        plain = isinstance(error, ValueError) or not str(error)
        why = str(error) if plain else f"{type(error).__name__}: {error}"
        raise InputError(f"{path} is damaged: {why[:300].rstrip('.')}. {MEND}") from error


def _cannot_write(path: StrPath, error: OSError) -> NoReturn:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    why = "the disk is full" if full else error.strerror or str(error)
    remedy = "Free some space or name" if full else "Name"
    raise InputError(
        f"the model cannot be written to {os.fspath(path)}: {why}. "
        f"{remedy} another folder, and save again."
    ) from error


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
