"""What counting must give, by a second implementation: plain Python, no library of the project.

It follows docs/logs.md. A log that it finds bad must be refused; one that it can count must be
refused or counted in the same way.
"""

import csv
import gzip
import io
import json
import re
import sqlite3
import unicodedata
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

Key = tuple[str, ...]
Counts = dict[Key, tuple[int, int]]

NAMES = {
    "page_id": ("impression_id", "search_id", "request_id", "serp_id", "page_view_id"),
    "query_id": ("query", "user_query", "qid", "search_term"),
    "doc_id": ("item_id", "url", "object_id", "product_id", "item", "sku"),
    "position": ("rank", "pos", "slot"),
    "click": ("clicked",),
}


class Bad(Exception):
    """The log must be refused; the message says why."""


@dataclass(frozen=True)
class Reading:
    """Options of reading a log, as `epiclick count` has them."""

    context: tuple[str, ...] = ("position",)
    position_base: int = 1
    part: str | None = None
    where: str | None = None
    viewed: bool = False
    sponsored: str | None = None
    page_size: int | None = None
    normalise_queries: bool = False
    most_clicks: int | None = None
    drop_bad: bool = False

    def arguments(self) -> list[str]:
        """The options of the command line."""
        words: list[str] = []
        if self.context != ("position",):
            words += ["--context", ",".join(self.context)]
        if self.position_base == 0:
            words += ["--position-base", "0"]
        if self.part is not None:
            words += ["--part", self.part]
        if self.where is not None:
            words += ["--where", self.where]
        if self.viewed:
            words += ["--viewed", "in_view"]
        if self.sponsored is not None:
            words += ["--sponsored", "ad", "--sponsored-as", self.sponsored]
        if self.page_size is not None:
            words += ["--page-number", "results_page", "--page-size", str(self.page_size)]
        if self.normalise_queries:
            words += ["--normalise-queries"]
        if self.most_clicks is not None:
            words += ["--max-clicks-per-page", str(self.most_clicks)]
        if self.drop_bad:
            words += ["--on-bad", "drop", "--max-bad", "100%"]
        return words


def parsed(content: bytes, kind: str, *, drop_bad: bool = False) -> list[dict[str, Any]]:
    """Rows of a text file, or Bad."""
    if kind == "csv.gz":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, ValueError) as error:
            raise Bad("not gzip") from error
        except Exception as error:  # zlib.error has no public base
            raise Bad("damaged gzip") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Bad("not UTF-8") from error
    if kind == "jsonl":
        return _json_rows(text, drop_bad=drop_bad)
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter="\t" if kind == "tsv" else ",", strict=True
    )
    try:
        lines = [line for line in reader if line]
    except csv.Error as error:
        raise Bad(str(error)) from error
    if not lines:
        raise Bad("no header")
    names = lines[0]
    if len({name.lower() for name in names}) < len(names):
        raise Bad("column twice")
    whole_lines = [line for line in lines[1:] if len(line) == len(names)]
    if len(whole_lines) < len(lines) - 1 and not drop_bad:
        raise Bad("ragged lines")
    # a text file cannot tell an empty value from a missing one
    return [dict(zip(names, (v or None for v in line), strict=True)) for line in whole_lines]


def _json_rows(text: str, *, drop_bad: bool) -> list[dict[str, Any]]:
    rows = []
    for line in text.split("\n"):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            if drop_bad:
                continue
            raise Bad("not JSON") from error
        if not isinstance(row, dict):
            raise Bad("not an object")
        rows.append(row)
    return rows


def columns_of(rows: list[dict[str, Any]]) -> dict[str, str]:
    """The log's own name of each canonical column."""
    names = {name for row in rows for name in row}
    found = {}
    for name, aliases in NAMES.items():
        own = [each for each in names if each.lower() == name]
        own = own or [each for each in names if each.lower() in aliases]
        if len(own) > 1:
            raise Bad(f"{name} is ambiguous")
        if own:
            found[name] = own[0]
        elif name != "page_id":
            raise Bad(f"no {name}")
    return found


