"""`epiclick export`: relevance and rankings of a model as files for other tools."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Option

from epiclick.cli import console, options
from epiclick.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import numpy as np

    from epiclick.api import BaseModel
    from epiclick.data.counts import ClickCounts
    from epiclick.data.features import FeatureTable
    from epiclick.export.judgements import Judgements
    from epiclick.export.lightgbm import LightGBMData


@dataclass(frozen=True)
class Request:
    """What to write.

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


Write = Callable[[Request], dict[str, Any]]
"""Writes an export; returns a summary of it."""


@dataclass(frozen=True)
class Target:
    """A kind of file to write.

    Attributes:
        called: the format, for messages.
        example: name of such a file.
        options: options of the verb that apply to it.
        write: writes the file.
        suffixes: allowed suffixes; any if empty.
        needs_items: whether it always contains items.
        needs_vectors: whether features are written, too.
    """

    called: str
    example: str
    options: tuple[str, ...]
    write: Write
    suffixes: tuple[str, ...] = ()
    needs_items: bool = True
    needs_vectors: bool = False


def target_of(name: str, given: Mapping[str, Any]) -> Target:
    """The target with this name; refuses options that apply to others only."""
    if name not in TARGETS:
        raise InputError(
            f"--to must be one of {', '.join(TARGETS)}, not {name!r}{did_you_mean(name, TARGETS)}",
            code="unknown-target",
        )
    for option in given:
        if option not in TARGETS[name].options:
            takers = [each for each, target in TARGETS.items() if option in target.options]
            raise InputError(
                f"{options.flag(option)} applies to --to {listed(takers)}, not to {name}; "
                "leave it out",
                code="option-does-not-apply",
            )
    return TARGETS[name]


