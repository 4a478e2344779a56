"""The anchor: the context whose bias is 1, at which relevance is measured."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from epiclick.click_models.registry import click_model
from epiclick.data.counts import ClickCounts
from epiclick.data.placement import positions_in
from epiclick.errors import InputError
from epiclick.identification.identifiability import named
from epiclick.identification.unbounded import LogRatio, UnboundedBias, unbounded_bias

FALSE_ALARMS = 0.01
"""Probability, over all contexts, that the anchor moves although no bias is larger than the first.
Measured in 1,000 simulated logs each of eleven kinds, most with all biases equal (3 to 100 queries,
10 to 30 contexts, a few large queries, clicks that vary by device, few clicks): 0 to 1.0 %."""


class Moved(NamedTuple):
    """Why the anchor is not at the first position.

    Attributes:
        usual: index of the context that it would be otherwise.
        ratio: bias at the anchor over that at the usual one, estimated without a bound.
    """

    usual: int
    ratio: float


@dataclass(frozen=True, eq=False)
class Anchor:
    """The context whose bias is 1.

    Attributes:
        index: among the contexts of the log.
        moved: set where "auto" found it elsewhere than at the first position.
        ratios: the biases that "auto" compared.
    """

    index: int
    moved: Moved | None = None
    ratios: UnboundedBias | None = None


def resolve_anchor(counts: ClickCounts, anchor: Any) -> Anchor:
    """Find the anchor among the contexts of the counts.

    Args:
        counts: the log.
        anchor: "auto" for the first position (the most displayed one if several contexts share
            it), or a context that is examined significantly more; or a context: its position, or
            the values of its columns as a tuple.
    """
    if isinstance(anchor, str) and anchor == "auto":
        return _most_examined(counts)
    columns = counts.contexts.column_names
    values = tuple(anchor) if isinstance(anchor, tuple | list) else (anchor,)
    rows = [tuple(row.values()) for row in counts.contexts.to_pylist()]
    if len(values) == len(columns) and values in rows:
        return Anchor(rows.index(values))
    shown = "; ".join(", ".join(map(str, row)) for row in rows[:10])
    raise InputError(
        f"anchor {anchor!r} is not a context of the log, whose columns are {', '.join(columns)}. "
        f"Choose one of: {shown}" + (" ..." if len(rows) > 10 else ""),
        code="unknown-context",
    )


def anchor_option(contexts: pa.Table, index: int) -> str:
    """How to choose a context as the anchor, on the command line and in Python."""
    values = list(contexts.slice(index, 1).to_pylist()[0].values())
    typed = ",".join(map(str, values))
    typed = json.dumps(typed, ensure_ascii=False) if " " in typed else typed
    return f"--anchor {typed} (in Python: anchor={_literal(values)})"


def moved_sentence(contexts: pa.Table, index: int, moved: Moved) -> str:
    """What it means that the anchor is not the first position, and how to choose that one."""
    return (
        f"{named(contexts, [index])} is examined about {moved.ratio:.2f} times as much as "
        f"{named(contexts, [moved.usual])}, which is more than noise explains, so it is the "
        "anchor: relevance means the probability of a click if shown there. To measure it at "
        f"{named(contexts, [moved.usual])} instead, use {anchor_option(contexts, moved.usual)}"
    )


def _literal(values: Sequence[Any]) -> str:
    written = [json.dumps(v, ensure_ascii=False) if isinstance(v, str) else repr(v) for v in values]
    return written[0] if len(written) == 1 else f"({', '.join(written)})"


def _most_examined(counts: ClickCounts) -> Anchor:
    """The first position, or a context whose bias is significantly larger.

    Repeatedly moves to the most significant of the larger ones: the final anchor is not
    significantly smaller than any context, and noise of rarely shown ones does not decide.
    """
    usual, possible = _first_position(counts), _possible(counts)
    if len(possible) == 1:
        return Anchor(usual)
    bias, index = unbounded_bias(counts), usual
    while larger := _clearly_larger(bias, index, possible):
        index = max(larger, key=lambda k: larger[k].value / larger[k].error)
    if index == usual:
        return Anchor(usual, ratios=bias)
    return Anchor(index, Moved(usual, float(np.exp(bias.values(usual)[index]))), bias)


def _possible(counts: ClickCounts) -> np.ndarray:
    """Indices of the contexts that the click model allows as the anchor."""
    return click_model(counts.options.click_model).anchors(counts.contexts)


def _clearly_larger(bias: UnboundedBias, index: int, possible: np.ndarray) -> dict[int, LogRatio]:
    """Possible contexts whose bias is significantly larger, corrected for multiple tests."""
    values = bias.values(index)
    compared = np.isfinite(values) & np.isin(np.arange(len(values)), possible)
    tail = FALSE_ALARMS / max(int(compared.sum()) - 1, 1)
    found = {int(k): bias.ratio(int(k), index) for k in np.flatnonzero(compared & (values > 0))}
    return {k: ratio for k, ratio in found.items() if ratio.lower(tail) > 0}


def _first_position(counts: ClickCounts) -> int:
    possible = _possible(counts)
    shown = np.bincount(counts.context, counts.displays, len(counts.contexts))
    displays = np.full(len(shown), -1.0)
    displays[possible] = shown[possible]
    position = positions_in(counts.contexts, counts.options)
    if position is None:
        return int(np.argmax(displays))
    return int(np.argmax(np.where(position == position.min(), displays, -1)))
