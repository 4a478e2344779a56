"""Displays of sampled pages with what is above them, in two halves of pages.

Halves are for properties that are learned from clicks, such as the attractiveness of an item: what
is learned on one half is used on the other, so that chance in a page's clicks is not taken for an
effect.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

from epiclick.click_models.click_model import ClickModel
from epiclick.data.counts import ClickCounts
from epiclick.data.page_sample import PageSample

CLUSTERS = 30
"""A query with a larger share of the pages than 1.5 clusters of this many is divided into blocks of
pages: a few queries are too few clusters, and pages are independent if the click model is right."""


@dataclass(frozen=True, eq=False)
class PageDisplays:
    """Displays of whole pages from top to bottom, page after page; (displays,) each.

    Attributes:
        page: number of the page.
        pair: of the counts; -1 for a display whose pair they lack.
        cluster: the query of the page, or a block of its pages if it has many.
        context: of the counts.
        position: on the page.
        examined: whether the click model allows a click in its context.
        clicked: whether it was clicked.
        above: number of clicks above it.
        last: number of the display with the last click above it; -1 for none.
        half: of the pages, 0 or 1, at random.
    """

    page: np.ndarray
    pair: np.ndarray
    cluster: np.ndarray
    context: np.ndarray
    position: np.ndarray
    examined: np.ndarray
    clicked: np.ndarray
    above: np.ndarray
    last: np.ndarray
    half: np.ndarray

    def __len__(self) -> int:
        """Number of displays."""
        return len(self.page)

    @property
    def below_click(self) -> np.ndarray:
        """(displays,) whether the item right above was clicked."""
        above = np.maximum(self.last, 0)
        return (self.last >= 0) & (self.position - self.position[above] == 1)

    def stratum(self) -> np.ndarray:
        """(displays,) number of the pair and context."""
        return self.pair * (int(self.context.max(initial=0)) + 1) + self.context

    def where(self, chosen: np.ndarray) -> "PageDisplays":
        """Some displays of pairs that are known, by a mask; `last` keeps its numbers."""
        kept = chosen & (self.pair >= 0)
        return PageDisplays(*(getattr(self, field.name)[kept] for field in fields(self)))

    def crossed(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Twice two masks: displays to learn from, and displays of the other half to test on."""
        for half in (0, 1):
            yield self.half != half, self.half == half


def page_displays(counts: ClickCounts, model: ClickModel, seed: int = 0) -> PageDisplays | None:
    """The displays of a log's sampled pages; None where pages or their order are unknown.

    Args:
        counts: by the contexts of the click model.
        model: the click model.
        seed: of the halves.
    """
    sample = counts.sample if counts.lists is None else PageSample.of_lists(counts.lists, seed)
    if sample is None or not len(sample) or "position" not in counts.contexts.column_names:
        return None
    contexts = counts.contexts if counts.lists is None else counts.given[0]
    size = len(contexts)
    examined = model.emission(np.zeros(model.size(size)), None, np).attractive > 0
    page, clicked = sample.page, sample.clicked
    first = np.flatnonzero(np.diff(page, prepend=-1))[page]  # display at the top of the page
    before = np.cumsum(clicked) - clicked
    latest = np.maximum.accumulate(np.where(clicked, np.arange(len(page)), -1))
    last = np.r_[-1, latest[:-1]]
    half = np.random.default_rng([seed, 12]).integers(2, size=int(page[-1]) + 1)
    return PageDisplays(
        page=page,
        pair=sample.pair,
        cluster=clusters(counts, sample)[page],
        context=sample.context,
        position=contexts["position"].to_numpy()[sample.context],
        examined=examined[sample.context],
        clicked=clicked,
        above=before - before[first],
        last=np.where(last >= first, last, -1),
        half=half[page],
    )


def clusters(counts: ClickCounts, sample: PageSample) -> np.ndarray:
    """(pages,) number of the query of each page, or of a block of successive pages of it."""
    known = sample.pair >= 0
    query = np.zeros(int(sample.page[-1]) + 1, np.int64)
    query[sample.page[known]] = counts.query[sample.pair[known]]  # every page has a known pair
    size = np.bincount(query)
    order = np.argsort(query, kind="stable")
    rank = np.empty_like(query)
    rank[order] = np.arange(len(query)) - np.repeat(np.cumsum(size) - size, size)
    blocks = np.maximum(np.round(CLUSTERS * size / len(query)).astype(np.int64), 1)
    return (np.cumsum(blocks) - blocks)[query] + rank * blocks[query] // size[query]
