"""How often the same item is clicked at each position, under every draw of the parameters."""

from typing import NamedTuple

import numpy as np

from epiclick.click_models.recursion import click_chances
from epiclick.comparison.prepared import Prepared
from epiclick.experiments.paired_lists import PairedLists


class ClickPositions(NamedTuple):
    """Clicks on an average item.

    Attributes:
        chance: (draws, positions) probability of a click, if displayed.
        reach: (positions,) share of pages that display the position.
        relevance: of the average item.
    """

    chance: np.ndarray
    reach: np.ndarray
    relevance: float

    @property
    def noise(self) -> np.ndarray:
        """(positions,) variance of the logarithm of the click rate, for one page."""
        chance = self.chance.mean(axis=0)
        return (1 - chance) / (chance * self.reach)


def click_positions(
    prepared: Prepared, pairs: PairedLists, relevance: np.ndarray
) -> ClickPositions:
    """Clicks on pages of the second ranker if all of its items were average.

    Args:
        prepared: what the comparison rests on.
        pairs: lists of the rankers.
        relevance: (items,) mean.
    """
    shown = pairs.other >= 0
    given = np.where(shown, pairs.given[:, : shown.shape[1]], -1)
    weight = np.where(shown, pairs.weight[:, None] * pairs.reach[:, : shown.shape[1]], 0.0)
    average = float((weight * relevance[pairs.other]).sum() / weight.sum())
    layouts, layout = np.unique(given, axis=0, return_inverse=True)
    shape = (len(prepared.draws), *layouts.shape)
    chance = click_chances(
        prepared.fitted.clicks.states(prepared.fitted.contexts),
        prepared.emission(),
        layouts,
        np.full(shape, average),
        _staying(prepared, layouts, shape),
    )
    pages = np.zeros(layouts.shape)  # that display each position of a layout
    np.add.at(pages, layout.reshape(-1), weight)
    total = pages.sum(axis=0)
    kept = total > 0
    by_position = (chance * pages).sum(axis=1)[:, kept] / total[kept]
    return ClickPositions(by_position, total[kept], average)


def _staying(prepared: Prepared, layouts: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """(draws, layouts, depth) probability of going on after a click on an average item."""
    going_on = prepared.going_on(np.random.default_rng([prepared.seed, 23]))
    if going_on is None:
        return None
    if going_on.by_context is not None:
        return going_on.by_context[:, np.maximum(layouts, 0)]
    assert going_on.satisfaction is not None
    means = np.concatenate([mean for mean, _ in going_on.satisfaction], axis=1).mean(axis=1)
    return np.broadcast_to(1 - means[:, None, None], shape)
