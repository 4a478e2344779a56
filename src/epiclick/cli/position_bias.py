"""`epiclick position-bias`: the position bias of a fitted model."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

from typer import Option

from epiclick.arguments import BiasKind, check_level
from epiclick.cli import console, options

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".parquet", ".json")


def position_bias(
    model: options.Model,
    kind: Annotated[
        BiasKind | None,
        Option(
            metavar="KIND",
            help=f"Kind of intervals: {', '.join(get_args(BiasKind))}.",
            show_default="the first that the model has",
        ),
    ] = None,
    level: options.Level = None,
    out: Annotated[
        Path | None,
        Option(
            help="Also write the table to this file: .csv, .parquet or .json.", show_default=False
        ),
    ] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Show the position bias of a fitted model.

    robust intervals are valid even where clicks are overdispersed, bayes intervals trust the model,
    evidential intervals are those of the Betas of the paper's estimators. A file that --out wrote
    can be given to another fit (--position-bias).

    Example: epiclick position-bias model --kind bayes --level 0.5
    """
    from epiclick.api import load
    from epiclick.data.checksums import with_digest

    if level is not None:
        check_level("--level", level)
    if out is not None:
        console.check_file(out, SUFFIXES, "CSV, Parquet or JSON", "position_bias.csv")
    fitted = load(model)
    warnings = list(fitted.fitted_.training.warnings)
    bias = fitted.position_bias(kind, level=level)
    record: dict[str, Any] = {}
    if as_json or (out is not None and out.suffix.lower() == ".json"):
        record = {"position_bias": bias.to_dict("records")}
        if fitted.fitted_.clicks.history or fitted.fitted_.clicks.is_affine:
            record["parameters"] = fitted.click_table(kind, level=level).to_dict("records")
        for name in ("given_bias", "at_bound"):
            if found := fitted.fitted_.training.checks.get(name):
                record[name] = found
        record = console.with_version(console.json_safe({**record, "warnings": warnings}))
        record = with_digest(record)  # kept in a file, it may be given to a fit
    if out is not None:
        write_bias(bias, record, out)
    if as_json:
        console.print_json(record)
        return
    for warning in warnings:
        console.print_warning(warning, quiet=quiet)
    console.print_bias(fitted, kind, level)
    if out is not None:
        console.note(f"written to {out}", quiet=quiet)


def write_bias(bias: "pd.DataFrame", record: Any, out: Path) -> None:
    """Write the table, or for JSON the record, in the format of the file's suffix."""
    from epiclick.data.writing import written_aside

    with console.written_to(out), written_aside(out) as aside:
        match out.suffix.lower():
            case ".csv":
                bias.to_csv(aside, index=False)
            case ".parquet":
                bias.to_parquet(aside, index=False)
            case _:
                aside.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
