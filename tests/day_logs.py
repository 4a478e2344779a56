"""Logs of several days with known position bias, and rankers that change, know taste or follow."""

import numpy as np
import pyarrow as pa
from scipy.special import expit

from epiclick.data.counts import ClickCounts

THETA = np.array([1.0, 0.6, 0.4])


def day_log(
    *,
    queries: int = 300,
    docs: int = 4,
    pages: int = 40,
    days: int = 3,
    level: float = -1.0,
    update: float = 1.5,
    taste: float = 0.0,
    drift: float = 0.0,
    followed: bool = False,
    seed: int = 0,
) -> ClickCounts:
    """Counts of pages of a ranker with noise, `pages` per query.

    Args:
        queries: number of queries.
        docs: items of each query.
        pages: of each query, on all days together.
        days: number of days.
        level: mean logit of relevance.
        update: standard deviation of daily changes of scores.
        taste: standard deviation of the taste of a page's user, which the ranker knows.
        drift: standard deviation of daily changes of relevance, in logits.
        followed: whether the ranker knows these changes.
        seed: of all draws.
    """
    rng = np.random.default_rng(seed)
    size = (queries, docs)
    quality = level + rng.normal(size=size)
    rows = []
    for day in range(days):
        change = drift * rng.normal(size=size)
        scores = quality + update * rng.normal(size=size) + (change if followed else 0)
        liked = taste * rng.normal(size=(queries, pages // days, docs))
        keys = scores[:, None] + liked + rng.gumbel(size=liked.shape)
        shown = np.argsort(-keys, axis=2)[:, :, : len(THETA)]  # (queries, pages, positions)
        attraction = (quality + change)[:, None] + liked
        chance = THETA * expit(np.take_along_axis(attraction, shown, axis=2))
        query, _, place = np.indices(shown.shape)
        clicked = rng.random(shown.shape) < chance
        of_day = np.full(shown.size, day)
        rows.append([a.ravel() for a in (query, shown, place + 1, of_day, clicked)])
    *keys, clicked = (np.concatenate(each) for each in zip(*rows, strict=True))
    shape = (queries, docs, len(THETA) + 1, days)
    found, inverse = np.unique(np.ravel_multi_index(keys, shape), return_inverse=True)
    names = ("query_id", "doc_id", "position", "part")
    table = dict(zip(names, np.unravel_index(found, shape), strict=True))
    table["displays"] = np.bincount(inverse)
    table["clicks"] = np.bincount(inverse, clicked).astype(np.int64)
    return ClickCounts.from_table(pa.table(table))
