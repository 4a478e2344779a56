"""`epiclick select`: which click model fits a log?"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from epiclick.cli import console, options
from epiclick.click_models.registry import REGISTRY

if TYPE_CHECKING:
    from epiclick.selection.parsimony import ModelScores
    from epiclick.selection.selected import Selection


def print_selection(found: "Selection") -> None:
    """Print sizes, the scores of the models, and the verdict."""
    from epiclick.selection.parsimony import RULE

    pages = "" if found.pages is None else f"{found.pages:,} pages, "
    console.print_table(
        f"Scores on held-out pages, {found.level:.0%} intervals",
        ["model", "log-likelihood", "difference", "perplexity", "chi2/df", "parameters"],
        (_row(each, found.best) for each in found.scores),
        prose=["model"],
    )
    console.print_text(
        f"Held out: {pages}{found.displays:,} displays of {found.queries:,} queries. "
        "Log-likelihood per display, given the clicks above it, and its difference from the best "
        "model; marginal perplexity, not given them."
    )
    console.print_text(f"Verdict: {found.verdict}")
    console.print_text(f"Rule: {RULE}.")


def _row(model: "ModelScores", best: str | None) -> list[str]:
    difference = "-"
    if model.click_model == best:
        difference = "best"
    elif model.is_scored:
        low, high = (f"{end:+.5f}" for end in (model.low or 0.0, model.high or 0.0))
        difference = f"{model.difference:+.5f} ({low} to {high})"
    elif model.impossible:
        plural = "" if model.impossible == 1 else "s"
        difference = f"probability 0 on {model.impossible:,} {model.unit}{plural}"
    return [
        model.click_model,
        console.format_number(model.log_likelihood, 5),
        difference,
        console.format_number(model.perplexity, 4),
        console.format_number(model.chi2_per_df, 2),
        f"{model.parameters:,}",
    ]


SUFFIXES = (".json",)


@options.reads_log
def select(
    log: options.Logs,
    models: Annotated[
        str | None,
        Option(
            metavar="NAMES",
            help=f"Click models to compare: some of {', '.join(REGISTRY)}.",
            show_default="all",
        ),
    ] = None,
    features: options.GivenFeatures = options.NO_FEATURES,
    out: Annotated[
        Path | None, Option(help="JSON file to write, for epiclick report --selection.")
    ] = None,
    holdout: Annotated[float, Option(help="Share of pages held out for scoring.")] = 0.2,
    level: Annotated[float, Option(help="Nominal coverage of intervals.")] = 0.9,
    seed: Annotated[int, Option(help="Random seed.")] = 0,
    missing_features: options.MissingFeatures = "error",
    given: options.GivenOptions = options.NOTHING_GIVEN,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare click models on a log: which one predicts held-out pages best?

    All are fitted to the same training pages and scored on the same held-out ones. Models that
    depend on earlier clicks of a page need page_id.

    Example: epiclick select clicks.parquet --models pbm,ubm
    """
    from epiclick.selection.select_model import select as select_model

    silent = quiet or as_json
    if out is not None:
        read = [*log, *features.paths]
        console.check_file(out, SUFFIXES, "JSON", "select.json", read)
    with console.collect_warnings(quiet=silent) as warnings:
        log_options = given.over(options.DEFAULTS)
        found = select_model(
            list(log),
            None if models is None else options.names_in(models),
            features.read(log_options.ids, quiet=silent) if features else None,
            holdout=holdout,
            level=level,
            seed=seed,
            missing_features=missing_features,
            progress=not silent,
            options=log_options,
        )
    if found.aliases:
        named = ", ".join(f"{name} from {own}" for name, own in found.aliases.items())
        console.note(f"columns: {named}", quiet=silent)
    record = console.json_safe({**found.to_dict(), "warnings": warnings})
    if out is not None:
        write_selection(record, out)
    if as_json:
        console.print_json(record)
        return
    print_selection(found)
    if out is not None:
        console.note(f"written to {out}", quiet=quiet)


def write_selection(record: Mapping[str, Any], out: Path) -> None:
    """Write what --json prints to a file, with a digest."""
    from epiclick.data.checksums import with_digest

    write_record(with_digest(console.with_version(record)), out)


def write_record(record: Mapping[str, Any], out: Path) -> None:
    """Write what --json prints to a file."""
    from epiclick.data.writing import written_aside

    # dates and decimals of context columns are written as text
    text = json.dumps({"schema_version": console.SCHEMA_VERSION, **record}, indent=1, default=str)
    with console.written_to(out), written_aside(out) as aside:
        aside.write_text(f"{text}\n", encoding="utf-8")
