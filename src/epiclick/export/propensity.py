r"""Clicks weighted by the inverse of how much their position is looked at.

With n_k displays and c_k clicks of a pair at position k of bias theta_k relative to the anchor's,

.. math:: C = \sum_k c_k \min(1 / \theta_k, \text{clip}), \qquad N = \sum_k n_k,

a row of label 1 weighs C and a row of label 0 weighs max(N - C, 0): up to the two bounds, any loss
of the labels then has the expectation that it would have, had every display been looked at as the
anchor is. Rows that weigh nothing are left out.
"""

from dataclasses import dataclass

import numpy as np

from epiclick.data.counts import ClickCounts
from epiclick.errors import InputError
from epiclick.models.bias_table import click_table
from epiclick.models.fitted import FittedModel
from epiclick.models.prediction import contexts_of

CLIP = 20.0
"""Largest weight of a click: positions looked at less than 1/20 as much count as that."""


@dataclass(frozen=True, eq=False)
class WeightedClicks:
    """Labels and weights, in the order of pairs, unclicked before clicked.

    Attributes:
        pair: (rows,) index of the pair in the counts.
        label: (rows,) int32, 1 for clicks and 0 for displays without.
        weight: (rows,) float64, above 0.
    """

    pair: np.ndarray
    label: np.ndarray
    weight: np.ndarray


def weighted_clicks(fitted: FittedModel, counts: ClickCounts, clip: float = CLIP) -> WeightedClicks:
    """One or two rows a pair; see the module."""
    if not clip >= 1:
        raise InputError(
            f"clip must be at least 1, the weight of a click at the anchor, not {clip}"
        )
    inverse = np.minimum(1 / relative_bias(fitted, counts), clip)[counts.context]  # (entries,)
    clicked = np.bincount(counts.pair, counts.clicks * inverse, len(counts))
    displays = np.bincount(counts.pair, counts.displays, len(counts))
    weight = np.stack([np.maximum(displays - clicked, 0), clicked], axis=1).ravel()
    rows = np.flatnonzero(weight > 0)
    return WeightedClicks(rows // 2, (rows % 2).astype(np.int32), weight[rows])


def relative_bias(fitted: FittedModel, counts: ClickCounts) -> np.ndarray:
    """(contexts of the counts,) bias relative to the anchor's; its mean where it is not known."""
    relative = click_table(fitted, level=0.9)["relative"].to_numpy()
    index = contexts_of(fitted, counts.contexts)
    return np.where(index < 0, relative.mean(), relative[index])
