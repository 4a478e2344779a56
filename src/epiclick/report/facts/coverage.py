"""How often intervals hold the truth, where that is known: in simulated worlds."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from epiclick.report.facts.judged import Judged
    from epiclick.report.facts.sources import Sources
    from epiclick.report.facts.truth import Truth

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


@dataclass(frozen=True)
class ItemCoverage:
    """Of items whose true relevance is known.

    Attributes:
        items: how many.
        held: how many intervals of the model's level hold it.
        curve: level -> share of intervals of that level that hold it, by Betas of the same mean
            and variance; empty for points of an ensemble, which has none.
        error: mean distance of the expected relevance from the true one.
    """

    items: int
    held: int
    curve: tuple[tuple[float, float], ...]
    error: float


class CoverageCount:
    """Counts while items pass by."""

    def __init__(self, truth: "Truth", scale: float) -> None:
        """Truth, and what it is multiplied by: the bias at the position relevance is meant for."""
        self.truth, self.scale = truth, scale
        self.items = self.held = 0
        self.inside = np.zeros(len(LEVELS), np.int64)
        self.error = 0.0
        self.has_betas = True

    @classmethod
    def of(cls, sources: "Sources") -> "CoverageCount | None":
        """A count for a world's truth; None without one, or where the model's scale is free."""
        truth, fitted = sources.truth, sources.fitted
        if truth is None or fitted.anchor is None:
            return None
        scale = float(truth.bias_at(fitted.contexts)[fitted.anchor])
        return None if np.isnan(scale) else cls(truth, scale)

    def add(self, part: "Judged") -> None:
        """Hold the intervals of some items against the truth; a point has none to hold."""
        if np.isnan(part.low).any():
            return
        truth = self.scale * self.truth.relevance_of(part.query_id, part.doc_id)
        known = ~np.isnan(truth)
        truth = truth[known]
        self.items += len(truth)
        self.held += int(np.sum((part.low[known] <= truth) & (truth <= part.high[known])))
        self.error += float(np.abs(part.mean[known] - truth).sum())
        alpha, beta = part.alpha[known], part.beta[known]
        self.has_betas = self.has_betas and not np.isnan(alpha).any()
        # a central interval holds what lies less than half its level from the middle
        distance = np.abs(2 * special.betainc(alpha, beta, truth) - 1)
        self.inside += np.array([int(np.sum(distance <= level)) for level in LEVELS])

    def found(self) -> ItemCoverage | None:
        """What was counted; None if no item's truth is known."""
        if not self.items:
            return None
        shares = zip(LEVELS, (self.inside / self.items).tolist(), strict=True)
        curve = tuple(shares) if self.has_betas else ()
        return ItemCoverage(self.items, self.held, curve, self.error / self.items)
