"""Logs of two devices whose bias is known, one shown more often than the other."""

import numpy as np
import pyarrow as pa

from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureTable, read_features

POSITIONS = 3
FALL = np.array([1.0, 0.6, 0.4])  # of either device, from position to position


def device_counts(
    desktop: float,
    *,
    queries: int = 150,
    docs: int = 6,
    shown: float = 8.0,
    features: bool = False,
    seed: int = 0,
) -> ClickCounts:
    """Counts in which phone is shown twice as often, and desktop examined more by a given factor.

    Better items stand higher up, and where an item stands differs from page to page.
    """
    rng = np.random.default_rng(seed)
    pairs = queries * docs
    relevance = rng.beta(2, 4, pairs)
    bias = np.outer([desktop, 1.0], FALL) / max(desktop, 1.0)  # (devices, positions)
    height = np.exp(np.outer(relevance - relevance.mean(), [1.0, 0.0, -1.0]))
    often = shown * np.array([[1.0], [2.0]]) * height[:, None]  # (pairs, devices, positions)
    displays = rng.poisson(often)
    clicks = rng.binomial(displays, bias * relevance[:, None, None])
    shape = displays.shape
    pair, device, position = (index.ravel() for index in np.indices(shape))
    counts = ClickCounts.from_table(
        pa.table(
            {
                "query_id": pair // docs,
                "doc_id": pair % docs,
                "device": np.array(["desktop", "phone"])[device],
                "position": position + 1,
                "displays": displays.ravel(),
                "clicks": clicks.ravel(),
            }
        ),
        context=("device", "position"),
    )
    if not features:
        return counts
    table: FeatureTable = read_features(
        pa.table(
            {
                "query_id": np.arange(pairs) // docs,
                "doc_id": np.arange(pairs) % docs,
                "f0": np.log(relevance / (1 - relevance)),
                "f1": rng.standard_normal(pairs),
            }
        )
    )
    return counts.with_features(table)


DESKTOP, PHONE = 0, POSITIONS  # indices of the first position of each
