"""Single displays of counts held out at random, for logs whose pages are unknown."""

from dataclasses import replace

import numpy as np

from epiclick.data.counts import ClickCounts


def split_displays(
    counts: ClickCounts, holdout: float, seed: int
) -> tuple[ClickCounts, ClickCounts]:
    """Training and held-out counts: every display is held out with probability `holdout`.

    Held-out clicks and skips of an entry are binomial, which is what drawing single displays would
    give, without their rows.
    """
    rng = np.random.default_rng([seed, 7])
    skips = counts.displays - counts.clicks
    clicks, skipped = rng.binomial(counts.clicks, holdout), rng.binomial(skips, holdout)
    return (
        _with_numbers(counts, skips - skipped + counts.clicks - clicks, counts.clicks - clicks),
        _with_numbers(counts, skipped + clicks, clicks),
    )


def _with_numbers(counts: ClickCounts, displays: np.ndarray, clicks: np.ndarray) -> ClickCounts:
    """The counts with other displays and clicks; entries without displays are left out.

    Conversions are left out as well: which of the clicks led to them is not known.
    """
    table = counts.keys().select(["query_id", "doc_id", *counts.contexts.column_names])
    table = table.append_column("displays", [displays])
    taken = ClickCounts.from_table(
        table.append_column("clicks", [clicks]),
        context=tuple(counts.contexts.column_names),
        options=replace(counts.options, part=None, page_parts=None, conversion=None, value=None),
    )
    return taken if counts.features is None else taken.with_features(counts.features)
