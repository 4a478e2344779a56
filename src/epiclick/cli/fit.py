"""`epiclick fit`: a model of a log."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from epiclick.cli.fit_output import fit_record, print_fit
from epiclick.cli.log_options import (
    USUAL,
    ClipClicks,
    Column,
    Context,
    GivenOptions,
    Ids,
    Logs,
    MaxBad,
    MissingFeatures,
    OnBad,
    PositionBase,
    Where,
    read_counts,
)
from epiclick.cli.out_file import check_writable
from epiclick.cli.output import AsJson, Quiet, note, print_json
from epiclick.cli.telling import Interrupted, WithDefaults, known, told_warnings
from epiclick.data.log import LogOptions
from epiclick.errors import InputError
from epiclick.models.kinds import ThetaPosterior

if TYPE_CHECKING:
    from epiclick.data.counts import ClickCounts
    from epiclick.pbm import PositionBasedModel

Estimator = Literal["marginal", "exact", "conditioned", "self_normalized", "naive", "pointwise"]


def fit(
    log: Logs,
    out: Annotated[Path, typer.Option(help="Folder to write.", show_default=False)],
    features: Annotated[
        str | None, typer.Option(help="Features of the items: query_id, doc_id, one column each.")
    ] = None,
    estimator: Annotated[
        Estimator | None,
        typer.Option(metavar="NAME", help=f"One of {', '.join(get_args(Estimator))}."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the pairs, at most.")] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same model.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was stopped.")
    ] = False,
    init: Annotated[
        Path | None, typer.Option(help="Model to start from, such as last week's.")
    ] = None,
    valid: Annotated[
        list[str] | None, typer.Option(help="Log that decides when to stop, instead of --holdout.")
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
        typer.Option(help="Table of known position bias: held, or a prior with low and high."),
    ] = None,
    randomised: Annotated[
        str | None,
        typer.Option(help="Column of 0 and 1 that marks pages ranked at random, to compare with."),
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
    """Fit a position-based model to a log: position bias, relevance and how sure both are.

    Without features every item's relevance comes from its own clicks.

    Example: epiclick fit clicks.parquet --features features.parquet --out model
    """
    silent = quiet or as_json
    given = GivenOptions(context, position_base, column, where, clip_clicks, ids, on_bad, max_bad)
    settings: dict[str, Any] = {
        "epochs": epochs,
        "seed": seed,
        "holdout": holdout,
        "samples": samples,
        "baseline": baseline or None,
        "entropy": entropy,
        "members": members,
        "hidden": None if hidden is None else parse_units(hidden),
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "theta_posterior": theta_posterior,
        "level": level,
    }
    settings = {name: value for name, value in settings.items() if value is not None}
    if patience is not None:
        settings["patience"] = patience or None
    model = make_model(estimator, settings)
    also_read = [path for path in (features, position_bias) if path]
    check_model_out(out, [*log, *(valid or []), *also_read], init)
    checkpoint = find_checkpoint(out, resume=resume, quiet=silent)

    with told_warnings(quiet=silent) as warnings:
        start, options = None, given.over(USUAL)
        if init is not None:
            from epiclick.pbm import load

            start = load(init)
            options = given.over_saved(start.fitted_.options, quiet=silent)

        def read(which: Sequence[str], where: str | None = options.where) -> "ClickCounts":
            narrowed = replace(options, where=where)
            counts = read_counts(which, narrowed, features, missing_features, quiet=silent)
            return replace(counts, options=options)  # what later logs are to be read by

        slices: dict[str, ClickCounts] = {}
        if randomised is None:
            counts = read(log)
        else:
            from epiclick.data.marked import marked_and_rest

            marked, rest = marked_and_rest(log, options, randomised)
            counts = read(log, rest)
            slices["randomised"] = count_marked(log, replace(options, where=marked), randomised)
        held_out = read(valid) if valid else None
        if anchor is not None:
            model.set_params(anchor=parse_anchor(anchor, counts))
        with kept_when_stopped(out, checkpoint, resume=resume):
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


class FitCommand(WithDefaults):
    """Help that shows the defaults of the models."""

    @staticmethod
    def shown() -> Mapping[str, str]:
        """Defaults by option."""
        from epiclick.pbm import EpistemicPBM, PointwisePBM

        pointwise = PointwisePBM().get_params()
        defaults = {}
        for name, value in EpistemicPBM().get_params().items():
            if value is False:
                continue  # a switch
            words = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            if pointwise.get(name, value) != value:
                words += f", pointwise {pointwise[name]}"
            defaults[name] = words
        return defaults


def make_model(estimator: Estimator | None, settings: Mapping[str, Any]) -> "PositionBasedModel":
    """A model that is not fitted yet; what is not given is left to its class."""
    from epiclick.pbm import EpistemicPBM, PointwisePBM

    if estimator is None:
        return EpistemicPBM(**settings)
    if estimator != "pointwise":
        return EpistemicPBM(estimator, **settings)
    if foreign := [name for name in settings if name not in PointwisePBM().get_params()]:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in foreign)
        raise InputError(f"{options} cannot be used with --estimator pointwise; leave it out")
    return PointwisePBM(**settings)


def check_model_out(out: Path, inputs: Sequence[str], init: Path | None) -> None:
    """Refuse, before any work, a folder that cannot be written, or what is read there would harm.

    A model may take the place of the one it starts from: that is read before, and replaced whole.
    """
    from epiclick.data.files import find_files
    from epiclick.models.storage import check_replaceable

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
    check_replaceable(out)
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
def kept_when_stopped(out: Path, checkpoint: Path, *, resume: bool) -> Iterator[None]:
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


def save(model: "PositionBasedModel", out: Path, checkpoint: Path) -> None:
    """Write the model; if that fails, say that nothing needs to be learned again."""
    try:
        model.save(out)
    except InputError as error:
        raise InputError(
            f"{error}\nThe run is kept in {checkpoint}: the same command with --resume writes the "
            "model without training again."
        ) from error


def parse_units(text: str) -> tuple[int, ...]:
    """Units of hidden layers, such as 64,64,32."""
    try:
        return tuple(int(units) for units in text.split(",") if units.strip())
    except ValueError as error:
        raise InputError(f"--hidden {text}: write whole numbers such as 64,64,32") from error


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


def _written(file: Path) -> int | None:
    return file.stat().st_mtime_ns if file.exists() else None
