"""Rows left out on request, as robots made them: the busiest users, pages with too many clicks."""

import ibis
import ibis.expr.types as ir

from epiclick.data.counting import number
from epiclick.data.log import LogOptions


def without_robots(log: ir.Table, options: LogOptions) -> ir.Table:
    """The canonical log without what `drop_busiest` and `max_clicks_per_page` leave out."""
    if options.drop_busiest:
        log = _without_busiest(log, options.drop_busiest)
    if options.max_clicks_per_page is not None:
        log = _without_clicked_pages(log, options.max_clicks_per_page)
    return log


def left_out(whole: ir.Table, options: LogOptions) -> list[str]:
    """How much the options take away from a canonical log, in words."""
    found = []
    if options.drop_busiest:
        kept = _without_busiest(whole, options.drop_busiest)
        rows, users = (_fewer(whole, kept, column) for column in (None, "user_id"))
        found.append(f"{users:,} of the busiest users left out, with {rows:,} rows")
        whole = kept
    if options.max_clicks_per_page is not None:
        kept = _without_clicked_pages(whole, options.max_clicks_per_page)
        rows, pages = (_fewer(whole, kept, column) for column in (None, "page_id"))
        more = f"with more than {options.max_clicks_per_page} clicks"
        found.append(f"{pages:,} pages {more} left out, with {rows:,} rows")
    return found


def _without_busiest(log: ir.Table, share: float) -> ir.Table:
    """Rows without a user stay: nobody knows whose they are."""
    rows = log.filter(log.user_id.notnull())
    users = rows.group_by("user_id").aggregate(displays=rows.count())
    rank = ibis.row_number().over(order_by=[ibis.desc("displays"), "user_id"])
    users = users.mutate(rank=rank, users=users.count())
    # a share such as 3/1000 must not become 4 of 1,000 by rounding
    return log.anti_join(users.filter(users.rank < (users.users * share - 1e-9).ceil()), "user_id")


def _without_clicked_pages(log: ir.Table, most: int) -> ir.Table:
    page = log.group_by("page_id").aggregate(clicks=number(log.click).sum())
    return log.anti_join(page.filter(page.clicks > most), "page_id")


def _fewer(whole: ir.Table, kept: ir.Table, column: str | None) -> int:
    """How many rows, or values of a column, are gone."""
    before, after = (
        (log.count() if column is None else log[column].nunique()).to_pyarrow().as_py()
        for log in (whole, kept)
    )
    return before - after
