"""What can be wrong with the rows of a ranking: ids, positions, scores, and whole lists."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa

from epiclick.comparison.ranking_rows import RankingRows
from epiclick.errors import Problem

LARGEST = 2**53
"""Whole numbers below are exact in float64."""


def missing_keys(rows: RankingRows) -> Iterator[Problem]:
    """Rows without an id, or without what tells lists apart."""
    for name in rows.keys.column_names:
        if count := rows.keys[name].null_count:
            at = int(np.argmin(rows.keys[name].is_valid().to_numpy()))
            yield Problem(f"{name} is missing", count, "row", [f"row {at + 1}"], "Fill or drop it.")


def bad_values(rows: RankingRows) -> Iterator[Problem]:
    """Positions that are not 1, 2, ..., and scores that cannot be sorted by."""
    if rows.by == "score":
        bad = ~np.isfinite(rows.value)
        yield from _shown(rows, bad, "score must be a finite number", "Fill or drop it.")
        return
    whole = is_whole(rows.value)
    remedy = "Number positions 1, 2, 3 ... within each list."
    yield from _shown(rows, ~whole, "position must be a whole number", remedy)
    remedy = "Positions begin at 1: if they count from 0, add 1 to each."
    yield from _shown(rows, whole & (rows.value < 1), "position must be 1 or more", remedy)


def is_whole(values: np.ndarray) -> np.ndarray:
    """(values,) whether each is a whole number; NaN and infinity are none."""
    whole = np.abs(values) < LARGEST
    whole[whole] = values[whole] % 1 == 0
    return whole


def _shown(rows: RankingRows, bad: np.ndarray, what: str, remedy: str) -> Iterator[Problem]:
    if count := int(bad.sum()):
        at = int(np.argmax(bad))
        key = rows.keys.slice(at, 1).to_pylist()[0]
        example = f"{_named(key)}: {rows.by} {rows.written[at]}"
        yield Problem(what, count, "row", [example], remedy)


def _named(key: dict[str, object]) -> str:
    """A list or a row of it, named by its ids: (query 12, doc 7)."""
    named = (f"{name.removesuffix('_id')} {value}" for name, value in key.items())
    return f"({', '.join(named)})"


@dataclass(frozen=True, eq=False)
class ListFlaws:
    """What is wrong with lists, worked out only once it is known that something is.

    Attributes:
        frame: the rows that have all ids: number of the list, of the document, and the value.
        lists: ids of each list, by its number.
        docs: ids of the documents, by their number.
        gaps: whether no row is left out, so that gaps in a list are its own.
    """

    frame: pd.DataFrame
    lists: pa.Table
    docs: pa.Table
    gaps: bool

    def repeated_documents(self, twice: np.ndarray) -> list[Problem]:
        """Documents that stand in one list more than once."""
        again = self.frame[twice].drop_duplicates(["page", "doc"]).sort_values(["page", "doc"])
        if again.empty:
            return []
        page, doc = again[["page", "doc"]].to_numpy()[0]
        place = _named({**self._list(page), "doc_id": self._doc(doc)})
        remedy = "Keep one of each; if a query has several lists, tell them apart by page_id."
        return [Problem("a document twice in one list", len(again), "document", [place], remedy)]

    def shared_positions(self) -> list[Problem]:
        """Positions of a list that several documents share."""
        places = self.frame.dropna().drop_duplicates().sort_values(["page", "value", "doc"])
        shared = places[places.duplicated(["page", "value"], keep=False)]
        if shared.empty:
            return []
        count = len(shared.drop_duplicates(["page", "value"]))
        page, value = shared.iloc[0][["page", "value"]]
        both = [self._doc(int(doc)) for doc in shared["doc"].to_numpy()[:2]]
        place = _named({**self._list(int(page)), "position": f"{value:g}"})
        remedy = (
            "Give each document a position of its own, or a score in place of positions; if a "
            "query has several lists, tell them apart by page_id."
        )
        what = "two documents at one position of a list"
        return [
            Problem(what, count, "position", [f"{place}: docs {both[0]} and {both[1]}"], remedy)
        ]

    def gaps_in_lists(self) -> list[Problem]:
        """Lists whose positions leave numbers out."""
        page, position = self.frame["page"], self.frame["value"]
        # a position that is none is told apart, and leaves a gap
        whole = ~page.isin(page[~is_whole(position.to_numpy()) | (position < 1)])
        places = self.frame[whole].drop_duplicates(["page", "value"]).groupby("page")["value"]
        lacking = places.max() > places.size()
        if not self.gaps or not lacking.any():
            return []
        first_list = int(lacking.index[lacking.to_numpy()][0])
        there = np.sort(places.get_group(first_list).to_numpy())
        first = int(np.argmax(there != np.arange(1, len(there) + 1))) + 1
        remedy = (
            "Number positions 1, 2, 3 ... within each list, or give a score column in place of "
            "positions."
        )
        example = f"{_named(self._list(first_list))}: no position {first}"
        what = "positions of a list must have no gaps"
        return [Problem(what, int(lacking.sum()), "list", [example], remedy)]

    def _list(self, page: int) -> dict[str, object]:
        return self.lists.slice(int(page), 1).to_pylist()[0]

    def _doc(self, doc: int) -> object:
        return self.docs["doc_id"][int(doc)].as_py()
