"""How verbs speak: tables for people, one JSON object for programs, notes on standard error."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import typer

SCHEMA_VERSION = 1

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print results only, no notes.")]


def print_json(record: Mapping[str, Any]) -> None:
    """One object with its schema version, as a single line."""
    # dates and decimals of context columns are written as text
    print(json.dumps({"schema_version": SCHEMA_VERSION, **record}, default=str))


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    prose: Sequence[str] = (),
) -> None:
    """A table that fits the terminal, aligned on the right but for columns of prose.

    Cells are broken between words only. Where that does not do, each row becomes lines of its own,
    so that no number is ever cut.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    listed = [list(row) for row in rows]
    console = Console()
    widths = column_widths([list(columns), *listed], console.width - 3 * len(columns) - 1)
    if widths is not None:
        table = Table(title=title, title_justify="left", title_style="bold")
        for column, width in zip(columns, widths, strict=True):
            justify: Literal["left", "right"] = "left" if column in prose else "right"
            table.add_column(escape(column), justify=justify, width=width)
        for row in listed:
            table.add_row(*map(escape, row))
        console.print(table)
        return
    print(title)
    for row in listed:
        print()
        for column, cell in zip(columns, row, strict=True):
            if cell:
                print(f"{column}: {cell}" if column else cell)


def column_widths(rows: Sequence[Sequence[str]], room: int) -> list[int] | None:
    """Letters of each column, enough for its longest word; None if there is no room for that."""
    from rich.cells import cell_len

    columns = list(zip(*rows, strict=True))
    wanted = [max(map(cell_len, column)) for column in columns]
    widths = [
        max(cell_len(word) for cell in column for word in [*cell.split(), ""]) for column in columns
    ]
    spare = room - sum(widths)
    if spare < 0:
        return None
    # what is nearly wide enough comes first, so that as few columns as can be are broken
    for at in sorted(range(len(columns)), key=lambda at: wanted[at] - widths[at]):
        more = min(wanted[at] - widths[at], spare)
        widths[at] += more
        spare -= more
    return widths


def note(message: str, *, quiet: bool = False) -> None:
    """A remark beside the result."""
    if not quiet:
        print(message, file=sys.stderr)


@contextmanager
def progress(message: str, *, quiet: bool = False) -> Iterator[None]:
    """Show that work is going on, on a terminal only."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(message):
        yield
