"""Output of the verbs: tables, JSON, notes and warnings on standard error, checks of `--out`."""

import errno
import json
import logging
import math
import os
import shutil
import sys
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

from epiclick.data.leftovers import AS_LONG_AS
from epiclick.errors import InputError, InputWarning, cannot_write, printable, shortened

if TYPE_CHECKING:
    import pandas as pd

    from epiclick.api import BaseModel
    from epiclick.arguments import BiasKind
    from epiclick.data.counts import ClickCounts

SCHEMA_VERSION = 1

FREE_SCALE = "The scale is free: absolute values rest on the prior, only relative ones on the data."
MOST_CONTEXTS = 60
"""Largest table of contexts that is printed; JSON has all rows."""

BIAS_COLUMNS = ("mean", "low", "high", "relative", "relative_low", "relative_high")


def print_json(record: Mapping[str, Any]) -> None:
    """Print one object with its schema version, on a single line."""
    print(_as_json(record))


def with_version(record: Mapping[str, Any]) -> dict[str, Any]:
    """The object with its schema version, as JSON is read back: for digests of it."""
    parsed: dict[str, Any] = json.loads(_as_json(record))
    return parsed


def _as_json(record: Mapping[str, Any]) -> str:
    # dates and decimals of context columns are written as text
    return json.dumps({"schema_version": SCHEMA_VERSION, **record}, default=str)


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    prose: Sequence[str] = (),
) -> None:
    """Print a table that fits the terminal; columns are right-aligned except those of prose.

    Cells are wrapped between words only. If the table still does not fit, each row is printed as
    `column: cell` lines, so that no number is ever cut.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    title, columns = printable(title), [*map(printable, columns)]
    listed = [[*map(printable, row)] for row in rows]
    console = Console()
    widths = column_widths([columns, *listed], console.width - 3 * len(columns) - 1)
    if widths is not None:
        table = Table(title=escape(title), title_justify="left", title_style="bold")
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
    """Width of each column, at least that of its longest word; None if they do not fit."""
    from rich.cells import cell_len

    columns = list(zip(*rows, strict=True))
    wanted = [max(map(cell_len, column)) for column in columns]
    widths = [
        max(cell_len(word) for cell in column for word in [*cell.split(), ""]) for column in columns
    ]
    spare = room - sum(widths)
    if spare < 0:
        return None
    # columns that lack least come first, so that as few as possible are wrapped
    for at in sorted(range(len(columns)), key=lambda at: wanted[at] - widths[at]):
        more = min(wanted[at] - widths[at], spare)
        widths[at] += more
        spare -= more
    return widths


def note(message: str, *, quiet: bool = False) -> None:
    """Print a remark to standard error."""
    if not quiet:
        print(printable(message), file=sys.stderr)


@contextmanager
def progress(message: str, *, quiet: bool = False) -> Iterator[None]:
    """Show that work is going on, on a terminal only."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from epiclick.training.progress import working  # which loads rich

    with working(message):
        yield


class Interrupted(Exception):
    """Ctrl-C in a verb that keeps part of its work; the message says what is kept."""


@contextmanager
def keeps(kept: str, out: Path | None) -> Iterator[None]:
    """If the block is stopped or cannot write to `out`, the message ends with what is kept."""
    try:
        with nullcontext() if out is None else written_to(out, kept):
            yield
    except KeyboardInterrupt:
        raise Interrupted(f"{kept[:1].lower()}{kept[1:]}") from None


@contextmanager
def collect_warnings(*, quiet: bool) -> Iterator[list[str]]:
    """Print the library's warnings as notes, each once; the list grows as they arrive.

    Off a terminal, where there is no progress bar, its log records are printed as well.
    """
    collected: list[str] = []
    show_others = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if not issubclass(category, InputWarning):
            show_others(message, category, filename, lineno, file, line)
        elif str(message) not in collected:
            collected.append(str(message))
            print_warning(str(message), quiet=quiet)

    with warnings.catch_warnings(), _records_printed(quiet=quiet or sys.stderr.isatty()):
        warnings.simplefilter("always", InputWarning)
        warnings.showwarning = show
        yield collected


class _Notes(logging.Handler):
    """Prints progress as notes; warnings of a fit are printed with its result."""

    def __init__(self, *, quiet: bool) -> None:
        """Print nothing if quiet."""
        super().__init__(logging.INFO)
        self.quiet = quiet

    def emit(self, record: logging.LogRecord) -> None:
        """Print one record."""
        note(f"epiclick: {record.getMessage()}", quiet=self.quiet or record.levelno > logging.INFO)


@contextmanager
def _records_printed(*, quiet: bool) -> Iterator[None]:
    """Print the library's progress, and nothing else that it logs."""
    logger, notes = logging.getLogger("epiclick"), _Notes(quiet=quiet)
    before = logger.level, logger.propagate
    logger.addHandler(notes)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(notes)
        logger.level, logger.propagate = before


