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

from torture.inputs.event_values import Unsure
from torture.inputs.page_views import PageView

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
