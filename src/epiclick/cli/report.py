"""`epiclick report`: an HTML page about a fitted model."""

import shlex
import sys
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from epiclick.cli import console, options
from epiclick.cli.drift import share_of
from epiclick.errors import InputError

if TYPE_CHECKING:
    from epiclick.report.page import Report

SUFFIXES = (".html", ".htm")


@options.reads_log
def report(
    model: options.Model,
    log: Annotated[
        list[str] | None,
        Argument(metavar="LOG...", help="Files, folders or globs; best the log of the fit."),
    ] = None,
    out: Annotated[Path, Option(help="HTML file to write.")] = Path("report.html"),
    features: options.GivenFeatures = options.NO_FEATURES,
    backtest: options.Backtest = None,
    ranking: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=FILE",
            help="Ranking, as in epiclick compare. May be repeated.",
        ),
    ] = None,
    depth: options.Depth = None,
    against: options.OtherModels = None,
    previous: Annotated[
        Path | None,
        Option(metavar="MODEL", help="The model before this one, to show what changed."),
    ] = None,
    overlap: options.Overlap = "0",
    truth: options.Truth = None,
    selection: Annotated[
        Path | None,
        Option(metavar="FILE", help="Comparison of click models, from epiclick select --out."),
    ] = None,
    title: Annotated[str, Option(help="Page title.", show_default="the model's name")] = "",
    missing_features: options.MissingFeatures = "error",
    given: options.GivenOptions = options.NOTHING_GIVEN,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Write an HTML page about a model: position bias, fit, uncertainty, comparison of rankers.

    The page is a single file that works offline. It names the options that would add sections.

    Example: epiclick report model log.parquet --features features.parquet --ranking new=new.csv
    """
    from epiclick.api import load
    from epiclick.comparison.compare_rankers import compare, read_rankings, true_values
    from epiclick.data.files import unchanged
    from epiclick.evaluation.truth import read_truth
    from epiclick.report.page import gather, write_report
    from epiclick.report.report_sources import Sources
    from epiclick.selection.selection_file import read_selection

    silent = quiet or as_json
    console.check_file(out, SUFFIXES, "HTML", "report.html")
    rankings: Mapping[str, Any] = options.named_rankings(ranking or [])
    share = share_of(overlap)
    _check_needed(share != 0, "--overlap", previous is not None, "--previous")
    _check_needed(depth is not None, "--depth", bool(rankings), "--ranking")
    fitted = load(model)
    others = {str(path): load(path) for path in against or []}
    before = None if previous is None else load(previous)
    world = None if truth is None else read_truth(truth)
    selected = None if selection is None else read_selection(selection)
    if rankings:
        options.check_features(fitted, features, "--ranking")
    for each in (fitted, *others.values()) if others else ():
        options.check_features(each, features, "--against")
    joined = options.used_features([fitted, *others.values()], features, quiet=silent)
    with console.collect_warnings(quiet=silent) as warnings:
        logs = [*(log or []), *(backtest or [])]
        log_options = given.over_saved(fitted.fitted_.options, logs, quiet=silent)
        with unchanged([*logs, *joined.paths]):
            counts, later = (
                options.read_counts(files, log_options, joined, missing_features, quiet=silent)
                if files
                else None
                for files in (log, backtest)
            )
            table = joined.read(log_options.ids, quiet=silent) if joined else None
        if backtest and log:
            options.warn_of_same_files(backtest, log)
        own = None if fitted.fitted_.features is None else table
        with console.progress("comparing rankers", quiet=silent or not rankings):
            compared, true = None, {}
            if rankings and world is not None:  # files are read once, not for each of the two
                rankings = read_rankings(fitted.fitted_, rankings, own, counts, depth)
            if rankings:
                compared = compare(
                    fitted, rankings, own, clicks=counts, depth=depth, backtest=later
                )
            if rankings and world is not None:
                true = true_values(fitted, rankings, own, counts, world, depth=depth)
        with console.progress("gathering", quiet=silent):
            found = gather(
                Sources(
                    model=fitted,
                    name=model.name or str(model),
                    log=counts,
                    later=later,
                    features=own,
                    others=others,
                    comparison=compared,
                    truth=world,
                    true_values=true,
                    selection=selected,
                    command=shlex.join(["epiclick", *sys.argv[1:]]),
                    log_names=tuple(map(str, log or ())),
                    later_names=tuple(map(str, backtest or ())),
                    created=date.today().isoformat(),
                    previous=before,
                    previous_name="" if previous is None else previous.name or str(previous),
                    overlap=share,
                ),
                title,
            )
        with console.written_to(out):
            write_report(found, out)
    if as_json:
        console.print_json({"report": str(out), "bytes": out.stat().st_size, "warnings": warnings})
        return
    print_opening(found)
    console.note(f"written to {out} ({out.stat().st_size / 1e6:.1f} MB)", quiet=quiet)


def print_opening(found: "Report") -> None:
    """Print the opening sentences of the page."""
    for sentence in (found.opening.looked_at, found.opening.uncertainty, found.opening.ship):
        console.print_text(sentence.replace("`", ""))


def _check_needed(is_given: bool, option: str, has_other: bool, other: str) -> None:
    """Refuse an option that has no effect without another one."""
    if is_given and not has_other:
        raise InputError(
            f"{option} has no effect without {other}; give both, or leave it out",
            code="option-needs-another",
        )
