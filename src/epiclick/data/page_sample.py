"""Displays of a sample of pages, in their order, for checks that need what was clicked above.

Counts have no history, and reading all pages again would cost as much as counting them. Whether
clicks depend on what is above them can be checked on a sample of whole pages.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from epiclick.data.arrays import as_array, distinct
from epiclick.data.counted_rows import counted_rows
from epiclick.data.page_lists import PageLists
from epiclick.data.schema import LogColumns, LogOptions

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from epiclick.data.counts import ClickCounts

SAMPLED_DISPLAYS = 100_000
"""Of a log with twice as many displays or more, about this many are sampled, at most twice that."""


@dataclass(frozen=True, eq=False)
class PageSample:
    """Displays of whole pages from top to bottom, page after page; (displays,) each.

    Attributes:
        page: number of the page, ascending.
        pair: of the counts; -1 for a display whose pair they lack, which is history still.
        context: of the counts.
        clicked: whether the display was clicked.
        part: of the counts, or None.
    """

    page: np.ndarray
    pair: np.ndarray
    context: np.ndarray
    clicked: np.ndarray
    part: np.ndarray | None = None

    def __len__(self) -> int:
        """Number of displays."""
        return len(self.page)

    def of_pairs(self, number: np.ndarray) -> Self:
        """The sample with its pairs renumbered, (old pairs,), -1 for pairs that are left out."""
        return self.chosen(np.where(self.pair >= 0, number[self.pair], -1))

    def of_parts(self, chosen: np.ndarray, number: np.ndarray) -> Self:
        """The pages of the parts in a mask, (parts,), with their pairs renumbered, (old pairs,)."""
        assert self.part is not None
        renumbered = np.where(self.pair >= 0, number[self.pair], -1)
        return self.chosen(np.where(chosen[self.part], renumbered, -1))

    def chosen(self, pair: np.ndarray) -> Self:
        """The pages on which any pair is left, given the new pairs (displays,)."""
        pages = np.bincount(self.page, pair >= 0) > 0 if len(pair) else np.zeros(0, bool)
        kept = pages[self.page]
        return replace(
            self,
            page=(np.cumsum(pages) - 1)[self.page[kept]],
            pair=pair[kept],
            context=self.context[kept],
            clicked=self.clicked[kept],
            part=None if self.part is None else self.part[kept],
        )

    def with_contexts(self, index: np.ndarray) -> Self:
        """The sample with its contexts renumbered, (old contexts,)."""
        return replace(self, context=index[self.context])

    @classmethod
    def of_lists(cls, lists: PageLists, seed: int = 0) -> Self:
        """A sample of the pages behind distinct lists, in random order.

        Lists are ordered by their clicks, among others, which must not decide what is compared.
        """
        rng = np.random.default_rng([seed, 11])
        number = rng.permutation(np.repeat(np.arange(len(lists)), lists.pages))
        one_in = int(lists.pages @ lists.shown.sum(axis=1)) // SAMPLED_DISPLAYS
        number = number[: len(number) // max(one_in, 1)]
        shown = lists.shown[number]
        return cls(
            np.nonzero(shown)[0],
            lists.pair[number][shown].astype(np.int64),
            lists.given[number][shown].astype(np.int64),
            lists.clicked[number][shown],
        )


def concat_samples(samples: Sequence[PageSample], parts: bool) -> PageSample:
    """All samples; pairs, contexts and parts are numbered alike."""
    first_page = np.cumsum([0, *(each.page[-1] + 1 if len(each) else 0 for each in samples[:-1])])
    return PageSample(
        np.concatenate([each.page + first_page[i] for i, each in enumerate(samples)]),
        np.concatenate([each.pair for each in samples]),
        np.concatenate([each.context for each in samples]),
        np.concatenate([each.clicked for each in samples]),
        np.concatenate([each.part for each in samples if each.part is not None]) if parts else None,
    )


def read_sample(
    rows: "ir.Table", columns: LogColumns, options: LogOptions, counts: "ClickCounts", *, text: bool
) -> PageSample | None:
    """The sample of a log's rows, whose counts are known, with the contexts of the counts.

    None if the parts of the sample are not those of the counts: whether they are days depends on
    all rows of a log.
    """
    from epiclick.data.counting import number  # these load the engine
    from epiclick.data.ids import settle_types
    from epiclick.data.pages import sampled_pages

    assert counts.pages is not None
    most = max(SAMPLED_DISPLAYS * counts.pages // counts.total_displays, 1)
    rows = sampled_pages(rows, counts.pages, most)
    names = ["query_id", "doc_id", *(name for name in columns.contexts if name != "position")]
    names += ["part"] if "part" in rows.columns else []
    table = rows.select(
        page_id=rows.page_id,
        position=number(rows.position).cast("int64") + (1 - options.position_base),
        clicked=(number(rows.click) == 1).fill_null(False),
        **{name: rows[name] for name in names},
    ).to_pyarrow()
    # in the order of page_id, as engines return rows in any; sorting here is faster than there
    _, page = distinct({"page_id": as_array(table["page_id"])})
    order = np.lexsort((table["position"].to_numpy(), page))
    table, page = table.take(order), page[order]
    typed = settle_types(table, columns, options, text=text)

    found = counted_rows(typed, counts)
    if found is None:
        return None
    return PageSample(page, found.pair, found.context, table["clicked"].to_numpy(), found.part)
