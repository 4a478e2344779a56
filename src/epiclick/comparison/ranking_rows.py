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
from epiclick.data.files import unchanged
from epiclick.data.ids import settle_types, type_problems
from epiclick.data.plain_parquet import plain_parquet
from epiclick.data.schema import ALIASES, LogColumns, LogOptions
from epiclick.data.sources import open_source
from epiclick.errors import InputError, Problem, did_you_mean

IDS = ("query_id", "doc_id")
KNOWN: Mapping[str, tuple[str, ...]] = {
    **{name: ALIASES[name] for name in (*IDS, "page_id", "position")},
    "score": ("score",),
}
"""Names under which each column of a ranking is recognised."""


@dataclass(frozen=True, eq=False)
class RankingRows:
    """One row for each document of each list, in any order, not validated.

    Attributes:
        source: what to call the rows in messages.
        keys: Arrow table: query_id, doc_id, then what distinguishes the lists of a query (page_id,
            if there is one, and the context columns except position).
        by: what the documents of a list are ordered by.
        value: (rows,) float64, the position or score; NaN where it is not a number.
        written: (rows,) the same as it stands in the source, for messages.
        problems: what is known to be wrong with the rows.
        notes: what a user must know about how they were read.
    """

    source: str
    keys: pa.Table
    by: Literal["position", "score"]
    value: np.ndarray
    written: pa.Array
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()


def table_rows(
    source: Any, options: LogOptions, score: str | None = None, *, partial: bool = False
) -> RankingRows:
    """Rows of a table: a Parquet, CSV or JSON-lines file, DataFrame, Arrow or Ibis table.

    Args:
        source: the table.
        options: how the model's log was read.
        score: the column that documents are ordered by; found by its name if None.
        partial: whether the table may lack contexts.
    """
    with unchanged(source):
        plain = _plain_rows(source, options, score, partial=partial)
        return plain or _rows(source, options, score, partial=partial)


def _plain_rows(
    source: Any, options: LogOptions, score: str | None, *, partial: bool
) -> RankingRows | None:
    """The rows, without an engine, of a file that needs none; None for any other source."""
    plain = plain_parquet(source)
    if plain is None:
        return None
    context = _known(options.context, plain.schema.names) if partial else options.context
    found, by = _find(plain.schema.names, context, plain.name, score)
    chosen = [name for name in found if name != by]
    if not (plain.has_keys([found[name] for name in chosen]) and plain.has_numbers(found[by])):
        return None
    rows = plain.read([*dict.fromkeys(found.values())])
    if rows is None:
        return None
    columns = _log_columns(found, by)
    names = [*columns.found, *columns.given]
    keys = pa.table({name: rows[found[name]] for name in names})
    keys, unsettled = settle(keys, columns, options, text=False)
    written = as_array(rows[found[by]])
    return RankingRows(
        source=plain.name,
        keys=keys,
        by=by,
        value=written.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False),
        written=written,
        problems=unsettled,
    )


def _log_columns(found: Mapping[str, str], by: str) -> LogColumns:
    """The columns of a ranking as those of a log: ids, and what distinguishes lists."""
    lists = {name: own for name, own in found.items() if name not in (*IDS, by)}
    return LogColumns({name: found[name] for name in IDS}, lists, counted=False)


def _rows(source: Any, options: LogOptions, score: str | None, *, partial: bool) -> RankingRows:
    opened = open_source(source)
    table = opened.table
    context = _known(options.context, table.columns) if partial else options.context
    found, by = _find(table.columns, context, opened.name, score)
    columns = _log_columns(found, by)
    problems = [
        *type_problems(opened, table, columns, options),
        *_order_problems(opened, by, found[by]),
    ]
    if problems:
        raise InputError.of(opened.name, problems)
    chosen = {name: table[own] for name, own in {**columns.found, **columns.given}.items()}
    # these names are not those of any column of a ranking
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
    """The keys in the types that the log's have; if that fails, unchanged, with the problems."""
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
                code="missing-column",
            )


