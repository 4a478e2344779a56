"""Impressions and clicks in two tables, and the Open Bandit Dataset, read by plain Python."""

from collections import defaultdict
from random import Random
from typing import Any

from torture.inputs.event_logs import FLAW, Row, iso
from torture.inputs.event_values import Unsure, text, time
from torture.inputs.oracle import NAMES, Bad
from torture.inputs.page_views import PageView


def write_impressions(rng: Random, views: list[PageView]) -> tuple[list[Row], list[Row]]:
    """Impressions, and clicks."""
    shown: list[Row] = []
    clicked: list[Row] = []
    for view in views:
        for place, item in enumerate(view.items, 1):
            shown.append(
                {
                    "page_id": view.number,
                    "query_id": view.query,
                    "doc_id": int(item[1:]),
                    "position": place,
                    "device": view.device,
                    "time": iso(view.at),
                }
            )
        clicked += [
            {"page_id": view.number, "doc_id": int(item[1:]), "time": iso(view.at + late)}
            for late, item in enumerate(view.clicked, 1)
        ]
    return shown, clicked


def _column(rows: list[Row], canonical: str) -> str:
    names = {name for row in rows for name in row}
    known = (canonical, *NAMES[canonical])
    found = [name for name in names if name.lower() in known]
    if len(found) != 1:
        raise Bad(f"{len(found)} columns for {canonical}")
    return found[0]


def joined_rows(shown: list[Row], clicked: list[Row], window: float | None) -> list[Row]:
    """Displays, with the clicks on them."""
    own = [_column(shown, name) for name in ("page_id", "doc_id")]
    other = [_column(clicked, name) for name in ("page_id", "doc_id")]
    if any(name.lower() in ("click", "clicked") for row in shown for name in row):
        raise Bad("impressions with clicks")
    times = defaultdict(list)
    for click in clicked:
        times[tuple(_id(click.get(name)) for name in other)].append(_moment(click, window))
    keys = [tuple(_id(row.get(name)) for name in own) for row in shown]
    rows = []
    for row, key in zip(shown, keys, strict=True):
        click = key in times and None not in key
        at, known = _moment(row, window), [each for each in times.get(key, []) if each is not None]
        late = window is not None and at is not None and known and min(known) > at + window
        rows.append({**row, "click": int(click and not late)})
    present = {key for key in keys if None not in key}
    return rows + [FLAW for key, several in times.items() if key not in present for _ in several]


def _moment(row: Row, window: float | None) -> float | None:
    return None if window is None else time(row.get("time"))


def _id(value: Any) -> str | None:
    if isinstance(value, float):
        raise Unsure("whether 1.0 is 1")
    return text(value)


def open_bandit_rows(rows: list[Row]) -> list[Row]:
    """Rows of the dataset as displays without a page, of one query."""
    return [{**row, "query_id": "all"} for row in rows]


def write_open_bandit(rng: Random, views: list[PageView]) -> list[Row]:
    """The columns of the published files."""
    return [
        {
            "Unnamed: 0": number,
            "timestamp": iso(view.at),
            "item_id": int(item[1:]),
            "position": place,
            "click": int(item in view.clicked),
            "propensity_score": 0.5,
            "user_feature_0": "x1",
        }
        for number, view in enumerate(views)
        for place, item in enumerate(view.items, 1)
    ]
