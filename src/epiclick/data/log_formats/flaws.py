"""Rows that a format found in its input, but cannot attribute to a display."""

from collections.abc import Mapping

FLAW = "epiclick_flaw"
"""Column of the log relation with the code of a flaw, NULL in good rows.

Flawed rows go through `where` like all others; then they are counted, reported, and refused or
dropped by the rules for rows.
"""

LATE = "epiclick_late"
"""Column of the log relation that is true where a display was clicked too late to count."""

OWN_COLUMNS = (FLAW, LATE)
"""Columns of the log relation that no log has."""

UNKNOWN = "(unknown)"
"""Stands in flawed rows for ids that are missing, so that only the flaw is reported."""

ATTRIBUTE = (
    "Are impressions lost, or do clicks elsewhere (type-ahead, recommendations) have the id of the "
    "page? Select with --where what was logged completely."
)

FLAWS: Mapping[str, tuple[str, str]] = {
    "click-without-display": ("clicks on items that were not displayed on their page", ATTRIBUTE),
    "conversion-without-display": (
        "conversions of items that were not displayed on their page",
        ATTRIBUTE,
    ),
    "lists-differ-in-length": (
        "pages whose lists have different lengths",
        "Each item needs one entry in the list of clicks, or of positions.",
    ),
    "not-a-list": (
        "pages whose items or clicks are not a list",
        'Write lists as JSON, as in ["a", "b"], or as ids separated by spaces.',
    ),
}
"""Code -> what is wrong, and the remedy."""
