"""`epiclick position-bias`: how much each position is looked at, says a model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epiclick.cli.output import AsJson, Quiet, print_json, print_table
from epiclick.cli.telling import known, number, print_text, tell_warning

if TYPE_CHECKING:
    from epiclick.pbm import PositionBasedModel

Model = Annotated[Path, typer.Argument(help="Folder that fit wrote.", show_default=False)]

FREE_SCALE = "The scale is free: absolute values rest on the prior, only relative ones on the data."
NUMBERS = ("mean", "low", "high", "relative", "relative_low", "relative_high")


def position_bias(model: Model, as_json: AsJson = False, quiet: Quiet = False) -> None:
    """Show the position bias of a fitted model.

    Example: epiclick position-bias model
    """
    from epiclick.pbm import load

    fitted = load(model)
    if as_json:
        print_json({"position_bias": bias_records(fitted)})
        return
    for warning in fitted.fitted_.training.warnings:
        tell_warning(warning, quiet=quiet)
    print_bias(fitted)


def bias_records(model: "PositionBasedModel") -> list[dict[str, Any]]:
    """Rows for JSON."""
    return known(model.position_bias().to_dict("records"))


def print_bias(model: "PositionBasedModel") -> None:
    """A table, and what its scale is."""
    names = model.fitted_.contexts.column_names
    bias = model.position_bias()
    told = [name for name in NUMBERS if bias[name].notna().any()]
    intervals = f", {model.level:.0%} intervals" if "low" in told else ""
    print_table(
        f"Position bias{intervals}; relative to {reference(model)}",
        [*names, *(name.replace("relative_", "rel. ") for name in told)],
        (
            [*(str(row[name]) for name in names), *(number(row[name]) for name in told)]
            for row in bias.to_dict("records")
        ),
    )
    if model.fitted_.anchor is None:
        print_text(FREE_SCALE)
    if not intervals:
        print("No intervals: the model takes position bias as a point.")


def reference(model: "PositionBasedModel") -> str:
    """The context that others are compared with: "position 1"."""
    first = model.fitted_.contexts.slice(model.fitted_.anchor or 0, 1).to_pylist()[0]
    return ", ".join(f"{name} {value}" for name, value in first.items())
