"""What a chart shows, as the page's own script draws it: axes, layers of marks, a reading aid."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Number = float | int | None
Format = Literal["number", "percent", "signed", "count"]
Kind = Literal["points", "line", "bars", "cells", "rule"]
Colour = Literal["c0", "c1", "c2", "c3", "c4", "truth"]

DIGITS = 6  # that are kept of a number; a screen shows fewer


@dataclass(frozen=True)
class Axis:
    """An axis.

    Attributes:
        label: what is along it.
        format: how its numbers are told.
        names: of the values 0, 1, ... where they are no numbers.
        low: its lower end; None lets the values decide.
        high: its upper end, likewise.
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
            "cells" of a map (`low` is how many there are), or "rule", a dashed line between two
            points, where None is the axis' end.
        name: for the legend.
        x: places along the first axis.
        y: along the second.
        text: what is told of each when it is pointed at.
        low: lower ends of intervals.
        high: upper ends.
        colour: by the style sheet's name.
        offset: along an axis of names, so that layers stand side by side.
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
        """As the script reads it, which knows no NaN."""
        numbers = {name: plain(getattr(self, name)) for name in ("x", "y", "low", "high")}
        return {**vars(self), **numbers, "text": list(self.text)}


@dataclass(frozen=True)
class Chart:
    """A chart.

    Attributes:
        key: its name within the page.
        title: what it shows.
        aid: one sentence that says how to read it.
        x: first axis.
        y: second axis; one with names stands chart on its side.
        layers: drawn one over the other.
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


def plain(values: Iterable[Number]) -> list[Number]:
    """Numbers for JSON: few digits, and null for what is not finite."""
    return [short(value) for value in values]


def short(value: Number) -> Number:
    """A number with few digits; None where it is not finite."""
    if value is None or isinstance(value, int):
        return value
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
