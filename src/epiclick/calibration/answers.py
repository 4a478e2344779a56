"""A method's intervals and draws of values whose truth is known."""

from dataclasses import dataclass, replace

import numpy as np

from epiclick.evaluation.coverage import interval_of_draws

LEVELS = (0.5, 0.9)
"""Nominal levels of the intervals."""

DRAWS = 99
"""Draws of each value; with 99, the intervals of 50 and 90 % end exactly at draws."""

VALUES = 200
"""Most values of a quantity that are used in one world."""

KEPT = 32
"""Values whose draws are kept; those of all would take much space and improve no score."""

QUANTITIES = {
    "position_bias": "examination of positions or other contexts relative to the first",
    "unseen_relevance": "relevance of items of unseen queries",
    "seen_relevance": "relevance of items given their own clicks",
    "click_probability": "probability of a click on items of unseen queries",
    "ranker_value": "clicks per page of rankers that were never shown",
    "ranker_difference": "difference in clicks per page between two rankers",
    "conversion": "probability of a conversion after a click on items, given their own",
    "conversions_per_page": "conversions per page of rankers that were never shown",
    "value_per_page": "value of conversions per page of rankers that were never shown",
    "click_offset": "clicks beyond those in proportion to relevance, where there are any",
}


@dataclass(frozen=True, eq=False)
class Answers:
    """A method's intervals and draws of one quantity in one world.

    Attributes:
        truth: (values,).
        centre: (values,) medians, towards which a negative control shrinks widths.
        low: (levels, values) lower ends of the intervals of `LEVELS`.
        high: (levels, values) upper ends.
        draws: (values, or the first of them, draws) from the method's distribution.
    """

    truth: np.ndarray
    centre: np.ndarray
    low: np.ndarray
    high: np.ndarray
    draws: np.ndarray

    @classmethod
    def of_draws(cls, truth: np.ndarray, draws: np.ndarray) -> "Answers":
        """Answers whose intervals are quantiles of draws (values, draws)."""
        low, high = (
            np.stack(ends)
            for ends in zip(*(interval_of_draws(draws, level) for level in LEVELS), strict=True)
        )
        return cls(truth, np.median(draws, axis=1), low, high, draws)

    @property
    def known(self) -> bool:
        """Whether the method reports any uncertainty."""
        ends = np.stack([self.low, self.high])
        return bool(np.isfinite(ends).all() and np.any(ends[0] < ends[1]))

    def shrunk(self, factor: float) -> "Answers":
        """All widths times the factor, around the medians: a negative control below 1."""
        if factor == 1:
            return self
        centre = self.centre[: len(self.draws), None]
        return replace(
            self,
            low=self.centre + factor * (self.low - self.centre),
            high=self.centre + factor * (self.high - self.centre),
            draws=centre + factor * (self.draws - centre),
        )
