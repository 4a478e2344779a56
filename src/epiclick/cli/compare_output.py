"""Tables of a comparison of rankers, and its verdict."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from epiclick.cli.output import print_table
from epiclick.cli.telling import number, print_text

if TYPE_CHECKING:
    from epiclick.comparison.result import Comparison
    from epiclick.comparison.verdict import Difference, Spread

PARTS = {
    "seen": "items seen",
    "unseen": "items never shown",
    "position_bias": "position bias",
    "network": "network",
}
"""What the parts of the variance are called."""


def print_comparison(
    found: "Comparison", differences: Sequence["Difference"], verdict: str, *, quiet: bool
) -> None:
    """Values, differences, where the uncertainty comes from, notes unless quiet, the verdict."""
    rankers = found.rankers.to_dict("records")
    digits = digits_for(row["high"] - row["low"] for row in rankers)
    pages = "" if found.pages is None else f", a log of {found.pages:,.0f} pages"
    print_table(
        f"Clicks a page, {found.level:.0%} intervals; {found.queries:,} queries{pages}",
        ["ranker", "clicks a page", "P(best)", "expected loss", "slots seen"],
        (
            [
                row["name"],
                f"{row['value']:.{digits}f} ({row['low']:.{digits}f} to {row['high']:.{digits}f})",
                _chance(found, row["prob_best"]),
                number(row["expected_loss"], digits),
                f"{row['seen']:.0%}",
            ]
            for row in rankers
        ),
    )
    if differences:
        _print_differences(found, differences, digits)
    spreads = {name: found.spread(name) for name in found.names}
    spreads |= {f"{each.name} - {each.against}": each.spread for each in differences}
    if found.is_uncertain:
        _print_spreads(spreads)
    if found.notes and not quiet:
        print("Notes")
        for each in found.notes:
            print_text(f"- {each}.")
    print_text(f"Verdict: {verdict}")


def _print_differences(
    found: "Comparison", differences: Sequence["Difference"], digits: int
) -> None:
    """One ranker against another: clicks a page, as a share with its interval, how sure it is."""
    print_table(
        f"Differences, {found.level:.0%} intervals",
        ["ranker", "against", "clicks a page", "relative", "P(better)"],
        (
            [
                each.name,
                each.against,
                f"{each.difference:+.{digits}f}",
                f"{each.relative:+.1%} ({each.relative_low:+.1%} to {each.relative_high:+.1%})",
                _chance(found, each.prob_better),
            ]
            for each in differences
        ),
    )


def _print_spreads(spreads: dict[str, "Spread"]) -> None:
    """Shares of the variance."""
    print_table(
        "Where the uncertainty comes from, in shares of the variance",
        ["", *PARTS.values()],
        (
            [name, *(f"{spread.shares()[part]:.0%}" for part in PARTS)]
            for name, spread in spreads.items()
        ),
    )


def _chance(found: "Comparison", probability: float) -> str:
    """A probability, never a 0 or 1 that is none; a model without uncertainty knows no other."""
    if not found.is_uncertain:
        return "-"
    if probability < 0.005:
        return "< 0.01"
    return "> 0.99" if probability > 0.995 else f"{probability:.2f}"


def digits_for(widths: Iterable[float]) -> int:
    """Digits with which the ends of intervals differ; 3 to 6."""
    narrow = min((width for width in widths if width > 0), default=0.1)
    return min(max(math.ceil(-math.log10(narrow)) + 1, 3), 6)
