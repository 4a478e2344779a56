"""Rows of a ranking under their canonical names, from whatever holds a table of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from epiclick.data.arrays import as_array
from epiclick.data.counting import number
from epiclick.data.engine import Source, engine_errors, stoppable
from epiclick.data.ids import settle_types, type_problems
from epiclick.data.log import ALIASES, LogColumns, LogOptions
from epiclick.data.sources import open_source
from epiclick.data.unchanged import unchanged
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
