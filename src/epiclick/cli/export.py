"""`epiclick export`: what a model knows, as files that other tools read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from epiclick.cli.export_targets import Target, target_of
from epiclick.cli.log_options import (
    ClipClicks,
    Column,
    Context,
    GivenOptions,
    Ids,
    MaxBad,
    MissingFeatures,
    OnBad,
    PositionBase,
    Where,
    read_counts,
)
from epiclick.cli.out_file import check_writable
from epiclick.cli.output import AsJson, Quiet, note, print_json, progress
from epiclick.cli.position_bias import Model
from epiclick.cli.relevance import check_features
from epiclick.cli.telling import told_warnings
from epiclick.errors import InputError


def export(
    model: Model,
    to: Annotated[
        str, typer.Option(help="lightgbm, qrels, run, quepid or arviz.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(help="File to write.", show_default=False)],
    features: Annotated[str | None, typer.Option(help="Features of the items.")] = None,
    clicks: Annotated[
        list[str] | None, typer.Option(help="Log of the items' own clicks. May be repeated.")
    ] = None,
    how: Annotated[
        str | None,
        typer.Option(help="lightgbm: posterior or propensity.", show_default="posterior"),
    ] = None,
    cuts: Annotated[
        str | None,
        typer.Option(
            help="Means that part the grades 0 to 4, such as 0.1,0.2,0.4,0.6.",
            show_default="quantiles",
        ),
    ] = None,
    clip: Annotated[
        float | None,
        typer.Option(help="lightgbm by propensity: largest weight of a click.", show_default="20"),
    ] = None,
    rank_by: Annotated[
        str | None,
        typer.Option(help="run: mean, lower, upper or thompson.", show_default="mean"),
    ] = None,
    draws: Annotated[
        int | None, typer.Option(help="arviz: number of samples.", show_default="1000")
    ] = None,
    items: Annotated[
        int | None, typer.Option(help="arviz: of how many items at most.", show_default="100")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="arviz, run by thompson: of the draws.", show_default="0")
    ] = None,
    missing_features: MissingFeatures = "error",
    context: Context = None,
    position_base: PositionBase = None,
    column: Column = None,
    where: Where = None,
    clip_clicks: ClipClicks = False,
    ids: Ids = None,
    on_bad: OnBad = None,
    max_bad: MaxBad = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write a training set for LightGBM, judgements, a ranking or posterior samples.

    lightgbm: Parquet. qrels and run: files of TREC. quepid: a CSV of ratings.
    arviz: a NetCDF file of samples of position bias, and of relevance where items are given.

    Example: epiclick export model --to qrels --features features.parquet --out qrels.txt
    """
    from epiclick.data.features import read_features
    from epiclick.pbm import load

    silent = quiet or as_json
    log_options = GivenOptions(
        context, position_base, column, where, clip_clicks, ids, on_bad, max_bad
    )
    settings: dict[str, Any] = {
        "how": how,
        "cuts": None if cuts is None else parse_cuts(cuts),
        "clip": clip,
        "rank_by": rank_by,
        "draws": draws,
        "items": items,
        "seed": seed,
    }
    given = {name: value for name, value in settings.items() if value is not None}
    target = target_of(to, given)
    check_out(out, target, [*(clicks or []), *([features] if features else [])])
    fitted = load(model)
    if target.needs_items:
        check_features(fitted, features)
    with told_warnings(quiet=silent) as warnings:
        options = log_options.over_saved(fitted.fitted_.options, quiet=silent or not clicks)
        table = None if features is None else read_features(features, ids=options.ids)
        counts = None
        if clicks:
            joined = features if target.needs_vectors or fitted.fitted_.features else None
            counts = read_counts(clicks, options, joined, missing_features, quiet=silent)
        try:
            with progress("writing", quiet=silent):
                told = target.write(fitted, counts, table, out, given)
        except OSError as error:
            raise InputError(f"--out {out} cannot be written: {error}") from error
    if as_json:
        print_json({"to": to, **told, "warnings": warnings})
        return
    for name, value in told.items():
        if value is not None:
            print(f"{name}: {words(value)}")
    note(f"written to {out}", quiet=quiet)


def parse_cuts(text: str) -> list[float]:
    """Numbers between commas."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(f"--cuts {text}: write four numbers, such as 0.1,0.2,0.4,0.6") from error


def check_out(out: Path, target: Target, inputs: Sequence[str]) -> None:
    """Refuse a file that cannot be written, is of another kind, or is itself read."""
    from epiclick.data.files import find_files

    if out.is_dir():
        raise InputError(f"--out {out} is a folder; name a file, such as {out / target.example}")
    if target.suffixes and out.suffix.lower() not in target.suffixes:
        raise InputError(
            f"--out {out}: this is written as {target.called}; name a {target.suffixes[0]} file"
        )
    check_writable(out)
    if out.exists() and any(out.samefile(file) for file in find_files(inputs)):
        raise InputError(f"--out {out} is a file that is read; name another")


def words(value: Any) -> str:
    """A value for people."""
    if isinstance(value, list):
        return ", ".join(words(each) for each in value)
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
