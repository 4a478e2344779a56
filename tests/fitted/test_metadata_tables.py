"""Contexts and history come back from JSON with their types, to the last bit."""

import datetime
import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from epiclick.data.checksums import MALFORMED
from epiclick.fitted.metadata import context_columns, history_records, read_contexts, read_history

from ..raising import raises_code
from .conftest import history, put, with_features


def through_json(value: Any) -> Any:
    return json.loads(json.dumps(value, allow_nan=False))


@pytest.mark.parametrize(
    "values",
    [
        pa.array([0.1, 1 / 3, 5e-324, -0.0]),
        pa.array([float("inf"), float("-inf"), 1e308, None]),
        pa.array([True, False, None, True]),
        pa.array(["a", "", "é", "\x00"]),
        pa.array(["a", "", "é", None], pa.large_string()),
        pa.array([-128, 127, None], pa.int8()),
        pa.array([datetime.date(2026, 1, d) for d in (1, 2, 3, 4)]),
        pa.array([1, 2, 3, 4], pa.timestamp("ns")),
        pa.array([1, 2, 3, 4], pa.timestamp("us", tz="Europe/Berlin")),
        pa.array([Decimal("1.20"), None, Decimal("-3.00"), Decimal("0.01")], pa.decimal128(9, 2)),
    ],
    ids=lambda values: str(values.type),
)
def test_contexts_of_any_plain_type_survive(values: pa.Array) -> None:
    contexts = pa.table({"context": values, "position": pa.array(range(len(values)))})
    loaded = read_contexts(through_json(context_columns(contexts)))
    assert loaded.schema == contexts.schema
    assert loaded.equals(contexts)


def test_integers_and_text_stand_in_the_note_as_they_are() -> None:
    columns = context_columns(with_features().contexts)
    assert columns[1] == {"name": "position", "type": "int64", "values": [1, 2, 1, 2]}
    assert columns[0]["values"] == ["phone", "phone", "tv", "tv"]


def test_a_context_that_is_not_a_number_survives() -> None:
    contexts = pa.table({"c": [float("nan"), 1.0, 2.0]})
    loaded = read_contexts(through_json(context_columns(contexts)))
    np.testing.assert_array_equal(loaded["c"].to_numpy(), [np.nan, 1, 2])


@pytest.mark.parametrize("value", [b"\xff", datetime.time(1)], ids=["binary", "time64"])
def test_contexts_that_cannot_be_restored_are_reported(value: Any) -> None:
    with raises_code("unsupported-value") as caught:
        context_columns(pa.table({"c": [value]}))
    assert re.search("column c of type (binary|time64)", str(caught.value))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (put(1, "values", value=[1, 2, 1]), "expected length 4 but got length 3"),
        (put(1, "values", value="1212"), "'values'"),
        (put(1, "values", 0, value="x"), "tried to convert to int64"),
        (put(1, "values", 0, value=2**70), "int too"),
        (put(0, "values", 0, value="\ud800"), "surrogates not allowed"),
        (put(1, "type", value="module"), "No type alias for module"),
        (put(1, "type", value="decimal128(99, 2)"), "precision"),
        (put(1, "type", value="date32[day]"), "(?i)expected bytes|convert"),
        (put(0, "type", value="timestamp[us, tz=Nowhere]"), "Nowhere"),
        (put(1, "name", value="device"), "the same name"),
        (put(1, value=3), "not iterable"),
    ],
)
def test_invalid_columns_are_reported(
    change: Callable[[list[dict[str, Any]]], None], said: str
) -> None:
    columns = through_json(context_columns(with_features().contexts))
    change(columns)
    with pytest.raises(MALFORMED, match=said):
        read_contexts(columns)


@pytest.mark.parametrize(
    "rows",
    [
        history([-0.3, -0.2]),
        history([None, None]),
        history([float("nan"), float("inf"), -0.0, float("-inf")]),
        history([0.0])[:0],
        pd.DataFrame({"epoch": [1, 2], "note": ["first", None]}, dtype=object),
    ],
    ids=["numbers", "no_validation", "not_finite", "no_rows", "words"],
)
def test_a_history_survives(rows: pd.DataFrame) -> None:
    loaded = read_history(*through_json(history_records(rows)))
    pd.testing.assert_frame_equal(loaded, rows, check_exact=True)
    for name in rows.select_dtypes("float64"):
        assert loaded[name].to_numpy().tobytes() == rows[name].to_numpy().tobytes()


@pytest.mark.parametrize(
    ("types", "records", "said"),
    [
        ({"epoch": "int64"}, [{}], "'epoch'"),
        ({"epoch": "int64"}, [3], "not subscriptable"),
        ({"epoch": "int64"}, [{"epoch": 0.5}], "as an integer"),
        ({"epoch": "int64"}, [{"epoch": 2**70}], "int64|too (large|big)"),
        ({"loss": "float64"}, [{"loss": "low"}], "a number is of the wrong type"),
        ({"epoch": "M8[ns]"}, [], r"M8\[ns\]"),
        ({"epoch": []}, [], "unhashable"),
    ],
)
def test_an_invalid_history_is_reported(types: Any, records: Any, said: str) -> None:
    with pytest.raises(MALFORMED, match=said):
        read_history(types, records)
