"""Ids come out as they went in: integers or text, never one turned into the other unasked."""

from collections.abc import Sequence

import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.compute as pc

from epiclick.data.engine import Source
from epiclick.data.log import LogColumns, LogOptions
from epiclick.errors import InputError, Problem

CANONICAL_INTEGER = r"^(0|-?[1-9][0-9]{0,17})$"
"""An integer as it would be written back; 007 and +7 are text, since 7 is not what they say."""


def id_problems(
    source: Source, table: ir.Table, columns: LogColumns, options: LogOptions
) -> list[Problem]:
    """Columns that only some files have, and ids of two types or of a type that cannot be an id."""
    problems = []
    for name, own in {**columns.found, **columns.contexts}.items():
        if lacking := source.partial.get(own):
            remedy = "Add it to the files that lack it, or read those apart."
            problems.append(Problem(f"column {own} is missing from", lacking, "file", (), remedy))
        elif own in source.mixed and name in ("page_id", "query_id", "doc_id", *columns.contexts):
            if name != "position" and options.ids == "auto":
                problems.append(
                    Problem(
                        f"{own} holds numbers and text together, and 1 is not '1'",
                        remedy="Take all ids as text with --ids string (in Python: ids='string').",
                    )
                )
        elif name in ("query_id", "doc_id"):
            kind = table[own].type()
            if not (kind.is_string() or kind.is_integer() or kind.is_uuid()):
                remedy = "Write ids as integers or text; numbers with a point are no ids."
                problems.append(Problem(f"{own} is of type {kind}", remedy=remedy))
    return problems


def settle_types(
    counted: pa.Table, columns: LogColumns, options: LogOptions, *, text: bool
) -> pa.Table:
    """Give ids, contexts and parts of counted rows the type in which they are kept.

    Values read from text files are integers where all values of the column are.
    """
    problems = []
    for name in counted.column_names:
        if name in ("query_id", "doc_id"):
            column, problem = _settle_id(name, counted[name], options, text=text)
            problems += [problem] if problem else []
        elif name == "part" or (name in columns.contexts and name != "position"):
            column = as_integers(counted[name]) if text else counted[name]
            if pa.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
        else:
            continue
        counted = counted.set_column(counted.column_names.index(name), name, column)
    if problems:
        raise InputError.of("the ids", problems)
    return counted


def as_integers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text that is all integers as int64, any other column unchanged."""
    if _is_text(column.type) and _all(pc.match_substring_regex(column, CANONICAL_INTEGER)):
        return column.cast(pa.int64())
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
        return column, Problem(f"{name} must be an integer", len(others), "value", examples)
    if pa.types.is_uint64(column.type) and (pc.max(column).as_py() or 0) >= 2**63:
        return column, Problem(
            f"{name} is too large for a 64-bit integer", remedy="Use --ids string."
        )
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64()), None
    return (as_integers(column) if text else column), None


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _all(mask: pa.ChunkedArray) -> bool:
    """Whether a mask is true throughout; a column without values is not."""
    return len(mask) > 0 and bool(pc.all(mask, skip_nulls=True, min_count=1).as_py())
