r"""Items that a log never showed, although it showed others of the same query.

There are three kinds. Candidates of a ranker with some noise were below what it showed: they are at
most as good as items with the same features that it showed now and then. Of candidates of a ranker
without noise only the same tendency can be continued. New items (`new_item` in the features), and
items of queries that are not in the log, were left out by no ranker: there is no reason why they
should be worse than their features say.

The first two kinds are discounted by the exposure of an item (`fitted.exposure`): what the ranker
knew, as far as it is linear in its scores. The line is learned from items that were shown, and how
far it can be trusted beyond them is not in the log. So what it says about other items, relative to
the average item shown, is multiplied in logits by a factor

.. math:: \log F \sim N(\log 1.1, s^2),

one for all items, which enters the intervals; s is larger for rankers without noise, and all is
wider without features (`BY_ID`). F is above 1
because lines in logits are flatter where items differ in more than what is known about them. In
simulated worlds whose ranker knows much more than the features (six of each of four families, none
of them used to measure coverage), the right F was 0.9 to 1.2 with noise, and 0.7 to 1.35 without.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit, ndtri

from epiclick.comparison.value_samples import ValueSamples
from epiclick.data.arrays import locate_rows
from epiclick.data.counts import ClickCounts
from epiclick.data.placement import Placement
from epiclick.diagnostics.placement_slope import LEAST_EFFECT, LEVEL
from epiclick.fitted.exposure import ExposureModel, Peers
from epiclick.fitted.state import Items


class Factor(NamedTuple):
    """Distribution of the factor.

    Attributes:
        median: of F.
        spread: s for a ranker with noise on its pages.
        spread_by_rank: s for a ranker without, none of whose items is shown only now and then.
    """

    median: float
    spread: float
    spread_by_rank: float

    def draws(self, model: ExposureModel, number: int, rng: np.random.Generator) -> np.ndarray:
        """(number,) stratified draws."""
        spread = self.spread_by_rank if model.is_deterministic else self.spread
        return self.median * np.exp(spread * ndtri((rng.permutation(number) + 0.5) / number))


BY_FEATURES = Factor(1.1, 0.1, 0.2)
BY_ID = Factor(1.4, 0.4, 0.7)
"""Without features, scores have to tell all of an item, and relevance need not be linear in them.
"""

MOST_SPREAD = 0.5
"""Most variance of relevance relative to that of a coin."""

MOST_DISPLAYS = 50.0
"""Displays above which an item counts no more for the slope."""


STEPS = 100
"""Discounts that are tried for the tipping point: 1 %, 2 %, ..."""


def tipping_point(values: ValueSamples, pair: tuple[int, int], sure: float) -> float | None:
    """Least share by which items never shown must be worse than predicted to change a verdict.

    Beyond it, the first ranker of the pair is better with less than the probability `sure`. None if
    it never is, or already is without a discount.

    Args:
        values: of all rankers; the first measure decides.
        pair: numbers of two rankers.
        sure: probability of being better that a verdict requires.
    """

    def holds(share: float) -> bool:
        drawn = values.discounted(0, share)
        gain = drawn[pair[0]] - drawn[pair[1]]
        return bool(np.mean(gain > 0) + np.mean(gain == 0) / 2 >= sure)

    if not holds(0):
        return None
    return next((step / STEPS for step in range(1, STEPS + 1) if not holds(step / STEPS)), None)


class Discount(NamedTuple):
    """Discount of items without features.

    Attributes:
        below: (items,) by how much the ranker's score of an item is below that of one that was
            shown; 0 where its query is not in the log.
        slopes: (draws,) of relevance in the score, in logits.
    """

    below: np.ndarray
    slopes: np.ndarray

    def apply(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Moments (draws, items) from those of an item of which nothing is known, (draws,)."""
        moved = expit(logit(mean)[:, None] - self.slopes[:, None] * self.below)
        # as different from each other as before: some of them may be new, and as good as any
        return moved, np.minimum(variance[:, None], MOST_SPREAD * moved * (1 - moved))


