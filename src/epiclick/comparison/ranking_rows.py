"""Rows of a ranking under their canonical names, checked and in order."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from epiclick.data.arrays import as_array, distinct
from epiclick.data.counting import number
from epiclick.data.engine import Source, engine_errors, stoppable
from epiclick.data.ids import settle_types, type_problems
from epiclick.data.schema import ALIASES, LogColumns, LogOptions
from epiclick.data.sources import open_source, unchanged
from epiclick.errors import InputError, Problem, did_you_mean

IDS = ("query_id", "doc_id")
KNOWN: Mapping[str, tuple[str, ...]] = {
    **{name: ALIASES[name] for name in (*IDS, "page_id", "position")},
    "score": ("score",),
}
"""Names under which each column of a ranking is recognised."""


@dataclass(frozen=True, eq=False)
class RankingRows:
    """One row for each document of each list, in any order, unchecked.

    Attributes:
        source: what to call the rows in messages.
        keys: Arrow table: query_id, doc_id, then what tells lists of a query apart (page_id, if
            there is one, and the context columns but position).
        by: what the documents of a list are ordered by.
        value: (rows,) float64, the position or score; NaN where it is none.
        written: (rows,) the same as the source has it, for messages.
        problems: what is known to be wrong with them.
        notes: what a user must be told about how they were read.
    """

    source: str
    keys: pa.Table
    by: Literal["position", "score"]
    value: np.ndarray
    written: pa.Array
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()


def table_rows(source: Any, options: LogOptions, score: str | None = None) -> RankingRows:
    """Rows of a table: a Parquet, CSV or JSON-lines file, DataFrame, Arrow or Ibis table.

    Args:
        source: the table.
        options: how the model's log was read.
        score: the column that documents are ordered by; as the names tell where it is None.
    """
    with unchanged(source):
        return _rows(source, options, score)


def _rows(source: Any, options: LogOptions, score: str | None) -> RankingRows:
    opened = open_source(source)
    table = opened.table
    found, by = _find(table.columns, options.context, opened.name, score)
    lists = {name: own for name, own in found.items() if name not in (*IDS, by)}
    columns = LogColumns({name: found[name] for name in IDS}, lists, counted=False)
    problems = [
        *type_problems(opened, table, columns, options),
        *_order_problems(opened, by, found[by]),
    ]
    if problems:
        raise InputError.of(opened.name, problems)
    chosen = {name: table[own] for name, own in {**columns.found, **lists}.items()}
    # names that no column of a ranking can have
    order = {"?written": table[found[by]], "?value": number(table[found[by]]).cast("float64")}
    with stoppable(table), engine_errors(opened.name):
        rows = table.select(**chosen, **order).to_pyarrow()
        unreadable = opened.unreadable()
    keys, unsettled = settle(rows.select(list(chosen)), columns, options, text=opened.text)
    return RankingRows(
        source=opened.name,
        keys=keys,
        by=by,
        value=as_array(rows["?value"]).to_numpy(zero_copy_only=False),
        written=as_array(rows["?written"]),
        problems=(*unreadable, *unsettled),
        notes=opened.notes,
    )


def settle(
    keys: pa.Table, columns: LogColumns, options: LogOptions, *, text: bool
) -> tuple[pa.Table, tuple[Problem, ...]]:
    """The keys in the types in which the log's are kept, or as they are with what is wrong."""
    try:
        return settle_types(keys, columns, options, text=text), ()
    except InputError as error:
        return keys, error.problems


def context_problems(context: Sequence[str], names: Sequence[str]) -> Iterator[Problem]:
    """Context columns that a ranking lacks."""
    for name in context:
        if name not in names and name != "position":
            yield Problem(
                f"context column '{name}' is not in the ranking{did_you_mean(name, names)}",
                remedy=f"The columns are {', '.join(names)}; the model needs {', '.join(context)}.",
            )


