"""Conversions: a second outcome that some clicks have, such as a purchase, and what it is worth."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from epiclick.errors import InputError

NUMBER, VALUE = "conversions", "value"
"""Columns of a table of counts."""


DECIMALS = 1e6
"""Values are read with six decimals."""

EXACT = 1e9
"""Sums of values below this are exact decimals, which do not depend on what was added first."""


def as_decimals(values: np.ndarray) -> np.ndarray | None:
    """Values in units of their last decimal, int64; None if they have more, or are too large."""
    if np.any(~(np.abs(values) < EXACT)):
        return None
    units = np.rint(values * DECIMALS)
    return units.astype(np.int64) if np.array_equal(units / DECIMALS, values) else None


@dataclass(frozen=True, eq=False)
class Conversions:
    """Conversions after the clicks of each entry of `ClickCounts`.

    Attributes:
        number: (entries,) clicks that led to a conversion.
        value: (entries,) total value of these conversions, such as revenue; None if not counted.
    """

    number: np.ndarray
    value: np.ndarray | None = None

    @classmethod
    def of_columns(cls, columns: Mapping[str, pa.Array]) -> Self | None:
        """From the columns of a table of counts; None if it has none of conversions."""
        if NUMBER not in columns:
            return None
        value = columns[VALUE].to_numpy().astype(np.float64) if VALUE in columns else None
        return cls(columns[NUMBER].to_numpy(), value)

    def columns(self) -> dict[str, np.ndarray]:
        """The columns of a table of counts."""
        return {NUMBER: self.number} | ({} if self.value is None else {VALUE: self.value})

    def at(self, entries: Any) -> Self:
        """Those of some entries, by index, mask or slice."""
        value = None if self.value is None else self.value[entries]
        return type(self)(self.number[entries], value)

    def summed(self, order: np.ndarray, first: np.ndarray) -> Self:
        """Sums over groups of entries, which begin at `first` in the given order."""
        value = None if self.value is None else np.add.reduceat(self.value[order], first)
        return type(self)(np.add.reduceat(self.number[order], first), value)

    @property
    def total(self) -> int:
        """All conversions."""
        return int(self.number.sum())

    def check(self, clicks: np.ndarray) -> None:
        """Refuse numbers that the clicks of the entries (entries,) do not allow."""
        assert len(self.number) == len(clicks)
        if not np.issubdtype(self.number.dtype, np.integer):
            raise InputError(
                "conversions must be whole numbers; round or recount them", code="not-whole-number"
            )
        if invalid := int(np.sum((self.number < 0) | (self.number > clicks))):
            raise InputError(
                "conversions must be at least 0 and must not exceed clicks; they do not in "
                f"{invalid:,} of {len(clicks):,} entries. Count only conversions that follow a "
                "click, each once",
                code="conversions-exceed-clicks",
            )
        if self.value is None:
            return
        assert len(self.value) == len(clicks)
        if invalid := int(np.sum(~np.isfinite(self.value) | (self.value < 0))):
            raise InputError(
                f"values of conversions must be finite and at least 0; {invalid:,} of "
                f"{len(clicks):,} entries are not. Leave out refunds, or count them elsewhere",
                code="negative-value",
            )
