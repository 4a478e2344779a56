"""`epiclick count`: counts of displays and clicks from a log."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from epiclick.cli import console, options


@options.reads_log
def count(
    log: options.Logs,
    out: Annotated[
        Path | None, Option(help="Write the counts to this Parquet file.", show_default=False)
    ] = None,
    part: Annotated[
        str | None, Option(metavar="COLUMN", help="Count separately by this column, such as a day.")
    ] = None,
    page_parts: Annotated[
        int | None, Option(help="Count separately in this many folds of pages.")
    ] = None,
    last: Annotated[
        int | None, Option(help="Keep the last parts only, such as 28 days.", show_default="all")
    ] = None,
    click_model: options.ClickModel = None,
    cluster: options.Cluster = None,
    given: options.GivenOptions = options.NOTHING_GIVEN,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Count displays and clicks of a log per query, document and position.

    Files of counts can be given along with logs: yesterday's counts and today's log give the counts
    of both.

    Example: epiclick count clicks.parquet --out counts.parquet
    """
    if out is not None:
        console.check_file(out, console.PARQUET, "Parquet", "counts.parquet", log)
    log_options = replace(
        given.over(options.DEFAULTS),
        part=part,
        page_parts=page_parts,
        click_model=options.chosen_click_model(click_model),
        cluster=cluster or options.DEFAULTS.cluster,
    )
    silent = quiet or as_json
    with console.collect_warnings(quiet=silent) as warnings:
        counts = options.read_counts(log, log_options, quiet=silent)
        if last is not None:
            counts = counts.last(last)
    if out is not None:
        with console.written_to(out):
            counts.to_parquet(out)

    by_context = counts.by_given().by_context()
    if as_json:
        rows = by_context.drop(columns="click_rate").to_dict("records")
        sizes = {"pages": counts.pages, "pairs": len(counts), "displays": counts.total_displays}
        record: dict[str, Any] = {**sizes, "clicks": counts.total_clicks}
        if counts.conversions is not None:
            record["conversions"] = counts.conversions.total
        record["by_position"] = rows
        console.print_json({**record, "warnings": warnings})
        return
    console.print_sizes(counts)
    names = counts.given[0].column_names
    sums = [name for name in ("displays", "clicks", "conversions") if name in by_context]
    console.print_table(
        f"Click rate by {', '.join(names)}",
        [*names, *sums, "click rate"],
        (
            [
                *(str(row[name]) for name in names),
                *(f"{row[name]:,}" for name in sums),
                f"{row['click_rate']:.4f}",
            ]
            for row in by_context.to_dict("records")
        ),
    )
    if out is not None:
        console.note(f"written to {out}", quiet=quiet)
