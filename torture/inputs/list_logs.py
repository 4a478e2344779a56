"""Pages as lists, in tables and in lines of text: written, and read by plain Python."""

import json
import re
from random import Random
from typing import Any

from torture.inputs.event_logs import FLAW, Event, EventFormat, Row
from torture.inputs.event_values import Unsure, text
from torture.inputs.oracle import Bad
from torture.inputs.page_views import PageView

ITEMS, CLICKS = ("items", "results", "doc_ids"), ("clicks", "clicked_items")


def write_lists(rng: Random, views: list[PageView]) -> list[Event]:
    """One record per page: lists, JSON in text, or ids separated by spaces or commas."""
    how = rng.choice(("list", "list", "JSON", " ", ","))
    marked, numbers = rng.random() < 0.4, rng.random() < 0.3
    places, has_page = rng.random() < 0.3, rng.random() < 0.5
    names = rng.choice(ITEMS), rng.choice(CLICKS)

    def written(values: list[Any]) -> Any:
        if how == "list":
            return values
        return json.dumps(values) if how == "JSON" else how.join(map(str, values))

    records = []
    for view in views:
        items: list[Any] = [int(item[1:]) + 10 if numbers else item for item in view.items]
        own = dict(zip(view.items, items, strict=True))
        clicks: list[Any] = [own[item] for item in view.clicked]
        if marked:
            clicks = [int(item in view.clicked) for item in view.items]
        record = {
            "query_id": view.query,
            names[0]: written(items),
            names[1]: written(clicks),
            "device": view.device,
        }
        if has_page:
            record["page_id"] = f"p{view.number}"
        if places:
            record["positions"] = written(list(range(2, len(items) + 2)))
        records.append(record)
    return records


def _texts(value: Any) -> list[str | None] | None:
    """A list of text from a list, JSON, or text with separators; None if it is no list."""
    if isinstance(value, str):
        stripped = value.strip(" ")
        if re.search(r"[\x00-\x1f\x7f-\uffff]", stripped):
            raise Unsure("which signs separate ids")
        if not stripped.startswith("["):
            return [each for each in re.split(r"[\s,]+", stripped) if each]
        try:
            value = json.loads(stripped)
        except ValueError:
            return None
    if value is None or isinstance(value, list):
        return value and [text(each) for each in value]
    raise Unsure("neither a list nor text")


def list_rows(records: list[Event], first: int, _: float | None) -> list[Row]:
    """Displays of lists."""
    own = {
        role: [name for name in known if any(name in record for record in records)]
        for role, known in (("items", ITEMS), ("clicks", CLICKS))
    }
    if any(len(found) != 1 for found in own.values()):
        raise Bad("no list of items, or of clicks")
    places_given = any("positions" in record for record in records)
    pages = [
        (record, _texts(record.get(own["items"][0])), _texts(record.get(own["clicks"][0])))
        for record in records
    ]
    marked = _are_marks(pages)
    rows: list[Row] = []
    for number, (record, shown, clicked) in enumerate(pages):
        page = {"page_id": record.get("page_id"), "device": record.get("device")}
        if not any("page_id" in each for each in records):
            page["page_id"] = number
        page["query_id"] = record.get("query_id")
        places = _texts(record.get("positions")) if places_given else None
        lists = ([clicked] if marked else []) + ([places] if places_given else [])
        if not shown or any(each is None or len(each) != len(shown) for each in lists):
            rows.append(FLAW)
            continue
        for place, item in enumerate(shown):
            click = clicked[place] in ("1", "true") if marked else item in (clicked or [])
            at = places[place] if places is not None else place + first
            rows.append({**page, "doc_id": item, "position": at, "click": int(click)})
        if not marked:
            rows += [FLAW for each in clicked or [] if each not in shown]
    return rows


def _are_marks(pages: list[tuple[Event, Any, Any]]) -> bool:
    """Whether clicks are 0 or 1 for each item, on all pages."""
    for _, shown, clicked in pages:
        if clicked is None:
            continue
        is_marks = all((each or "").lower() in ("0", "1", "true", "false") for each in clicked)
        if not is_marks or shown is None or len(clicked) != len(shown):
            return False
    return any(clicked for _, _, clicked in pages)


def page_lines(views: list[PageView]) -> bytes:
    """Lines of query, ids and clicked ids."""
    lines = [f"{v.query}\t{' '.join(v.items)}\t{' '.join(v.clicked)}\n" for v in views]
    return "".join(lines).encode()


def page_line_rows(content: bytes) -> list[Row]:
    """Displays of page lines."""
    try:
        decoded = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Bad("not UTF-8") from error
    rows: list[Row] = []
    for number, line in enumerate(re.split(r"\r\n|\n|\r", decoded)):
        if not line:
            continue
        fields = line.split("\t")
        if len(fields) != 3:
            rows.append(FLAW)
            continue
        if re.search(r"[\x00-\x1f\x7f-\uffff]", fields[1] + fields[2]):
            raise Unsure("which signs separate ids")
        shown, clicked = _texts(fields[1]), _texts(fields[2])
        if not shown:
            rows.append(FLAW)
            continue
        rows += [FLAW for each in clicked or [] if each not in shown]
        rows += [
            {
                "page_id": number,
                "query_id": fields[0] or None,
                "doc_id": item,
                "position": place,
                "click": int(item in (clicked or [])),
            }
            for place, item in enumerate(shown, 1)
        ]
    return rows


LISTS = EventFormat("list-columns", write_lists, list_rows, ("device",))
