"""`epiclick fit`: fit a click model to a log."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from typer import Option

from epiclick.arguments import ThetaPosterior
from epiclick.cli import console, options
from epiclick.cli.help import Verb
from epiclick.collective import ALONE
from epiclick.data.schema import LogOptions
from epiclick.errors import InputError
from epiclick.estimators.names import POINTWISE, EstimatorName

if TYPE_CHECKING:
    from epiclick.api import BaseModel
    from epiclick.collective import Collective
    from epiclick.data.counts import ClickCounts


Estimator = Literal[EstimatorName, "pointwise"]


class FitVerb(Verb):
    """The verb, with the defaults of the model classes in its help."""

    @staticmethod
    def defaults() -> Mapping[str, str]:
        """Defaults by option."""
        from epiclick.api import EpistemicPBM, PointwisePBM
        from epiclick.plans import EPOCHS, EPOCHS_WITHOUT_FEATURES, STEPS_TO_MODE

        pointwise = PointwisePBM().get_params()
        bare = f"{STEPS_TO_MODE} (the paper's estimators {EPOCHS_WITHOUT_FEATURES})"
        defaults = {"epochs": f"{EPOCHS}, without features {bare}"}
        for name, value in EpistemicPBM().get_params().items():
            if value is False or name in defaults:
                continue  # a switch, or set above
            text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            if pointwise.get(name, value) != value:
                text += f", pointwise {pointwise[name]}"
            defaults[name] = text
        return defaults


def make_model(
    estimator: Estimator | None, settings: Mapping[str, Any], click_model: str = "pbm"
) -> "BaseModel":
    """An unfitted model with these settings and the defaults of its class.

    Invalid settings are refused here, before a log is read.
    """
    from epiclick.api import EPISTEMIC, PointwisePBM
    from epiclick.plans import check_parameters

    model: BaseModel
    if estimator == POINTWISE:
        if foreign := [name for name in settings if name not in PointwisePBM().get_params()]:
            raise InputError(
                f"{', '.join(map(options.flag, foreign))} cannot be used with --estimator "
                f"{POINTWISE}; leave it out",
                code="option-does-not-apply",
            )
        if click_model != PointwisePBM.click_model:
            raise InputError(
                f"--estimator {POINTWISE} needs --click-model {PointwisePBM.click_model}; leave it "
                f"out for {click_model}",
                code="option-does-not-apply",
            )
        model = PointwisePBM(**settings)
    else:
        own: dict[str, Any] = {} if estimator is None else {"estimator": estimator}
        model = EPISTEMIC[click_model](**own, **settings)
    try:
        check_parameters(model)
    except InputError as error:
        # the message names the class and its parameters, not the options
        wrong = str(error).removeprefix(f"{type(model).__name__}: ").split("; ")
        named = (rule.split(" ", 1) for rule in wrong)
        message = "; ".join(f"{options.flag(name)} {rule}" for name, rule in named)
        raise error.with_message(message) from error
    return model


def parse_anchor(text: str, counts: "ClickCounts") -> Any:
    """The anchor with the types of the log's context columns; None for "none"."""
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
        return text  # the fit refuses it and lists the contexts
    return typed[0] if len(typed) == 1 else tuple(typed)


def fit_record(
    model: "BaseModel", counts: "ClickCounts", warnings: Sequence[str]
) -> dict[str, Any]:
    """The record for JSON: sizes of the whole log; `trained_on` excludes what was held out."""
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
        "position_bias": model.position_bias().to_dict("records"),
        "parameters": model.click_table().to_dict("records"),
        "anchor": training.checks["anchor"],
        "at_bound": training.checks["at_bound"],
        "identifiability": training.checks["identifiability"],
        "posterior": training.checks.get("posterior"),
        "given_bias": training.checks.get("given_bias"),
        "confounding": training.checks.get("confounding"),
        "placement": training.checks.get("placement"),
        "conversion": training.checks.get("conversion"),
        "words": training.checks["words"],
        "warnings": list(warnings),
    }


def print_fit(model: "BaseModel", counts: "ClickCounts", *, valid: bool, quiet: bool) -> None:
    """Print sizes, time, likelihood, fit, position bias, and what the log can identify."""
    training = model.fitted_.training
    findings = "\n".join(training.checks["words"])
    for warning in training.warnings:
        if warning not in findings:
            console.print_warning(warning, quiet=quiet)
    console.print_sizes(counts)
    unit = model.fitted_.iteration
    best = f", the best was {training.best_epoch}" if unit == "epoch" else ""
    console.print_text(f"{training.epochs} {unit}s in {training.seconds:.1f} s{best}")
    of = "the training pairs"
    if valid:
        of = "the validation log"
    elif len(model.fitted_.queries.held_out):
        of = f"{len(model.fitted_.queries.held_out):,} held-out queries"
    console.print_text(
        f"log-likelihood per display {console.format_number(training.log_likelihood)}, of {of}"
    )
    ratio = training.checks["chi2_per_df"]
    if ratio is None:
        console.print_text("chi2/df unknown: too few items were shown often enough")
    else:
        df = training.checks["chi2_df"]
        title = model.fitted_.clicks.title
        console.print_text(
            f"chi2/df {ratio:.2f}, df {df:,} (1: clicks vary as the {title} predicts)"
        )
    console.print_bias(model)
    console.print_text(findings)


