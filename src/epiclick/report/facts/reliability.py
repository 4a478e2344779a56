"""Whether what was foretold came true: rates by rate foretold, counts by their place."""

from dataclasses import dataclass

import numpy as np

from epiclick.data.counts import ClickCounts
from epiclick.data.matching import locate_rows
from epiclick.evaluation.coverage import ranks_among
from epiclick.models.averaging import bias_by, networks_of
from epiclick.models.fitted import FittedModel
from epiclick.models.prediction import contexts_of, relevance_of_pairs
from epiclick.models.uncertainty import parameter_draws
from epiclick.report.facts.rates import click_rates

BINS = 10
DRAWS = 99  # of the clicks of a pair: its own number has one of a hundred places among them
MOST_RANKED = 4_000  # pairs


@dataclass(frozen=True)
class ReliabilityRow:
    """Displays for which about the same click rate was foretold.

    Attributes:
        predicted: that rate.
        observed: the rate that was.
        low: lower end of what may be the true one.
        high: upper end.
        displays: how many.
    """

    predicted: float
    observed: float
    low: float
    high: float
    displays: int


@dataclass(frozen=True)
class Reliability:
    """Foretold and observed.

    Attributes:
        rows: tenths of the displays, from the lowest rate foretold to the highest.
        places: (10,) share of items whose number of clicks lies in each tenth of what was foretold
            for it; a tenth each, if items differ as much as the model says.
        band: how far chance alone moves such a share, with probability 0.99.
        items: how many were placed.
    """

    rows: tuple[ReliabilityRow, ...]
    places: tuple[float, ...]
    band: float
    items: int


def reliability(
    fitted: FittedModel, counts: ClickCounts, chance: np.ndarray, *, seed: int
) -> Reliability:
    """Compare rates and counts with the model's.

    Args:
        fitted: the model.
        counts: clicks.
        chance: (entries,) probability of a click by the model.
        seed: of the items that are placed, and of their draws.
    """
    rng = np.random.default_rng([seed, 7])
    order = np.argsort(chance, kind="stable")
    before = np.cumsum(counts.displays[order]) - counts.displays[order]
    group = np.empty(len(order), np.int64)
    group[order] = np.minimum(BINS * before // counts.total_displays, BINS - 1)
    _, group = np.unique(group, return_inverse=True)  # large entries may leave a tenth empty
    size = int(group.max()) + 1
    displays = np.bincount(group, counts.displays, size)
    predicted = np.bincount(group, counts.displays * chance, size) / displays
    rates = click_rates(counts, group, size)
    chosen = np.arange(len(counts))
    if len(chosen) > MOST_RANKED:
        chosen = np.sort(rng.choice(len(chosen), MOST_RANKED, replace=False))
    places = _places(fitted, counts.subset(chosen), rng)
    share = np.histogram(places, bins=BINS, range=(0, 1))[0] / len(places)
    return Reliability(
        rows=tuple(
            ReliabilityRow(
                predicted=float(predicted[g]),
                observed=float(rates[0, g]),
                low=float(rates[1, g]),
                high=float(rates[2, g]),
                displays=int(displays[g]),
            )
            for g in range(size)
        ),
        places=tuple(share.tolist()),
        band=float(2.576 * np.sqrt((1 - 1 / BINS) / BINS / len(places))),
        items=len(places),
    )


def _places(fitted: FittedModel, counts: ClickCounts, rng: np.random.Generator) -> np.ndarray:
    """(pairs,) place of each pair's clicks among draws from the model, from 0 to 1."""
    draws = parameter_draws(fitted, DRAWS)
    networks = networks_of(draws)
    theta, _ = bias_by(fitted, draws, contexts_of(fitted, counts.contexts, warn=False))
    alpha, beta = relevance_of_pairs(fitted, networks, counts)  # (networks, pairs)
    if fitted.items is not None:
        items = fitted.items
        keys = ({"query_id": each.query_id, "doc_id": each.doc_id} for each in (counts, items))
        row = locate_rows(*keys)
        alpha, beta = (
            np.where(row >= 0, known[row], own)
            for known, own in ((items.alpha, alpha), (items.beta, beta))
        )
    drawn = np.empty((len(counts), DRAWS))
    for j in range(DRAWS):
        a, b = (part[j % len(networks)] for part in (alpha, beta))
        relevance = fitted.relevance_head.draw(a, b, rng)
        p = np.clip(theta[j % len(theta), counts.context] * relevance[counts.pair], 0, 1)
        clicks = rng.binomial(counts.displays, p)
        drawn[:, j] = np.bincount(counts.pair, clicks, len(counts))
    own = np.bincount(counts.pair, counts.clicks, len(counts))
    return (ranks_among(own, drawn, rng) + 0.5) / (DRAWS + 1)
