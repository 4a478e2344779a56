"""Types of ids, contexts and parts: integers stay integers and text stays text by default."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from epiclick.data.arrays import changes
from epiclick.data.displays import SPACES
from epiclick.data.engine import CANONICAL_INTEGER, Source
from epiclick.data.schema import DISPLAY_COLUMNS, LogColumns, LogOptions
from epiclick.errors import InputError, Problem

if TYPE_CHECKING:
    import ibis.expr.types as ir

TIMESTAMP = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}"


def type_problems(
    source: Source, table: "ir.Table", columns: LogColumns, options: LogOptions
) -> list[Problem]:
    """Columns that only some files have, and columns of an unsuitable type."""
    problems = []
    for name, own in {**columns.found, **columns.given}.items():
        kind = table[own].type()
        is_key = name in ("page_id", "query_id", "doc_id", *columns.given) and name != "position"
        if lacking := source.partial.get(own):
            problems.append(missing_in_files(f"column {own}", lacking))
        elif own in source.mixed and is_key and options.ids == "auto":
            problems.append(
                Problem(
                    f"{own} mixes numbers and text, and 1 is not '1'",
                    remedy="Read all ids as text with --ids string (in Python: ids='string').",
                    code="mixed-types",
                )
            )
        elif name in ("query_id", "doc_id"):
            if not (kind.is_string() or kind.is_integer() or kind.is_uuid()):
                remedy = "Write ids as integers or text, not as decimal numbers."
                problems.append(_wrong_type(own, f"{kind}", remedy))
        elif name in ("position", "click", "displays", "clicks", *DISPLAY_COLUMNS):
            if not (kind.is_numeric() or kind.is_boolean() or kind.is_string() or kind.is_json()):
                option = f"--{name.replace('_', '-')} NAME"
                naming = option if name in DISPLAY_COLUMNS else f"--column {name}=NAME"
                remedy = f"Name the right column with {naming}."
                problems.append(_wrong_type(own, f"{kind}, not a number", remedy))
        elif kind.is_nested() or kind.is_interval():
            problems.append(_wrong_type(own, f"{kind}", "Give a column of plain values."))
    return problems


def missing_in_files(column: str, files: int) -> Problem:
    """The problem that a column is missing from some of several files."""
    return Problem(
        f"{column} is missing from",
        files,
        "file",
        remedy="Add it to the files that lack it, or read those separately.",
        code="partial-column",
    )


def _wrong_type(column: str, kind: str, remedy: str) -> Problem:
    return Problem(f"{column} is of type {kind}", remedy=remedy, code="wrong-column-type")


def settle_types(
    counted: pa.Table, columns: LogColumns, options: LogOptions, *, text: bool
) -> pa.Table:
    """Convert ids, contexts and parts of counted rows to their final types.

    A column of a text file becomes integers if all its values are.
    """
    problems = []
    for name in counted.column_names:
        if name in ("query_id", "doc_id"):
            column, problem = _settle_id(name, counted[name], options, text=text)
            problems += [problem] if problem else []
        elif name == "part" or (name in columns.contexts and name != "position"):
            column = counted[name]
            if pa.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            if text:
                column = as_integers(column)
            if name == "part":
                column = _as_days(column)
        else:
            continue
        counted = counted.set_column(counted.column_names.index(name), name, column)
    if problems:
        raise InputError.of("the ids", problems)
    return counted


def as_integers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A text column of integers as int64, any other column unchanged."""
    if _is_text(column.type) and _all(pc.match_substring_regex(column, CANONICAL_INTEGER)):
        return column.cast(pa.int64())
    return column


def _as_days(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A text column of timestamps truncated to days, any other column unchanged."""
    if _is_text(column.type) and _all(pc.match_substring_regex(column, TIMESTAMP)):
        return pc.utf8_slice_codeunits(column, 0, len("2026-01-01"))
    return column


def _settle_id(
    name: str, column: pa.ChunkedArray, options: LogOptions, *, text: bool
) -> tuple[pa.ChunkedArray, Problem | None]:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if options.ids == "string":
        return column.cast(pa.large_string()), None
    if options.ids == "integer" and _is_text(column.type):
        whole = pc.match_substring_regex(column, CANONICAL_INTEGER)
        if _all(whole):
            return column.cast(pa.int64()), None
        others = column.filter(pc.invert(whole)).unique()
        examples: Sequence[str] = [f"'{value}'" for value in others[:3].to_pylist()]
        return column, Problem(
            f"{name} must be an integer",
            len(others),
            "value",
            examples,
            "Use --ids string (in Python: ids='string').",
            code="id-not-integer",
        )
    if pa.types.is_uint64(column.type) and (pc.max(column).as_py() or 0) >= 2**63:
        return column, Problem(
            f"{name} is too large for a 64-bit integer",
            remedy="Use --ids string (in Python: ids='string').",
            code="id-too-large",
        )
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64()), None
    return (as_integers(column) if text else column), None


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _all(mask: pa.ChunkedArray) -> bool:
    """Whether all values of a mask are true; false if there are none."""
    return len(mask) > 0 and bool(pc.all(mask, skip_nulls=True, min_count=1).as_py())


FEW_SIMILAR = 0.001
"""Largest share of queries that may differ only in case or spaces without a warning."""


def folded(queries: pa.Array) -> pa.Array:
    """Text in lower case, with single spaces between words and none at the ends.

    >>> folded(pa.array([" Red  shoes", "red Shoes"])).to_pylist()
    ['red shoes', 'red shoes']
    """
    spaced = pc.utf8_trim_whitespace(pc.replace_substring_regex(queries, SPACES, " "))
    return pc.utf8_lower(spaced)


def similar_queries(query_id: pa.Array) -> list[str]:
    """A warning if more than a few queries differ only in case or spaces; `query_id` is sorted.

    >>> similar_queries(pa.array(["A ", "a", "b"]))[0].split(";")[0]
    "2 of 3 queries differ only in case or spaces, such as 'A ' and 'a'"
    """
    if not _is_text(query_id.type):
        return []
    queries = query_id.filter(pa.array(changes(query_id)))
    normalised = folded(queries).dictionary_encode()
    if len(normalised.dictionary) == len(queries):
        return []
    times = pc.value_counts(normalised.indices)
    shared = times.filter(pc.greater(times.field("counts"), 1))
    number = pc.sum(shared.field("counts")).as_py()
    if number <= FEW_SIMILAR * len(queries):
        return []
    one, other = queries.filter(pc.equal(normalised.indices, shared.field("values")[0]))[
        :2
    ].to_pylist()
    return [
        f"{number:,} of {len(queries):,} queries differ only in case or spaces, such as {one!r} "
        f"and {other!r}; each is counted as a separate query. If they are one query, use "
        "--normalise-queries (in Python: normalise_queries=True)"
    ]
