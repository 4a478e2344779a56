"""What is true of the contexts of a simulated world: how likely an item there is looked at."""

import numpy as np
import pyarrow as pa

from epiclick.click_models.base import given_names
from epiclick.click_models.registry import CLICK_MODELS
from epiclick.simulate.clicks import USERS

THETA = "theta"


def examination_table(users: str, position_bias: np.ndarray) -> pa.Table:
    """Contexts of a world, those of its users' click model, and `theta` in each.

    Users who follow no click model have position bias alone.
    """
    model = USERS[users].click_model or CLICK_MODELS["pbm"]
    contexts, emission = model.world(position_bias)
    return contexts.append_column(THETA, pa.array(emission.attractive))


def examination_at(examination: pa.Table, contexts: pa.Table) -> np.ndarray:
    """(contexts,) true theta in the contexts of a fitted model, whichever click model it has.

    NaN where this world has no such context, or several that differ: users who look further after
    a click have no position bias that is the same on all pages.
    """
    if not has_positions_alone(contexts):
        return np.full(len(contexts), np.nan)
    shared = [name for name in examination.column_names if name in contexts.column_names]
    known: dict[tuple[int, ...], set[float]] = {}
    for key, theta in zip(_rows(examination, shared), examination[THETA].to_pylist(), strict=True):
        known.setdefault(key, set()).add(theta)
    found = [known.get(key, set()) for key in _rows(contexts, shared)]
    return np.array([next(iter(each)) if len(each) == 1 else np.nan for each in found], float)


def has_positions_alone(contexts: pa.Table) -> bool:
    """Whether positions, as numbers, are all that is given in contexts, as in simulated worlds."""
    history = [name for model in CLICK_MODELS.values() for name in model.history]
    given = given_names(contexts, history)
    return given == ["position"] and pa.types.is_integer(contexts["position"].type)


def _rows(table: pa.Table, names: list[str]) -> list[tuple[int, ...]]:
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))
