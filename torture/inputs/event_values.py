"""Values of events as docs/formats.md has them read, by plain Python."""

import json
import re
from datetime import datetime, timedelta
from typing import Any

EPOCH = datetime(1970, 1, 1)
TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d(?:\.\d{1,6})?)(?:Z|([+-])(\d\d):?(\d\d))?", re.ASCII
)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)


class Unsure(Exception):
    """The documentation does not say how this is read: it may be counted or refused."""


def at(value: Any, *path: str) -> Any:
    """The value at a path of keys; None if there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def text(value: Any) -> str | None:
    """A value as text, as JSON writes it."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def seen(value: Any) -> str | None:
    """Text without outer spaces; None where nothing, or "(not set)", is left."""
    written = text(value)
    if written is not None and re.search(r"[^\S ]|[\x00-\x1f]", written):
        raise Unsure("which spaces are trimmed")
    trimmed = written and written.strip(" ")
    return None if trimmed in (None, "", "(not set)") else trimmed


def whole(value: Any) -> int | None:
    """A whole number, also as text; None elsewhere."""
    if isinstance(value, bool):
        raise Unsure("whether true is 1")
    written = text(value)
    if written is None or not NUMBER.fullmatch(written.strip()):
        return None
    number = float(written)
    if abs(number) >= 2**53:
        raise Unsure("where whole numbers end")
    return int(number) if number.is_integer() else None


def listed(value: Any) -> list[Any]:
    """A list; nothing is an empty one."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        raise Unsure("JSON in text")
    if value is None or isinstance(value, list):
        return value or []
    raise Unsure("no list")


def time(value: Any) -> float | None:
    """Seconds since 1970, of ISO 8601 text or a number of (milli, micro, nano)seconds."""
    written = text(value)
    if written is None or not re.search(r"\d", written):
        return None
    if NUMBER.fullmatch(written.strip()):
        number = float(written)
        for least, unit in ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3)):
            if abs(number) >= least:
                return round(number / unit, 3)
        return number
    found = TIME.fullmatch(written.strip())
    if not found:
        raise Unsure("another way to write a time")
    day, clock, sign, hours, minutes = found.groups()
    try:
        moment = datetime.fromisoformat(f"{day} {clock}")
    except ValueError:
        return None
    if sign:
        ahead = timedelta(hours=int(hours), minutes=int(minutes))
        moment -= ahead if sign == "+" else -ahead
    return (moment - EPOCH).total_seconds()
