"""`epiclick relevance`: how relevant each item is, and how sure that is."""

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epiclick.cli.console import (
    PARQUET,
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
    read_counts,
    reads_log,
)
from epiclick.cli.position_bias import FREE_SCALE, reference
from epiclick.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from epiclick.api import BaseModel, EpistemicModel


@reads_log
def relevance(
    model: Model,
    out: Annotated[Path, typer.Option(help="Parquet file to write.", show_default=False)],
    features: Features = None,
    clicks: OwnClicks = None,
    above: Annotated[
        float | None,
        typer.Option(help="Add prob_above: the probability of a relevance above this."),
    ] = None,
    missing_features: MissingFeatures = "error",
    given: GivenOptions = NOTHING_GIVEN,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write the relevance of items: query_id, doc_id, mean, low, high, alpha, beta.

    From features alone; with --clicks also from the items' own clicks.
    A model without features tells of the items of its own log.

    Example: epiclick relevance model --features new.parquet --out relevance.parquet
    """
    from epiclick.api import load
    from epiclick.fitted.tables import check_above

    silent = quiet or as_json
    inputs = [*(clicks or []), *([features] if features else [])]
    check_file(out, PARQUET, "Parquet", "relevance.parquet", inputs)
    check_above(above)
    fitted = load(model)
    check_features(fitted, features)
    with told_warnings(quiet=silent) as warnings:
        if clicks:
            counts = read_counts(
                clicks,
                given.over_saved(fitted.fitted_.options, clicks, quiet=silent),
                features,
                missing_features,
                quiet=silent,
            )
            frames = epistemic(fitted).posterior_chunks(counts, above=above)
        else:
            frames = fitted.relevance_chunks(features, above=above)
        with progress("writing", quiet=silent):
            rows = write_frames(frames, out)
    if as_json:
        print_json({"rows": rows, "warnings": warnings})
        return
    place = reference(fitted, fitted.fitted_.contexts.column_names)
    meaning = f"Relevance is the probability of a click if shown at {place}."
    print_text(f"{rows:,} items. {FREE_SCALE if fitted.fitted_.anchor is None else meaning}")
    note(f"written to {out}", quiet=quiet)


def check_features(model: "BaseModel", features: str | None) -> None:
    """Refuse to go without the features that a model needs, before a log is read."""
    spec = model.fitted_.features
    if spec is not None and features is None:
        raise InputError(
            f"the model was trained on {len(spec.names)} features; give those of the items with "
            "--features"
        )


def epistemic(model: "BaseModel") -> "EpistemicModel":
    """The model, if it can learn from an item's clicks."""
    from epiclick.api import EpistemicModel

    if not isinstance(model, EpistemicModel):
        raise InputError(
            "a pointwise model has one number for an item and does not learn from its clicks; "
            "leave --clicks out, or fit another --estimator"
        )
    return model


def write_frames(frames: Iterable["pd.DataFrame"], out: Path) -> int:
    """Write tables one after the other to a Parquet file; gives the number of rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from epiclick.data.writing import written_aside

    rows = 0
    writer = None
    with written_to(out), written_aside(out) as aside, ExitStack() as stack:
        for frame in frames:
            table = pa.Table.from_pandas(frame, preserve_index=False)
            table = table.replace_schema_metadata(None)
            if writer is None:
                opened = pq.ParquetWriter(aside, table.schema, compression="zstd")
                writer = stack.enter_context(opened)
            writer.write_table(table.cast(writer.schema))
            rows += len(table)
    return rows
