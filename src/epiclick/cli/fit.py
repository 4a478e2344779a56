"""`epiclick fit`: a model of a log."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from epiclick.cli.console import (
    AsJson,
    Interrupted,
    Quiet,
    check_writable,
    known,
    note,
    number,
    print_json,
    print_text,
    tell_warning,
    told_warnings,
)
from epiclick.cli.help import Verb
from epiclick.cli.options import (
    NOTHING_GIVEN,
    USUAL,
    ClickModel,
    GivenOptions,
    Logs,
    MissingFeatures,
    numbers_in,
    print_sizes,
    read_counts,
    reads_log,
)
from epiclick.cli.position_bias import bias_records, print_bias
from epiclick.data.schema import LogOptions
from epiclick.errors import InputError
from epiclick.estimators.names import POINTWISE, EstimatorName
from epiclick.fitted.state import ThetaPosterior

if TYPE_CHECKING:
    from epiclick.api import BaseModel
    from epiclick.data.counts import ClickCounts


Estimator = Literal[EstimatorName, "pointwise"]


class FitCommand(Verb):
    """A verb whose help shows the defaults of the models."""

    @staticmethod
    def shown() -> Mapping[str, str]:
        """Defaults by option."""
        from epiclick.api import EpistemicPBM, PointwisePBM
        from epiclick.plans import EPOCHS, EPOCHS_TO_MODE, EPOCHS_WITHOUT_FEATURES

        pointwise = PointwisePBM().get_params()
        bare = f"{EPOCHS_TO_MODE} (the paper's estimators {EPOCHS_WITHOUT_FEATURES})"
        defaults = {"epochs": f"{EPOCHS}, without features {bare}"}
        for name, value in EpistemicPBM().get_params().items():
            if value is False or name in defaults:
                continue  # a switch, or told
            words = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            if pointwise.get(name, value) != value:
                words += f", pointwise {pointwise[name]}"
            defaults[name] = words
        return defaults


def chosen_click_model(given: str | None, init: Path | None) -> str:
    """Name of the click model: as given, or that of the model to start from, or the usual one."""
    from epiclick.api import load
    from epiclick.click_models.registry import click_model

    if given is None:
        return "pbm" if init is None else load(init).click_model
    try:
        return click_model(given).name
    except InputError as error:
        raise InputError(str(error).replace("click_model", "--click-model", 1)) from error


def make_model(
    estimator: Estimator | None, settings: Mapping[str, Any], click_model: str = "pbm"
) -> "BaseModel":
    """A model that is not fitted yet; what is not given is left to its class.

    Settings that cannot be meant are refused here, before a log is read.
    """
    from epiclick.api import EPISTEMIC, PointwisePBM
    from epiclick.plans import check_parameters

    model: BaseModel
    if estimator == POINTWISE:
        if foreign := [name for name in settings if name not in PointwisePBM().get_params()]:
            options = ", ".join(map(_option, foreign))
            raise InputError(f"{options} cannot be used with --estimator {POINTWISE}; leave it out")
        if click_model != PointwisePBM.click_model:
            raise InputError(
                f"--estimator {POINTWISE} is for --click-model {PointwisePBM.click_model} alone; "
                f"leave it out for {click_model}"
            )
        model = PointwisePBM(**settings)
    else:
        own: dict[str, Any] = {} if estimator is None else {"estimator": estimator}
        model = EPISTEMIC[click_model](**own, **settings)
    try:
        check_parameters(model)
    except InputError as error:
        # the message names the class and its parameters, which nobody typed
        wrong = str(error).removeprefix(f"{type(model).__name__}: ").split("; ")
        named = (rule.split(" ", 1) for rule in wrong)
        raise InputError("; ".join(f"{_option(name)} {rule}" for name, rule in named)) from error
    return model


def parse_anchor(text: str, counts: "ClickCounts") -> Any:
    """A context as the log has it: 1 is a number where positions are; "none" is None."""
    import pyarrow as pa

    if text.lower() in ("auto", "none"):
        return "auto" if text.lower() == "auto" else None
    columns = counts.contexts.columns
    values = [text] if len(columns) == 1 else [value.strip() for value in text.split(",")]
    try:
        typed = [
            pa.array([value]).cast(column.type)[0].as_py()
            for value, column in zip(values, columns, strict=True)
        ]
    except ValueError:
        return text  # whoever looks it up among the contexts names those there are
    return typed[0] if len(typed) == 1 else tuple(typed)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def fit_record(
    model: "BaseModel", counts: "ClickCounts", warnings: Sequence[str]
) -> dict[str, Any]:
    """For JSON: sizes are of the whole log, `trained_on` of what was not held out."""
    training = model.fitted_.training
    return {
        "pairs": len(counts),
        "displays": counts.total_displays,
        "clicks": counts.total_clicks,
        "trained_on": {
            "pairs": training.pairs,
            "displays": training.displays,
            "clicks": training.clicks,
        },
        "epochs": training.epochs,
        "best_epoch": training.best_epoch,
        "seconds": training.seconds,
        "log_likelihood": training.log_likelihood,
        "chi2_per_df": training.checks["chi2_per_df"],
        "click_model": model.click_model,
        "position_bias": bias_records(model),
        "parameters": known(model.click_table().to_dict("records")),
        "anchor": training.checks["anchor"],
        "at_bound": training.checks["at_bound"],
        "identifiability": training.checks["identifiability"],
        "posterior": training.checks.get("posterior"),
        "given_bias": training.checks.get("given_bias"),
        "words": training.checks["words"],
        "warnings": list(warnings),
    }


def print_fit(model: "BaseModel", counts: "ClickCounts", *, valid: bool, quiet: bool) -> None:
    """For people: sizes, time, likelihood, fit, position bias, and what the log can tell of it."""
    training = model.fitted_.training
    words = "\n".join(training.checks["words"])
    for warning in training.warnings:
        if warning not in words:
            tell_warning(warning, quiet=quiet)
    print_sizes(counts)
    print_text(
        f"{training.epochs} epochs in {training.seconds:.1f} s, the best was {training.best_epoch}"
    )
    of = "the pairs trained on"
    if valid:
        of = "the validation log"
    elif len(model.fitted_.queries.held_out):
        of = f"{len(model.fitted_.queries.held_out):,} queries held out"
    print_text(f"log-likelihood per display {number(training.log_likelihood)}, of {of}")
    ratio = training.checks["chi2_per_df"]
    if ratio is None:
        print_text("chi2/df unknown: too few items were shown often enough")
    else:
        df = training.checks["chi2_df"]
        title = model.fitted_.clicks.title
        print_text(f"chi2/df {ratio:.2f}, df {df:,} (1: clicks vary as a {title} says)")
    print_bias(model)
    print_text(words)


def check_model_out(
    out: Path, inputs: Sequence[str], init: Path | None, *, overwrite: bool
) -> None:
    """Refuse, before any work, a folder that cannot be written, or what is read there would harm.

    A model is replaced only where that is asked for, also by one that starts from it: the model to
    start from is read before, and replaced whole.
    """
    from epiclick.data.files import find_files
    from epiclick.fitted.storage import check_replaceable

    place = out.resolve()
    for file in map(Path.resolve, find_files(inputs)):
        if file.is_relative_to(place):
            raise InputError(f"--out {out} would replace {file}, which is read; name another")
    folders = [Path(path).resolve() for path in inputs if Path(path).is_dir()]
    if init is not None and init.resolve() != place:
        folders.append(init.resolve())
    for folder in folders:
        if place.is_relative_to(folder):
            raise InputError(f"--out {out} lies in {folder}, which is read; name another place")
    if check_replaceable(out) and not overwrite:
        raise InputError(
            f"--out {out} holds a model; give --overwrite to replace it, or name another folder"
        )
    check_writable(out)


def find_checkpoint(out: Path, *, resume: bool, quiet: bool) -> Path:
    """Where the run is kept until its model is written; tells of a run that was stopped."""
    from epiclick.training.checkpoint import unfinished

    checkpoint = unfinished(out.absolute())
    if resume and not checkpoint.exists():
        raise InputError(
            f"there is no checkpoint {checkpoint} to resume from; start anew without --resume"
        )
    if checkpoint.exists() and not resume:
        note(
            f"{checkpoint} is of a run that was stopped; this one starts anew and overwrites it "
            "(--resume would go on with it)",
            quiet=quiet,
        )
    return checkpoint


@contextmanager
def kept_for_resume(out: Path, checkpoint: Path, *, resume: bool) -> Iterator[None]:
    """Say at Ctrl-C how to go on, if a checkpoint of this run was written."""
    earlier = None if resume else _written(checkpoint)
    try:
        yield
    except KeyboardInterrupt as stop:
        if _written(checkpoint) in (None, earlier):
            raise
        raise Interrupted(
            f"{out} was not written, and the run is kept in {checkpoint}. "
            "To go on, give the same command again with --resume."
        ) from stop


def save(model: "BaseModel", out: Path, checkpoint: Path) -> None:
    """Write the model; if that fails, say that nothing needs to be learned again."""
    try:
        model.save(out)
    except InputError as error:
        raise InputError(
            f"{error}\nThe run is kept in {checkpoint}: the same command with --resume writes the "
            "model without training again."
        ) from error


def _written(file: Path) -> int | None:
    return file.stat().st_mtime_ns if file.exists() else None


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
            from epiclick.data.by_column import marked_and_rest
            from epiclick.data.sources import unchanged

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
