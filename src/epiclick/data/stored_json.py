"""JSON that the tool wrote, read back by type."""

import json
from collections.abc import Mapping
from typing import Any, NoReturn


def from_json(content: bytes) -> Any:
    """What JSON says; NaN and infinity, which JSON does not have, are refused."""
    return json.loads(content.decode(), parse_constant=_not_json)


def get(record: Mapping[str, Any], key: str, *types: type) -> Any:
    """A value of one of the given types; JSON's true is no number here."""
    if key not in record:
        raise ValueError(f"'{key}' is missing")
    if type(record[key]) not in types:
        raise ValueError(f"'{key}' is of the wrong type ({type(record[key]).__name__})")
    return record[key]


def texts(record: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """A list that holds nothing but text."""
    values = get(record, key, list)
    if not all(type(value) is str for value in values):
        raise ValueError(f"'{key}' must be texts")
    return tuple(values)


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
