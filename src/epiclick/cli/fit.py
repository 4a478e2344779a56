"""`epiclick fit`: a model of a log."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from epiclick.cli.commas import numbers_in
from epiclick.cli.fit_model import Estimator, chosen_click_model, make_model, parse_anchor
from epiclick.cli.fit_output import fit_record, print_fit
from epiclick.cli.fit_run import check_model_out, find_checkpoint, kept_for_resume, save
from epiclick.cli.log_options import (
    NOTHING_GIVEN,
    USUAL,
    GivenOptions,
    Logs,
    MissingFeatures,
    reads_log,
)
from epiclick.cli.log_reading import read_counts
from epiclick.cli.output import AsJson, Quiet, note, print_json
from epiclick.cli.shared_options import ClickModel
from epiclick.cli.telling import known, told_warnings
from epiclick.data.log import LogOptions
from epiclick.errors import InputError
from epiclick.models.kinds import ThetaPosterior

if TYPE_CHECKING:
    from epiclick.data.counts import ClickCounts

UNITS = "whole numbers such as 64,64,32"


@reads_log
def fit(
    log: Logs,
    out: Annotated[Path, typer.Option(help="Folder to write.", show_default=False)],
    features: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Features of the items: query_id, doc_id, one column each."
        ),
    ] = None,
    click_model: ClickModel = None,
    estimator: Annotated[
        Estimator | None,
        typer.Option(metavar="NAME", help=f"One of {', '.join(get_args(Estimator))}."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the pairs, at most.")] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same model.")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the model that --out holds.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was stopped.")
    ] = False,
    init: Annotated[
        Path | None, typer.Option(help="Model to start from, such as last week's.")
    ] = None,
    valid: Annotated[
        list[str] | None,
        typer.Option(metavar="LOG", help="Log that decides when to stop, instead of --holdout."),
    ] = None,
    holdout: Annotated[
        float | None, typer.Option(help="Share of queries that decide when to stop.")
    ] = None,
    patience: Annotated[
        int | None, typer.Option(help="Epochs without improvement before stopping; 0: never stop.")
    ] = None,
    samples: Annotated[
        int | None, typer.Option(help="Samples of position bias, and of relevance.")
    ] = None,
    baseline: Annotated[
        bool, typer.Option("--baseline", help="Subtract leave-one-out baselines.")
    ] = False,
    entropy: Annotated[float | None, typer.Option(help="Weight of the modified entropy.")] = None,
    anchor: Annotated[
        str | None,
        typer.Option(help="Context whose bias is 1, such as 1 or phone,1; none: free scale."),
    ] = None,
    position_bias: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Table of known position bias: held, or a prior with low and high."
        ),
    ] = None,
    randomised: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of 0 and 1 that marks pages ranked at random, to compare with.",
        ),
    ] = None,
    members: Annotated[
        int | None, typer.Option(help="Networks of an ensemble, on bootstraps of the queries.")
    ] = None,
    hidden: Annotated[str | None, typer.Option(help="Units of the hidden layers.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Pairs in a batch, at most.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Of AdamW.")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Of AdamW.")] = None,
    theta_posterior: Annotated[
        ThetaPosterior | None,
        typer.Option(
            metavar="NAME",
            help="How the posterior of position bias is found: laplace, or nuts (Markov chains).",
        ),
    ] = None,
    level: Annotated[float | None, typer.Option(help="Probability of the intervals.")] = None,
    missing_features: MissingFeatures = "error",
    given: GivenOptions = NOTHING_GIVEN,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Fit a click model to a log: position bias, relevance and how sure both are.

    Without features every item's relevance comes from its own clicks.

    Example: epiclick fit clicks.parquet --features features.parquet --out model
    """
    silent = quiet or as_json
    settings: dict[str, Any] = {
        "epochs": epochs,
        "seed": seed,
        "holdout": holdout,
        "samples": samples,
        "baseline": baseline or None,
        "entropy": entropy,
        "members": members,
        "hidden": None if hidden is None else numbers_in(hidden, "--hidden", UNITS, int),
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "theta_posterior": theta_posterior,
        "level": level,
    }
    settings = {name: value for name, value in settings.items() if value is not None}
    if patience is not None:
        settings["patience"] = patience or None
    clicks = chosen_click_model(click_model, init)
    model = make_model(estimator, settings, clicks)
    also_read = [path for path in (features, position_bias) if path]
    check_model_out(out, [*log, *(valid or []), *also_read], init, overwrite=overwrite)
    checkpoint = find_checkpoint(out, resume=resume, quiet=silent)

    with told_warnings(quiet=silent) as warnings:
        start, options = None, given.over(USUAL)
        if init is not None:
            from epiclick.api import load

            start = load(init)
            options = given.over_saved(start.fitted_.options, log, quiet=silent)
        options = replace(options, click_model=clicks)

        def read(which: Sequence[str], where: str | None = options.where) -> "ClickCounts":
            narrowed = replace(options, where=where)
            counts = read_counts(
                which, narrowed, features, missing_features, robots=False, quiet=silent
            )
            # a model keeps how later logs are read, and which rows it learned from: a file of
            # counts knows its own, marks of randomised pages are no part of them
            rows = counts.options.where if where == options.where else options.where
            return replace(counts, options=replace(options, where=rows))

        slices: dict[str, ClickCounts] = {}
        if randomised is None:
            counts = read(log)
        else:
            from epiclick.data.marked import marked_and_rest
            from epiclick.data.unchanged import unchanged

            with unchanged(log):
                marked, rest = marked_and_rest(log, options, randomised)
                counts = read(log, rest)
                slices["randomised"] = count_marked(log, replace(options, where=marked), randomised)
        held_out = read(valid) if valid else None
        if anchor is not None:
            model.set_params(anchor=parse_anchor(anchor, counts))
        with kept_for_resume(out, checkpoint, resume=resume):
            model.fit(
                counts,
                held_out,
                position_bias=position_bias,
                init=start,
                checkpoint=checkpoint,
                resume=resume,
                progress=not (quiet or as_json),
                **slices,
            )
            save(model, out, checkpoint)
        checkpoint.unlink(missing_ok=True)

    if as_json:
        words = [*warnings, *(w for w in model.fitted_.training.warnings if w not in warnings)]
        print_json(known(fit_record(model, counts, words)))
        return
    print_fit(model, counts, valid=bool(valid), quiet=quiet)
    note(f"written to {out}", quiet=quiet)


def count_marked(log: Sequence[str], options: LogOptions, column: str) -> "ClickCounts":
    """Count the rows that a column marks; how they were read was told with the others."""
    from epiclick.data.readers import count_log

    try:
        return count_log(list(log), options)[0]
    except InputError as error:
        raise InputError(f"the rows that {column} marks: {error}") from error
