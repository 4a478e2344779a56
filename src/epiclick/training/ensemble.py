"""The weights of pairs for the members of an ensemble."""

import numpy as np

from epiclick.data.counts import ClickCounts

BOOTSTRAP = 5  # the stream of random numbers


def bootstrap_weights(counts: ClickCounts, members: int, seed: int) -> np.ndarray:
    """(1 + members, pairs) uint8: 1 for the model's own network, then Poisson(1) per query.

    Pairs of one query resemble each other, so whole queries are resampled. Queries are numbered in
    the order of their ids, so that weights do not depend on the order of the log's rows.
    """
    own = np.ones((1, counts.num_queries), np.uint8)
    each = [_draw(np.random.default_rng([seed, BOOTSTRAP, i]), own.shape) for i in range(members)]
    return np.concatenate([own, *each])[:, counts.query]


def _draw(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Weights of one member, not all 0."""
    while not (weight := rng.poisson(1.0, shape)).any():
        pass
    return weight.astype(np.uint8)