def listed(names: Sequence[str]) -> str:
    """Names in a sentence: a, b and c."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def write_lightgbm(request: Request) -> dict[str, Any]:
    """Write a training set for LightGBM."""
    data = request.model.to_lightgbm(request.counts, request.table, **request.given)
    data.to_parquet(request.out)
    return described(data)


def write_letor(request: Request) -> dict[str, Any]:
    """Write the same as LETOR text, and its weights beside it."""
    from epiclick.export.letor_text import WEIGHTS, write_letor

    data = request.model.to_lightgbm(request.counts, request.table, **request.given)
    write_letor(request.out, data)
    return {**described(data), "weights": f"{request.out}{WEIGHTS}"}


def described(data: "LightGBMData") -> dict[str, Any]:
    """Size and settings of a training set."""
    return {
        "rows": len(data),
        "queries": len(data.group),
        "features": len(data.feature_names),
        "how": data.how,
        "cuts": None if data.cuts is None else list(data.cuts),
        "clip": data.clip,
    }


def graded_items(request: Request) -> "tuple[Judgements, tuple[float, ...], np.ndarray]":
    """The items, the cut-offs between grades, and the grade of each item."""
    from epiclick.export.judgements import cut_offs, grades, judge

    items = judge(request.model.fitted_, request.counts, request.table)
    cuts = cut_offs(items.mean, request.given.get("cuts"))
    return items, cuts, grades(items.mean, cuts)


def graded(write: Callable[..., None]) -> Write:
    """A target of graded judgements, given what writes them."""

    def write_grades(request: Request) -> dict[str, Any]:
        items, cuts, grade = graded_items(request)
        more = {name: value for name, value in request.given.items() if name != "cuts"}
        write(request.out, items.query_id, items.doc_id, grade, **more)
        return {"rows": len(items), "cuts": list(cuts)}

    return write_grades


def write_qrels(*arguments: Any) -> None:
    """Write TREC judgements."""
    from epiclick.export.judgements import write_qrels as write

    write(*arguments)


def write_quepid(*arguments: Any, **more: Any) -> None:
    """Write Quepid ratings."""
    from epiclick.export.judgements import write_ratings

    write_ratings(*arguments, **more)


def write_ltr(*arguments: Any) -> None:
    """Write a judgement list of learning-to-rank plugins."""
    from epiclick.export.judgement_list import write_judgement_list

    write_judgement_list(*arguments)


def write_srw(request: Request) -> dict[str, Any]:
    """Write judgements for the Search Relevance Workbench."""
    from epiclick.export.workbench import NAME, check_name, write_judgements

    name = check_name(request.given.get("name", NAME))
    items, cuts, grade = graded_items(request)
    between = ", ".join(f"{cut:.4g}" for cut in cuts)
    description = f"Relevance from clicks: grades 0 to 4, separated by relevance {between}"
    ids = items.query_id, items.doc_id
    write_judgements(request.out, *ids, grade, name=name, description=description)
    return {"rows": len(items), "cuts": list(cuts), "name": name}


def write_run(request: Request) -> dict[str, Any]:
    """Write a TREC run."""
    from epiclick.export.judgements import write_run as write

    rank_by = request.given.get("rank_by", "mean")
    seed = request.given.get("seed", 0)
    ranking = request.model.rank(request.table, rank_by, request.counts, seed=seed)
    write(request.out, ranking)
    return {"rows": len(ranking), "rank_by": rank_by}


def write_arviz(request: Request) -> dict[str, Any]:
    """Write posterior samples."""
    from epiclick.export.arviz import to_inference_data, write_inference_data

    data = to_inference_data(request.model, request.counts, request.table, **request.given)
    write_inference_data(request.out, data)
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
    "letor": Target(
        "LETOR text", "train.txt", ("how", "cuts", "clip"), write_letor, needs_vectors=True
    ),
    "qrels": Target("TREC judgements", "qrels.txt", ("cuts",), graded(write_qrels)),
    "run": Target("a TREC run", "run.txt", ("rank_by", "seed"), write_run),
    "quepid": Target(
        "CSV",
        "ratings.csv",
        ("cuts", "escape_formulas"),
        graded(write_quepid),
        suffixes=(".csv",),
    ),
    "srw": Target("JSON", "judgements.json", ("cuts", "name"), write_srw, suffixes=(".json",)),
    "ltr": Target("a judgement list", "judgements.txt", ("cuts",), graded(write_ltr)),
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


@options.reads_log
def export(
    model: options.Model,
    to: Annotated[
        str,
        Option(
            metavar="NAME",
            help="lightgbm, letor, qrels, run, quepid, srw, ltr or arviz.",
            show_default=False,
            autocompletion=lambda: list(TARGETS),
        ),
    ],
    out: Annotated[Path, Option(help="File to write.", show_default=False)],
    features: options.GivenFeatures = options.NO_FEATURES,
    clicks: options.Clicks = None,
    how: Annotated[
        Literal["posterior", "propensity"] | None,
        Option(
            metavar="NAME",
            help="lightgbm, letor: posterior (grades), or propensity (weighted clicks).",
            show_default="posterior",
        ),
    ] = None,
    cuts: Annotated[
        str | None,
        Option(
            help="Mean relevances that separate grades 0 to 4, such as 0.1,0.2,0.4,0.6.",
            show_default="quantiles",
        ),
    ] = None,
    name: Annotated[
        str | None,
        Option(help="srw: name of the judgement list.", show_default="epiclick"),
    ] = None,
    escape_formulas: Annotated[
        bool,
        Option(
            "--escape-formulas",
            help="quepid: put an apostrophe before ids that spreadsheets take for formulas.",
        ),
    ] = False,
    clip: Annotated[
        float | None,
        Option(help="lightgbm, letor, propensity: largest weight of a click.", show_default="20"),
    ] = None,
    rank_by: Annotated[
        Literal["mean", "lower", "upper", "thompson"] | None,
        Option(metavar="NAME", help="run: mean, lower, upper or thompson.", show_default="mean"),
    ] = None,
    draws: Annotated[
        int | None, Option(help="arviz: number of samples.", show_default="1000")
    ] = None,
    items: Annotated[
        int | None, Option(help="arviz: largest number of items.", show_default="100")
    ] = None,
    seed: Annotated[int | None, Option(help="arviz, thompson: seed.", show_default="0")] = None,
    missing_features: options.MissingFeatures = "error",
    given: options.GivenOptions = options.NOTHING_GIVEN,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a training set, judgements, a ranking or posterior samples.

    lightgbm: Parquet. letor: text for allRank, RankLib and XGBoost, with weights in OUT.weight.
    qrels and run: TREC formats. quepid: a CSV file of ratings. srw: judgements for OpenSearch's
    Search Relevance Workbench. ltr: a judgement list, grade qid:N # docid. arviz: a NetCDF file of
    samples of position bias, and of relevance if items are given.

    Example: epiclick export model --to qrels --features features.parquet --out qrels.txt
    """
    from epiclick.api import load
    from epiclick.data.files import unchanged

    silent = quiet or as_json
    settings: dict[str, Any] = {
        "how": how,
        "cuts": None if cuts is None else list(options.numbers_in(cuts, "--cuts", CUTS, float)),
        "name": name,
        "escape_formulas": escape_formulas or None,
        "clip": clip,
        "rank_by": rank_by,
        "draws": draws,
        "items": items,
        "seed": seed,
    }
    settings = {name: value for name, value in settings.items() if value is not None}
    target = target_of(to, settings)
    inputs = [*(clicks or []), *features.paths]
    console.check_file(out, target.suffixes, target.called, target.example, inputs)
    fitted = load(model)
    if target.needs_items:
        options.check_features(fitted, features)
    with console.collect_warnings(quiet=silent) as warnings:
        log_options = given.over_saved(fitted.fitted_.options, clicks or [], quiet=silent)
        counts = None
        with unchanged(inputs):
            features = features.for_models([fitted])
            table = features.read(log_options.ids, quiet=silent) if features else None
            if clicks:
                needed = target.needs_vectors or fitted.fitted_.features
                joined = features if needed else options.NO_FEATURES
                counts = options.read_counts(
                    clicks, log_options, joined, missing_features, quiet=silent
                )
        with console.written_to(out), console.progress("writing", quiet=silent):
            summary = target.write(Request(fitted, counts, table, out, settings))
    if as_json:
        console.print_json({"to": to, **summary, "warnings": warnings})
        return
    for name, value in summary.items():
        if value is not None:
            console.print_text(f"{name}: {_text(value)}")
    console.note(f"written to {out}", quiet=quiet)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
