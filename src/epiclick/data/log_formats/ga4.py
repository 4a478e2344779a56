"""Google Analytics 4, BigQuery export: `view_item_list`, `select_item` and what follows.

No id connects a click with the list it came from: a `select_item` belongs to the latest
`view_item_list` of the same user, session, list and item.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from epiclick.data.engine import engine_errors, stored
from epiclick.data.log_formats.attributed import (
    CLICK,
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

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from epiclick.data.engine import Source
    from epiclick.data.schema import LogOptions

VIEW, SELECT = "view_item_list", "select_item"
CONVERSIONS = ("add_to_cart", "purchase")
DISPLAY = (
    *("page_id", "query_id", "doc_id", "position", "user_id", "timestamp"),
    *("device", "platform", "list_id", "searched"),
)


@dataclass(frozen=True)
class Ga4:
    """A page is one `view_item_list`; the query is the search term, else the list's name."""

    name: str = "ga4"
    times_clicks: bool = True

    def recognises(self, columns: Columns) -> bool:
        """The columns of events of the export."""
        return {"event_name", "event_timestamp", "items", "user_pseudo_id"} <= {*columns}

    def rows(self, source: "Source", options: "LogOptions") -> "Source":
        """Displays with clicks, `add_to_cart` and `purchase`."""
        with engine_errors(source.name):
            items = _items(source)
            shown, lowest = one_based(
                items.filter(items.event == VIEW), "position", "platform", options.position_base
            )
            displays = stored(source, shown.select(*DISPLAY, "session", "list"))
            acts = items.filter(items.event.isin([SELECT, *CONVERSIONS]))
            acts = acts.mutate(action=(acts.event == SELECT).ifelse(CLICK, acts.event))
            clicks, bought = acts.filter(acts.action == CLICK), acts.filter(acts.action != CLICK)
            names = ("action", "timestamp", "user_id", "session", "list", "doc_id")
            by_list = of_latest_display(
                clicks.select(*names), displays, ("user_id", "session", "list", "doc_id")
            )
            by_item = of_latest_display(
                bought.select(*names).drop("list"), displays, ("user_id", "session", "doc_id")
            )
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
            return found + zero_remark(lowest, "platform", "platform")

        return replace(source, table=rows, mixed=(), partial={}, remarks=remarks)


def _items(source: "Source") -> "ir.Table":
    """One row per item of each event, under our names."""
    import ibis

    table = source.table
    used = table.filter(table.event_name.isin([VIEW, SELECT, *CONVERSIONS]))
    params = column_of(used, "event_params")
    events = used.select(
        event=used.event_name,
        timestamp=time_of(used.event_timestamp),
        written=text_at(used.event_timestamp),
        user_id=seen_text(text_at(used.user_pseudo_id)),
        session=ibis.coalesce(_parameter(params, "ga_session_id"), ""),
        searched=seen_text(_parameter(params, "search_term")),
        of_event=seen_text(
            ibis.coalesce(_parameter(params, "item_list_id"), _parameter(params, "item_list_name"))
        ),
        device=seen_text(text_at(column_of(used, "device"), "category")),
        platform=ibis.coalesce(seen_text(text_at(column_of(used, "platform"))), "(none)"),
        item=elements_of(used["items"]),
    ).unnest("item")
    list_id = seen_text(text_at(events["item"], "item_list_id"))
    list_name = seen_text(text_at(events["item"], "item_list_name"))
    known = ibis.coalesce(list_id, list_name, events.of_event, "(none)")
    items = events.mutate(
        list=known,
        list_id=ibis.coalesce(list_id, list_name, events.of_event),
        doc_id=seen_text(text_at(events["item"], "item_id")),
        # an integer in the web's events, text in the export, "(not set)" where it was not sent
        position=whole_number(seen_text(text_at(events["item"], "item_list_index"))),
        query_id=ibis.coalesce(events.searched, list_name, list_id, events.of_event),
    )
    page_id = items.user_id.concat("-", items.written, "-", items["list"])
    return stored(source, items.mutate(page_id=page_id).drop("item", "written", "of_event"))


def _parameter(params: "ir.Value | None", key: str) -> "ir.StringValue":
    """The value of an event's parameter, as text; NULL where it has none."""
    import ibis

    if params is None:
        return ibis.null("string")
    own = elements_of(params).filter(lambda each: text_at(each, "key") == key)[0]
    kinds = ("string_value", "int_value", "float_value", "double_value")
    return ibis.coalesce(*(text_at(own, "value", kind) for kind in kinds))