def check_model_out(
    out: Path, inputs: Sequence[str], init: Path | None, *, overwrite: bool
) -> None:
    """Refuse, before any work, a folder that cannot be written or would destroy an input.

    A model is replaced only with --overwrite. It may be the model to start from, which is read
    first and replaced as a whole.
    """
    from epiclick.data.files import find_files, paths_in
    from epiclick.fitted.storage import check_replaceable

    place = out.resolve()
    paths = paths_in(inputs)
    for file in map(Path.resolve, find_files(paths)):
        if file.is_relative_to(place):
            raise InputError(
                f"--out {out} would replace {file}, which is an input; name another folder",
                code="output-is-input",
            )
    folders = [Path(path).resolve() for path in paths if Path(path).is_dir()]
    if init is not None and init.resolve() != place:
        folders.append(init.resolve())
    for folder in folders:
        if place.is_relative_to(folder):
            raise InputError(
                f"--out {out} is inside {folder}, which is an input; name another folder",
                code="output-inside-input",
            )
    if check_replaceable(out) and not overwrite:
        raise InputError(
            f"--out {out} contains a model; give --overwrite to replace it, or name another folder",
            code="model-exists",
        )
    console.check_writable(out)


def check_checkpoint(checkpoint: Path, *, resume: bool, quiet: bool) -> None:
    """Require one to resume from; notes that this run would replace that of a stopped run."""
    if resume and not checkpoint.exists():
        raise InputError(
            f"there is no checkpoint {checkpoint} to resume from; start over without --resume",
            code="checkpoint-missing",
        )
    if checkpoint.exists() and not resume:
        console.note(
            f"{checkpoint} is from a stopped run; this run starts over and overwrites it (--resume "
            "would continue it)",
            quiet=quiet,
        )


@contextmanager
def kept_for_resume(out: Path, checkpoint: Path, *, resume: bool) -> Iterator[None]:
    """On Ctrl-C, say how to continue if this run has written a checkpoint."""
    earlier = None if resume else _written(checkpoint)
    try:
        yield
    except KeyboardInterrupt as stop:
        if _written(checkpoint) in (None, earlier):
            raise
        raise console.Interrupted(
            f"{out} was not written, and the run is kept in {checkpoint}. "
            "To continue, run the same command again with --resume."
        ) from stop


def save(model: "BaseModel", out: Path, checkpoint: Path) -> None:
    """Write the model; if that fails, say that no training is lost."""
    try:
        model.save(out)
    except InputError as error:
        raise error.with_message(
            f"{error}\nThe run is kept in {checkpoint}: the same command with --resume writes the "
            "model without training again."
        ) from error


def _connected(distributed: bool) -> "Collective":
    """The processes of the fit; one, unless it is distributed."""
    if not distributed:
        return ALONE
    from epiclick.distributed import distributed as connect

    return connect()


def _written(file: Path) -> int | None:
    return file.stat().st_mtime_ns if file.exists() else None


UNITS = "whole numbers such as 64,64,32"


