"""Distinct result lists of a log with their clicks, for click models that need whole pages.

Where users may stop reading after a click, the log does not show whether they saw what is below
their last click, and the items there depend on each other through it. Counts per item are then not
sufficient; the distinct lists, each with the number of its pages, are.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa

from epiclick.data.arrays import as_array, changes, locate_counted, locate_rows
from epiclick.data.schema import LogColumns, LogOptions
from epiclick.errors import InputError, Problem

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from epiclick.data.counts import ClickCounts

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False)
class PageLists:
    """Distinct pages from top to bottom.

    Attributes:
        pair: (lists, depth) the pair at each place; -1 past the end of a list.
        given: (lists, depth) its given context; 0 past the end.
        clicked: (lists, depth) whether it was clicked.
        pages: (lists,) number of pages with this list and these clicks.
        part: (lists,) part of these pages, or None.
    """

    pair: np.ndarray
    given: np.ndarray
    clicked: np.ndarray
    pages: np.ndarray
    part: np.ndarray | None = None

    def __len__(self) -> int:
        """Number of distinct lists."""
        return len(self.pages)

    @property
    def shown(self) -> np.ndarray:
        """(lists, depth) whether there is an item at the place."""
        return self.pair >= 0

    def of_pairs(self, number: np.ndarray) -> Self | None:
        """The lists with their pairs renumbered, (old pairs,), -1 for pairs that are left out.

        Lists without any of the remaining pairs go; None if a list would lose some of its items.
        """
        renumbered = np.where(self.shown, number[self.pair], -1)
        kept = np.any(renumbered >= 0, axis=1)
        if np.any((renumbered < 0)[kept] & self.shown[kept]):
            return None
        return self._chosen(kept, renumbered)

    def of_parts(self, chosen: np.ndarray, number: np.ndarray) -> Self:
        """The lists of the parts in a mask, (parts,), with their pairs renumbered, (old pairs,)."""
        assert self.part is not None
        renumbered = np.where(self.shown, number[self.pair], -1)
        return self._chosen(chosen[self.part], renumbered)

    def _chosen(self, kept: np.ndarray, pair: np.ndarray) -> Self:
        return type(self)(
            pair[kept],
            self.given[kept],
            self.clicked[kept],
            self.pages[kept],
            None if self.part is None else self.part[kept],
        )

    @classmethod
    def distinct(
        cls,
        pair: np.ndarray,
        given: np.ndarray,
        clicked: np.ndarray,
        pages: np.ndarray | None = None,
        part: np.ndarray | None = None,
    ) -> Self:
        """The distinct lists among pages, in an order that does not depend on that of the pages."""
        columns = [*pair.T, *given.T, *clicked.T, *([] if part is None else [part])]
        rows = np.stack([column.astype(np.int64) for column in columns], axis=1)
        first, group = same_rows(rows)
        weight = np.ones(len(rows), np.int64) if pages is None else pages
        return cls(
            pair[first],
            given[first],
            clicked[first],
            np.bincount(group, weight, len(first)).astype(np.int64),
            None if part is None else part[first],
        )


def same_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first of each group of equal rows, and (rows,) the group of each row of integers.

    Groups are in an order that does not depend on that of the rows.
    """
    # sorting one mixed number per row is far faster than sorting the rows
    mixed = np.zeros(len(rows), np.uint64)
    with np.errstate(over="ignore"):
        for column in rows.T:
            mixed = (mixed ^ (column.astype(np.uint64) + np.uint64(1))) * MULTIPLIER
            mixed ^= mixed >> np.uint64(29)
    _, first, group = np.unique(mixed, return_index=True, return_inverse=True)
    if not np.array_equal(rows, rows[first[group]]):  # two rows with the same number
        _, first, group = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, group.reshape(-1)


def concat_lists(lists: list[PageLists], parts: bool) -> PageLists:
    """All lists, distinct; pairs and parts are numbered alike."""
    depth = max(each.pair.shape[1] for each in lists)

    def widened(values: list[np.ndarray], fill: int) -> np.ndarray:
        wide = [
            np.pad(each, ((0, 0), (0, depth - each.shape[1])), constant_values=fill)
            for each in values
        ]
        return np.concatenate(wide)

    return PageLists.distinct(
        widened([each.pair for each in lists], -1),
        widened([each.given for each in lists], 0),
        widened([each.clicked for each in lists], 0),
        np.concatenate([each.pages for each in lists]),
        np.concatenate([each.part for each in lists if each.part is not None]) if parts else None,
    )


def read_lists(
    rows: "ir.Table", columns: LogColumns, options: LogOptions, counts: "ClickCounts", *, text: bool
) -> PageLists:
    """The distinct lists of a log's rows, whose counts are known."""
    from epiclick.data.counting import number  # these load the engine
    from epiclick.data.ids import settle_types
    from epiclick.data.results import fetch

    position = number(rows.position).cast("int64") + (1 - options.position_base)
    names = ["query_id", "doc_id", *(n for n in columns.given if n != "position")]
    names += ["part"] if "part" in rows.columns else []
    table = fetch(
        rows.select(
            page_id=rows.page_id,
            position=position,
            clicked=(number(rows.click) == 1).fill_null(False),
            **{name: rows[name] for name in names},
        ).order_by(["page_id", "position"])
    )
    page = np.cumsum(changes(as_array(table["page_id"]))) - 1
    place = np.arange(len(page)) - np.flatnonzero(np.diff(page, prepend=-1))[page]
    _refuse_holes(table, page, place)
    typed = settle_types(table, columns, options, text=text)
    keys = ("query_id", "doc_id")
    pair = locate_counted(
        {name: typed[name] for name in keys},
        {"query_id": counts.query_id, "doc_id": counts.doc_id},
    )
    contexts = counts.given[0]
    wanted = contexts.column_names
    given = locate_counted(
        {name: typed[name].cast(contexts[name].type) for name in wanted},
        {name: contexts[name] for name in wanted},
    )
    part = None
    if counts.parts is not None:
        own = typed["part"].cast(counts.parts.type)
        part = locate_rows({"part": own}, {"part": counts.parts})[place == 0]
    pages, depth = int(page[-1]) + 1, int(place.max()) + 1
    laid_out = []
    for values, fill in ((pair, -1), (given, 0), (table["clicked"].to_numpy(), 0)):
        filled = np.full((pages, depth), fill, np.int32)
        filled[page, place] = values
        laid_out.append(filled)
    return PageLists.distinct(laid_out[0], laid_out[1], laid_out[2] > 0, None, part)


def _refuse_holes(table: pa.Table, page: np.ndarray, place: np.ndarray) -> None:
    """Refuse pages that lack a position between others: it was read, and may have been clicked."""
    position = table["position"].to_numpy()
    holes = np.flatnonzero((place[1:] > 0) & (np.diff(position) > 1)) + 1
    if not len(holes):
        return
    examples = [
        f"(page {table['page_id'][int(i)]}): position {position[i]} follows {position[i - 1]}"
        for i in holes[:3]
    ]
    problem = Problem(
        "users of this click model read from the top, and pages lack a position between others",
        len(np.unique(page[holes])),
        "page",
        examples,
        "Give all rows of these pages, leave the pages out with --where, or use --click-model pbm.",
        code="pages-with-holes",
    )
    raise InputError.of("pages", [problem])
