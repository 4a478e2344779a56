"""OpenSearch UBI: how pages are written in it, and how it is read by plain Python."""

from random import Random
from typing import Any

from torture.inputs.event_logs import Event, EventFormat, Row, from_zero, with_clicks
from torture.inputs.event_values import Unsure, at, listed, seen, text, time, whole
from torture.inputs.page_views import PageView

CLICKS = ("click", "click_through", "item_click")


def write_ubi(rng: Random, views: list[PageView]) -> list[Event]:
    """Queries and events; one application sends impressions, another may send none."""
    first, hits, bulk = rng.choice((0, 1)), rng.random() < 0.5, rng.random() < 0.2
    nested, has_queries = rng.random() < 0.2, rng.random() < 0.8
    events: list[Event] = []
    for view in views:
        application = "hits" if hits and view.number % 3 == 0 else "shop"
        common = {
            "query_id": f"p{view.number}",
            "client_id": view.user,
            "application": application,
            "user_query": view.query,
        }
        if has_queries or application == "hits":
            own = {**common, "timestamp": 1_000 * view.at}
            events.append({**own, "query_response_hit_ids": list(view.items)})
        places = {item: place for place, item in enumerate(view.items, first)}
        shown = list(places) if application == "shop" else []
        done = [("impression", item, 0) for item in shown]
        done += [(rng.choice(CLICKS), item, n) for n, item in enumerate(view.clicked, 1)]
        for action, item, late in done:
            position = {"index": places[item]} if nested else places[item]
            events.append(
                {
                    **common,
                    "action_name": action,
                    "timestamp": 1_000 * (view.at + late),
                    "event_attributes": {
                        "object": {"object_id": item},
                        "position": {"ordinal": position},
                    },
                }
            )
    events.append(
        {"action_name": "scroll", "query_id": "p1", "timestamp": 1, "application": "shop"}
    )
    if not bulk:
        return events
    return [each for event in events for each in ({"index": {"_index": "ubi"}}, event)]


def ubi_rows(events: list[Event], first: int, window: float | None) -> list[Row]:
    """Displays of UBI."""
    documents = [_document(each) for each in events if not isinstance(each.get("index"), dict)]
    acts = [each for each in documents if each["action"] is not None]
    from_zero(acts, "application", first)
    impressions = [each for each in acts if each["action"] == "impression"]
    pages = _pages([each for each in documents if each["action"] is None and each["page_id"]])
    merged: dict[Any, Row] = {}
    for each in impressions:
        key = each["page_id"], each["doc_id"], each["position"]
        merged[key] = _merged(merged[key], each) if key in merged else each
    sending = {each["application"] for each in impressions}
    displays = []
    for each in merged.values():
        page = pages.get(each["page_id"])
        displays.append({**each, "query_id": (page and page["query_id"]) or each["query_id"]})
    for page in pages.values():
        if page["application"] not in sending:
            displays += [
                {**page, "doc_id": text(hit), "position": place}
                for place, hit in enumerate(page["hits"], first)
            ]
    return with_clicks(displays, [each for each in acts if each["action"] in CLICKS], window)


def _document(each: Event) -> Row:
    attributes = each.get("event_attributes")
    ordinal = at(attributes, "position", "ordinal")
    position = whole(at(ordinal, "index") if isinstance(ordinal, dict) else ordinal)
    return {
        "page_id": seen(each.get("query_id")),
        "query_id": seen(each.get("user_query")),
        "doc_id": seen(at(attributes, "object", "object_id")),
        "position": position,
        "action": seen(each.get("action_name")),
        "application": seen(each.get("application")) or "(none)",
        "at": time(each.get("timestamp")),
        "hits": listed(each.get("query_response_hit_ids")),
    }


def _merged(one: Row, other: Row) -> Row:
    """An impression that was sent twice: the least of each value."""
    merged = dict(one)
    for name in ("query_id", "application", "at"):
        known = [each[name] for each in (one, other) if each[name] is not None]
        merged[name] = min(known, default=None)
    return merged


def _pages(queries: list[Row]) -> dict[str, Row]:
    """The first text and the first hits of each page."""
    pages: dict[str, Row] = {}
    for page in dict.fromkeys(each["page_id"] for each in queries):
        own = [each for each in queries if each["page_id"] == page]
        if len({each["at"] for each in own}) < len(own) and any(each != own[0] for each in own):
            raise Unsure("two query documents at the same time")
        own.sort(key=lambda each: each["at"] or 0)
        texts = [each["query_id"] for each in own if each["query_id"]]
        hits = [each["hits"] for each in own if each["hits"]]
        known = [each["at"] for each in own if each["at"] is not None]
        pages[page] = {
            **own[0],
            "query_id": texts[0] if texts else None,
            "hits": hits[0] if hits else [],
            "at": min(known, default=None),
        }
    return pages


UBI = EventFormat("ubi", write_ubi, ubi_rows, ("application",))