def _find(
    names: Sequence[str], context: Sequence[str], source: str, score: str | None
) -> tuple[dict[str, str], Literal["position", "score"]]:
    """The source's own name of each canonical column, and whether positions or scores order."""
    problems = list(context_problems(context, names))
    # a column named as a context is that context, even if it could be something else
    free = [name for name in names if name == "position" or name not in context]
    matches = {c: [n for n in free if n.lower() in known] for c, known in KNOWN.items()}
    if score is not None:
        if score not in names:
            missing = f"no column '{score}' to order by{did_you_mean(score, names)}"
            problems.append(Problem(missing, remedy=f"The columns are {', '.join(names)}."))
        matches |= {"position": [], "score": [score]}
    has = f"The columns are {', '.join(names)}; use reset_index() if it is a DataFrame's index."
    by: Literal["position", "score"] = "position" if matches["position"] else "score"
    for canonical in (*IDS, "page_id", by):
        if len(matches[canonical]) > 1:
            could = f"{' and '.join(matches[canonical])} could each be {canonical}"
            problems.append(Problem(could, remedy="Remove or rename all but one."))
        elif not matches[canonical] and canonical != "page_id":
            wanted = ("position", "score") if canonical == by else (canonical,)
            known = [name for c in wanted for name in KNOWN[c]]
            near = next((hint for k in known if (hint := did_you_mean(k, names))), "")
            what = f"no column for {' or '.join(wanted)} (known names: {', '.join(known)}){near}"
            problems.append(Problem(what, remedy=has))
    if problems:
        raise InputError.of(source, problems)
    found = {name: matches[name][0] for name in (*IDS, "page_id", by) if matches[name]}
    return {**found, **{name: name for name in context if name != "position"}}, by


def _order_problems(opened: Source, by: str, own: str) -> Iterator[Problem]:
    """A column of positions or scores that only some files have, or that holds no numbers."""
    kind = opened.table[own].type()
    if lacking := opened.partial.get(own):
        remedy = "Add it to the files that lack it, or read those apart."
        yield Problem(f"column {own} is missing from", lacking, "file", (), remedy)
    elif not (kind.is_numeric() or kind.is_boolean() or kind.is_string() or kind.is_json()):
        yield Problem(f"{own} is of type {kind}, not a number", remedy=f"Give each row a {by}.")


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


@dataclass(frozen=True, eq=False)
class Order:
    """Rows put in the order of lists and positions.

    Attributes:
        row: (slots,) row of the source that fills each slot.
        page: (slots,) number of the list of each slot.
        position: (slots,) 1, 2, ... within each list.
        tied: (slots,) another document of the list has the same score.
    """

    row: np.ndarray
    page: np.ndarray
    position: np.ndarray
    tied: np.ndarray


def order_rows(rows: RankingRows) -> Order:
    """Put the rows in order; all that is wrong with them is told at once.

    Lists are ordered by query, then by what tells the lists of a query apart, so that the order of
    the source's rows does not matter.
    """
    if not len(rows.value):
        raise InputError.of(rows.source, [*rows.problems, Problem("the ranking is empty")])
    problems = [*rows.problems, *missing_keys(rows), *bad_values(rows)]
    complete = np.ones(len(rows.value), bool)
    for column in rows.keys.columns:
        complete &= column.is_valid().to_numpy()
    keys = rows.keys if complete.all() else rows.keys.filter(pa.array(complete))
    columns = {name: as_array(keys[name]) for name in keys.column_names}
    doc = columns.pop("doc_id")
    docs, doc_code = distinct({"doc_id": doc})
    lists, page = distinct(columns)
    value = rows.value[complete]
    twice = pd.Series(page * len(docs) + doc_code).duplicated().to_numpy()
    unnumbered = rows.by == "position" and not (problems or is_numbered(page, value))
    if problems or unnumbered or twice.any():
        frame = pd.DataFrame({"page": page, "doc": doc_code, "value": value})
        told = ListFlaws(frame, lists, docs, gaps=bool(complete.all()) and not rows.problems)
        problems += told.repeated_documents(twice)
        if rows.by == "position":
            problems += [*told.shared_positions(), *told.gaps_in_lists()]
        raise InputError.of(rows.source, problems)

    length = np.bincount(page)
    start = np.cumsum(length) - length
    if rows.by == "position":
        row = np.empty(len(value), np.int64)
        row[start[page] + value.astype(np.int64) - 1] = np.arange(len(value))
        tied = np.zeros(len(value), bool)
    else:
        row = np.lexsort((doc_code, -value, page))
        tied = _equal_neighbours(page[row], value[row])
    page = page[row]
    return Order(row, page, np.arange(len(row)) - start[page] + 1, tied)


def is_numbered(page: np.ndarray, position: np.ndarray) -> bool:
    """Whether the rows of each list have the positions 1, 2, ..., each once, in any order.

    >>> is_numbered(np.array([0, 1, 0]), np.array([2, 1, 1]))
    True
    """
    length = np.bincount(page)
    if np.any((position < 1) | (position > length[page])):
        return False
    slot = (np.cumsum(length) - length)[page] + position.astype(np.int64) - 1
    return bool(np.all(np.bincount(slot, minlength=len(page)) == 1))


def _equal_neighbours(page: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Where the row before or after in the same list has the same score."""
    tied = np.zeros(len(page), bool)
    same = (np.diff(page) == 0) & (np.diff(score) == 0)
    tied[1:] |= same
    tied[:-1] |= same
    return tied
