r"""Values of rankers on supported items, by estimators that trust the model less than it does.

An item i has N_k displays and M_k clicks at position k of the log. S_k is how much the click rate
there rises with relevance (for the PBM, position bias) and O_k its value at a relevance of 0 (for
the PBM, 0). Two estimates of relevance use nothing but these clicks, and are unbiased given the
displays if position bias is right, however wrong the model's relevance is:

.. math:: \hat\zeta_i^{\text{IPS}} = \frac{1}{N_i} \sum_k \frac{M_k - N_k O_k}{S_k}, \qquad
          \hat\zeta_i^{\text{SNIPS}} = \frac{\sum_k (M_k - N_k O_k)}{\sum_k N_k S_k}.

**IPS** weights every click by the inverse propensity of its position (Horvitz and Thompson).
**Self-normalised IPS** divides by the sum of propensities in place of their number, so that weights
average to the exposure of the item, X_i = sum_k N_k S_k. It is also the IPS estimator for the
propensity of the item under the log's ranker, rho_i = X_i / pages of its query: a click on i counts
by the ranker's exposure of i over rho_i. With E_i that exposure per page (`logged_pairs`), a ranker
gets

.. math:: \hat V = F + \sum_i E_i \hat\zeta_i, \qquad
          F = \sum_s w_s\, \text{reach}_s\, O_{k(s)}

clicks per page on supported items. The **doubly robust** estimator corrects a prediction m_i by
weighted residuals, in which propensities are clipped at rho_0:

.. math:: \hat V = F
          + \sum_i E_i \big(m_i + \kappa_i (\hat\zeta_i^{\text{SNIPS}} - m_i)\big), \qquad
          \kappa_i = \min(1, \rho_i / \rho_0), \quad \rho_0 = \min(1, 10 / \sqrt{\text{pages}}).

Its bias is a product, the sum of E_i (1 - kappa_i) (m_i - zeta_i); without clipping the corrections
would be complete, as rho is estimated from the same displays, and the result self-normalised IPS.

m_i is what the model expects of an item before its own clicks. The model was trained on all
queries; what is cross-fitted is its calibration: m_i is multiplied by the ratio of observed to
expected clicks in the other folds of the queries.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from epiclick.comparison.logged_pairs import LoggedPairs
from epiclick.comparison.shown_items import Items
from epiclick.fitted.parameters import Parameters
from epiclick.fitted.prediction import (
    emission_by,
    floor_by,
    relevance_of,
    reported_emission,
)
from epiclick.fitted.state import FittedModel
from epiclick.relevance.reported import reported_moments

DRAWS = 64
"""Draws of the parameters, fewer than for the values of the model."""

FOLDS = 5
"""Folds of the queries, by which predictions are calibrated."""

CLIPPED = 10.0
"""Propensities below this, over the square root of the log's pages, are clipped."""

TINY = 1e-12

ESTIMATORS = ("ips", "snips", "dr")
"""Names of the estimators; `snips` is self-normalised, `dr` doubly robust."""


class Lines(NamedTuple):
    """Click probability as a line in reported relevance; (draws, contexts) each.

    Attributes:
        rise: S, how much it rises with relevance.
        offset: O, its value at a relevance of 0.
    """

    rise: np.ndarray
    offset: np.ndarray

    @property
    def average(self) -> "Lines":
        """At the mean of the draws."""
        return Lines(*(each.mean(axis=0, keepdims=True) for each in self))


def lines_by(fitted: FittedModel, draws: Sequence[Parameters]) -> Lines:
    """The lines of a model whose contexts are all given."""
    every = emission_by(fitted, draws, np.arange(len(fitted.contexts)))
    a, _, b, _ = reported_emission(every, floor_by(fitted, draws))
    return Lines(a, np.zeros_like(a)) if b is None else Lines(a - b, b)


def is_position_based(fitted: FittedModel) -> bool:
    """Whether the probability of a click depends on nothing else on its page."""
    return not fitted.clicks.history and not fitted.clicks.has_latent_state