def print_warning(message: str, *, quiet: bool) -> None:
    """Print a warning to standard error."""
    note(f"epiclick: warning: {message}", quiet=quiet)


def print_text(text: str) -> None:
    """Print sentences wrapped to the terminal; paths and names are not broken."""
    width = min(shutil.get_terminal_size().columns, 80)
    for line in printable(text).splitlines():
        print(textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False))


def json_safe(value: Any) -> Any:
    """The record with None for NaN and infinity, which JSON lacks."""
    if isinstance(value, Mapping):
        return {name: json_safe(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def format_number(value: float | None, digits: int = 4) -> str:
    """A number for a table; "-" if it is unknown."""
    return "-" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def print_sizes(counts: "ClickCounts") -> None:
    """Print the size of a log."""
    pages = "" if counts.pages is None else f"{counts.pages:,} pages, "
    print_text(
        f"{pages}{len(counts):,} pairs of {counts.num_queries:,} queries, "
        f"{counts.total_displays:,} displays, {counts.total_clicks:,} clicks"
    )


def print_bias(
    model: "BaseModel", kind: "BiasKind | None" = None, level: float | None = None
) -> None:
    """Print the position bias and its scale; first, for a model with more, its own parameters."""
    percent = f"{100 * (model.level if level is None else level):g}%"
    table, clicks = model.click_table(kind, level=level), model.fitted_.clicks
    free = len(clicks.free(len(table), model.fitted_.anchor))
    has_own = bool(clicks.history) or (clicks.has_latent_state and free > 0)
    if has_own and len(table) <= MOST_CONTEXTS:
        # with an anchor, relative values are the same again
        shown = table if model.fitted_.anchor is None else table[table.columns[:-3]]
        _print_bias_table(clicks.parameter.capitalize(), model, shown, percent, kind)
        if clicks.has_latent_state:
            print_text("Continuation: the probability of reading on after a click there.")
    if clicks.is_affine and len(table) <= MOST_CONTEXTS:
        _print_affine_table(model, table, percent)
    bias = model.position_bias(kind, level=level)
    title = "Position bias (slope of clicks in relevance)" if clicks.is_affine else "Position bias"
    _print_bias_table(title, model, bias, percent, kind)
    names = model.fitted_.contexts.column_names
    if given := model.fitted_.training.checks.get("given_bias"):
        print_text(_given_bias(given, names))
    elif model.fitted_.anchor is None:
        print_text(FREE_SCALE)
    if not bias["low"].notna().any():
        print_text("No intervals: the model has point estimates of position bias only.")
        return
    from epiclick.fitted.tables import stored_at_bound

    if bound := stored_at_bound(model.fitted_):
        rows = table[names].iloc[bound].to_numpy().tolist()
        places = "; ".join(", ".join(map(str, row)) for row in rows)
        print_text(f"No interval at {', '.join(names)} {places}: the bias is at its bound.")


def _print_bias_table(
    title: str,
    model: "BaseModel",
    table: "pd.DataFrame",
    percent: str,
    kind: "BiasKind | None",
) -> None:
    """Print context columns, then the numeric columns that have values."""
    names = [name for name in table.columns if name not in BIAS_COLUMNS]
    shown = [name for name in BIAS_COLUMNS if name in table and table[name].notna().any()]
    called = f"{kind} intervals" if kind else "intervals"
    intervals = f", {percent} {called}" if "low" in shown else ""
    relative = f"; relative to {reference_context(model, names)}"
    if model.fitted_.clicks.has_latent_state and "relative" not in shown:
        relative = ""  # a continuation is a probability of its own
    print_table(
        f"{title}{intervals}{relative}",
        [*names, *(name.replace("relative_", "rel. ") for name in shown)],
        (
            [*(str(row[name]) for name in names), *(format_number(row[name]) for name in shown)]
            for row in table.to_dict("records")
        ),
    )


def _print_affine_table(model: "BaseModel", table: "pd.DataFrame", percent: str) -> None:
    """Print how often attractive and unattractive items are clicked, and offsets."""
    names, has_ends = model.fitted_.contexts.column_names, table["offset_low"].notna().any()

    def value(row: Mapping[Any, Any], name: str) -> str:
        ends = f" ({row[f'{name}_low']:.3f} to {row[f'{name}_high']:.3f})" if has_ends else ""
        return f"{row[name]:.3f}{ends}"

    columns = ("attractive", "unattractive", "offset")
    print_table(
        f"Clicks on items{f', {percent} intervals' if has_ends else ''}; offsets relative to "
        f"{reference_context(model, names)}",
        [*names, *columns],
        (
            [*(str(row[name]) for name in names), *(value(row, name) for name in columns)]
            for row in table.to_dict("records")
        ),
    )
    resting = table[table["rests_on_prior"] != ""]
    for row in resting.to_dict("records"):
        place = ", ".join(f"{name} {row[name]}" for name in names)
        print_text(f"{place}: cannot tell clicks on items that are {row['rests_on_prior']}.")


def _given_bias(given: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """Which biases were given, as a sentence."""
    parts = []
    for how, phrase in (("fixed", "fixed at the given value"), ("prior", "given a prior")):
        rows = [" ".join(str(row[name]) for name in names) for row in given if row["how"] == how]
        if rows:
            parts.append(f"{phrase} at {', '.join(names)} {', '.join(rows)}")
    return f"Position bias was {'; '.join(parts)}."


def reference_context(model: "BaseModel", names: Sequence[str]) -> str:
    """The context that others are relative to, by some of its columns: "position 1"."""
    first = model.fitted_.contexts.slice(model.fitted_.anchor or 0, 1).to_pylist()[0]
    return ", ".join(f"{name} {first[name]}" for name in names)


PROCESS_ERRORS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EPIPE)
"""Errors that another --out would not fix."""

PARQUET = (".parquet", ".pq")
ASIDE = f".checkpoint.{AS_LONG_AS}"
"""Longest suffix of the temporary files that are written next to the target."""


@contextmanager
def written_to(out: Path, kept: str = "") -> Iterator[None]:
    """Turn an OSError from writing `out` into an InputError that names --out; pass others on.

    Args:
        out: the file or folder.
        kept: a sentence on what is not lost.
    """
    try:
        yield
    except OSError as error:
        named = error.filename
        elsewhere = named is not None and not _is_near(Path(os.fsdecode(named)), out)
        if elsewhere or error.errno in PROCESS_ERRORS:
            raise
        message = f"{cannot_write(f'--out {out}', error)} {kept}".rstrip()
        raise InputError(message, code="cannot-write") from error


def check_writable(out: Path) -> None:
    """Refuse a path that cannot be created."""
    with written_to(out):
        place = out.absolute()
        with suppress(FileNotFoundError, NotADirectoryError):
            os.lstat(f"{place}{ASIDE}")  # the name may be too long
        parent = next(p for p in place.parents if p.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(
            f"--out {shortened(str(out))} cannot be written: {shortened(str(parent))} is not a "
            "writable folder. Choose another path.",
            code="cannot-write",
        )


def check_folder(out: Path) -> None:
    """Refuse a folder in which no file can be created."""
    check_writable(out)
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file; name a folder", code="not-a-folder")
    check_writable(out / "file")


def check_own_files(out: Path, names: Sequence[str], verb: str, *, begun: bool) -> None:
    """Refuse to replace files in a folder that the verb has not written to before.

    Args:
        out: the folder.
        names: files and folders that the verb will write there.
        verb: name of the verb.
        begun: whether the folder shows that the verb has written there before.
    """
    # a call that was killed early leaves empty folders
    taken = [n for n in names if os.path.lexists(out / n) and not _is_empty_folder(out / n)]
    if taken and not begun:
        from epiclick.data.writing import named

        raise InputError(
            f"--out {out} contains {named(taken)}, which epiclick {verb} did not write; nothing "
            "was changed. Name a new folder, or move these files elsewhere",
            code="foreign-files",
        )


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not any(path.iterdir())


def check_file(
    out: Path, suffixes: Sequence[str], called: str, example: str, inputs: Sequence[str] = ()
) -> None:
    """Refuse a file that cannot be written, has the wrong suffix, or is also read.

    Args:
        out: the file.
        suffixes: allowed suffixes; any if empty.
        called: the format, for messages.
        example: name of such a file.
        inputs: files, folders and globs that are read.
    """
    from epiclick.data.writing import refuse_device

    check_writable(out)
    if out.is_dir():
        raise InputError(
            f"--out {out} is a folder; name a file, such as {out / example}", code="not-a-file"
        )
    refuse_device(out)
    if suffixes and out.suffix.lower() not in suffixes:
        raise InputError(
            f"--out {out}: the format is {called}; name a {suffixes[0]} file, such as {example}",
            code="wrong-suffix",
        )
    if inputs and out.exists():
        from epiclick.data.files import find_files, paths_in

        if any(out.samefile(file) for file in find_files(paths_in(inputs))):
            raise InputError(
                f"--out {out} is also an input; name another file", code="output-is-input"
            )


def _is_near(path: Path, out: Path) -> bool:
    """Whether a path is the target, in it, next to it, or a folder above it."""
    place, path = (Path(os.path.abspath(each)) for each in (out, path))
    return path.is_relative_to(place.parent) or place.is_relative_to(path)
