"""How verbs speak: tables for people, one JSON object for programs, notes on standard error."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

SCHEMA_VERSION = 1

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print results only, no notes.")]


def print_json(record: Mapping[str, Any]) -> None:
    """One object with its schema version, as a single line."""
    # dates and decimals of context columns are written as text
    print(json.dumps({"schema_version": SCHEMA_VERSION, **record}, default=str))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table that fits the terminal; numbers are aligned on the right."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*map(escape, row))
    Console().print(table)


def note(message: str, *, quiet: bool = False) -> None:
    """A remark beside the result."""
    if not quiet:
        print(message, file=sys.stderr)


@contextmanager
def progress(message: str, *, quiet: bool = False) -> Iterator[None]:
    """Show that work is going on, on a terminal only."""
    from rich.console import Console

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield
        return
    with console.status(message):
        yield
