"""A Poisson bootstrap of queries: how often each member of an ensemble counts a pair."""

import numpy as np

from epiclick.data.counts import ClickCounts

BOOTSTRAP = 5  # the stream of random numbers


def bootstrap_weights(counts: ClickCounts, members: int, seed: int) -> np.ndarray:
    """(1 + members, pairs) uint8: 1 for the model's own network, then Poisson(1) per query.

    Pairs of a query differ less than pairs of different queries, so a query counts as a whole.
    Queries are taken in the order of their ids: rows of the log in any order give the same weights.
    """
    own = np.ones((1, counts.num_queries), np.uint8)
    each = [_draw(np.random.default_rng([seed, BOOTSTRAP, i]), own.shape) for i in range(members)]
    return np.concatenate([own, *each])[:, counts.query]


def _draw(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Weights of one member, which must have something to learn from."""
    while not (weight := rng.poisson(1.0, shape)).any():
        pass
    return weight.astype(np.uint8)
