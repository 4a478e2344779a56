"""Contexts by name, and which of many are drawn."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

MOST_DRAWN = 120
"""Contexts that a chart can hold and a reader tell apart; of more, the most displayed."""


def labels_of(contexts: pa.Table) -> tuple[str, ...]:
    """Each context by its values: "3", or "phone, 3" with several columns."""
    return tuple(", ".join(map(str, row.values())) for row in contexts.to_pylist())


def spoken(contexts: pa.Table, index: int) -> str:
    """A context in a sentence: "position 3", or "device phone, position 3"."""
    row = contexts.slice(index, 1).to_pylist()[0]
    return ", ".join(f"{name} {value}" for name, value in row.items())


def drawn(displays: Sequence[int] | np.ndarray) -> list[int]:
    """Indices of the contexts to be drawn, in their order."""
    most = np.argsort(-np.asarray(displays, float), kind="stable")[:MOST_DRAWN]
    return sorted(most.tolist())
