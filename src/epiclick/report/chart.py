"""The specification of a chart, which the page's script draws: axes, layers, a reading aid."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Number = float | int | None
Format = Literal["number", "percent", "signed", "count"]
Kind = Literal["points", "line", "bars", "cells", "rule"]
Colour = Literal["c0", "c1", "c2", "c3", "c4", "truth"]

COLOURS: tuple[Colour, ...] = ("c0", "c1", "c2", "c3", "c4")
"""Of layers that are alike, in order."""

DIGITS = 6  # significant digits of a number; a screen shows fewer


@dataclass(frozen=True)
class Axis:
    """An axis.

    Attributes:
        label: what is along it.
        format: how its numbers are formatted.
        names: of the values 0, 1, ... of a categorical axis.
        low: its lower end; None to take it from the values.
        high: its upper end; the same.
    """

    label: str
    format: Format = "number"
    names: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """As the script reads it."""
        return {**vars(self), "names": list(self.names)}


@dataclass(frozen=True)
class Layer:
    """Marks of one kind; lists are of the same length.

    Attributes:
        kind: "points" (with an interval where low and high are given), "line", "bars" from 0 on,
            "cells" of a map (`low` is the count in each), or "rule", a dashed line between two
            points, where None is the end of the axis.
        name: for the legend.
        x: values along the first axis.
        y: along the second.
        text: tooltip of each mark.
        low: lower ends of intervals.
        high: upper ends.
        colour: its name in the style sheet.
        offset: along a categorical axis, so that layers are side by side.
        size: width of bars and cells.
    """

    kind: Kind
    name: str
    x: Sequence[Number]
    y: Sequence[Number]
    text: Sequence[str] = ()
    low: Sequence[Number] = ()
    high: Sequence[Number] = ()
    colour: Colour = "c0"
    offset: float = 0.0
    size: float = 0.6

    def to_dict(self) -> dict[str, Any]:
        """As the script reads it, with null for NaN."""
        numbers = {
            name: list(map(short, getattr(self, name))) for name in ("x", "y", "low", "high")
        }
        return {**vars(self), **numbers, "text": list(self.text)}


class HasInterval(Protocol):
    """A row with an interval."""

    @property
    def low(self) -> float:
        """Its lower end."""
        ...

    @property
    def high(self) -> float:
        """Its upper end."""
        ...


def with_intervals(
    name: str,
    x: Sequence[Number],
    y: Sequence[Number],
    text: Sequence[str],
    rows: Sequence[HasInterval],
    *,
    colour: Colour = "c0",
    offset: float = 0.0,
) -> Layer:
    """Points with the intervals of some rows."""
    low, high = [row.low for row in rows], [row.high for row in rows]
    return Layer("points", name, x, y, text, low, high, colour, offset)


@dataclass(frozen=True)
class Chart:
    """A chart.

    Attributes:
        key: its name within the page.
        title: what it shows.
        aid: one sentence on how to read it.
        x: first axis.
        y: second axis; a categorical one turns the chart on its side.
        layers: drawn in this order.
    """

    key: str
    title: str
    aid: str
    x: Axis
    y: Axis
    layers: tuple[Layer, ...]

    def to_dict(self) -> dict[str, Any]:
        """As the script reads it."""
        return {
            "title": self.title,
            "x": self.x.to_dict(),
            "y": self.y.to_dict(),
            "layers": [layer.to_dict() for layer in self.layers],
        }


def short(value: Number) -> Number:
    """A number for JSON: few digits, None where it is not finite."""
    if value is None or isinstance(value, int):
        return value
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
