"""`epiclick drift`: what changed between two models."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from epiclick.cli import console, options
from epiclick.errors import InputError

if TYPE_CHECKING:
    from epiclick.comparison.drift import Drift

MOST_SHOWN = 10


@options.reads_log
def drift(
    new: Annotated[
        Path, Argument(metavar="NEW", help="Folder written by fit.", show_default=False)
    ],
    old: Annotated[
        Path, Argument(metavar="OLD", help="That of the model before.", show_default=False)
    ],
    features: options.GivenFeatures = options.NO_FEATURES,
    overlap: options.Overlap = "0",
    out: Annotated[
        Path | None, Option(help="Write all differences to this Parquet file.", show_default=False)
    ] = None,
    level: options.Level = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Show what changed between two models: position bias, and the relevance of items.

    Every difference has an interval and a p-value, and q_value is the false discovery rate at which
    it would be reported. Relevance of models with features needs --features.

    Example: epiclick drift today yesterday --out drift.parquet
    """
    from epiclick.api import load
    from epiclick.comparison.drift import drift as compared

    if out is not None:
        console.check_file(out, console.PARQUET, "Parquet", "drift.parquet", features.paths)
    share = share_of(overlap)
    silent = quiet or as_json
    with console.collect_warnings(quiet=silent) as warnings:
        models = [load(path) for path in (new, old)]
        used = options.used_features(models, features, quiet=silent)
        table = used.read(models[0].fitted_.options.ids, quiet=silent) if used else None
        found = compared(models[0], models[1], table, overlap=share, level=level)
        if out is not None:
            with console.written_to(out):
                found.to_parquet(out)
    if as_json:
        changed = found.changed_items
        record: dict[str, Any] = {
            "position_bias": found.position_bias.to_dict("records"),
            "p_value": found.p_value,
            "items": None if found.items is None else len(found.items),
            "changed_items": None if found.items is None else len(changed),
            "assumption": found.assumption,
            "warnings": [*warnings, *found.notes],
        }
        console.print_json(console.json_safe(record))
        return
    for message in found.notes:
        console.print_warning(message, quiet=quiet)
    print_drift(found)
    if out is not None:
        console.note(f"written to {out}", quiet=quiet)


def share_of(text: str) -> float:
    """A share, as in 0.25, 25% or 27/28."""
    above, slash, below = text.partition("/")
    if not slash:
        return options.parse_share(text, "--overlap")
    try:
        return float(above) / float(below)
    except (ValueError, ZeroDivisionError) as error:
        raise InputError(
            f"--overlap {text}: write a share such as 27/28 or 0.96", code="not-a-number"
        ) from error


def print_drift(found: "Drift") -> None:
    """Print differences of position bias, and the items that changed."""
    from epiclick.comparison.drift import NUMBERS

    bias = found.position_bias
    names = list(bias.columns[: -len(NUMBERS)])
    print_differences(f"Relative position bias, {found.level:.0%} intervals", names, bias)
    if not math.isnan(found.p_value):
        console.print_text(f"All positions together: p = {found.p_value:.3g}.")
    if found.items is not None:
        changed = found.changed_items
        console.print_text(
            f"{len(found.items):,} items are known to both models; the relevance of "
            f"{len(changed):,} changed (false discovery rate 5%)."
        )
        if len(changed):
            title = f"Relevance, the most certain of {len(changed):,} changes"
            print_differences(title, ["query_id", "doc_id"], changed.head(MOST_SHOWN))
    console.print_text(f"{found.assumption}.")


def print_differences(title: str, names: list[str], table: Any) -> None:
    """Print a table of differences."""
    shown = ("new", "old", "difference", "low", "high")
    console.print_table(
        title,
        [*names, *shown, "p"],
        (
            [
                *(str(row[name]) for name in names),
                *(console.format_number(row[name], 3) for name in shown),
                console.format_number(row["p_value"], 3),
            ]
            for row in table.to_dict("records")
        ),
    )
