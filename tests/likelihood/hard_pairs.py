"""Pairs that are hard to integrate: named ones, and random ones in all corners."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Pair:
    """One pair; theta is 1 - rest."""

    rest: tuple[float, ...]
    alpha: float
    beta: float
    clicks: tuple[int, ...]
    unclicked: tuple[int, ...]


PAIRS = {
    "no click, a tiny": Pair((0.0,), 1e-3, 1.0, (0,), (1_000_000,)),
    "no click, a and b tiny": Pair((0.0, 0.5), 1e-3, 1e-3, (0, 0), (1, 100_000)),
    "no click, theta tiny": Pair((1 - 1e-6,), 1e-3, 1e-3, (0,), (1_000_000,)),
    "no click, a and b large": Pair((0.0, 0.9), 1e4, 1e4, (0, 0), (50, 3_000_000)),
    "mass at both ends": Pair((1 - 1e-6, 0.0), 1e-3, 1e-3, (0, 0), (31, 1)),
    "two thetas of one": Pair((0.0, 0.0, 0.7), 0.02, 0.05, (0, 3, 0), (40, 0, 12)),
    "a bend far from the peak": Pair((1 - 1e-6, 1e-6), 1.0, 1e-3, (0, 0), (63, 1)),
    "bends on the way down": Pair((1e-2, 1e-4, 1e-7), 2.0, 2e-3, (0, 0, 0), (1, 1, 1)),
    "a million clicks, b tiny": Pair((0.0, 0.9), 0.5, 1e-3, (1_000_000, 0), (16, 0)),
    "a million clicks at theta tiny": Pair((1 - 1e-6, 0.0), 3.0, 2.0, (1_000_000, 0), (0, 64)),
    "clicks and displays of millions": Pair(
        (0.02, 0.6, 0.95), 1.2, 0.7, (90_000, 40_000, 8_000), (900_000, 2_000_000, 700_000)
    ),
    "mixed": Pair((0.0, 0.3, 0.8, 1 - 1e-4), 0.3, 4.0, (0, 2, 0, 1), (900, 40, 3, 20_000)),
}

RANDOM = 300
"""Random pairs of each number of displays."""


def random_pairs(displays: int, pairs: int = RANDOM) -> list[np.ndarray]:
    """Pairs in all corners: tiny and large parameters, theta tiny, near 1 and 1, few contexts."""
    rng = np.random.default_rng(displays)
    size = (pairs, 4)
    kind = rng.integers(4, size=size)
    theta = np.choose(
        kind,
        [np.ones(size), 1 - 10 ** rng.uniform(-9, 0, size), 10 ** rng.uniform(-6, 0, size), 0.3],
    )
    theta = np.maximum(theta, 1e-6)
    alpha, beta = 10 ** rng.uniform(-3, 4, (2, pairs))
    spread = 10 ** rng.uniform(-1.5, 1, pairs)
    unclicked = np.array([rng.multinomial(displays, rng.dirichlet(np.full(4, s))) for s in spread])
    clicks = np.where(rng.random(size) < 0.5, 0, np.floor(10 ** rng.uniform(0, 4, size)))
    clicks[rng.random(pairs) < 0.4] = 0
    return [theta, alpha, beta, clicks, unclicked.astype(float)]
