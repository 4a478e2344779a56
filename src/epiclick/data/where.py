"""The rows of a log that meet an SQL condition."""

from typing import Any

import ibis.expr.types as ir
from sqlglot import exp

from epiclick.data.engine import (
    CANONICAL_DECIMAL,
    CANONICAL_INTEGER,
    Source,
    engine_errors,
    quote_name,
)
from epiclick.data.where_syntax import parse_condition
from epiclick.errors import InputError, did_you_mean


def select_where(source: Source, condition: str, rows: ir.Table | None = None) -> ir.Table:
    """The rows that meet an SQL condition; text that holds numbers is compared as numbers.

    A condition may come with a model, so it must be one on the log's columns alone.

    Args:
        source: the log.
        condition: on its columns.
        rows: the log with further columns, which no condition may name; the log by default.
    """
    rows = source.table if rows is None else rows
    tree = parse_condition(condition, source.table.get_backend())
    names = source.table.columns
    used = {column.name.lower() for column in tree.find_all(exp.Column)}
    if unknown := sorted(used - {name.lower() for name in names}):
        hints = ", ".join(f"{name}{did_you_mean(name, names)}" for name in unknown)
        raise InputError(f"where names columns that {source.name} does not have: {hints}")
    query = f"SELECT * FROM log WHERE ({condition}\n)"
    try:
        with engine_errors(source.name):
            if source.text:
                query = _typed_query(rows, tree, condition)
            return rows.alias("log").sql(query)
    except InputError as error:
        raise InputError(f'where "{condition}": {error}') from error


def _typed_query(table: ir.Table, tree: Any, condition: str) -> str:
    """A query over text columns that compares those with numbers in them as numbers.

    Values stay text in the result. A column that the condition compares with text stays text there
    as well.
    """
    beside_text = {
        column.name.lower()
        for column in tree.find_all(exp.Column)
        if column.parent and any(x.is_string for x in column.parent.find_all(exp.Literal))
    }
    used = {column.name.lower() for column in tree.find_all(exp.Column)}
    compared = []
    for name in table.columns:
        if name.lower() in used:
            kind = "VARCHAR" if name.lower() in beside_text else _number_type(table[name])
            column = quote_name(name)
            compared.append(f"CAST(epiclick_row.{column} AS {kind}) AS {column}")
    rows = f"SELECT {', '.join(['epiclick_row', *compared])} FROM log AS epiclick_row"
    return f"SELECT epiclick_row.* FROM ({rows}) WHERE ({condition}\n)"


def _number_type(column: ir.Value) -> str:
    """The SQL type of a text column's values: numbers if all are, written as numbers are."""
    for kind, pattern in (("BIGINT", CANONICAL_INTEGER), ("DOUBLE", CANONICAL_DECIMAL)):
        if column.re_search(pattern).all().to_pyarrow().as_py():
            return kind
    return "VARCHAR"
