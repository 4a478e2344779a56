"""Select the rows of a log that meet an SQL condition, and validate such conditions.

A condition may come with a model from an untrusted source, so it must not access anything but the
values of a row: no other file, no setting, no network. Conditions are checked against lists of what
is allowed, since what is not cannot be listed completely.
"""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import duckdb
import sqlglot
from sqlglot import exp

from epiclick.data.engine import (
    CANONICAL_DECIMAL,
    CANONICAL_INTEGER,
    Source,
    engine_errors,
    quote_name,
)
from epiclick.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import ibis.expr.types as ir

SHOWN = 300  # characters of a condition in a message
ALLOWED = "comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, CASE, CAST, arithmetic and plain functions"


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


SYNTAX = _names(
    "And Or Not Paren Boolean Null Case If Column Identifier Literal Tuple Interval "
    "EQ NEQ LT LTE GT GTE Is NullSafeEQ NullSafeNEQ In Between Like ILike SimilarTo Glob Escape "
    "Add Sub Mul Div IntDiv Mod Pow Neg DPipe BitwiseAnd BitwiseOr BitwiseXor BitwiseNot "
    "BitwiseLeftShift BitwiseRightShift Cast TryCast DataType DataTypeParam "
    "Lower Upper Trim Length Substring Left Right Replace Concat ConcatWs Contains StartsWith "
    "EndsWith StrPosition SplitPart Reverse Unicode MD5 Levenshtein RegexpLike RegexpILike "
    "RegexpFullMatch RegexpReplace RegexpExtract Coalesce Nullif Greatest Least IsNan IsInf Abs "
    "Round Floor Ceil Sign Sqrt Ln Log Exp Trunc CurrentDate CurrentTimestamp Extract "
    "TimestampTrunc DateTrunc DateDiff DateAdd DateSub LastDay AtTimeZone DateFromParts "
    "TimestampFromParts TimeToStr StrToTime TimeToUnix UnixToTime Date TsOrDsToDate Year Quarter "
    "Month Week Day Hour Minute Second DayOfWeek DayOfWeekIso DayOfMonth DayOfYear WeekOfYear "
    "YearOfWeekIso Dayname Monthname ToDays"
)
"""Kinds of nodes in sqlglot's trees, by name since not every version has all of them."""

FUNCTIONS = _names(
    "abs age bit_length ceil ceiling century concat concat_ws contains date date_add date_diff "
    "date_part date_sub date_trunc datediff datepart datesub datetrunc day dayname dayofmonth "
    "dayofweek dayofyear decade ends_with epoch epoch_ms epoch_us era exp floor greatest hash hour "
    "instr isfinite isinf isnan isodow isoyear last_day lcase least left len length levenshtein ln "
    "log log10 log2 lower ltrim make_date make_time make_timestamp md5 microsecond millisecond "
    "minute mod month monthname now nullif position pow power prefix quarter regexp_extract "
    "regexp_full_match regexp_matches regexp_replace replace reverse right round rtrim second sign "
    "split_part sqrt starts_with strftime strlen strpos strptime substr substring suffix timezone "
    "to_days to_hours to_microseconds to_milliseconds to_minutes to_months to_seconds "
    "to_timestamp to_weeks to_years today trim trunc try_strptime ucase unicode upper week weekday "
    "weekofyear xor year yearweek"
)
"""Functions of one row's values, by their names in DuckDB."""

TYPES = _names(
    "BOOLEAN TINYINT SMALLINT INT BIGINT INT128 UTINYINT USMALLINT UINT UBIGINT FLOAT DOUBLE "
    "DECIMAL CHAR VARCHAR TEXT NCHAR NVARCHAR DATE TIME TIMETZ TIMESTAMP TIMESTAMPTZ TIMESTAMPNTZ "
    "TIMESTAMPLTZ TIMESTAMP_S TIMESTAMP_MS TIMESTAMP_NS DATETIME INTERVAL UUID"
)
"""Types that a value may be cast to: built-in ones, which need no extension."""

WITH_UNITS = _names("Interval Extract TimestampTrunc DateTrunc DateDiff DateAdd DateSub")
"""Nodes in which a bare word is a unit of time."""

QUERIES = _names("Select Subquery Union Exists Summarize Describe Values With Table")

DUCKDB_CLASSES = _names(
    "CONSTANT COLUMN_REF COMPARISON CONJUNCTION OPERATOR CAST CASE BETWEEN FUNCTION"
)
DUCKDB_OPERATORS = _names(
    "OPERATOR_NOT OPERATOR_IS_NULL OPERATOR_IS_NOT_NULL OPERATOR_COALESCE COMPARE_IN COMPARE_NOT_IN"
)
DUCKDB_SIGNS = _names(
    "+ - * / // % ** ^ & | ~ << >> || @ ^@ ~~ !~~ ~~* !~~* ~~~ like_escape not_like_escape "
    "ilike_escape not_ilike_escape row"
)
"""Operators that DuckDB represents as functions."""


