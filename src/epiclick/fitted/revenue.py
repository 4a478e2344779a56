r"""The value of a conversion on each item: its own mean, shrunk towards that of all items.

With C_i conversions of an item and their total value R_i,

.. math:: v_i = \bar v + s_i \Big(\frac{R_i}{C_i} - \bar v\Big), \qquad
          s_i = \frac{C_i \tau^2}{C_i \tau^2 + \sigma^2}, \qquad
          \operatorname{Var} v_i = \tau^2 (1 - s_i),

where sigma^2 is the variance of single conversions within an item, tau^2 that of items about the
overall mean, both by the method of moments (one-way analysis of variance). Within an item, entries
of the counts (positions, days) are compared: their means have the variance sigma^2 / C.

The overall mean is drawn by a Bayesian bootstrap over the queries: each has an exponential weight.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from epiclick.data.counts import ClickCounts

DRAWS = 500
"""Draws of the overall mean that a model keeps."""


@dataclass(frozen=True, eq=False)
class Revenue:
    """What a conversion is worth.

    Attributes:
        mean: of all conversions.
        draws: (draws,) of that mean, by a Bayesian bootstrap over the queries.
        within: variance of single conversions of an item.
        between: variance of items.
        items: (pairs, 2) conversions and their total value of the pairs that a model without
            features keeps; else None.
    """

    mean: float
    draws: np.ndarray
    within: float
    between: float
    items: np.ndarray | None = None

    @classmethod
    def of(cls, counts: "ClickCounts", seed: int, *, keep: bool) -> Self:
        """From counts with the value of at least one conversion.

        Args:
            counts: with conversions and their value.
            seed: of the bootstrap.
            keep: whether those of each pair are kept.
        """
        assert counts.conversions is not None
        assert counts.conversions.value is not None
        number, value = counts.conversions.number, counts.conversions.value
        mean = float(value.sum() / number.sum())
        within, between = _variances(counts.pair, number, value)
        query = counts.query[counts.pair]
        by_query = np.stack([np.bincount(query, each) for each in (value, number)])
        by_query = by_query[:, by_query[1] > 0]
        weight = np.random.default_rng([seed, 31]).exponential(size=(DRAWS, by_query.shape[1]))
        total, conversions = weight @ by_query[0], weight @ by_query[1]
        items = np.stack(pair_values(counts), axis=1) if keep else None
        return cls(mean, total / conversions, within, between, items)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The arrays under the names they have in files."""
        numbers = np.array([self.mean, self.within, self.between])
        arrays = {"numbers": numbers, "draws": self.draws}
        return arrays if self.items is None else {**arrays, "items": self.items}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """The inverse of `to_arrays`; raises KeyError or ValueError for others."""
        mean, within, between = arrays["numbers"].tolist()
        if extra := set(arrays) - {"numbers", "draws", "items"}:
            raise ValueError(f"it has the arrays {', '.join(sorted(extra))}")
        return cls(mean, arrays["draws"], within, between, arrays.get("items"))

    def moments(
        self, number: np.ndarray, value: np.ndarray, overall: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean (draws, items) and variance (items,) of the value of a conversion.

        Args:
            number: (items,) conversions of each item.
            value: (items,) their total value.
            overall: (draws,) mean of all conversions under each draw.
        """
        known = number * self.between
        total = known + self.within
        share = np.divide(known, total, out=np.zeros(len(number)), where=total > 0)
        own = np.divide(value, number, out=np.zeros(len(number)), where=number > 0)
        return overall[:, None] * (1 - share) + share * own, self.between * (1 - share)


def pair_values(counts: "ClickCounts") -> tuple[np.ndarray, np.ndarray]:
    """(pairs,) conversions of each pair and their total value; 0 where they were not counted."""
    size, known = len(counts), counts.conversions
    if known is None or known.value is None:
        return np.zeros(size), np.zeros(size)
    return (
        np.bincount(counts.pair, known.number, size).astype(np.float64),
        np.bincount(counts.pair, known.value, size).astype(np.float64),
    )


def _variances(pair: np.ndarray, number: np.ndarray, value: np.ndarray) -> tuple[float, float]:
    """Variances within and between items, from conversions and values of entries.

    Where no item has two entries to compare, half of the variance between means counts for each.
    """
    some = number > 0
    pair, count, total = pair[some], number[some].astype(np.float64), value[some]
    _, item = np.unique(pair, return_inverse=True)
    items = int(item.max(initial=-1)) + 1
    by_item, worth = np.bincount(item, count, items), np.bincount(item, total, items)
    own, overall = worth / by_item, total.sum() / count.sum()
    if items < 2:
        return 0.0, 0.0
    among = float(by_item @ (own - overall) ** 2) / (items - 1)
    size = (by_item.sum() - (by_item**2).sum() / by_item.sum()) / (items - 1)
    freedom = len(item) - items
    if not freedom:
        return among / 2, among / (2 * size)
    within = float(count @ (total / count - own[item]) ** 2) / freedom
    return within, max(among - within, 0.0) / size
