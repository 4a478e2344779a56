"""Tables in model.json: the contexts, an Arrow table, and the history of training, a pandas one."""

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa

from epiclick.data.damage import MALFORMED
from epiclick.data.stored_json import get
from epiclick.errors import InputError
from epiclick.models.note_values import plain, real, stored_real


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
