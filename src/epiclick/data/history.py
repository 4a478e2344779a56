"""History of a page as columns of its rows: what was clicked above each display."""

import ibis
import ibis.expr.types as ir

from epiclick.click_models.registry import click_model
from epiclick.data.counting import number
from epiclick.data.log import LogColumns, LogOptions


def with_history(table: ir.Table, columns: LogColumns, options: LogOptions) -> ir.Table:
    """The rows of a log with the history columns of the click model; as they are where it has none.

    History is what happened, whichever rows are counted later: it is to be computed over all rows,
    before any is left out. A click whose position is invalid happened nowhere.

    Args:
        table: a log as it was written.
        columns: where its columns are.
        options: how it is read.
    """
    if not columns.history:
        return table
    place, first = number(table[columns.found["position"]]), options.position_base
    whole = place.try_cast("int64")
    is_place = (whole == place) & (whole >= first)
    # names of the log's own columns may be those that the click model asks for
    own = {f"own_{i}": table[name] for i, name in enumerate(table.columns)}
    rows = table.select(
        **own,
        page_id=table[columns.found["page_id"]],
        position=ibis.ifelse(is_place, whole + (1 - first), ibis.null("int64")),
        clicked=(number(table[columns.found["click"]]) == 1).fill_null(False),
    )
    history = click_model(options.click_model).history_columns(rows)
    restored = {name: rows[kept] for name, kept in zip(table.columns, own, strict=True)}
    return rows.select(**restored, **{name: history[name] for name in columns.history})