def parse_condition(condition: str, engine: Any) -> Any:
    """The syntax tree of a condition that is valid and uses only columns.

    `engine` is the Ibis backend that will run it.
    """
    try:
        statements = sqlglot.parse(
            f"SELECT 1 FROM log WHERE ({condition}\n)", dialect=engine.dialect
        )
        whole = statements[0] if len(statements) == 1 else None
        where = None if whole is None else whole.args.get("where")
        used = set() if whole is None else {name for name, part in whole.args.items() if part}
        # brackets that close ours and open others would turn it into more than a condition
        if where is None or len(used) > 3 or type(where.this) is not exp.Paren:
            raise sqlglot.errors.ParseError("more, or less, than a condition")
        refused = next(_refused(where.this), "")
        if not refused and engine.name == "duckdb":
            refused = next(_refused_by_duckdb(condition), "")
    except (sqlglot.errors.SqlglotError, duckdb.Error, RecursionError) as error:
        raise InputError(
            f"where is not an SQL condition: {condition[:SHOWN]}", code="invalid-condition"
        ) from error
    if refused:
        raise InputError(
            f"where must be a condition on the log's columns alone, without {refused}: "
            f"{condition[:SHOWN]}\nIt may use {ALLOWED}.",
            code="forbidden-condition",
        )
    return where.this


def _refused(tree: Any) -> Iterator[str]:
    """What is not allowed in a tree of sqlglot, for a message."""
    for node in tree.walk():
        syntax = type(node).__name__
        if syntax == "DataType":
            name = node.this.value if isinstance(node.this, exp.DataType.Type) else str(node.this)
            if name not in TYPES or node.args.get("nested"):
                yield f"the type {node.sql()}"
        elif syntax == "Column":
            if node.args.get("db") or node.args.get("catalog"):
                yield f"{node.sql()}, a column of another table"
        elif syntax == "Anonymous":
            if str(node.this).lower() not in FUNCTIONS:
                yield f"the function {str(node.this).lower()}"
        elif syntax == "Var":
            if type(node.parent).__name__ not in WITH_UNITS:
                yield f"the word {node.name}"
        elif syntax not in SYNTAX:
            yield _called(node)


def _called(node: Any) -> str:
    """A piece of syntax for a message."""
    if type(node).__name__ in QUERIES:
        return "a subquery"
    if isinstance(node, exp.Placeholder | exp.Parameter | exp.SessionParameter):
        return "a parameter"
    if isinstance(node, exp.AggFunc):
        return f"the aggregate {node.sql_name().lower()}"
    if isinstance(node, exp.Func):
        return f"the function {node.sql_name().lower()}"
    return f"the syntax {node.key}"


def _refused_by_duckdb(condition: str) -> Iterator[str]:
    """The same check with DuckDB's own parser, which may read a condition differently."""
    with duckdb.connect(config={"enable_external_access": False}) as parser:
        trees = [
            json.loads(parser.execute("SELECT json_serialize_sql(?)", [query]).fetchall()[0][0])
            for query in (f"SELECT 1 FROM log WHERE ({condition}\n)", "SELECT 1 FROM log WHERE (a)")
        ]
    if trees[0]["error"]:
        raise sqlglot.errors.ParseError(trees[0].get("error_message", ""))
    (found, *more), (plain,) = (tree["statements"] for tree in trees)
    tree = found["node"].pop("where_clause", None)
    del plain["node"]["where_clause"]
    if more or tree is None or found != plain:
        yield "a query"
    else:
        yield from _refused_in(tree)


def _refused_in(tree: Any) -> Iterator[str]:
    """What is not allowed in a tree of DuckDB, for a message."""
    for part in tree if isinstance(tree, list) else tree.values():
        if isinstance(part, dict | list):
            yield from _refused_in(part)
    if isinstance(tree, dict) and "class" in tree:
        syntax, name = tree["class"], tree.get("function_name", "")
        if syntax not in DUCKDB_CLASSES:
            yield f"the syntax {syntax.lower()}"
        elif syntax == "OPERATOR" and tree["type"] not in DUCKDB_OPERATORS:
            yield f"the operator {tree['type'].lower()}"
        elif syntax == "FUNCTION" and name not in FUNCTIONS | DUCKDB_SIGNS:
            yield f"the function {name}"


def select_where(source: Source, condition: str, rows: "ir.Table | None" = None) -> "ir.Table":
    """The rows that meet an SQL condition; numbers in text columns are compared as numbers.

    Args:
        source: the log.
        condition: a condition on its columns, which is validated.
        rows: the log with further columns, which the condition must not use; default the log.
    """
    rows = source.table if rows is None else rows
    tree = parse_condition(condition, source.table.get_backend())
    names = source.table.columns
    used = {column.name.lower() for column in tree.find_all(exp.Column)}
    if unknown := sorted(used - {name.lower() for name in names}):
        hints = ", ".join(f"{name}{did_you_mean(name, names)}" for name in unknown)
        raise InputError(
            f"where uses columns that {source.name} does not have: {hints}. It has "
            f"{', '.join(names)}.",
            code="unknown-column",
        )
    query = f"SELECT * FROM log WHERE ({condition}\n)"
    try:
        with engine_errors(source.name):
            if source.text:
                query = _typed_query(rows, tree, condition)
            log = rows.alias("log")
            if rows.get_backend().name == "duckdb":
                return log.sql(query)
            from ibis.expr.operations import SQLStringView

            # Ibis would ask the engine for the columns, which fails on Postgres; they are the same
            return SQLStringView(log.op(), query=query, schema=rows.schema()).to_expr()
    except InputError as error:
        raise error.with_message(f'where "{condition}": {error}') from error


def _typed_query(table: "ir.Table", tree: Any, condition: str) -> str:
    """A query over text columns that compares numeric ones as numbers.

    Values stay text in the result. A column that the condition compares with text is compared as
    text.
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


def _number_type(column: "ir.Value") -> str:
    """The SQL type for comparing a text column: a number if all its values are numbers."""
    for kind, pattern in (("BIGINT", CANONICAL_INTEGER), ("DOUBLE", CANONICAL_DECIMAL)):
        if column.re_search(pattern).all().to_pyarrow().as_py():
            return kind
    return "VARCHAR"
