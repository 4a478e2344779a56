"""`epiclick export`: what a model knows, as files that other tools read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from epiclick.cli.console import (
    AsJson,
    Quiet,
    check_file,
    note,
    print_json,
    print_text,
    progress,
    told_warnings,
    written_to,
)
from epiclick.cli.options import (
    NOTHING_GIVEN,
    Features,
    GivenOptions,
    MissingFeatures,
    Model,
    OwnClicks,
    numbers_in,
    read_counts,
    reads_log,
)
from epiclick.cli.relevance import check_features
from epiclick.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from epiclick.api import BaseModel
    from epiclick.data.counts import ClickCounts
    from epiclick.data.features import FeatureTable


@dataclass(frozen=True)
class Asked:
    """What is to be written.

    Attributes:
        model: the fitted model.
        counts: clicks of the items, if given.
        table: features of the items, if given.
        out: the file.
        given: options of the target that were given.
    """

    model: "BaseModel"
    counts: "ClickCounts | None"
    table: "FeatureTable | None"
    out: Path
    given: Mapping[str, Any]


Write = Callable[[Asked], dict[str, Any]]
"""What writes an export, and gives what is told of it."""


@dataclass(frozen=True)
class Target:
    """A kind of file to write.

    Attributes:
        called: what it is, in words.
        example: name of such a file.
        options: those of the verb that it takes.
        write: what writes it.
        suffixes: ends of its name; any if none.
        needs_items: whether it tells of items at all times.
        needs_vectors: whether features are written too.
    """

    called: str
    example: str
    options: tuple[str, ...]
    write: Write
    suffixes: tuple[str, ...] = ()
    needs_items: bool = True
    needs_vectors: bool = False


def target_of(name: str, given: Mapping[str, Any]) -> Target:
    """The target of that name; refuses options that belong to others."""
    if name not in TARGETS:
        raise InputError(
            f"--to must be one of {', '.join(TARGETS)}, not {name!r}{did_you_mean(name, TARGETS)}"
        )
    for option in given:
        if option not in TARGETS[name].options:
            takers = [each for each, target in TARGETS.items() if option in target.options]
            raise InputError(
                f"--{option.replace('_', '-')} is for --to {' and '.join(takers)}, and has no "
                f"meaning for {name}; leave it out"
            )
    return TARGETS[name]


def write_lightgbm(asked: Asked) -> dict[str, Any]:
    """A training set."""
    data = asked.model.to_lightgbm(asked.counts, asked.table, **asked.given)
    data.to_parquet(asked.out)
    return {
        "rows": len(data),
        "queries": len(data.group),
        "features": len(data.feature_names),
        "how": data.how,
        "cuts": None if data.cuts is None else list(data.cuts),
        "clip": data.clip,
    }


def graded(write: Callable[..., None]) -> Write:
    """Judgements, by what writes them."""

    def write_grades(asked: Asked) -> dict[str, Any]:
        from epiclick.export.judgements import cut_offs, grades, judge

        items = judge(asked.model.fitted_, asked.counts, asked.table)
        cuts = cut_offs(items.mean, asked.given.get("cuts"))
        write(asked.out, items.query_id, items.doc_id, grades(items.mean, cuts))
        return {"rows": len(items), "cuts": list(cuts)}

    return write_grades


def write_qrels(*arguments: Any) -> None:
    """Judgements of TREC."""
    from epiclick.export.judgements import write_qrels as write

    write(*arguments)


def write_quepid(*arguments: Any) -> None:
    """Ratings of Quepid."""
    from epiclick.export.judgements import write_ratings

    write_ratings(*arguments)


def write_run(asked: Asked) -> dict[str, Any]:
    """A ranking of TREC."""
    from epiclick.export.judgements import write_run as write

    rank_by = asked.given.get("rank_by", "mean")
    seed = asked.given.get("seed", 0)
    ranking = asked.model.rank(asked.table, rank_by, asked.counts, seed=seed)
    write(asked.out, ranking)
    return {"rows": len(ranking), "rank_by": rank_by}


def write_arviz(asked: Asked) -> dict[str, Any]:
    """Posterior samples."""
    from epiclick.export.arviz import to_inference_data, write_inference_data

    data = to_inference_data(asked.model, asked.counts, asked.table, **asked.given)
    write_inference_data(asked.out, data)
    sizes = data.posterior.sizes
    return {"draws": sizes["draw"], "items": sizes.get("item", 0)}


TARGETS: Mapping[str, Target] = {
    "lightgbm": Target(
        "Parquet",
        "train.parquet",
        ("how", "cuts", "clip"),
        write_lightgbm,
        suffixes=(".parquet", ".pq"),
        needs_vectors=True,
    ),
    "qrels": Target("judgements of TREC", "qrels.txt", ("cuts",), graded(write_qrels)),
    "run": Target("a run of TREC", "run.txt", ("rank_by", "seed"), write_run),
    "quepid": Target("CSV", "ratings.csv", ("cuts",), graded(write_quepid), suffixes=(".csv",)),
    "arviz": Target(
        "NetCDF",
        "samples.nc",
        ("draws", "items", "seed"),
        write_arviz,
        suffixes=(".nc",),
        needs_items=False,
    ),
}


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
    from epiclick.data.sources import unchanged

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
