"""What verbs tell beside their result: warnings as they come, numbers that may be unknown."""

import math
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, TextIO

from typer.core import TyperCommand

from epiclick.cli.output import note
from epiclick.errors import InputWarning


class Interrupted(Exception):
    """Ctrl-C in a verb that leaves something behind; the message says what."""


class WithDefaults(TyperCommand):
    """A command whose defaults are looked up when its help is asked for, not at every start."""

    shown: ClassVar[Callable[[], Mapping[str, str]]]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help with the defaults of the moment."""
        shown = type(self).shown()
        for parameter in self.params:
            if parameter.name in shown:
                parameter.show_default = shown[parameter.name]  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


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
    """Sentences for people, in lines that fit every terminal."""
    for line in text.splitlines():
        print(textwrap.fill(line, 80))


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
