"""Metadata of a model, stored as model.json: everything but its arrays."""

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
from epiclick.data.feature_encoding import FeatureEncoding
from epiclick.data.features import FeatureScaler
from epiclick.data.schema import LogOptions
from epiclick.errors import InputError
from epiclick.fitted.exposure import ExposureModel
from epiclick.fitted.parameters import ParameterPosterior, Parameters
from epiclick.fitted.revenue import Revenue
from epiclick.fitted.state import (
    FeatureSpec,
    FittedModel,
    Items,
    QuerySets,
    TrainingSummary,
    head_of,
)

WITH_CLICK_MODELS = 3
"""The first schema version that names click model and relevance head."""


def to_json_value(value: Any, where: str, *, finite: bool = False) -> Any:
    """A value that JSON can represent; NaN and infinity become null, or an error if `finite`."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float) and (np.isfinite(value) or not finite):
        return value if np.isfinite(value) else None
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: to_json_value(v, f"{where}.{key}", finite=finite) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_value(v, where, finite=finite) for v in value]
    if isinstance(value, date | time | Decimal):  # values of contexts
        return str(value)
    raise InputError(
        f"{where} is {value!r}, which a model file cannot store. Use numbers, text, lists or "
        "dictionaries.",
        code="unsupported-value",
    )


def with_tuples(value: Any) -> Any:
    """Lists as tuples, the type of `hidden` and of a context as anchor in a constructor."""
    if isinstance(value, dict):
        return {key: with_tuples(v) for key, v in value.items()}
    return tuple(map(with_tuples, value)) if isinstance(value, list) else value


def float_to_json(value: float) -> float | str | None:
    """A float for JSON, which has neither NaN (null here) nor infinity (text)."""
    value = float(value)
    return value if np.isfinite(value) else None if np.isnan(value) else str(value)


def float_from_json(stored: Any) -> float:
    """The float that `float_to_json` wrote."""
    if stored is None:
        return float("nan")
    if type(stored) in (int, float) or stored in ("inf", "-inf"):
        return float(stored)
    raise ValueError("a number is of the wrong type")


def context_columns(contexts: pa.Table) -> list[dict[str, Any]]:
    """Name, type and values of each column; InputError for a type that cannot be restored."""
    return [_column(name, contexts[name]) for name in contexts.column_names]


def read_contexts(columns: list[Mapping[str, Any]]) -> pa.Table:
    """The inverse of `context_columns`."""
    table = {get(column, "name", str): _values(column) for column in columns}
    if len(table) != len(columns):
        raise ValueError("two context columns have the same name")
    return pa.table(table)


def _column(name: str, values: pa.ChunkedArray) -> dict[str, Any]:
    """A context column; types that JSON lacks, such as dates, as text that Arrow parses.

    Floats are text as well, as JSON has no NaN.
    """
    column = {"name": name, "type": str(values.type)}
    try:
        stored = values if _json_has(values.type) else values.cast(pa.string())
        column["values"] = stored.to_pylist()
        _values(column)
    except MALFORMED as error:
        raise InputError(
            f"the context column {name} of type {values.type} cannot be saved ({error}). "
            "Convert it to text before the log is counted.",
            code="unsupported-value",
        ) from error
    return column


def _values(column: Mapping[str, Any]) -> pa.Array:
    kind, values = _arrow_type(get(column, "type", str)), get(column, "values", list)
    return pa.array(values, kind) if _json_has(kind) else pa.array(values, pa.string()).cast(kind)


def _json_has(kind: pa.DataType) -> bool:
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return text or pa.types.is_integer(kind) or pa.types.is_boolean(kind)


def _arrow_type(name: str) -> pa.DataType:
    """The Arrow type of this name."""
    if zoned := re.fullmatch(r"timestamp\[(s|ms|us|ns), tz=(.+)\]", name):
        return pa.timestamp(*zoned.groups())
    if decimal := re.fullmatch(r"decimal128\((\d+), (\d+)\)", name):
        return pa.decimal128(*map(int, decimal.groups()))
    return pa.type_for_alias(name)


HISTORY_TYPES: Mapping[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "int64": (int, operator.index),
    "float64": (float_to_json, float_from_json),
    "object": (lambda value: to_json_value(value, "training.history"), lambda stored: stored),
}
"""Functions that write and read the values of a history column, by its type."""


def history_records(history: pd.DataFrame) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Type of each column, and one record per row."""
    types = {name: str(history[name].dtype) for name in history.columns}
    types = {name: kind if kind in HISTORY_TYPES else "object" for name, kind in types.items()}
    columns = {
        name: map(HISTORY_TYPES[kind][0], history[name].tolist()) for name, kind in types.items()
    }
    rows = zip(*columns.values(), strict=True)
    return types, [dict(zip(columns, row, strict=True)) for row in rows]


def read_history(types: Mapping[str, str], records: list[Mapping[str, Any]]) -> pd.DataFrame:
    """The inverse of `history_records`."""
    readers = {name: HISTORY_TYPES[kind][1] for name, kind in types.items()}
    return pd.DataFrame(
        {
            name: pd.Series([read(row[name]) for row in records], dtype=types[name])
            for name, read in readers.items()
        }
    )


