"""Reading a log for a verb, and how much it held."""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from epiclick.cli.output import note, progress
from epiclick.cli.telling import print_text
from epiclick.data.log import LogOptions
from epiclick.errors import InputWarning

if TYPE_CHECKING:
    from epiclick.data.counts import ClickCounts


def read_counts(
    log: Sequence[str],
    options: LogOptions,
    features: str | None = None,
    missing_features: Literal["error", "drop"] = "error",
    *,
    robots: bool = True,
    quiet: bool,
) -> "ClickCounts":
    """Count a log and join features; columns found by another name are noted, doubts warned of.

    A fit looks for robots itself, by the position bias it learns: then `robots` is False here.
    """
    from epiclick.data.features import read_features
    from epiclick.data.readers import count_log

    with progress("counting", quiet=quiet):
        counts, report = count_log(list(log), options)
    if report.aliases:
        found = ", ".join(f"{name} from {own}" for name, own in report.aliases.items())
        note(f"columns: {found}", quiet=quiet)
    suspected = () if report.robots is None or not robots else (report.robots.words,)
    for message in (*report.warnings, *suspected):
        warnings.warn(message, InputWarning, stacklevel=2)
    if features is None:
        return counts
    with progress("joining features", quiet=quiet):
        table = read_features(features, ids=counts.options.ids)
        joined = counts.with_features(table, missing=missing_features)
    if len(joined) < len(counts):
        missing = len(counts) - len(joined)
        warnings.warn(
            f"{missing:,} of {len(counts):,} pairs have no features and were left out",
            InputWarning,
            stacklevel=2,
        )
    return joined


def print_sizes(counts: "ClickCounts") -> None:
    """How much a log holds, in a sentence."""
    pages = "" if counts.pages is None else f"{counts.pages:,} pages, "
    print_text(
        f"{pages}{len(counts):,} pairs of {counts.num_queries:,} queries, "
        f"{counts.total_displays:,} displays, {counts.total_clicks:,} clicks"
    )
