"""Metadata of a model, model.json: all but its arrays."""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import date, time
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from epiclick.data.checksums import MALFORMED, get, texts
from epiclick.data.features import FeatureScaler
from epiclick.data.schema import LogOptions
from epiclick.errors import InputError
from epiclick.fitted.parameters import ParameterPosterior, Parameters
from epiclick.fitted.state import (
    FeatureSpec,
    FittedModel,
    Items,
    QuerySets,
    TrainingSummary,
    head_of,
)

WITH_CLICK_MODELS = 3
"""The first version that names click model and relevance head."""


def plain(value: Any, where: str, *, finite: bool = False) -> Any:
    """A value as JSON holds it; NaN and infinity become null, or an error if `finite`."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float) and (np.isfinite(value) or not finite):
        return value if np.isfinite(value) else None
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: plain(v, f"{where}.{key}", finite=finite) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v, where, finite=finite) for v in value]
    if isinstance(value, date | time | Decimal):  # values of contexts
        return str(value)
    raise InputError(f"{where} is {value!r}, which a model file cannot hold. Use plain values.")


def tuples(value: Any) -> Any:
    """Sequences as tuples, which is how a constructor takes `hidden` or a context as anchor."""
    if isinstance(value, dict):
        return {key: tuples(v) for key, v in value.items()}
    return tuple(map(tuples, value)) if isinstance(value, list) else value


def stored_real(value: float) -> float | str | None:
    """A float for JSON, which has neither NaN (null here) nor infinity (text)."""
    value = float(value)
    return value if np.isfinite(value) else None if np.isnan(value) else str(value)


def real(stored: Any) -> float:
    """The float that `stored_real` wrote."""
    if stored is None:
        return float("nan")
    if type(stored) in (int, float) or stored in ("inf", "-inf"):
        return float(stored)
    raise ValueError("a number is of the wrong type")


def context_columns(contexts: pa.Table) -> list[dict[str, Any]]:
    """Name, type and values of each column; InputError for a type that would not come back."""
    return [_column(name, contexts[name]) for name in contexts.column_names]


def read_contexts(columns: list[Mapping[str, Any]]) -> pa.Table:
    """The table whose columns `context_columns` described."""
    table = {get(column, "name", str): _values(column) for column in columns}
    if len(table) != len(columns):
        raise ValueError("two context columns have the same name")
    return pa.table(table)


def _column(name: str, values: pa.ChunkedArray) -> dict[str, Any]:
    """A context column: what JSON has no type for, such as a date, is text that Arrow reads back.

    Floats are such text as well, as JSON has no NaN.
    """
    column = {"name": name, "type": str(values.type)}
    try:
        stored = values if _json_has(values.type) else values.cast(pa.string())
        column["values"] = stored.to_pylist()
        _values(column)
    except MALFORMED as error:
        raise InputError(
            f"the context column {name} of type {values.type} cannot be saved ({error}). "
            "Turn it into text before the log is counted."
        ) from error
    return column


def _values(column: Mapping[str, Any]) -> pa.Array:
    kind, values = _arrow_type(get(column, "type", str)), get(column, "values", list)
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


HISTORY_TYPES: Mapping[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "int64": (int, operator.index),
    "float64": (stored_real, real),
    "object": (lambda value: plain(value, "training.history"), lambda stored: stored),
}
"""How values of a column of the history are written and read, by the column's type."""


