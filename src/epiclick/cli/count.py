"""`epiclick count`: a log into counts."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from epiclick.cli.console import (
    PARQUET,
    AsJson,
    Quiet,
    check_file,
    note,
    print_json,
    print_table,
    told_warnings,
    written_to,
)
from epiclick.cli.fit import chosen_click_model
from epiclick.cli.options import (
    NOTHING_GIVEN,
    USUAL,
    ClickModel,
    GivenOptions,
    Logs,
    print_sizes,
    read_counts,
    reads_log,
)


@reads_log
def count(
    log: Logs,
    out: Annotated[
        Path | None, typer.Option(help="Write the counts to this Parquet file.", show_default=False)
    ] = None,
    part: Annotated[
        str | None, typer.Option(help="Keep counts apart by this column, such as a day.")
    ] = None,
    page_parts: Annotated[
        int | None, typer.Option(help="Keep counts apart in this many folds of pages.")
    ] = None,
    click_model: ClickModel = None,
    given: GivenOptions = NOTHING_GIVEN,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Count displays and clicks of a log per query, document and position.

    Example: epiclick count clicks.parquet --out counts.parquet
    """
    if out is not None:
        check_file(out, PARQUET, "Parquet", "counts.parquet", log)
    clicks = chosen_click_model(click_model, None)
    options = replace(given.over(USUAL), part=part, page_parts=page_parts, click_model=clicks)
    with told_warnings(quiet=quiet or as_json) as warnings:
        counts = read_counts(log, options, quiet=quiet or as_json)
    if out is not None:
        with written_to(out):
            counts.to_parquet(out)

    by_context = counts.by_given().by_context()
    if as_json:
        rows = by_context.drop(columns="click_rate").to_dict("records")
        sizes = {"pages": counts.pages, "pairs": len(counts), "displays": counts.total_displays}
        record: dict[str, Any] = {**sizes, "clicks": counts.total_clicks, "by_position": rows}
        print_json({**record, "warnings": warnings})
        return
    print_sizes(counts)
    names = counts.given[0].column_names
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
