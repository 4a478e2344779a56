"""Metarank: how pages are written in it, and how it is read by plain Python."""

from random import Random
from typing import Any

from torture.inputs.event_logs import Event, EventFormat, Row, with_clicks
from torture.inputs.event_values import at, listed, seen, text, time
from torture.inputs.page_views import PageView


def write_metarank(rng: Random, views: list[PageView]) -> list[Event]:
    """`ranking`, `interaction`, and an `item`."""
    field = rng.choice(("query", "search", "q"))
    # types become columns, whatever they are called
    other = rng.choice(("purchase", "Purchase", "impression", "rank", "it's", "epiclick_late"))
    events: list[Event] = []
    for view in views:
        common = {"user": view.user, "session": f"s{view.user}"}
        events.append(
            {
                "event": "ranking",
                "id": f"r{view.number}",
                "timestamp": str(1_000 * view.at),
                **common,
                "fields": [{"name": "source", "value": "x"}, {"name": field, "value": view.query}],
                "items": [{"id": item, "relevancy": 1.0} for item in view.items],
            }
        )
        for n, item in enumerate(view.clicked, 1):
            for kind in ("click", "purchase", other) if n == 1 else ("click",):
                events.append(
                    {
                        "event": "interaction",
                        "id": f"i{view.number}-{n}-{kind}",
                        "timestamp": str(1_000 * (view.at + n)),
                        **common,
                        "ranking": f"r{view.number}",
                        "item": item,
                        "type": kind,
                    }
                )
    return [*events, {"event": "item", "id": "m1", "timestamp": "1599391467000", "item": "d1"}]


def metarank_rows(events: list[Event], first: int, window: float | None) -> list[Row]:
    """Displays of Metarank events."""
    displays, clicks = [], []
    for event in events:
        kind = text(event.get("event"))
        moment = time(event.get("timestamp")) if kind in ("ranking", "interaction") else None
        if kind == "ranking":
            fields: dict[str | None, Any] = {}
            for each in listed(event.get("fields")):
                fields.setdefault(text(at(each, "name")), at(each, "value"))
            names = ("query", "search", "search_query", "search_term", "q")
            known = [fields[name] for name in names if fields.get(name) is not None]
            for place, item in enumerate(listed(event.get("items"))):
                displays.append(
                    {
                        "page_id": seen(event.get("id")),
                        "query_id": seen(known[0]) if known else None,
                        "doc_id": seen(at(item, "id")),
                        "position": place + first,
                        "at": moment,
                    }
                )
        elif kind == "interaction" and seen(event.get("type")) == "click":
            ids = {"page_id": seen(event.get("ranking")), "doc_id": seen(event.get("item"))}
            clicks.append({**ids, "at": moment})
    return with_clicks(displays, clicks, window)


METARANK = EventFormat("metarank", write_metarank, metarank_rows, ())
