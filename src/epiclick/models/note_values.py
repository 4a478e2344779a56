"""Values of model.json: written as JSON can hold them, read back by type."""

from collections.abc import Mapping
from datetime import date, time
from decimal import Decimal
from typing import Any

import numpy as np

from epiclick.errors import InputError


def plain(value: Any, where: str, *, finite: bool = False) -> Any:
    """A value as JSON holds it; NaN and infinity become null, or an error if `finite`."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float) and (np.isfinite(value) or not finite):
        return value if np.isfinite(value) else None
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: plain(v, f"{where}.{key}", finite=finite) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v, where, finite=finite) for v in value]
    if isinstance(value, date | time | Decimal):  # values of contexts
        return str(value)
    raise InputError(f"{where} is {value!r}, which a model file cannot hold. Use plain values.")


def tuples(value: Any) -> Any:
    """Sequences as tuples, which is how a constructor takes `hidden` or a context as anchor."""
    if isinstance(value, dict):
        return {key: tuples(v) for key, v in value.items()}
    return tuple(map(tuples, value)) if isinstance(value, list) else value


def stored_real(value: float) -> float | str | None:
    """A float for JSON, which has neither NaN (null here) nor infinity (text)."""
    value = float(value)
    return value if np.isfinite(value) else None if np.isnan(value) else str(value)


def real(stored: Any) -> float:
    """The float that `stored_real` wrote."""
    if stored is None:
        return float("nan")
    if type(stored) in (int, float) or stored in ("inf", "-inf"):
        return float(stored)
    raise ValueError("a number is of the wrong type")
