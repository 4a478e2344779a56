"""The console: tables for people, JSON for programs, warnings on standard error, files to write."""

import errno
import json
import math
import os
import shutil
import sys
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Literal, TextIO

import typer

from epiclick.errors import InputError, InputWarning, cannot_write, shortened

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


OF_THE_PROCESS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EPIPE)
"""Errors that no other place would mend."""

PARQUET = (".parquet", ".pq")
ASIDE = ".12345678.checkpoint.part"
"""What the names of files that are written beside the target may have more than its own."""


@contextmanager
def written_to(out: Path, kept: str = "") -> Iterator[None]:
    """Name --out where the system refuses to write it; what it refuses elsewhere is left alone.

    Args:
        out: the file or folder.
        kept: what is not lost by it, a sentence.
    """
    try:
        yield
    except OSError as error:
        named = error.filename
        elsewhere = named is not None and not _beside(Path(os.fsdecode(named)), out)
        if elsewhere or error.errno in OF_THE_PROCESS:
            raise
        raise InputError(f"{cannot_write(f'--out {out}', error)} {kept}".rstrip()) from error


def check_writable(out: Path) -> None:
    """Refuse a path in which no file can be made."""
    with written_to(out):
        place = out.absolute()
        with suppress(FileNotFoundError, NotADirectoryError):
            os.lstat(f"{place}{ASIDE}")  # names may be too long
        parent = next(p for p in place.parents if p.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(
            f"--out {shortened(str(out))} cannot be written: {shortened(str(parent))} is no folder "
            "for new files. Name another place."
        )


def check_folder(out: Path) -> None:
    """Refuse a folder in which no file can be made."""
    check_writable(out)
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file; name a folder")
    check_writable(out / "file")


def check_taken(out: Path, names: Sequence[str], verb: str, *, begun: bool) -> None:
    """Refuse to replace files in a folder that this verb has not begun; others there stay.

    Args:
        out: the folder.
        names: what is to be written into it.
        verb: who writes.
        begun: whether the folder shows that the verb has written there before.
    """
    taken = [name for name in names if os.path.lexists(out / name)]
    if taken and not begun:
        from epiclick.data.writing import named

        raise InputError(
            f"--out {out} holds {named(taken)}, which epiclick {verb} did not write, and is left "
            "as it is; name a new folder, or move what is there elsewhere"
        )


def check_file(
    out: Path, suffixes: Sequence[str], called: str, example: str, inputs: Sequence[str] = ()
) -> None:
    """Refuse a file that cannot be written, is of another kind, or is itself read.

    Args:
        out: the file.
        suffixes: ends that its name may have; any if none.
        called: what it is, in words.
        example: name of such a file.
        inputs: files, folders and globs that are read.
    """
    check_writable(out)
    if out.is_dir():
        raise InputError(f"--out {out} is a folder; name a file, such as {out / example}")
    if suffixes and out.suffix.lower() not in suffixes:
        raise InputError(
            f"--out {out}: this is written as {called}; name a {suffixes[0]} file, such as "
            f"{example}"
        )
    if inputs and out.exists():
        from epiclick.data.files import find_files

        if any(out.samefile(file) for file in find_files(inputs)):
            raise InputError(f"--out {out} is a file that is read; name another")


def _beside(path: Path, out: Path) -> bool:
    """Whether a path is the target, in it, beside it, or a folder above it."""
    place, path = (Path(os.path.abspath(each)) for each in (out, path))
    return path.is_relative_to(place.parent) or place.is_relative_to(path)