def _known(context: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """The contexts that a table has."""
    return tuple(name for name in context if name == "position" or name in names)


def _find(
    names: Sequence[str], context: Sequence[str], source: str, score: str | None
) -> tuple[dict[str, str], Literal["position", "score"]]:
    """The source's name of each canonical column, and whether positions or scores decide."""
    problems = list(context_problems(context, names))
    # a column named as a context is that context, even if its name is also an alias
    free = [name for name in names if name == "position" or name not in context]
    matches = {c: [n for n in free if n.lower() in known] for c, known in KNOWN.items()}
    if score is not None:
        if score not in names:
            missing = f"no column '{score}' to order by{did_you_mean(score, names)}"
            remedy = f"The columns are {', '.join(names)}."
            problems.append(Problem(missing, remedy=remedy, code="unknown-column"))
        matches |= {"position": [], "score": [score]}
    has = f"The columns are {', '.join(names)}; use reset_index() if it is a DataFrame's index."
    by: Literal["position", "score"] = "position" if matches["position"] else "score"
    for canonical in (*IDS, "page_id", by):
        if len(matches[canonical]) > 1:
            could = f"{' and '.join(matches[canonical])} could each be {canonical}"
            remedy = "Remove or rename all but one."
            problems.append(Problem(could, remedy=remedy, code="ambiguous-column"))
        elif not matches[canonical] and canonical != "page_id":
            wanted = ("position", "score") if canonical == by else (canonical,)
            known = [name for c in wanted for name in KNOWN[c]]
            near = next((hint for k in known if (hint := did_you_mean(k, names))), "")
            what = f"no column for {' or '.join(wanted)} (known names: {', '.join(known)}){near}"
            problems.append(Problem(what, remedy=has, code="missing-column"))
    if problems:
        raise InputError.of(source, problems)
    found = {name: matches[name][0] for name in (*IDS, "page_id", by) if matches[name]}
    return {**found, **{name: name for name in context if name != "position"}}, by


def _order_problems(opened: Source, by: str, own: str) -> Iterator[Problem]:
    """A column of positions or scores that only some files have, or that is not numeric."""
    kind = opened.table[own].type()
    if lacking := opened.partial.get(own):
        remedy = "Add it to the files that lack it, or read those separately."
        what = f"column {own} is missing from"
        yield Problem(what, lacking, "file", (), remedy, code="partial-column")
    elif not (kind.is_numeric() or kind.is_boolean() or kind.is_string() or kind.is_json()):
        what = f"{own} is of type {kind}, not a number"
        yield Problem(what, remedy=f"Give each row a {by}.", code="invalid-type")


LARGEST = 2**53
"""Integers below this are exact in float64."""


def missing_keys(rows: RankingRows) -> Iterator[Problem]:
    """Rows without an id, or without a value of what distinguishes lists."""
    for name in rows.keys.column_names:
        if count := rows.keys[name].null_count:
            first = [f"row {int(np.argmin(rows.keys[name].is_valid().to_numpy())) + 1}"]
            what, remedy = f"{name} is missing", "Fill or drop it."
            yield Problem(what, count, "row", first, remedy, code="missing-value")


def bad_values(rows: RankingRows) -> Iterator[Problem]:
    """Positions that are not 1, 2, ..., and scores that cannot be sorted by."""
    if rows.by == "score":
        what, remedy = "score must be a finite number", "Fill or drop it."
        yield from _bad_rows(rows, ~np.isfinite(rows.value), what, remedy, "score-not-finite")
        return
    whole = is_whole(rows.value)
    what, remedy = "position must be a whole number", "Number positions 1, 2, 3 ... in each list."
    yield from _bad_rows(rows, ~whole, what, remedy, "position-not-whole")
    low = whole & (rows.value < 1)
    what = "position must be 1 or more"
    remedy = "Positions start at 1: if they count from 0, add 1 to each."
    yield from _bad_rows(rows, low, what, remedy, "position-below-one")


def is_whole(values: np.ndarray) -> np.ndarray:
    """(values,) whether each is a whole number; NaN and infinity are not."""
    whole = np.abs(values) < LARGEST
    whole[whole] = values[whole] % 1 == 0
    return whole


def _bad_rows(
    rows: RankingRows, bad: np.ndarray, what: str, remedy: str, code: str
) -> Iterator[Problem]:
    if count := int(bad.sum()):
        at = int(np.argmax(bad))
        key = rows.keys.slice(at, 1).to_pylist()[0]
        example = f"{_named(key)}: {rows.by} {rows.written[at]}"
        yield Problem(what, count, "row", [example], remedy, code=code)


def _named(key: dict[str, object]) -> str:
    """A list, or a row of it, by its ids: (query 12, doc 7)."""
    named = (f"{name.removesuffix('_id')} {value}" for name, value in key.items())
    return f"({', '.join(named)})"


@dataclass(frozen=True, eq=False)
class ListFlaws:
    """What is wrong with lists, computed only when something is known to be wrong.

    Attributes:
        frame: the rows that have all ids: number of the list, of the document, and the value.
        lists: ids of each list, by its number.
        docs: ids of the documents, by their number.
        gaps: whether no row was left out, so that gaps in a list are in the source.
    """

    frame: pd.DataFrame
    lists: pa.Table
    docs: pa.Table
    gaps: bool

    def repeated_documents(self, twice: np.ndarray) -> list[Problem]:
        """Documents that occur in one list more than once."""
        again = self.frame[twice].drop_duplicates(["page", "doc"]).sort_values(["page", "doc"])
        if again.empty:
            return []
        page, doc = again[["page", "doc"]].to_numpy()[0]
        place = _named({**self._list(page), "doc_id": self._doc(doc)})
        what = "a document twice in one list"
        remedy = "Keep one of each; if a query has several lists, distinguish them by page_id."
        count = len(again)
        return [Problem(what, count, "document", [place], remedy, code="repeated-document")]

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
            "Give each document its own position, or a score instead of positions; if a query has "
            "several lists, distinguish them by page_id."
        )
        what, example = "two documents at one position of a list", f"docs {both[0]} and {both[1]}"
        return [
            Problem(
                what, count, "position", [f"{place}: {example}"], remedy, code="shared-position"
            )
        ]

    def gaps_in_lists(self) -> list[Problem]:
        """Lists whose positions skip numbers."""
        page, position = self.frame["page"], self.frame["value"]
        # an invalid position is reported by itself, and leaves a gap
        whole = ~page.isin(page[~is_whole(position.to_numpy()) | (position < 1)])
        places = self.frame[whole].drop_duplicates(["page", "value"]).groupby("page")["value"]
        lacking = places.max() > places.size()
        if not self.gaps or not lacking.any():
            return []
        first_list = int(lacking.index[lacking.to_numpy()][0])
        there = np.sort(places.get_group(first_list).to_numpy())
        first = int(np.argmax(there != np.arange(1, len(there) + 1))) + 1
        remedy = (
            "Number positions 1, 2, 3 ... in each list, or give a score column in place of "
            "positions."
        )
        example = f"{_named(self._list(first_list))}: no position {first}"
        what, count = "positions of a list must have no gaps", int(lacking.sum())
        return [Problem(what, count, "list", [example], remedy, code="position-gap")]

    def _list(self, page: int) -> dict[str, object]:
        return self.lists.slice(int(page), 1).to_pylist()[0]

    def _doc(self, doc: int) -> object:
        return self.docs["doc_id"][int(doc)].as_py()


@dataclass(frozen=True, eq=False)
class Order:
    """Rows in the order of lists and positions.

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
    """Put the rows in order; everything that is wrong with them is reported together.

    Lists are ordered by query, then by what distinguishes the lists of a query, so that the order
    of the source's rows does not matter.
    """
    if not len(rows.value):
        empty = Problem("the ranking is empty", code="empty-ranking")
        raise InputError.of(rows.source, [*rows.problems, empty])
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
        flaws = ListFlaws(frame, lists, docs, gaps=bool(complete.all()) and not rows.problems)
        problems += flaws.repeated_documents(twice)
        if rows.by == "position":
            problems += [*flaws.shared_positions(), *flaws.gaps_in_lists()]
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
