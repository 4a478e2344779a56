"""`epiclick report`: one page about a fitted model."""

import shlex
import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epiclick.cli.compare import named_rankings, warn_of_same_files
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
    Backtest,
    Depth,
    Features,
    GivenOptions,
    MissingFeatures,
    Model,
    Truth,
    read_counts,
    reads_log,
)
from epiclick.errors import InputError

if TYPE_CHECKING:
    from epiclick.report.page import Report

SUFFIXES = (".html", ".htm")


@reads_log
def report(
    model: Model,
    log: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="LOG...",
            help="The log, best the model's own: files, folders or globs.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("report.html"),
    features: Features = None,
    backtest: Backtest = None,
    ranking: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FILE",
            help="What a ranker shows, as in epiclick compare. May be repeated.",
            show_default=False,
        ),
    ] = None,
    depth: Depth = None,
    against: Annotated[
        list[Path] | None, typer.Option(help="Another model to score beside. May be repeated.")
    ] = None,
    truth: Truth = None,
    title: Annotated[str, typer.Option(help="Of the page.", show_default="the model's name")] = "",
    missing_features: MissingFeatures = "error",
    given: GivenOptions = NOTHING_GIVEN,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write a page about a model: what is looked at, how sure that is, which ranker to ship.

    The page is one file that needs no network. What was not given is left out, and the page names
    the option that adds it.

    Example: epiclick report model log.parquet --features features.parquet --ranking new=new.csv
    """
    from epiclick.api import load
    from epiclick.comparison.compare_rankers import compare, true_values
    from epiclick.data.features import read_features
    from epiclick.data.sources import unchanged
    from epiclick.evaluation.truth import read_truth
    from epiclick.report.page import gather, write_report
    from epiclick.report.report_sources import Sources

    silent = quiet or as_json
    check_file(out, SUFFIXES, "HTML", "report.html")
    rankings = named_rankings(ranking or [])
    fitted = load(model)
    others = {str(path): load(path) for path in against or []}
    known = None if truth is None else read_truth(truth)
    wants_features = fitted.fitted_.features is not None
    if rankings and wants_features and features is None:
        raise InputError("--ranking: the model was trained on features; give them with --features")
    with told_warnings(quiet=silent) as told:
        logs = [*(log or []), *(backtest or [])]
        options = given.over_saved(fitted.fitted_.options, logs, quiet=silent)
        uses = wants_features or any(each.fitted_.features is not None for each in others.values())
        joined = features if uses else None
        if features is not None and joined is None:
            note("no model was trained on features, so --features is not used", quiet=silent)
        if others and joined is None and uses:
            raise InputError("--against: that model was trained on features; give --features")
        with unchanged([*(log or []), *(backtest or []), *([joined] if joined else [])]):
            counts, later = (
                read_counts(files, options, joined, missing_features, quiet=silent)
                if files
                else None
                for files in (log, backtest)
            )
            table = None if joined is None else read_features(joined, ids=options.ids)
        if backtest and log:
            warn_of_same_files(backtest, log)
        own = table if wants_features else None
        with progress("comparing rankers", quiet=silent or not rankings):
            compared, true = None, {}
            if rankings:
                compared = compare(
                    fitted, rankings, own, clicks=counts, depth=depth, backtest=later
                )
            if rankings and known is not None:
                true = true_values(fitted, rankings, own, counts, known, depth=depth)
        with progress("gathering", quiet=silent):
            found = gather(
                Sources(
                    model=fitted,
                    name=model.name or str(model),
                    log=counts,
                    later=later,
                    features=own,
                    others=others,
                    comparison=compared,
                    truth=known,
                    true_values=true,
                    command=shlex.join(["epiclick", *sys.argv[1:]]),
                    log_names=tuple(log or ()),
                    later_names=tuple(backtest or ()),
                    created=date.today().isoformat(),
                ),
                title,
            )
        with written_to(out):
            write_report(found, out)
    if as_json:
        print_json({"report": str(out), "bytes": out.stat().st_size, "warnings": told})
        return
    print_opening(found)
    note(f"written to {out} ({out.stat().st_size / 1e6:.1f} MB)", quiet=quiet)


def print_opening(found: "Report") -> None:
    """The page in three sentences, as it begins."""
    for sentence in (found.opening.looked_at, found.opening.uncertainty, found.opening.ship):
        print_text(sentence.replace("`", ""))