@options.reads_log
def fit(
    log: options.Logs,
    out: options.OutFolder,
    features: options.GivenFeatures = options.NO_FEATURES,
    click_model: options.ClickModel = None,
    estimator: Annotated[
        Estimator | None, Option(metavar="NAME", help=f"One of {', '.join(get_args(Estimator))}.")
    ] = None,
    epochs: Annotated[int | None, Option(help="Largest number of passes over the pairs.")] = None,
    seed: Annotated[int | None, Option(help="Random seed.")] = None,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace the model in --out.")] = False,
    resume: Annotated[bool, Option("--resume", help="Continue a stopped run.")] = False,
    init: Annotated[
        Path | None, Option(metavar="MODEL", help="Model to start from, such as last week's.")
    ] = None,
    valid: Annotated[
        list[str] | None,
        Option(metavar="LOG", help="Log for early stopping, instead of --holdout."),
    ] = None,
    holdout: Annotated[
        float | None, Option(help="Share of queries held out for early stopping.")
    ] = None,
    patience: Annotated[
        int | None, Option(help="Epochs without improvement before stopping; 0: never stop.")
    ] = None,
    samples: Annotated[
        int | None,
        Option(help="Samples of position bias and relevance, for the paper's estimators."),
    ] = None,
    baseline: Annotated[
        bool, Option("--baseline", help="Subtract leave-one-out baselines.")
    ] = False,
    entropy: Annotated[float | None, Option(help="Weight of the modified entropy.")] = None,
    anchor: Annotated[
        str | None, Option(help="Context whose bias is 1, such as 1 or phone,1; none: free scale.")
    ] = None,
    position_bias: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="Table of known position bias: fixed, or a prior if it has low and high.",
        ),
    ] = None,
    exposure_from: options.ExposureFrom = None,
    randomised: Annotated[
        str | None,
        Option(
            metavar="COLUMN",
            help="Column that is 1 on randomly ranked pages; they are used as a check only.",
        ),
    ] = None,
    members: Annotated[
        int | None, Option(help="Networks in the ensemble, on bootstraps of the queries.")
    ] = None,
    hidden: Annotated[str | None, Option(help="Units per hidden layer.")] = None,
    batch_size: Annotated[int | None, Option(help="Largest number of pairs per batch.")] = None,
    learning_rate: Annotated[float | None, Option(help="Learning rate of AdamW.")] = None,
    weight_decay: Annotated[float | None, Option(help="Weight decay of AdamW.")] = None,
    theta_posterior: Annotated[
        ThetaPosterior | None,
        Option(
            metavar="NAME", help="Posterior of position bias: laplace, or nuts (Markov chains)."
        ),
    ] = None,
    level: options.Level = None,
    distributed: Annotated[
        bool,
        Option("--distributed", help="Share the fit with the other processes of a cluster job."),
    ] = False,
    cluster: options.Cluster = None,
    missing_features: options.MissingFeatures = "error",
    given: options.GivenOptions = options.NOTHING_GIVEN,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Fit a click model to a log: position bias and relevance, both with their uncertainty.

    Without features, the relevance of every item is learned from its own clicks.

    Example: epiclick fit clicks.parquet --features features.parquet --out model
    """
    from epiclick.training.checkpoint import unfinished

    processes = _connected(distributed)
    first = processes.rank == 0  # which alone prints and writes
    silent = quiet or as_json or not first
    settings: dict[str, Any] = {
        "epochs": epochs,
        "seed": seed,
        "holdout": holdout,
        "samples": samples,
        "baseline": baseline or None,
        "entropy": entropy,
        "members": members,
        "hidden": None if hidden is None else options.numbers_in(hidden, "--hidden", UNITS, int),
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "theta_posterior": theta_posterior,
        "level": level,
    }
    settings = {name: value for name, value in settings.items() if value is not None}
    if patience is not None:
        settings["patience"] = patience or None
    clicks = options.chosen_click_model(click_model, init)
    model = make_model(estimator, settings, clicks)
    also_read = [*features.paths, *([position_bias] if position_bias else [])]
    checkpoint = unfinished(out.absolute())
    if first:
        check_model_out(out, [*log, *(valid or []), *also_read], init, overwrite=overwrite)
        check_checkpoint(checkpoint, resume=resume, quiet=silent)

    with console.collect_warnings(quiet=silent) as warnings:
        start, log_options, usual = None, given.over(options.DEFAULTS), options.DEFAULTS.cluster
        if init is not None:
            from epiclick.api import load

            start = load(init)
            log_options = given.over_saved(start.fitted_.options, log, quiet=silent)
            usual = start.fitted_.options.cluster
            features = features.for_models([start])
        log_options = replace(log_options, click_model=clicks, cluster=cluster or usual)

        def read(which: Sequence[str], where: str | None = log_options.where) -> "ClickCounts":
            narrowed = replace(log_options, where=where)
            counts = options.read_counts(
                which, narrowed, features, missing_features, robots=False, quiet=silent
            )
            # a model stores how to read later logs and which rows it was fitted to: a counts file
            # has its own condition, and the one on randomised pages is not part of it
            rows = counts.options.where if where == log_options.where else log_options.where
            own = counts.options
            return replace(
                counts,
                options=replace(
                    log_options, where=rows, conversion=own.conversion, value=own.value
                ),
            )

        slices: dict[str, ClickCounts] = {}
        if randomised is None:
            counts = read(log)
        else:
            from epiclick.data.by_column import marked_and_rest
            from epiclick.data.files import unchanged

            with unchanged(log):
                marked, rest = marked_and_rest(log, log_options, randomised)
                counts = read(log, rest)
                marked_options = replace(log_options, where=marked)
                slices["randomised"] = count_marked(log, marked_options, randomised)
        held_out = read(valid) if valid else None
        if exposure_from:
            earlier = options.read_counts(exposure_from, log_options, robots=False, quiet=silent)
            counts = counts.placed_by(earlier)
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
                progress=not silent,
                processes=processes,
                **slices,
            )
            if first:
                save(model, out, checkpoint)
        if first:
            checkpoint.unlink(missing_ok=True)
        processes.close()

    if not first:
        return
    if as_json:
        stored = (each for each in model.fitted_.training.warnings if each not in warnings)
        console.print_json(console.json_safe(fit_record(model, counts, [*warnings, *stored])))
        return
    print_fit(model, counts, valid=bool(valid), quiet=quiet)
    console.note(f"written to {out}", quiet=quiet)


def count_marked(log: Sequence[str], options: LogOptions, column: str) -> "ClickCounts":
    """Count the rows that a column marks; notes on reading were printed for the others."""
    from epiclick.data.readers import count_log

    try:
        return count_log(list(log), options)[0]
    except InputError as error:
        raise error.with_message(f"the rows that {column} marks: {error}") from error
