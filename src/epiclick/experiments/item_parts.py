"""What every item adds to the variance of the difference between two rankers."""

from typing import NamedTuple

import numpy as np

from epiclick.comparison.prepared import Prepared
from epiclick.comparison.slots import MEASURES


class ItemParts(NamedTuple):
    """Items and their parts of the variance, (items,) each; averages over draws.

    Attributes:
        relevance: mean of relevance.
        variance: of relevance, given the parameters.
        part: squared factor of relevance in the difference, times its variance.
    """

    relevance: np.ndarray
    variance: np.ndarray
    part: np.ndarray


def item_parts(prepared: Prepared) -> ItemParts:
    """Parts of the items in the clicks per page of ranker 0 minus those of ranker 1.

    The parts of items that were never shown add up to `Spread.unseen`, except what the satisfaction
    of their clicks adds.
    """
    rng = np.random.default_rng([prepared.seed, 11])
    going_on = prepared.going_on(rng)
    clicks = [MEASURES["clicks"]]
    factors = prepared.factors(prepared.slots, prepared.items.index, clicks, going_on)
    found = ItemParts(*np.zeros((3, len(prepared.items))))
    for part in factors.parts(prepared.moments(rng)):
        if part.items[0] >= len(prepared.items):
            continue  # another kind than relevance
        difference = part.factors[:, 0] - part.factors[:, 1]
        found.relevance[part.items] = part.mean.mean(axis=0)
        found.variance[part.items] = part.variance.mean(axis=0)
        found.part[part.items] = (difference**2 * part.variance).mean(axis=0)
    return found
