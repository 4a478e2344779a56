"""`epiclick position-bias`: how much each position is looked at, says a model."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from epiclick.cli.console import (
    AsJson,
    Quiet,
    known,
    number,
    print_json,
    print_table,
    print_text,
    tell_warning,
)
from epiclick.cli.options import Model
from epiclick.errors import InputError
from epiclick.fitted.state import BiasKind

if TYPE_CHECKING:
    import pandas as pd

    from epiclick.api import BaseModel

FREE_SCALE = "The scale is free: absolute values rest on the prior, only relative ones on the data."
MOST_CONTEXTS = 60
"""Rows of a table that people can read; JSON holds them all."""

NUMBERS = ("mean", "low", "high", "relative", "relative_low", "relative_high")


def position_bias(
    model: Model,
    kind: Annotated[
        BiasKind | None,
        typer.Option(
            metavar="KIND",
            help=f"Of the intervals: {', '.join(get_args(BiasKind))}; the first that there is.",
        ),
    ] = None,
    level: Annotated[
        float | None, typer.Option(help="Probability of the intervals; the model's own.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show the position bias of a fitted model.

    Robust intervals hold even where clicks vary more than the model allows, bayes trusts the model,
    evidential are the Betas of the paper's estimators.

    Example: epiclick position-bias model --kind bayes --level 0.5
    """
    from epiclick.api import load

    if level is not None and not 0 < level < 1:
        raise InputError(f"--level must lie strictly between 0 and 1, not {level}; write 0.9")
    fitted = load(model)
    warnings = list(fitted.fitted_.training.warnings)
    if as_json:
        record: dict[str, Any] = {"position_bias": bias_records(fitted, kind, level)}
        if fitted.fitted_.clicks.history:
            table = fitted.click_table(kind, level=level)
            record["parameters"] = known(table.to_dict("records"))
        if given := fitted.fitted_.training.checks.get("given_bias"):
            record["given_bias"] = known(given)
        if bound := fitted.fitted_.training.checks.get("at_bound"):
            record["at_bound"] = known(bound)
        print_json({**record, "warnings": warnings})
        return
    for warning in warnings:
        tell_warning(warning, quiet=quiet)
    print_bias(fitted, kind, level)


def bias_records(
    model: "BaseModel", kind: BiasKind | None = None, level: float | None = None
) -> list[dict[str, Any]]:
    """Rows for JSON."""
    return known(model.position_bias(kind, level=level).to_dict("records"))


def print_bias(
    model: "BaseModel", kind: BiasKind | None = None, level: float | None = None
) -> None:
    """A table, and what its scale is; of models with a history, one of all contexts before it."""
    percent = f"{100 * (model.level if level is None else level):g}%"
    table, clicks = model.click_table(kind, level=level), model.fitted_.clicks
    if clicks.history and len(table) <= MOST_CONTEXTS:
        # where a context is anchored, relative values are the same once more
        shown = table if model.fitted_.anchor is None else table[table.columns[:-3]]
        _print_table(clicks.parameter.capitalize(), model, shown, percent, kind)
    bias = model.position_bias(kind, level=level)
    _print_table("Position bias", model, bias, percent, kind)
    names = model.fitted_.contexts.column_names
    if given := model.fitted_.training.checks.get("given_bias"):
        print_text(given_words(given, names))
    elif model.fitted_.anchor is None:
        print_text(FREE_SCALE)
    if not bias["low"].notna().any():
        print_text("No intervals: the model takes position bias as a point.")
        return
    from epiclick.fitted.tables import stored_at_bound

    if bound := stored_at_bound(model.fitted_):
        rows = table[names].iloc[bound].to_numpy().tolist()
        places = "; ".join(", ".join(map(str, row)) for row in rows)
        print_text(f"No interval at {', '.join(names)} {places}: the bias is at its bound.")


def _print_table(
    title: str,
    model: "BaseModel",
    table: "pd.DataFrame",
    percent: str,
    kind: BiasKind | None,
) -> None:
    """Columns of contexts, then those of numbers that there are."""
    names = [name for name in table.columns if name not in NUMBERS]
    shown = [name for name in NUMBERS if name in table and table[name].notna().any()]
    called = f"{kind} intervals" if kind else "intervals"
    intervals = f", {percent} {called}" if "low" in shown else ""
    print_table(
        f"{title}{intervals}; relative to {reference(model, names)}",
        [*names, *(name.replace("relative_", "rel. ") for name in shown)],
        (
            [*(str(row[name]) for name in names), *(number(row[name]) for name in shown)]
            for row in table.to_dict("records")
        ),
    )


def given_words(given: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """Which biases did not come from the clicks alone."""
    told = []
    for how, words in (("fixed", "held as it was given"), ("prior", "given as a prior")):
        rows = [" ".join(str(row[name]) for name in names) for row in given if row["how"] == how]
        if rows:
            told.append(f"{words} at {', '.join(names)} {', '.join(rows)}")
    return f"Position bias was {'; '.join(told)}."


def reference(model: "BaseModel", names: Sequence[str]) -> str:
    """The context that others are compared with, by some of its columns: "position 1"."""
    first = model.fitted_.contexts.slice(model.fitted_.anchor or 0, 1).to_pylist()[0]
    return ", ".join(f"{name} {first[name]}" for name in names)