def whole(value: Any) -> int:
    """A whole number, or Bad."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value
    text = str(value).strip()
    if re.fullmatch(r"[+-]?\d+", text, re.ASCII):
        return int(text)
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", text.lower(), re.ASCII):
        raise Bad(f"{text!r} is no number")
    number = float(text)
    if not number.is_integer():
        raise Bad(f"{text!r} is not whole")
    return int(number)


def binary(value: Any) -> int:
    """0 or 1, or Bad."""
    text = str(value).strip().lower()
    if text in ("true", "false"):
        return int(text == "true")
    number = whole(value)
    if number not in (0, 1):
        raise Bad(f"{value!r} is neither 0 nor 1")
    return number


def folded(query: str) -> str:
    """A query without differences in case and spaces."""
    spaced = "".join(" " if c.isspace() or unicodedata.category(c)[0] == "Z" else c for c in query)
    return " ".join(spaced.split(" ")).strip().lower() if spaced else spaced


def as_id(value: Any) -> str:
    """An id as text; Bad if there is none."""
    if value is None:
        raise Bad("an id is missing")
    if isinstance(value, list | dict):
        raise Bad("an id is nested")
    if isinstance(value, float):
        return repr(value)
    return str(value)


def counted(rows: list[dict[str, Any]], reading: Reading) -> Counts:
    """Displays and clicks by query, document, context and part; or Bad."""
    if not rows:
        raise Bad("no rows")
    columns = columns_of(rows)
    if reading.where is not None:
        rows = _selected(rows, reading.where)
    read: list[tuple[Any, Key, int]] = []
    for row in rows:
        try:
            display = _display(row, columns, reading)
        except Bad:
            if not reading.drop_bad:
                raise
            continue
        if display is not None:
            read.append(display)
    if reading.most_clicks is not None:
        clicks_of = Counter(page for page, _, click in read if click)
        read = [each for each in read if clicks_of[each[0]] <= reading.most_clicks]
    bad_pages = _contradictory(read, columns, reading)
    if bad_pages and not reading.drop_bad:
        raise Bad("a page contradicts itself")
    result: dict[Key, list[int]] = defaultdict(lambda: [0, 0])
    for page, key, click in read:
        if page in bad_pages:
            continue
        result[key][0] += 1
        result[key][1] += click
    if not result:
        raise Bad("no rows are left")
    if not any(clicks for _, clicks in result.values()):
        raise Bad("no clicks")
    return {key: (displays, clicks) for key, (displays, clicks) in result.items()}


def _display(
    row: dict[str, Any], columns: dict[str, str], reading: Reading
) -> tuple[Any, Key, int] | None:
    """Page, key and click of a row; None if it is no display."""
    click = binary(row.get(columns["click"]))
    position = whole(row.get(columns["position"]))
    if position < reading.position_base:
        raise Bad("position below the first")
    if reading.page_size is not None:
        number = whole(row.get("results_page"))
        if number < 1 or position - reading.position_base >= reading.page_size:
            raise Bad("no such place on a page")
        position += (number - 1) * reading.page_size
    paid = 0
    if reading.viewed:
        viewed = binary(row.get("in_view"))
        if click and not viewed:
            raise Bad("clicked, but not in view")
        if not viewed:
            return None
    if reading.sponsored is not None:
        paid = binary(row.get("ad"))
        if paid and reading.sponsored == "drop":
            return None
    query, doc = as_id(row.get(columns["query_id"])), as_id(row.get(columns["doc_id"]))
    page = as_id(row.get(columns["page_id"])) if "page_id" in columns else None
    if reading.normalise_queries:
        query = folded(query)
    places = []
    for name in reading.context:
        value = position - reading.position_base + 1 if name == "position" else row.get(name)
        places.append(as_id(value))
    if reading.sponsored == "context":
        places.append(str(paid))
    if reading.part is not None:
        places.append(as_id(row.get(reading.part)))
    return page, (query, doc, *places), click


def _contradictory(
    read: list[tuple[Any, Key, int]], columns: dict[str, str], reading: Reading
) -> set[Any]:
    """Pages with a document or a place twice."""
    if "page_id" not in columns:
        return set()
    docs = Counter((page, key[1]) for page, key, _ in read)
    parts = 1 if reading.part is not None else 0
    places = Counter((page, key[2 : len(key) - parts]) for page, key, _ in read)
    twice = {page for (page, _), n in docs.items() if n > 1}
    if "position" in reading.context:
        twice |= {page for (page, _), n in places.items() if n > 1}
    return twice


def _selected(rows: list[dict[str, Any]], condition: str) -> list[dict[str, Any]]:
    """Rows that satisfy a condition, by SQLite."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    quoted = [f'"{name.replace(chr(34), chr(34) * 2)}"' for name in names]
    with sqlite3.connect(":memory:") as database:
        try:
            database.execute(f"create table log (row_number integer, {', '.join(quoted)})")
        except sqlite3.OperationalError as error:
            raise Bad(str(error)) from error
        marks = ", ".join("?" * (len(names) + 1))
        database.executemany(
            f"insert into log values ({marks})",
            ([i, *(_plain(row.get(name)) for name in names)] for i, row in enumerate(rows)),
        )
        try:
            kept = database.execute(f"select row_number from log where {condition}").fetchall()
        except sqlite3.OperationalError as error:
            raise Bad(str(error)) from error
    return [rows[number] for (number,) in kept]


def _plain(value: Any) -> Any:
    """Text of digits as a number, as a reader of CSV takes it."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,15}", value, re.ASCII):
        return int(value)
    return value
