"""`epiclick relevance`: the relevance of each item, with its uncertainty."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from epiclick.cli import console, options
from epiclick.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


@options.reads_log
def relevance(
    model: options.Model,
    out: Annotated[Path, Option(help="Parquet file to write.", show_default=False)],
    features: options.GivenFeatures = options.NO_FEATURES,
    clicks: options.Clicks = None,
    above: Annotated[
        float | None,
        Option(help="Add a column prob_above: the probability that relevance exceeds X."),
    ] = None,
    missing_features: options.MissingFeatures = "error",
    given: options.GivenOptions = options.NOTHING_GIVEN,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Write the relevance of items: query_id, doc_id, mean, low, high, alpha, beta.

    Relevance is predicted from features; with --clicks, also from the items' own clicks.
    A model without features knows only the items of the log that it was fitted to.

    Example: epiclick relevance model --features new.parquet --out relevance.parquet
    """
    from epiclick.api import EpistemicModel, load
    from epiclick.fitted.tables import check_above

    silent = quiet or as_json
    inputs = [*(clicks or []), *features.paths]
    console.check_file(out, console.PARQUET, "Parquet", "relevance.parquet", inputs)
    check_above(above)
    fitted = load(model)
    options.check_features(fitted, features)
    features = features.for_models([fitted])
    with console.collect_warnings(quiet=silent) as warnings:
        if clicks:
            if not isinstance(fitted, EpistemicModel):
                raise InputError(
                    "a pointwise model has a point estimate for each item and does not learn from "
                    "its clicks; leave out --clicks, or fit with another --estimator",
                    code="pointwise-model",
                )
            log_options = given.over_saved(fitted.fitted_.options, clicks, quiet=silent)
            counts = options.read_counts(
                clicks, log_options, features, missing_features, quiet=silent
            )
            frames = fitted.posterior_chunks(counts, above=above)
        else:
            ids = fitted.fitted_.options.ids
            table = features.read(ids, quiet=silent) if features else None
            frames = fitted.relevance_chunks(table, above=above)
        with console.progress("writing", quiet=silent):
            rows = write_frames(frames, out)
    if as_json:
        console.print_json({"rows": rows, "warnings": warnings})
        return
    meaning = console.FREE_SCALE
    if fitted.fitted_.anchor is not None:
        place = console.reference_context(fitted, fitted.fitted_.contexts.column_names)
        meaning = f"Relevance is the probability of a click if shown at {place}."
    console.print_text(f"{rows:,} items. {meaning}")
    console.note(f"written to {out}", quiet=quiet)


def write_frames(frames: Iterable["pd.DataFrame"], out: Path) -> int:
    """Write tables one after another to a Parquet file; returns the number of rows."""
    import pyarrow as pa

    from epiclick.data.checked_tables import write_tables
    from epiclick.data.writing import written_aside

    tables = (pa.Table.from_pandas(frame, preserve_index=False) for frame in frames)
    with console.written_to(out), written_aside(out) as aside:
        return write_tables(tables, aside)
