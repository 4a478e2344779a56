"""Clicks as a product of two effects, of the context and of the item, without any prior."""

import numpy as np

from epiclick.data.robots import shrunk_ratio

ROUNDS, TOLERANCE = 300, 1e-6


def product_of_effects(
    context: np.ndarray, pair: np.ndarray, clicked: np.ndarray, size: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    r"""(contexts,) theta and (pairs,) relevance with the clicks of every context and pair.

    They solve :math:`\sum_j N_{jc} \theta_c \zeta_j = M_c` and, before shrinkage,
    :math:`\sum_c N_{jc} \theta_c \zeta_j = M_j`, in turn: maximum likelihood for Poisson clicks,
    which is consistent for any distribution of relevance. Relevance is then shrunk to its mean.
    """
    by_context, by_pair = (
        np.bincount(context, clicked, size[0]),
        np.bincount(pair, clicked, size[1]),
    )
    cell = context * size[1] + pair
    cells, number = np.unique(cell, return_counts=True)
    context, pair = cells // size[1], cells % size[1]
    theta = by_context / np.maximum(np.bincount(context, number, size[0]), 1)
    relevance = np.ones(size[1])
    for _ in range(ROUNDS):
        before = theta
        looks = np.bincount(pair, number * theta[context], size[1])
        relevance = by_pair / np.maximum(looks, 1e-300)
        chances = np.bincount(context, number * relevance[pair], size[0])
        theta = by_context / np.maximum(chances, 1e-300)
        if np.all(np.abs(theta - before) <= TOLERANCE * before):
            break
    looks = np.bincount(pair, number * theta[context], size[1])
    return theta, np.maximum(shrunk_ratio(by_pair, looks), 1e-12)