COUNTS = ("pairs", "displays", "clicks", "epochs", "best_epoch")


def describe(fitted: FittedModel) -> dict[str, Any]:
    """Everything of a model but its arrays, as JSON values."""
    return {
        "kind": fitted.kind,
        "click_model": fitted.click_model,
        "head": fitted.head,
        "settings": to_json_value(fitted.settings, "settings", finite=True),
        "anchor": None if fitted.anchor is None else int(fitted.anchor),
        "contexts": context_columns(fitted.contexts),
        "features": None if fitted.features is None else _describe_features(fitted.features),
        "options": fitted.options.to_dict(),
        "training": _describe_training(fitted.training),
        "posterior": None if fitted.posterior is None else _describe_posterior(fitted.posterior),
        **({} if fitted.conversion is None else {"conversion": describe(fitted.conversion)}),
    }


def upgraded(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Metadata of an earlier version in the current schema; raises as `rebuild` does.

    Up to version 2 the class determined the click model and the relevance head.
    """
    if get(metadata, "schema_version", int) >= WITH_CLICK_MODELS:
        return metadata
    with_features = get(metadata, "features", dict, type(None)) is not None
    head = head_of(get(metadata, "kind", str), with_features=with_features)
    return {**metadata, "click_model": "pbm", "head": head}


def rebuild(
    metadata: Mapping[str, Any],
    parameters: Parameters,
    queries: QuerySets,
    items: Items | None,
    posterior: Mapping[str, np.ndarray] | None = None,
    members: tuple[Parameters, ...] = (),
    conversion: FittedModel | None = None,
    revenue: Revenue | None = None,
) -> FittedModel:
    """The model from the metadata of `describe` and its arrays; raises one of MALFORMED.

    Unknown keys are ignored: a later release may add some. The model of conversions is rebuilt from
    its own metadata, under `conversion`.
    """
    features = get(metadata, "features", dict, type(None))
    return FittedModel(
        kind=get(metadata, "kind", str),
        head=get(metadata, "head", str),
        settings=with_tuples(get(metadata, "settings", dict)),
        parameters=parameters,
        anchor=get(metadata, "anchor", int, type(None)),
        contexts=read_contexts(get(metadata, "contexts", list)),
        features=None if features is None else _features(features),
        options=_options(get(metadata, "options", dict)),
        queries=queries,
        items=items,
        training=_training(get(metadata, "training", dict)),
        posterior=None if posterior is None else _posterior(metadata, posterior),
        members=members,
        click_model=get(metadata, "click_model", str),
        conversion=conversion,
        revenue=revenue,
    )


def _describe_features(features: FeatureSpec) -> dict[str, Any]:
    more = {} if features.exposure is None else {"exposure": features.exposure.to_dict()}
    more |= {} if features.encoding is None else {"encoding": features.encoding.to_dict()}
    return {"names": list(features.names), "scaler": features.scaler.to_dict(), **more}


def _features(stored: Mapping[str, Any]) -> FeatureSpec:
    scaler = FeatureScaler.from_dict(get(stored, "scaler", dict))
    exposure = ExposureModel.from_dict(stored["exposure"]) if "exposure" in stored else None
    encoding = FeatureEncoding.from_dict(stored["encoding"]) if "encoding" in stored else None
    return FeatureSpec(texts(stored, "names"), scaler, exposure, encoding)


def _options(stored: Mapping[str, Any]) -> LogOptions:
    get(stored, "columns", dict)
    texts(stored, "context")
    known = {field.name for field in fields(LogOptions)}
    return LogOptions.from_dict({key: stored[key] for key in stored if key in known})


def _describe_training(training: TrainingSummary) -> dict[str, Any]:
    types, records = history_records(training.history)
    return {
        **{name: int(getattr(training, name)) for name in COUNTS},
        "seconds": float_to_json(training.seconds),
        "log_likelihood": float_to_json(training.log_likelihood),
        "checks": to_json_value(training.checks, "training.checks"),
        "warnings": list(training.warnings),
        "history_types": types,
        "history": records,
    }


def _training(stored: Mapping[str, Any]) -> TrainingSummary:
    return TrainingSummary(
        **{name: get(stored, name, int) for name in COUNTS},
        seconds=float_from_json(stored["seconds"]),
        log_likelihood=float_from_json(stored["log_likelihood"]),
        history=read_history(get(stored, "history_types", dict), get(stored, "history", list)),
        checks=get(stored, "checks", dict),
        warnings=texts(stored, "warnings"),
    )


def _describe_posterior(posterior: ParameterPosterior) -> dict[str, Any]:
    k = posterior.pareto_k
    return {
        "pareto_k": None if k is None else float_to_json(k),
        "gradient": float_to_json(posterior.gradient),
        "hyperparameters": {name: float(v) for name, v in posterior.hyperparameters.items()},
    }


def _posterior(metadata: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> ParameterPosterior:
    stored = get(metadata, "posterior", dict)
    k = stored["pareto_k"]
    return ParameterPosterior(
        **arrays,
        pareto_k=None if k is None else float_from_json(k),
        gradient=float_from_json(stored["gradient"]),
        hyperparameters={
            name: float_from_json(value)
            for name, value in dict(stored.get("hyperparameters", {})).items()
        },
    )
