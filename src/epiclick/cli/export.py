"""`epiclick export`: what a model knows, as files that other tools read."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from epiclick.cli.commas import numbers_in
from epiclick.cli.export_targets import TARGETS, Asked, target_of
from epiclick.cli.log_options import NOTHING_GIVEN, GivenOptions, MissingFeatures, reads_log
from epiclick.cli.log_reading import read_counts
from epiclick.cli.out_file import check_file, written_to
from epiclick.cli.output import AsJson, Quiet, note, print_json, progress
from epiclick.cli.relevance import check_features
from epiclick.cli.shared_options import Features, Model, OwnClicks
from epiclick.cli.telling import print_text, told_warnings

CUTS = "four numbers, such as 0.1,0.2,0.4,0.6"


@reads_log
def export(
    model: Model,
    to: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="lightgbm, qrels, run, quepid or arviz.",
            show_default=False,
            autocompletion=lambda: list(TARGETS),
        ),
    ],
    out: Annotated[Path, typer.Option(help="File to write.", show_default=False)],
    features: Features = None,
    clicks: OwnClicks = None,
    how: Annotated[
        Literal["posterior", "propensity"] | None,
        typer.Option(
            metavar="NAME", help="lightgbm: posterior or propensity.", show_default="posterior"
        ),
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
        Literal["mean", "lower", "upper", "thompson"] | None,
        typer.Option(
            metavar="NAME", help="run: mean, lower, upper or thompson.", show_default="mean"
        ),
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
    given: GivenOptions = NOTHING_GIVEN,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write a training set for LightGBM, judgements, a ranking or posterior samples.

    lightgbm: Parquet. qrels and run: files of TREC. quepid: a CSV of ratings.
    arviz: a NetCDF file of samples of position bias, and of relevance where items are given.

    Example: epiclick export model --to qrels --features features.parquet --out qrels.txt
    """
    from epiclick.api import load
    from epiclick.data.features import read_features
    from epiclick.data.unchanged import unchanged

    silent = quiet or as_json
    settings: dict[str, Any] = {
        "how": how,
        "cuts": None if cuts is None else list(numbers_in(cuts, "--cuts", CUTS, float)),
        "clip": clip,
        "rank_by": rank_by,
        "draws": draws,
        "items": items,
        "seed": seed,
    }
    settings = {name: value for name, value in settings.items() if value is not None}
    target = target_of(to, settings)
    inputs = [*(clicks or []), *([features] if features else [])]
    check_file(out, target.suffixes, target.called, target.example, inputs)
    fitted = load(model)
    if target.needs_items:
        check_features(fitted, features)
    with told_warnings(quiet=silent) as warnings:
        options = given.over_saved(fitted.fitted_.options, clicks or [], quiet=silent)
        counts = None
        with unchanged(inputs):
            table = None if features is None else read_features(features, ids=options.ids)
            if clicks:
                joined = features if target.needs_vectors or fitted.fitted_.features else None
                counts = read_counts(clicks, options, joined, missing_features, quiet=silent)
        with written_to(out), progress("writing", quiet=silent):
            told = target.write(Asked(fitted, counts, table, out, settings))
    if as_json:
        print_json({"to": to, **told, "warnings": warnings})
        return
    for name, value in told.items():
        if value is not None:
            print_text(f"{name}: {words(value)}")
    note(f"written to {out}", quiet=quiet)


def words(value: Any) -> str:
    """A value for people."""
    if isinstance(value, list):
        return ", ".join(words(each) for each in value)
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
