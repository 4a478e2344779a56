"""Values that are given between commas."""

from collections.abc import Callable
from typing import TypeVar

from epiclick.errors import InputError

Number = TypeVar("Number", int, float)


def names_in(text: str | None) -> list[str]:
    """Names between commas; none if nothing was given."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def numbers_in(
    text: str, option: str, write: str, kind: Callable[[str], Number]
) -> tuple[Number, ...]:
    """Numbers between commas; `write` says what is asked for, such as "numbers such as 1,.5"."""
    listed = text.strip().removesuffix(",")
    try:
        return tuple(kind(part) for part in listed.split(",")) if listed else ()
    except ValueError as error:
        raise InputError(f"{option} {text}: write {write}") from error
