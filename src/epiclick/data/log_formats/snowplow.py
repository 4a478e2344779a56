"""Snowplow ecommerce: the actions `list_view` and `list_click`, and the products of each.

A click belongs to the latest view of the same list and item in its session.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from epiclick.data.engine import engine_errors, stored
from epiclick.data.log_formats.attributed import (
    Events,
    of_latest_display,
    one_based,
    unattributed,
    unattributed_remark,
    zero_remark,
)
from epiclick.data.log_formats.log_format import Columns
from epiclick.data.log_formats.nested import (
    column_of,
    elements_of,
    seen_text,
    text_at,
    time_of,
    whole_number,
)
from epiclick.errors import InputError

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from epiclick.data.engine import Source
    from epiclick.data.schema import LogOptions

ECOMMERCE = "com_snowplowanalytics_snowplow_ecommerce"
ACTION = f"unstruct_event_{ECOMMERCE}_snowplow_ecommerce_action_1"
PRODUCT = f"contexts_{ECOMMERCE}_product_1"
"""Beginnings of the columns; loaders append the minor version, and some write capitals."""

KINDS = {"list_click": "click", "add_to_cart": "add_to_cart", "transaction": "purchase"}
CONVERSIONS = ("add_to_cart", "purchase")
DISPLAY = (
    *("page_id", "query_id", "doc_id", "position", "user_id", "timestamp"),
    *("application", "platform", "session_id"),
)


@dataclass(frozen=True)
class Snowplow:
    """A page is one `list_view`; the query is the name of the list, such as the search."""

    name: str = "snowplow"
    times_clicks: bool = True

    def recognises(self, columns: Columns) -> bool:
        """The columns of ecommerce actions and of their products."""
        return bool(_named(columns, ACTION) and _named(columns, PRODUCT))

    def rows(self, source: "Source", options: "LogOptions") -> "Source":
        """Displays with clicks, `add_to_cart` and `purchase`."""
        with engine_errors(source.name):
            items = _items(source)
            shown, lowest = one_based(
                items.filter(items.kind == "list_view"),
                "position",
                "application",
                options.position_base,
            )
            displays = stored(source, shown.select(*DISPLAY, "list"))
            acts = items.filter(items.kind.isin(list(KINDS)))
            acts = acts.mutate(action=acts.kind.cases(*KINDS.items()))
            names = ("action", "timestamp", "user_id", "session_id", "list", "doc_id")
            acts = acts.select(*names)
            clicks = acts.filter(acts.action == "click")
            bought = acts.filter(acts.action != "click").drop("list")
            by_list = of_latest_display(clicks, displays, ("session_id", "list", "doc_id"))
            by_item = of_latest_display(bought, displays, ("session_id", "doc_id"))
            actions = by_list.drop("list").union(by_item.select(*by_list.drop("list").columns))
            actions, without = unattributed(stored(source, actions))
            joined = Events(
                displays=displays.select(*DISPLAY),
                actions=actions,
                conversions=CONVERSIONS,
                asked=options.conversion,
                window=options.click_window,
            )
            rows = stored(source, joined.rows())

        def remarks() -> list[str]:
            found = [*source.remarks(), *joined.remarks(), *unattributed_remark(without)]
            return found + zero_remark(lowest, "application", "application")

        return replace(source, table=rows, mixed=(), partial={}, remarks=remarks)


def _named(columns: Columns, start: str) -> list[str]:
    return [name for name in columns if name.lower().startswith(start)]


def _items(source: "Source") -> "ir.Table":
    """One row per product of each ecommerce action, under our names."""
    import ibis

    table = source.table
    own = {name.lower(): name for name in table.columns}
    actions, products = (_named(own, start) for start in (ACTION, PRODUCT))
    if not (actions and products):
        raise InputError(
            f"{source.name} has no columns {ACTION}... and {PRODUCT}..., so it has no events of "
            "Snowplow ecommerce",
            code="not-in-format",
        )

    def text(name: str) -> "ir.StringValue":
        return seen_text(text_at(column_of(table, own.get(name, name))))

    def versions(name: str) -> "ir.StringValue":
        """A field of the action, whichever version of its schema has it."""
        return ibis.coalesce(*(text_at(table[own[each]], name) for each in actions))

    time = own.get("derived_tstamp", own.get("collector_tstamp", "derived_tstamp"))
    lists = [elements_of(table[own[each]]) for each in products]
    events = table.select(
        kind=versions("type"),
        list=ibis.coalesce(seen_text(versions("name")), "(none)"),
        page_id=text("event_id"),
        user_id=text("domain_userid"),
        session_id=text("domain_sessionid"),
        application=ibis.coalesce(text("app_id"), "(none)"),
        platform=text("platform"),
        timestamp=time_of(column_of(table, time)),
        product=lists[0] if len(lists) == 1 else ibis.coalesce(*lists),
    )
    events = events.filter(events.kind.isin(["list_view", *KINDS])).unnest("product")
    items = events.mutate(
        doc_id=seen_text(text_at(events["product"], "id")),
        position=whole_number(seen_text(text_at(events["product"], "position"))),
        query_id=ibis.ifelse(events["list"] == "(none)", ibis.null("string"), events["list"]),
    )
    return stored(source, items.drop("product"))