def some_of(draws: int) -> np.ndarray:
    """Numbers of up to `DRAWS` draws: pairs that mirror each other, where draws come in such."""
    if draws <= DRAWS:
        return np.arange(draws)
    first = np.arange(DRAWS // 2)
    return np.concatenate([first, -(-draws // 2) + first])


class Outcome(NamedTuple):
    """Relevance of items before their own clicks; (pairs,) each.

    Attributes:
        mean: expected.
        variance: of relevance among such items.
    """

    mean: np.ndarray
    variance: np.ndarray

    @classmethod
    def of(cls, fitted: FittedModel, items: Items) -> "Outcome":
        """As the model predicts it with its own parameters."""
        assert items.counts is not None
        moments = fitted.relevance_head.moments(*relevance_of(fitted, items.counts))
        floor = floor_by(fitted, [fitted.parameters])
        mean, variance = reported_moments(moments[0][None], moments[1][None], floor)
        return cls(mean[0], variance[0])


def kept_share(pairs: LoggedPairs, logged: np.ndarray, start: int, stop: int) -> np.ndarray:
    """kappa, (pairs, draws), of exposures (pairs, draws) in the log."""
    least = min(1.0, CLIPPED / np.sqrt(pairs.log_pages))
    propensity = logged / np.maximum(pairs.pages[start:stop, None], TINY)
    return np.minimum(1.0, propensity / least)


class ByClicks(NamedTuple):
    """Relevance by an item's own clicks alone; (pairs, draws) each.

    Attributes:
        ips: by the propensity of each click's position.
        snips: self-normalised.
        clicks: less those that do not depend on relevance.
    """

    ips: np.ndarray
    snips: np.ndarray
    clicks: np.ndarray

    @classmethod
    def of(
        cls, pairs: LoggedPairs, lines: Lines, logged: np.ndarray, start: int, stop: int
    ) -> "ByClicks":
        """Of some pairs, with their exposure in the log, (pairs, draws)."""
        inverse = 1 / np.maximum(lines.rise, TINY)
        weighted = pairs.clicked(inverse, start, stop)
        weighted -= pairs.logged(lines.offset * inverse, start, stop)
        displays = pairs.logged(np.ones((1, lines.rise.shape[1])), start, stop)
        clicks = pairs.clicked(np.ones((1, lines.rise.shape[1])), start, stop)
        clicks = clicks - pairs.logged(lines.offset, start, stop)
        return cls(weighted / displays, clicks / np.maximum(logged, TINY), clicks)


class DrawTotals:
    """Sums over all supported items under every draw, from chunks of them.

    Attributes:
        model: (draws, rankers) sum of E times the model's relevance.
        ips: sum of E times relevance by IPS.
        snips: sum of E times relevance by self-normalised IPS.
        kept: sum of E kappa times the same.
        rest: (draws, rankers, folds) sum of E (1 - kappa) m.
        observed: (draws, folds) clicks less those that do not depend on relevance.
        expected: (draws, folds) sum of X m.
    """

    def __init__(
        self, pairs: LoggedPairs, lines: Lines, outcome: Outcome, drawn: np.ndarray
    ) -> None:
        """Start from 0.

        Args:
            pairs: the supported items.
            lines: (draws, contexts).
            outcome: their relevance before their own clicks.
            drawn: (draws,) numbers of these draws among those of the comparison.
        """
        self.pairs, self.lines, self.outcome, self.drawn = pairs, lines, outcome, drawn
        self.fold = folds_of(pairs.query)
        shape = (len(drawn), pairs.rankers)
        self.model, self.ips, self.snips, self.kept = np.zeros((4, *shape))
        self.rest = np.zeros((*shape, FOLDS))
        self.observed, self.expected = np.zeros((2, len(drawn), FOLDS))

    def add(self, first: int, relevance: np.ndarray) -> None:
        """Add a chunk of items, whose relevance is (all draws, items); `first` is its first."""
        stop = min(first + relevance.shape[1], len(self.pairs))
        if stop <= first:
            return
        target, logged = self.pairs.exposure(self.lines.rise, first, stop)
        zeta = ByClicks.of(self.pairs, self.lines, logged, first, stop)
        share = kept_share(self.pairs, logged, first, stop)
        model = relevance[self.drawn, : stop - first].T
        for total, own in (
            (self.model, model),
            (self.ips, zeta.ips),
            (self.snips, zeta.snips),
            (self.kept, share * zeta.snips),
        ):
            total += np.einsum("prd,pd->dr", target, own)
        m = self.outcome.mean[first:stop, None]
        rest = (1 - share) * m
        for fold in range(FOLDS):
            there = self.fold[first:stop] == fold
            self.rest[:, :, fold] += np.einsum("prd,pd->dr", target[there], rest[there])
            self.observed[:, fold] += zeta.clicks[there].sum(axis=0)
            self.expected[:, fold] += (logged * m)[there].sum(axis=0)

    @property
    def calibration(self) -> np.ndarray:
        """(draws, folds) ratio of observed to expected clicks in all other folds."""
        observed, expected = (
            each.sum(axis=1, keepdims=True) - each for each in (self.observed, self.expected)
        )
        return np.where(expected > TINY, observed / np.maximum(expected, TINY), 1.0)

    def by_estimator(self) -> Mapping[str, np.ndarray]:
        """(draws, rankers) values without F, by the name of the estimator."""
        filled = np.einsum("drf,df->dr", self.rest, self.calibration)
        return {"ips": self.ips, "snips": self.snips, "dr": self.kept + filled}

    def fixed(self) -> np.ndarray:
        """F, (draws, rankers): clicks on supported items that do not depend on relevance."""
        by_item = self.pairs.slots @ self.lines.offset.T
        return by_item.reshape(len(self.pairs), self.pairs.rankers, -1).sum(axis=0).T


def folds_of(query: np.ndarray) -> np.ndarray:
    """(pairs,) fold of each pair's query, at random."""
    order = np.random.default_rng(0).permutation(int(query.max(initial=-1)) + 1)
    return order[query] % FOLDS
