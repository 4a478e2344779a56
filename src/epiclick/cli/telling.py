"""What verbs tell beside their result: warnings as they come, numbers that may be unknown."""

import math
import shutil
import textwrap
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

from epiclick.cli.output import note
from epiclick.errors import InputWarning


class Interrupted(Exception):
    """Ctrl-C in a verb that leaves something behind; the message says what."""


@contextmanager
def kept_when_stopped(words: str) -> Iterator[None]:
    """Say at Ctrl-C what is kept, and how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(words) from None


@contextmanager
def told_warnings(*, quiet: bool) -> Iterator[list[str]]:
    """Tell the library's warnings as notes, each once; the list grows as they come."""
    told: list[str] = []
    others = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if not issubclass(category, InputWarning):
            others(message, category, filename, lineno, file, line)
        elif str(message) not in told:
            told.append(str(message))
            tell_warning(str(message), quiet=quiet)

    with warnings.catch_warnings():
        warnings.simplefilter("always", InputWarning)
        warnings.showwarning = show
        yield told


def tell_warning(message: str, *, quiet: bool) -> None:
    """A note on what may mislead."""
    note(f"epiclick: warning: {message}", quiet=quiet)


def print_text(text: str) -> None:
    """Sentences for people, in lines that fit the terminal; paths and names stay whole."""
    width = min(shutil.get_terminal_size().columns, 80)
    for line in text.splitlines():
        print(textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False))


def known(value: Any) -> Any:
    """A record for JSON, which has neither NaN nor infinity: null in their place."""
    if isinstance(value, Mapping):
        return {name: known(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [known(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def number(value: float | None, digits: int = 4) -> str:
    """A number for a table, "-" where it is unknown."""
    return "-" if value is None or math.isnan(value) else f"{value:.{digits}f}"
