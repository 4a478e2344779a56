"""Rows that a column of 0 and 1, or of true and false, marks: conditions that select them."""

from typing import Any

from epiclick.data.engine import engine_errors, quote_name, stoppable
from epiclick.data.log import LogOptions
from epiclick.data.sources import open_source
from epiclick.data.unchanged import unchanged
from epiclick.data.where import select_where
from epiclick.errors import InputError, Problem, did_you_mean

YES, NO = ("1", "true"), ("0", "false")


def marked_and_rest(source: Any, options: LogOptions, column: str) -> tuple[str, str]:
    """Conditions of the rows that the column marks, and of the others; both meet `options.where`.

    Refuses a column that is not there, holds anything else, or marks all rows or none.
    """
    with unchanged(source):
        return _conditions(source, options, column)


def _conditions(source: Any, options: LogOptions, column: str) -> tuple[str, str]:
    opened = open_source(source)
    table = opened.table
    if column not in table.columns:
        names = list(table.columns)
        raise InputError(
            f"{opened.name} has no column '{column}'{did_you_mean(column, names)}; it has "
            f"{', '.join(names)}"
        )
    if options.where is not None:
        table = select_where(opened, options.where)
    value = table[column].cast("string").lower().name("value")
    with stoppable(opened.table), engine_errors(opened.name):
        rows = table.select(value).group_by("value").size().to_pyarrow().to_pylist()
    found = {row["value"]: next(n for name, n in row.items() if name != "value") for row in rows}
    if wrong := {mark: n for mark, n in found.items() if mark not in (*YES, *NO)}:
        problem = Problem(
            f"{column} must be 0 or 1, or true or false",
            sum(wrong.values()),
            examples=["missing" if mark is None else f"'{mark}'" for mark in list(wrong)[:3]],
        )
        raise InputError.of(opened.name, [problem])
    for marks, what in ((YES, "no row"), (NO, "every row")):
        if not any(found.get(mark) for mark in marks):
            raise InputError(f"{column} marks {what} of {opened.name}; there is nothing to compare")
    text = f"lower(CAST({quote_name(column)} AS VARCHAR))"
    earlier = "" if options.where is None else f"({options.where}\n) AND "
    marked, rest = (
        f"{earlier}{text} IN ({', '.join(repr(mark) for mark in marks)})" for marks in (YES, NO)
    )
    return marked, rest
