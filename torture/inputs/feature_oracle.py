"""What tables of features say, by plain Python: a vector for each pair, or why they are bad."""

import math
import re
from typing import Any

from torture.inputs.event_values import Unsure
from torture.inputs.oracle import NAMES, Bad, as_id

Row = dict[str, Any]
Vectors = dict[tuple[str, str], dict[str, Any]]
FURTHER = ("split", "label", "new_item")
DAYS = re.compile(r"day|date|ds|dt|as_of|snapshot.*", re.IGNORECASE)


def keys_of(names: list[str]) -> dict[str, str]:
    """The names of the ids that a table has."""
    found = {}
    for role in ("query_id", "doc_id"):
        own = [name for name in names if name.lower() in (role, *NAMES[role])]
        if len(own) > 1:
            raise Bad(f"two columns for {role}")
        if own:
            found[role] = own[0]
    if not found:
        raise Bad("no ids")
    return found


def vectors(
    tables: list[list[Row]], *, numbers: tuple[str, ...], text: tuple[str, ...], impute: bool
) -> Vectors:
    """The features of each pair, of tables of pairs or of items.

    Args:
        tables: one with both ids, and perhaps one with items only.
        numbers: features of the model that are numbers.
        text: those that are categories.
        impute: whether values may be missing.
    """
    read = [read_table(rows, numbers, text, impute=impute) for rows in tables]
    names = [name for own, _ in read for row in own.values() for name in row]
    pairs = [own for own, ids in read if len(ids) == 2]
    items = [own for own, ids in read if ids == ("doc_id",)]
    if len(pairs) != 1 or len(pairs) + len(items) < len(read):
        raise Bad("not one table of candidates")
    if missing := {*numbers, *text} - set(names):
        raise Bad(f"no {missing}")
    shared = [{name for row in own.values() for name in row} for own, _ in read]
    if len(set().union(*shared)) < sum(map(len, shared)):
        raise Bad("a feature in two tables")
    joined: Vectors = {}
    for query, doc in pairs[0]:
        row: dict[str, Any] = {}
        for (own, ids), names in zip(read, shared, strict=True):
            key = (query, doc) if len(ids) == 2 else (doc,)
            if key not in own and not impute and names:
                raise Bad("an item without features")
            row |= own.get(key, dict.fromkeys(names))
        joined[query, doc] = row
    return joined


def read_table(
    rows: list[Row], numbers: tuple[str, ...], text: tuple[str, ...], *, impute: bool
) -> tuple[dict[tuple[str, ...], dict[str, Any]], tuple[str, ...]]:
    """The features of a table by its ids, and the names of these."""
    if not rows:
        raise Bad("no rows")
    names = list(dict.fromkeys(name for row in rows for name in row))
    if len({name.lower() for name in names}) < len(names):
        raise Bad("a column twice")
    keys = keys_of(names)
    if any(DAYS.fullmatch(name) or name.lower() in FURTHER for name in names):
        raise Unsure("columns that mean something else")
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows:
        key = tuple(as_id(row.get(own)) for own in keys.values())
        if key in found:
            raise Bad("a key twice")
        own = {}
        for name in names:
            if name in numbers:
                own[name] = number(row.get(name), impute=impute)
            elif name in text:
                own[name] = category(row.get(name), impute=impute)
        found[key] = own
    return found, tuple(keys)


def category(value: Any, *, impute: bool) -> str | None:
    """A text; None where it is missing, if that is allowed."""
    if value is None and not impute:
        raise Bad("a category is missing")
    if not isinstance(value, str | None):
        raise Unsure("a category that is a number")
    return value


def number(value: Any, *, impute: bool) -> float | None:
    """A finite number; None where it is missing, if that is allowed."""
    if isinstance(value, bool):
        return float(value)
    written = str(value).strip().lower()
    if written in ("true", "false"):
        return float(written == "true")
    if re.fullmatch(r"[+-]?inf(inity)?", written):
        raise Bad("infinite")
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", written, re.ASCII):
        if math.isinf(float(written)):
            raise Unsure("too large a number")
        return float(written)
    if re.fullmatch(r"[\d_.]+", written, re.ASCII):
        raise Unsure("1_0, which DuckDB reads as 10")
    if not impute:
        raise Bad(f"{value!r} is no number")
    return None
