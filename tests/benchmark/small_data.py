"""Small data sets of a benchmark, of users who follow a click model."""

import numpy as np

from epiclick.benchmark.page_data import BenchmarkData, PageLog
from epiclick.simulate.users import USERS


def small_data(
    users: str,
    *,
    queries: int = 3,
    docs: int = 4,
    depth: int = 3,
    pages: int = 300,
    seed: int = 0,
    satisfaction: float | None = None,
    cut: bool = False,
) -> BenchmarkData:
    """Pages with random rankings; `cut` makes every third page shorter."""
    rng = np.random.default_rng(seed)
    relevance = rng.uniform(0.15, 0.7, queries * docs)
    query = rng.integers(queries, size=pages)
    order = np.argsort(rng.random((pages, docs)), axis=1)[:, :depth]
    pair = (query[:, None] * docs + order).astype(np.int32)
    theta = 1 / np.arange(1, depth + 1) ** 0.5
    more = [] if satisfaction is None else [np.full(pair.shape, satisfaction)]
    clicked = USERS[users].draw(relevance[pair], theta, rng, *more)
    if cut:
        pair[::3, -1], clicked[::3, -1] = -1, False
    held_out = np.arange(pages) % 5 == 0
    return BenchmarkData(
        {"name": users, "title": f"{users} users"},
        np.repeat(np.arange(queries), docs),
        PageLog(pair[~held_out], clicked[~held_out]),
        PageLog(pair[held_out], clicked[held_out]),
        relevance,
    )
