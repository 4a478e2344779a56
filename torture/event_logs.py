"""Formats of events: how pages are written in them, and how they are read by plain Python.

`rows` gives displays under canonical names. An action without a display is a row whose click is
neither 0 nor 1, so that counting refuses or drops it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any

from torture.event_values import Unsure, at, listed, seen, text, time, whole
from torture.page_views import PageView

Event = dict[str, Any]
Row = dict[str, Any]
FLAW = {"page_id": "?", "query_id": "?", "doc_id": "?", "position": 1, "click": "flaw"}


@dataclass(frozen=True)
class EventFormat:
    """A format of events.

    Attributes:
        name: its name on the command line.
        write: pages as events, and events that nothing needs.
        rows: displays of events; the second argument is the number of the first position, the
            third the seconds in which clicks count.
        contexts: columns, besides the position, that may be contexts.
    """

    name: str
    write: Callable[[Random, list[PageView]], list[Event]]
    rows: Callable[[list[Event], int, float | None], list[Row]]
    contexts: tuple[str, ...]


def iso(seconds: float) -> str:
    """A time as text."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.000"


def from_zero(rows: list[Row], group: str, first: int) -> None:
    """Add 1 to positions of groups that count from 0; `first` is 0 if all do."""
    lowest: dict[Any, int] = {}
    for row in rows:
        if row["position"] is not None:
            lowest[row[group]] = min(lowest.get(row[group], 1), row["position"])
    for row in rows:
        if first and row["position"] is not None and lowest[row[group]] == 0:
            row["position"] += 1


def with_clicks(displays: list[Row], clicks: Iterable[Row], window: float | None) -> list[Row]:
    """Displays with their clicks, and a flaw for each click on nothing that was displayed."""
    times = defaultdict(list)
    for click in clicks:
        times[click["page_id"], click["doc_id"]].append(click)
    rows: list[Row] = []
    shown = set()
    for display in displays:
        key = (display["page_id"], display["doc_id"])
        own = times.get(key, []) if None not in key else []
        shown.add(key if None not in key else None)
        known = [each["at"] for each in own if each["at"] is not None]
        late = bool(
            window is not None
            and known
            and display["at"] is not None
            and min(known) > display["at"] + window
        )
        rows.append({**display, "click": int(bool(own) and not late)})
    lost = sum(len(own) for key, own in times.items() if key not in shown)
    return rows + [FLAW] * lost


def latest(actions: list[Row], displays: list[Row], keys: tuple[str, ...]) -> list[Row]:
    """Actions on the page of the latest display before them with the same keys."""
    distinct: dict[tuple[Any, ...], Row] = {}
    for action in actions:
        own = tuple(action[key] or "" for key in keys)
        before = [
            (each["at"], each["page_id"])
            for each in displays
            if tuple(each[key] or "" for key in keys) == own
            and None not in (each["at"], action["at"], each["page_id"])
            and each["at"] <= action["at"]
        ]
        last = max((at for at, _ in before), default=None)
        pages = {page for at, page in before if at == last}
        if len(pages) > 1:
            raise Unsure("two displays at the same time")
        page = pages.pop() if pages else None
        distinct[action["at"], *(action[key] for key in keys)] = {**action, "page_id": page}
    return list(distinct.values())


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


FORMATS = (
    EventFormat("ga4", write_ga4, ga4_rows, ("device",)),
    EventFormat("snowplow", write_snowplow, snowplow_rows, ("application", "platform")),
    EventFormat("metarank", write_metarank, metarank_rows, ()),
)
