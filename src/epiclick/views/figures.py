"""Figures by matplotlib, which is optional: position bias, relevance, values of rankers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from epiclick.arguments import require_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ITEMS = 30
"""Items that a figure of relevance shows."""


def axes_or_new(ax: "Axes | None", what: str, height: float = 3.5) -> "Axes":
    """The axes given, or those of a new figure."""
    require_extra(what, ["matplotlib"], "plots")
    if ax is not None:
        return ax
    from matplotlib import pyplot

    _, made = pyplot.subplots(figsize=(6.0, height), layout="constrained")
    return made


def plot_bias(table: pd.DataFrame, columns: Sequence[str], level: float, ax: Any) -> "Axes":
    """Position bias by position with its interval, a line for each value of other contexts.

    Args:
        table: of `position_bias`.
        columns: its context columns.
        level: of its intervals.
        ax: axes to draw on; None for a new figure.
    """
    ax = axes_or_new(ax, "plot_position_bias")
    place = "position" if "position" in columns else columns[0]
    others = [name for name in columns if name != place]
    groups: list[tuple[Any, pd.DataFrame]] = [("", table)]
    if others:
        groups = list(table.groupby(others, sort=False))
    for value, own in groups:
        values = value if isinstance(value, tuple) else (value,)
        label = ", ".join(f"{name} {each}" for name, each in zip(others, values, strict=False))
        x = own[place].to_numpy()
        (line,) = ax.plot(x, own["mean"], marker="o", markersize=4, label=label or None)
        known = own["low"].notna().to_numpy()
        low, high = (own[end].to_numpy()[known] for end in ("low", "high"))
        ax.fill_between(x[known], low, high, alpha=0.25, color=line.get_color(), linewidth=0)
    if others:
        ax.legend(frameon=False)
    if pd.api.types.is_integer_dtype(table[place]):
        ax.set_xticks(sorted(set(table[place].tolist())))
    ax.set_ylim(bottom=0)
    ax.set(
        xlabel=place, ylabel="position bias", title=f"Position bias, {100 * level:g} % intervals"
    )
    return ax


def plot_items(table: pd.DataFrame, level: float, ax: Any) -> "Axes":
    """Relevance of items with their intervals, the best on top.

    Args:
        table: with query_id, doc_id, mean, low, high.
        level: of its intervals.
        ax: axes to draw on; None for a new figure.
    """
    best = table.nlargest(MOST_ITEMS, "mean")
    ax = axes_or_new(ax, "plot_relevance", height=1.2 + 0.2 * len(best))
    one_query = len(set(best["query_id"])) == 1
    labels = [
        str(doc) if one_query else f"{query}: {doc}"
        for query, doc in zip(best["query_id"], best["doc_id"], strict=True)
    ]
    _intervals(best, labels, ax)
    ax.set_xlim(left=0)
    title = f"Relevance, {100 * level:g} % intervals"
    if len(best) < len(table):
        title += f"; the {len(best)} best of {len(table):,}"
    ax.set(xlabel="probability of a click if shown first", title=title)
    return ax


def plot_rankers(table: pd.DataFrame, unit: str, level: float, ax: Any) -> "Axes":
    """Values of rankers with their intervals.

    Args:
        table: of `Comparison.rankers`.
        unit: what is counted per page.
        level: of the intervals.
        ax: axes to draw on; None for a new figure.
    """
    ax = axes_or_new(ax, "plot", height=1.2 + 0.4 * len(table))
    named = table.rename(columns={"value": "mean"})
    _intervals(named, [str(name) for name in table["name"]], ax)
    ax.set(xlabel=f"{unit} per page", title=f"Value of each ranker, {100 * level:g} % intervals")
    return ax


def _intervals(table: pd.DataFrame, labels: Sequence[str], ax: "Axes") -> None:
    """A dot and a line for each row, the first on top."""
    place = -np.arange(len(table))
    ax.hlines(place, table["low"], table["high"], linewidth=2, alpha=0.5)
    ax.plot(table["mean"], place, "o", markersize=4)
    ax.set_ylim(0.5 - len(table), 0.5)
    # names come from the log: no dollar sign in them starts a formula
    ax.set_yticks(place, [label.replace("$", r"\$") for label in labels])
