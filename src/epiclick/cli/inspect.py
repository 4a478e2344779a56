"""`epiclick inspect`: what a log holds, before anything is fitted."""

from typing import TYPE_CHECKING

from epiclick.cli import console, options

if TYPE_CHECKING:
    from epiclick.inspection.inspected import Inspection

MOST_POSITIONS = 30
"""Longest table of positions that is printed; JSON has all rows."""


@options.reads_log
def inspect(
    log: options.Logs,
    given: options.GivenOptions = options.NOTHING_GIVEN,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Show what a log holds, what is wrong with it, and how to fit it; fits and changes nothing.

    Bad rows are reported, not refused. Of a log of more than 5 million rows, some queries are
    inspected. The last line is a command that runs as it stands.

    Example: epiclick inspect clicks.csv --column doc_id=sku
    """
    from epiclick.inspection.inspect_log import inspect as inspect_log

    silent = quiet or as_json
    with console.collect_warnings(quiet=silent) as warnings:
        chosen = given.over(options.DEFAULTS)
        with console.progress("inspecting", quiet=silent):
            found = inspect_log(list(log), options=chosen)
    if as_json:
        record = {**found.to_dict(), "warnings": [*warnings, *found.warnings]}
        console.print_json(console.json_safe(record))
        return
    print_inspection(found, quiet=quiet)


def print_inspection(found: "Inspection", *, quiet: bool) -> None:
    """Print sizes, columns, click rates, problems, what can be learned, and the next command."""
    for line in found.overview():
        console.print_text(line)
    console.print_table(
        "Columns",
        ["column", "type", "taken for", "by"],
        ([each.name, each.kind, each.role or "-", each.how or ""] for each in found.columns),
        prose=("column", "type", "taken for", "by"),
    )
    if found.by_position is not None:
        _print_positions(found)
    if found.problems:
        print("Problems")
        for problem in found.problems:
            console.print_text(f"- {problem}")
    if found.learnable is not None:
        print("What can be learned")
        for sentence in found.learnable.sentences:
            console.print_text(f"- {sentence}")
    for warning in found.warnings:
        console.print_warning(warning, quiet=quiet)
    if found.advice:
        print("Advice")
        for sentence in found.advice:
            console.print_text(f"- {sentence}")
    if found.command is not None:
        print(f"Next:\n{found.command}")


def _print_positions(found: "Inspection") -> None:
    """Print the click rate of each context, and how precisely its bias can be estimated."""
    assert found.by_position is not None
    assert found.learnable is not None
    table = found.by_position.merge(found.learnable.errors)
    names = [name for name in found.learnable.errors if name in found.by_position]
    precision = f"error of bias, against {found.learnable.reference}"
    console.print_table(
        f"Click rate by {', '.join(names)}",
        [*names, "displays", "clicks", "click rate", "clicked items moved", precision],
        (
            [
                *(str(row[name]) for name in names),
                f"{row['displays']:,}",
                f"{row['clicks']:,}",
                f"{row['click_rate']:.4f}",
                f"{row['clicked_items_moved']:,}",
                "-"
                if row["relative_error"] != row["relative_error"]
                else f"{row['relative_error']:.1%}",
            ]
            for row in table[:MOST_POSITIONS].to_dict("records")
        ),
    )
    if len(table) > MOST_POSITIONS:
        console.print_text(f"{len(table) - MOST_POSITIONS:,} more are in the output of --json.")
