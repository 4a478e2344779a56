"""Outcomes of items as displays and clicks: each trial is an item that was certainly read.

Networks of any outcome with a Beta of the item's own (clicks of users who read on, satisfaction,
conversions) are trained on such counts as those of relevance are: in the cascade model an item that
is read is clicked with its relevance.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from epiclick.click_models.cascade import CLICKED_ABOVE
from epiclick.data.counts import ClickCounts


def outcome_counts(counts: ClickCounts, trials: np.ndarray, successes: np.ndarray) -> ClickCounts:
    """The pairs of counts with trials (pairs,) as displays before any click, successes as clicks.

    Pairs without a trial have no entry, but keep their number.
    """
    tried = np.flatnonzero(trials > 0)
    options = replace(
        counts.options, click_model="cascade", context=("position",), conversion=None, value=None
    )
    return replace(
        counts,
        contexts=pa.table({"position": [1, 1], CLICKED_ABOVE: [0, 1]}),
        pair=tried,
        context=np.zeros(len(tried), np.int64),
        displays=trials[tried],
        clicks=successes[tried],
        conversions=None,
        part=None,
        parts=None,
        pages=None,
        page_clicks=None,
        part_pages=None,
        options=options,
        lists=None,
        sample=None,
        placement=None if counts.features is None else counts.placed,
        clusters=None,
    )


def conversions_of(counts: ClickCounts) -> tuple[np.ndarray, np.ndarray]:
    """(pairs,) clicks of each pair, and those of them that led to a conversion.

    None of either where conversions were not counted: such clicks say nothing about them.
    """
    size = len(counts)
    if counts.conversions is None:
        return np.zeros(size, np.int64), np.zeros(size, np.int64)
    clicks, converted = (
        np.bincount(counts.pair, amount, size).astype(np.int64)
        for amount in (counts.clicks, counts.conversions.number)
    )
    return clicks, converted


def conversion_counts(counts: ClickCounts) -> ClickCounts:
    """Clicks as displays, and those that led to a conversion as clicks."""
    found = outcome_counts(counts, *conversions_of(counts))
    clusters = counts.clusters
    return replace(found, clusters=None if clusters is None else clusters.of_conversions())
