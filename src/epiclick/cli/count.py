"""`epiclick count`: a log into counts."""

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from epiclick.cli.output import AsJson, Quiet, note, print_json, print_table, progress


def count(
    log: Annotated[
        list[str],
        typer.Argument(
            help="Parquet, CSV or JSON-lines files, folders or globs.", show_default=False
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Write the counts to this Parquet file.", show_default=False)
    ] = None,
    context: Annotated[
        str, typer.Option(help="Columns that decide whether an item is looked at.")
    ] = "position",
    position_base: Annotated[int, typer.Option(help="Number of the first position: 0 or 1.")] = 1,
    column: Annotated[
        list[str] | None,
        typer.Option(help="Name a column: position=slot. May be repeated.", show_default=False),
    ] = None,
    where: Annotated[
        str | None, typer.Option(help="Count only rows that meet this SQL condition.")
    ] = None,
    part: Annotated[
        str | None, typer.Option(help="Keep counts apart by this column, such as a day.")
    ] = None,
    page_parts: Annotated[
        int | None, typer.Option(help="Keep counts apart in this many folds of pages.")
    ] = None,
    clip_clicks: Annotated[
        bool, typer.Option("--clip-clicks", help="Cap counted clicks at the displays.")
    ] = False,
    ids: Annotated[
        Literal["auto", "string", "integer"], typer.Option(help="Type of the ids.")
    ] = "auto",
    on_bad: Annotated[
        Literal["error", "drop"], typer.Option(help="Refuse a log with bad rows, or drop them.")
    ] = "error",
    max_bad: Annotated[str, typer.Option(help="Largest share of rows to drop.")] = "0.1%",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Count displays and clicks of a log per query, document and position.

    Example: epiclick count clicks.parquet --out counts.parquet
    """
    from epiclick.data.log import LogOptions
    from epiclick.data.readers import count_log

    if out is not None:
        check_out(out, log)
    options = LogOptions(
        columns=parse_columns(column or []),
        context=tuple(name.strip() for name in context.split(",")),
        position_base=position_base,
        clip_clicks=clip_clicks,
        where=where,
        part=part,
        page_parts=page_parts,
        ids=ids,
        on_bad=on_bad,
        max_bad=parse_share(max_bad),
    )
    with progress("counting", quiet=quiet or as_json):
        counts, report = count_log(log, options)
    if out is not None:
        counts.to_parquet(out)

    by_context = counts.by_context()
    if as_json:
        rows = by_context.drop(columns="click_rate").to_dict("records")
        sizes = {"pages": counts.pages, "pairs": len(counts), "displays": counts.total_displays}
        record: dict[str, Any] = {**sizes, "clicks": counts.total_clicks, "by_position": rows}
        print_json({**record, "warnings": list(report.warnings)})
        return
    if report.aliases:
        found = ", ".join(f"{name} from {own}" for name, own in report.aliases.items())
        note(f"columns: {found}", quiet=quiet)
    for warning in report.warnings:
        note(f"warning: {warning}", quiet=quiet)
    pages = "" if counts.pages is None else f"{counts.pages:,} pages, "
    print(
        f"{pages}{len(counts):,} pairs of {counts.num_queries:,} queries, "
        f"{counts.total_displays:,} displays, {counts.total_clicks:,} clicks"
    )
    names = counts.contexts.column_names
    print_table(
        f"Click rate by {', '.join(names)}",
        [*names, "displays", "clicks", "click rate"],
        (
            [
                *(str(row[name]) for name in names),
                f"{row['displays']:,}",
                f"{row['clicks']:,}",
                f"{row['click_rate']:.4f}",
            ]
            for row in by_context.to_dict("records")
        ),
    )
    if out is not None:
        note(f"written to {out}", quiet=quiet)


def check_out(out: Path, log: list[str]) -> None:
    """Refuse, before any work, a file that cannot be written or is itself the log."""
    from epiclick.data.files import find_files
    from epiclick.errors import InputError

    if out.is_dir():
        raise InputError(f"--out {out} is a folder; name a file, such as {out / 'counts.parquet'}")
    if out.suffix.lower() not in (".parquet", ".pq"):
        raise InputError(f"--out {out}: counts are written as Parquet; name a .parquet file")
    parent = next(p for p in out.absolute().parents if p.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(f"--out {out} cannot be written: {parent} is no folder for new files")
    if out.exists() and any(out.samefile(file) for file in find_files(log)):
        raise InputError(f"--out {out} is the log itself; name another file")


def parse_columns(assignments: list[str]) -> dict[str, str]:
    """`position=slot` and the like as a mapping."""
    from epiclick.errors import InputError

    parsed: dict[str, str] = {}
    for assignment in assignments:
        name, equals, own = assignment.partition("=")
        if not (name and equals and own):
            raise InputError(f"--column {assignment}: write it as position=slot")
        if name in parsed:
            raise InputError(f"--column {name} is given twice: {parsed[name]} and {own}")
        parsed[name] = own
    return parsed


def parse_share(text: str) -> float:
    """A share such as 0.1% or 0.001."""
    from epiclick.errors import InputError

    try:
        value = float(text.removesuffix("%"))
    except ValueError as error:
        raise InputError(f"--max-bad {text}: write a share such as 0.1% or 0.001") from error
    return value / 100 if text.endswith("%") else value
