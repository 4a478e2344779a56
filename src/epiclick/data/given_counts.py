"""Counts as an argument: given as they are, or a log that is still to be counted."""

from typing import Any

from epiclick.arguments import shown
from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureTable
from epiclick.errors import InputError


def check_counts(name: str, given: Any) -> ClickCounts:
    """The counts; refuses a log that was not read yet."""
    if isinstance(given, ClickCounts):
        return given
    raise InputError(
        f"{name} must be counts, not {shown(given)}; count the log first, as in "
        "read_log('clicks.parquet', features='features.parquet')"
    )


def counts_of(given: Any, *, click_model: str = "pbm", name: str = "counts") -> ClickCounts:
    """The counts, or those of a log of any kind that `read_log` takes, by its default options."""
    if isinstance(given, ClickCounts):
        return given
    if given is None or isinstance(given, FeatureTable):
        return check_counts(name, given)
    from epiclick.data.readers import read_log  # slow to load, and seldom needed here

    try:
        return read_log(given, click_model=click_model)
    except InputError as error:
        raise InputError(
            f"{error}\nOptions for reading the log are those of read_log: "
            "fit(read_log(source, ...)).",
            error.problems,
        ) from error
