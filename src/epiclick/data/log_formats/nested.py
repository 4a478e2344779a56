"""Values inside structs, maps, lists and JSON, and times in whichever way they were written."""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from epiclick.errors import InputError

if TYPE_CHECKING:
    import ibis.expr.types as ir

PER_UNIT = ((10**17, 10**6), (10**14, 10**3), (10**11, 1))
"""Least size of a number of (nano, micro, milli)seconds since 1970 -> how many are a millisecond.

A number of seconds stays below 10**11 until the year 5138, one of milliseconds exceeds it since
March 1973.
"""


@cache
def _json_functions() -> dict[str, Any]:
    """DuckDB's functions of JSON, as functions of Ibis."""
    import ibis
    import ibis.expr.datatypes as dt

    @ibis.udf.scalar.builtin(name="json_extract_string")
    def text(value, path: str) -> str:  # type: ignore[no-untyped-def, empty-body]
        """The value at a path, as text."""

    @ibis.udf.scalar.builtin(name="json_extract_string")
    def texts(value, path: str) -> dt.Array[dt.string]:  # type: ignore[no-untyped-def]
        """The values at a path with a wildcard, as text."""

    @ibis.udf.scalar.builtin(name="json_extract")
    def values(value, path: str) -> dt.Array[dt.json]:  # type: ignore[no-untyped-def]
        """The values at a path with a wildcard, as JSON."""

    @ibis.udf.scalar.builtin(name="json_valid")
    def valid(value) -> bool:  # type: ignore[no-untyped-def, empty-body]
        """Whether text is JSON."""

    return {"text": text, "texts": texts, "values": values, "valid": valid}


def text_at(value: "ir.Value | None", *path: str) -> "ir.StringValue":
    """The value at a path of names, as text; NULL where there is none.

    Args:
        value: a struct, a map, JSON, or text that contains JSON; None for a missing column.
        *path: names from the outside in; none for the value itself.
    """
    import ibis

    for depth, name in enumerate(path):
        if value is None:
            break
        kind: Any = value.type()
        if kind.is_struct():
            value = value[name] if name in kind.names else None
        elif kind.is_map():
            value = value.get(name)
        else:
            return _json("text", value, "$" + "".join(f'."{each}"' for each in path[depth:]))
    if value is None:
        return ibis.null("string")
    return _json("text", value, "$") if value.type().is_json() else value.cast("string")


def elements_of(value: "ir.Value") -> "ir.ArrayValue":
    """A list, or JSON that contains one, as a list: of structs, of JSON, or of plain values."""
    return value if value.type().is_array() else _json("values", value, "$[*]")


def texts_of(value: "ir.Value") -> "ir.ArrayValue":
    """A list of plain values, or JSON that contains one, as a list of text."""
    kind: Any = value.type()
    if not kind.is_array():
        return _json("texts", value, "$[*]")
    if kind.value_type.is_json():
        return value.map(lambda each: _json("text", each, "$"))
    return value.cast("array<string>")


def _json(function: str, value: "ir.Value", path: str) -> Any:
    """What a function finds in JSON at a path; NULL where text is not JSON."""
    import ibis

    engine = value.get_backend().name if value.op().relations else "duckdb"
    if engine != "duckdb":
        raise InputError(
            f"nested values are JSON here, which is read by DuckDB only, not by {engine}; give "
            "them as structs, or export the table to Parquet",
            code="json-needs-duckdb",
        )
    if not (value.type().is_json() or value.type().is_string()):
        value = value.cast("string")
    found = _json_functions()[function](value, path)
    if value.type().is_json():
        return found
    return ibis.ifelse(_json_functions()["valid"](value), found, ibis.null(found.type()))


def column_of(table: "ir.Table", name: str) -> "ir.Value | None":
    """A column by its name, None if there is none."""
    return table[name] if name in table.columns else None


def time_of(value: "ir.Value | None") -> "ir.TimestampValue":
    """A time: a timestamp, ISO 8601 text, or a number of (milli, micro, nano)seconds since 1970.

    NULL where it is none of these.
    """
    import ibis

    if value is None:
        return ibis.null("timestamp(6)")
    kind = value.type()
    if kind.is_timestamp() or kind.is_date():
        return value.cast("timestamp(6)")
    if kind.is_numeric():
        return _since_1970(value)
    text = text_at(value).strip()
    number = text.try_cast("float64")
    return ibis.coalesce(_since_1970(number), _in_utc(text))


OFFSET = r"\d:\d\d.*([+-])(\d\d):?(\d\d)$"


def _in_utc(text: "ir.StringValue") -> "ir.TimestampValue":
    """ISO 8601 text as a time in UTC; engines ignore an offset such as +01:00."""
    import ibis

    sign, hours, minutes = (text.re_extract(OFFSET, group) for group in (1, 2, 3))
    ahead = hours.try_cast("int64") * 60 + minutes.try_cast("int64")
    ahead = ibis.coalesce(ibis.ifelse(sign == "-", -ahead, ahead), 0)
    return text.try_cast("timestamp(6)") - ahead.as_interval("m")


def _since_1970(number: Any) -> "ir.TimestampValue":
    import ibis

    branches: Sequence[Any] = [
        (number.abs() >= least, (number / each).floor().cast("int64")) for least, each in PER_UNIT
    ]
    milliseconds = ibis.cases(*branches, else_=(number * 1_000).floor().cast("int64"))
    return milliseconds.as_timestamp("ms").cast("timestamp(6)")


def seen_text(value: "ir.StringValue") -> "ir.StringValue":
    """Text without outer spaces; NULL where nothing or "(not set)" is left."""
    import ibis

    trimmed = value.strip()
    return ibis.ifelse(trimmed.isin(["", "(not set)"]), ibis.null("string"), trimmed)


def whole_number(value: "ir.Value") -> "ir.IntegerValue":
    """A whole number, also where it is written as text; NULL elsewhere."""
    import ibis

    number = value.try_cast("float64") if value.type().is_string() else value
    whole = number.try_cast("int64")
    return ibis.ifelse(whole == number, whole, ibis.null("int64"))
