"""Google Analytics 4: how pages are written in it, and how it is read by plain Python."""

from random import Random
from typing import Any

from torture.inputs.event_logs import Event, EventFormat, Row, from_zero, latest, with_clicks
from torture.inputs.event_values import Unsure, at, listed, seen, text, time, whole
from torture.inputs.page_views import PageView


def write_ga4(rng: Random, views: list[PageView]) -> list[Event]:
    """`view_item_list` and `select_item`; the last has the list's name as people send it."""
    first = rng.choice((0, 1))
    how = rng.choice(("searched", "of items", "of event"))
    as_text = rng.random() < 0.5

    def event(name: str, view: PageView, at: int, items: list[tuple[str, int]]) -> Event:
        params = [{"key": "ga_session_id", "value": {"int_value": 7, "string_value": None}}]
        if how == "searched":
            own = {"int_value": None, "string_value": view.query}
            params.append({"key": "search_term", "value": own})
        if how == "of event":
            own = {"int_value": None, "string_value": view.query}
            params.append({"key": "item_list_name", "value": own})
        listed = view.query if how == "of items" else "(not set)"
        return {
            "event_name": name,
            "event_timestamp": (view.at + at) * 1_000_000,
            "user_pseudo_id": view.user,
            "platform": "WEB",
            "device": {"category": view.device},
            "event_params": params,
            "items": [
                {
                    "item_id": item,
                    "item_list_name": listed,
                    "item_list_index": str(place) if as_text else place,
                }
                for item, place in items
            ],
        }

    events = []
    for view in views:
        places = {item: place for place, item in enumerate(view.items, first)}
        events.append(event("view_item_list", view, 0, list(places.items())))
        events += [
            event("select_item", view, n, [(item, places[item])])
            for n, item in enumerate(view.clicked, 1)
        ]
    return [*events, event("page_view", views[0], 5, [])]


def ga4_rows(events: list[Event], first: int, window: float | None) -> list[Row]:
    """Displays of a GA4 export."""
    items = []
    for event in events:
        name = text(event.get("event_name"))
        if name not in ("view_item_list", "select_item"):
            continue
        params: dict[str, Any] = {}
        for each in listed(event.get("event_params")):
            values = [at(each, "value", f"{kind}_value") for kind in ("string", "int", "float")]
            known = [text(value) for value in values if value is not None]
            params.setdefault(text(at(each, "key")), known[0] if known else None)
        of_event = seen(params.get("item_list_id") or params.get("item_list_name"))
        if params.get("item_list_id") == "":
            raise Unsure("an empty parameter")
        user, written = seen(event.get("user_pseudo_id")), text(event.get("event_timestamp"))
        for item in listed(event.get("items")):
            list_id, list_name = seen(at(item, "item_list_id")), seen(at(item, "item_list_name"))
            own = list_id or list_name or of_event or "(none)"
            if user is None or written is None:
                raise Unsure("an event of nobody, or at no time")
            items.append(
                {
                    "shows": name == "view_item_list",
                    "page_id": f"{user}-{written}-{own}",
                    "query_id": seen(params.get("search_term")) or list_name or list_id or of_event,
                    "doc_id": seen(at(item, "item_id")),
                    "position": whole(seen(at(item, "item_list_index"))),
                    "at": time(event.get("event_timestamp")),
                    "user": user,
                    "session": params.get("ga_session_id") or "",
                    "list": own,
                    "device": seen(at(event, "device", "category")),
                    "platform": seen(event.get("platform")) or "(none)",
                }
            )
    displays = [item for item in items if item["shows"]]
    from_zero(displays, "platform", first)
    keys = ("user", "session", "list", "doc_id")
    clicks = latest([item for item in items if not item["shows"]], displays, keys)
    return with_clicks(displays, clicks, window)


GA4 = EventFormat("ga4", write_ga4, ga4_rows, ("device",))