class Absent(NamedTuple):
    """Items without features that a log never showed; (items,) each.

    Attributes:
        placement: where they were shown, which is nowhere, on the pages of their queries.
        query: number of the query in the log; -1 where it has none of its pages.
    """

    placement: Placement
    query: np.ndarray


def discount_by_id(
    known: Items, counts: ClickCounts, absent: Absent, draws: int, rng: np.random.Generator
) -> Discount:
    """Discount of items without features, from those that were shown.

    The slope of relevance, in logits, in the ranker's score within queries is continued to items
    that were never shown, and drawn with its error. There is no discount unless the slope would be
    a finding of the check with features (`placement_slope`): as such items are far below all that
    was shown, one that is only noise would move all rankers that show them.

    Args:
        known: items of the model with their relevance.
        counts: of the log.
        absent: the items that were never shown.
        draws: of the parameters.
        rng: source of the factors.
    """
    own = counts.placed
    both = zip(own, absent.placement, strict=True)
    candidates = Placement(*(np.concatenate(each) for each in both))
    query = np.concatenate([counts.query, absent.query])
    used = query >= 0
    _, number = np.unique(query[used], return_inverse=True)
    nothing = np.zeros((int(used.sum()), 0))
    model = ExposureModel.fit(nothing, number, candidates.at(used))
    peers = Peers(np.bincount(number)[number].astype(float), np.zeros(len(number)))
    score = np.zeros(len(used))
    score[used], _ = model.scores(np.zeros(len(number)), candidates.at(used), peers)
    shown = score[: len(counts)]
    names = ("query_id", "doc_id")
    row = locate_rows(*({name: getattr(each, name) for name in names} for each in (counts, known)))
    relevance = (known.alpha / (known.alpha + known.beta))[row]
    weight = np.where(row >= 0, np.minimum(own.displays.sum(axis=1), MOST_DISPLAYS), 0.0)
    x, y = (_centred(each, counts.query, weight) for each in (shown, in_logits(relevance, weight)))
    slope, error = slope_of(weight, x, y, counts.query)
    usual = np.average(shown, weights=weight) if weight.any() else 0.0
    later = used[len(counts) :]
    below = np.where(later, np.maximum(usual - score[len(counts) :], 0.0), 0.0)
    found = slope * np.sqrt(model.left) >= LEAST_EFFECT and slope > -ndtri(LEVEL / 2) * error
    drawn = slope_draws(slope, error, draws, rng) if found else np.zeros(draws)
    return Discount(below, BY_ID.draws(model, draws, rng) * drawn)


def in_logits(relevance: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Posterior means of relevance, (items,), on a line that touches the logit at their mean.

    Logits themselves would be lower for items that are shown more often, whose means are more
    different from each other, however good these are.
    """
    centre = np.average(relevance, weights=weight) if weight.any() else 0.5
    return relevance / max(centre * (1 - centre), 1e-9)


def slope_of(
    weight: np.ndarray, x: np.ndarray, y: np.ndarray, query: np.ndarray
) -> tuple[float, float]:
    """Slope of y in x by weighted least squares, and its standard error, clustered by query."""
    total = max(float((weight * x * x).sum()), 1e-12)
    slope = float((weight * x * y).sum()) / total
    scores = np.bincount(query, weight * x * (y - slope * x))
    queries = max(int(np.count_nonzero(scores)), 1)
    return slope, float(np.sqrt((scores**2).sum() * queries / max(queries - 1, 1))) / total


def slope_draws(slope: float, error: float, number: int, rng: np.random.Generator) -> np.ndarray:
    """(number,) stratified draws of a slope, from its estimate."""
    return slope + error * ndtri((rng.permutation(number) + 0.5) / number)


def _centred(values: np.ndarray, query: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Values minus their weighted mean within the query."""
    total = np.maximum(np.bincount(query, weight), 1e-300)
    return values - (np.bincount(query, weight * values) / total)[query]
