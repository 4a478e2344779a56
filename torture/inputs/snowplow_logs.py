"""Snowplow: how pages are written in it, and how it is read by plain Python."""

from random import Random

from torture.inputs.event_logs import Event, EventFormat, Row, from_zero, iso, latest, with_clicks
from torture.inputs.event_values import at, listed, seen, text, time, whole
from torture.inputs.page_views import PageView

ACTION = "unstruct_event_com_snowplowanalytics_snowplow_ecommerce_snowplow_ecommerce_action_1"
PRODUCT = "contexts_com_snowplowanalytics_snowplow_ecommerce_product_1"


def write_snowplow(rng: Random, views: list[PageView]) -> list[Event]:
    """`list_view` and `list_click`."""
    first, suffix = rng.choice((0, 1)), rng.choice(("", "_0_2"))

    def event(kind: str, view: PageView, at: int, items: list[tuple[str, int]]) -> Event:
        return {
            "app_id": "shop",
            "platform": "web",
            "event_id": f"e{view.number}-{at}",
            "derived_tstamp": iso(view.at + at),
            "domain_userid": view.user,
            "domain_sessionid": f"s{view.user}",
            f"{ACTION}{suffix}": {"type": kind, "name": view.query},
            f"{PRODUCT}{suffix}": [{"id": item, "position": place} for item, place in items],
        }

    events = []
    for view in views:
        places = {item: place for place, item in enumerate(view.items, first)}
        events.append(event("list_view", view, 0, list(places.items())))
        events += [
            event("list_click", view, n, [(item, places[item])])
            for n, item in enumerate(view.clicked, 1)
        ]
    return [*events, event("product_view", views[0], 5, [(views[0].items[0], 1)])]


def snowplow_rows(events: list[Event], first: int, window: float | None) -> list[Row]:
    """Displays of Snowplow events."""
    items = []
    for event in events:
        own = {
            name[: len(start)]: name
            for start in (ACTION, PRODUCT)
            for name in event
            if name.startswith(start)
        }
        action = event.get(own.get(ACTION, ""))
        kind = text(at(action, "type"))
        if kind not in ("list_view", "list_click"):
            continue
        name = seen(at(action, "name"))
        items += [
            {
                "shows": kind == "list_view",
                "page_id": seen(event.get("event_id")),
                "query_id": None if name == "(none)" else name,
                "doc_id": seen(at(product, "id")),
                "position": whole(seen(at(product, "position"))),
                "at": time(event.get("derived_tstamp")),
                "session": seen(event.get("domain_sessionid")),
                "list": name or "(none)",
                "application": seen(event.get("app_id")) or "(none)",
                "platform": seen(event.get("platform")),
            }
            for product in listed(event.get(own.get(PRODUCT, "")))
        ]
    displays = [item for item in items if item["shows"]]
    from_zero(displays, "application", first)
    clicks = [item for item in items if not item["shows"]]
    return with_clicks(displays, latest(clicks, displays, ("session", "list", "doc_id")), window)


SNOWPLOW = EventFormat("snowplow", write_snowplow, snowplow_rows, ("application", "platform"))