def history_records(history: pd.DataFrame) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Type of each column, and a record of each row."""
    types = {name: str(history[name].dtype) for name in history.columns}
    types = {name: kind if kind in HISTORY_TYPES else "object" for name, kind in types.items()}
    columns = {
        name: map(HISTORY_TYPES[kind][0], history[name].tolist()) for name, kind in types.items()
    }
    rows = zip(*columns.values(), strict=True)
    return types, [dict(zip(columns, row, strict=True)) for row in rows]


def read_history(types: Mapping[str, str], records: list[Mapping[str, Any]]) -> pd.DataFrame:
    """The rows that `history_records` described."""
    readers = {name: HISTORY_TYPES[kind][1] for name, kind in types.items()}
    return pd.DataFrame(
        {
            name: pd.Series([read(row[name]) for row in records], dtype=types[name])
            for name, read in readers.items()
        }
    )


COUNTS = ("pairs", "displays", "clicks", "epochs", "best_epoch")


def describe(fitted: FittedModel) -> dict[str, Any]:
    """All of a model but its arrays, as JSON can hold it."""
    return {
        "kind": fitted.kind,
        "click_model": fitted.click_model,
        "head": fitted.head,
        "settings": plain(fitted.settings, "settings", finite=True),
        "anchor": None if fitted.anchor is None else int(fitted.anchor),
        "contexts": context_columns(fitted.contexts),
        "features": None if fitted.features is None else _describe_features(fitted.features),
        "options": fitted.options.to_dict(),
        "training": _describe_training(fitted.training),
        "posterior": None if fitted.posterior is None else _describe_posterior(fitted.posterior),
    }


def upgraded(note: Mapping[str, Any]) -> Mapping[str, Any]:
    """The note as this release writes it, of an earlier version; raises as `rebuild` does.

    Up to version 2 the class decided what click model and relevance head now say.
    """
    if get(note, "schema_version", int) >= WITH_CLICK_MODELS:
        return note
    with_features = get(note, "features", dict, type(None)) is not None
    head = head_of(get(note, "kind", str), with_features=with_features)
    return {**note, "click_model": "pbm", "head": head}


def rebuild(
    note: Mapping[str, Any],
    parameters: Parameters,
    queries: QuerySets,
    items: Items | None,
    posterior: Mapping[str, np.ndarray] | None = None,
    members: tuple[Parameters, ...] = (),
) -> FittedModel:
    """The model that `describe` described; raises one of MALFORMED where that cannot be.

    Keys that are not needed are ignored: a later release may add some.
    """
    features = get(note, "features", dict, type(None))
    return FittedModel(
        kind=get(note, "kind", str),
        head=get(note, "head", str),
        settings=tuples(get(note, "settings", dict)),
        parameters=parameters,
        anchor=get(note, "anchor", int, type(None)),
        contexts=read_contexts(get(note, "contexts", list)),
        features=None if features is None else _features(features),
        options=_options(get(note, "options", dict)),
        queries=queries,
        items=items,
        training=_training(get(note, "training", dict)),
        posterior=None if posterior is None else _posterior(note, posterior),
        members=members,
        click_model=get(note, "click_model", str),
    )


def _describe_features(features: FeatureSpec) -> dict[str, Any]:
    return {"names": list(features.names), "scaler": features.scaler.to_dict()}


def _features(stored: Mapping[str, Any]) -> FeatureSpec:
    scaler = FeatureScaler.from_dict(get(stored, "scaler", dict))
    return FeatureSpec(texts(stored, "names"), scaler)


def _options(stored: Mapping[str, Any]) -> LogOptions:
    get(stored, "columns", dict)
    texts(stored, "context")
    known = {field.name for field in fields(LogOptions)}
    return LogOptions.from_dict({key: stored[key] for key in stored if key in known})


def _describe_training(training: TrainingSummary) -> dict[str, Any]:
    types, records = history_records(training.history)
    return {
        **{name: int(getattr(training, name)) for name in COUNTS},
        "seconds": stored_real(training.seconds),
        "log_likelihood": stored_real(training.log_likelihood),
        "checks": plain(training.checks, "training.checks"),
        "warnings": list(training.warnings),
        "history_types": types,
        "history": records,
    }


def _training(stored: Mapping[str, Any]) -> TrainingSummary:
    return TrainingSummary(
        **{name: get(stored, name, int) for name in COUNTS},
        seconds=real(stored["seconds"]),
        log_likelihood=real(stored["log_likelihood"]),
        history=read_history(get(stored, "history_types", dict), get(stored, "history", list)),
        checks=get(stored, "checks", dict),
        warnings=texts(stored, "warnings"),
    )


def _describe_posterior(posterior: ParameterPosterior) -> dict[str, Any]:
    k = posterior.pareto_k
    return {
        "pareto_k": None if k is None else stored_real(k),
        "gradient": stored_real(posterior.gradient),
        "hyperparameters": {name: float(v) for name, v in posterior.hyperparameters.items()},
    }


def _posterior(note: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> ParameterPosterior:
    stored = get(note, "posterior", dict)
    k = stored["pareto_k"]
    return ParameterPosterior(
        **arrays,
        pareto_k=None if k is None else real(k),
        gradient=real(stored["gradient"]),
        hyperparameters={
            name: real(value) for name, value in dict(stored.get("hyperparameters", {})).items()
        },
    )
