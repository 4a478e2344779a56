r"""What a ranker is worth: a weighted sum of the relevance of the items it shows.

With w the share of pages of a list, reach_k the share of them that displays slot k at all, and
zeta the relevance of the item there,

.. math:: \text{clicks} = \sum_k w\, \text{reach}_k\, \theta_k\, \zeta_k, \quad
          \text{first} = \sum_{k = 1} w\, \text{reach}_k\, \theta_k\, \zeta_k, \quad
          \text{gain} = \sum_k \frac{w\, \zeta_k}{\log_2(1 + k)}.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from epiclick.comparison.slots import Slots


@dataclass(frozen=True)
class Measure:
    """A way to value rankers.

    Attributes:
        words: what one of it is.
        weight: slots -> (slots,) factor of relevance, but for position bias.
        biased: whether position bias is a factor, too.
    """

    words: str
    weight: Callable[[Slots], np.ndarray]
    biased: bool


MEASURES: Mapping[str, Measure] = {
    "clicks": Measure("clicks a page", lambda s: s.weight * s.reach, biased=True),
    "first": Measure(
        "click rate of the first result",
        lambda s: np.where(s.position == 1, s.weight * s.reach, 0.0),
        biased=True,
    ),
    "gain": Measure(
        "discounted relevance a page", lambda s: s.weight / np.log2(1 + s.position), biased=False
    ),
}
