"""Logs as tables of other kinds: counted rows, databases, files without a header, several files."""

import csv
import io
import os
import sqlite3
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from torture.inputs import mutations, oracle
from torture.inputs.click_log import as_text, content, random_log
from torture.inputs.event_values import Unsure
from torture.inputs.oracle import NAMES, Bad, Counts, Key

Row = dict[str, Any]
SHOWN = ("displays", "impressions", "impression")
CLICKED = ("clicks", "click")


def counted_log(rng: Random) -> list[Row]:
    """Sums of displays and clicks, some of them in several rows."""
    rows = []
    for query in range(3):
        for doc in range(4):
            for place in (1, 2, 3):
                shown = rng.choice((0, 1, 5, 40))
                rows.append(
                    {
                        "query_id": f"query {query}",
                        "doc_id": doc,
                        "position": place,
                        "displays": shown,
                        "clicks": rng.randint(0, shown),
                    }
                )
    rows.append({**rows[0], "displays": 7, "clicks": 3})
    return rows


def sums(rows: list[Row], *, clip: bool) -> Counts:
    """Counts of counted rows, or Bad."""
    if not rows:
        raise Bad("no rows")
    names = list(dict.fromkeys(name for row in rows for name in row))
    known = {role: (role, *NAMES[role]) for role in ("query_id", "doc_id", "position")}
    known |= {"displays": SHOWN, "clicks": CLICKED}
    own: dict[str, str] = {}
    for role, found in known.items():
        matches = [n for n in names if n.lower() == role]
        matches = matches or [n for n in names if n.lower() in found]
        if len(matches) != 1:
            raise Bad(f"{len(matches)} columns for {role}")
        own[role] = matches[0]
    result: dict[Key, list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        shown, clicked = (oracle.whole(row.get(own[role])) for role in ("displays", "clicks"))
        position = oracle.whole(row.get(own["position"]))
        if min(shown, clicked) < 0 or position < 1 or (clicked > shown and not clip):
            raise Bad("impossible counts")
        if max(shown, position) >= 2**53:
            raise Unsure("where numbers end")
        ids = [oracle.as_id(row.get(own[role])) for role in ("query_id", "doc_id")]
        key = (*ids, str(position))
        result[key][0] += shown
        result[key][1] += min(clicked, shown)
    if not any(clicks for _, clicks in result.values()):
        raise Bad("no clicks")
    # pairs that were never shown are left out, or kept with 0: both say the same
    return {key: (shown, clicks) for key, (shown, clicks) in result.items() if shown}


def changed_log(rng: Random, names: list[str], *, sound: bool) -> list[Row]:
    """A log of displays after some changes."""
    rows = random_log(rng, pages=25)
    changes = mutations.SOUND_ROWS if sound else mutations.ROWS + mutations.SOUND_ROWS
    for change in rng.choices(changes, k=rng.choice((0, 1, 1))):
        if rows:
            rows = change(rng, rows)
            names.append(change.__name__)
    return rows


def same_columns(rows: list[Row]) -> list[str]:
    """Names of the columns; Bad if a database would not have two of them."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    if len({name.lower() for name in names}) < len(names) or "" in names or not names:
        raise Bad("column names")
    return names


def write_sqlite(rows: list[Row], path: Path, table: str) -> None:
    """A table of SQLite without declared types, which it does not need."""
    names = same_columns(rows)
    listed = ", ".join(_quoted(name) for name in names)
    database = sqlite3.connect(path)
    database.execute(f"create table {_quoted(table)} ({listed})")
    marks = ", ".join("?" * len(names))
    database.executemany(
        f"insert into {_quoted(table)} values ({marks})",
        [tuple(row.get(name) for name in names) for row in rows],
    )
    database.commit()
    database.close()


def write_duckdb(rows: list[Row], path: Path, table: str) -> None:
    """A table of DuckDB, whose columns are text where not all values are whole numbers."""
    names = same_columns(rows)
    types = {
        name: "BIGINT"
        if all(type(row.get(name)) in (int, type(None)) for row in rows)
        else "VARCHAR"
        for name in names
    }

    def write() -> None:
        import duckdb

        with duckdb.connect(str(path)) as database:
            columns = ", ".join(f"{_quoted(name)} {kind}" for name, kind in types.items())
            database.execute(f"create table {_quoted(table)} ({columns})")
            marks = ", ".join("?" * len(names))
            values = [
                [row.get(n) if types[n] == "BIGINT" else _text(row.get(n)) for n in names]
                for row in rows
            ]
            if values:
                database.executemany(f"insert into {_quoted(table)} values ({marks})", values)

    in_a_child(write)


def in_a_child(work: Callable[[], None]) -> None:
    """Do something in a process of its own, since it starts threads."""
    process = os.fork()
    if not process:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(process, 0)
    if status:
        raise Unsure("this cannot be written to a database")


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def headerless(rows: list[Row]) -> tuple[bytes, str]:
    """Rows without a header line, and the names of their columns."""
    names = same_columns(rows)
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(
        [as_text(row.get(name)) for name in names] for row in rows
    )
    columns = ",".join(name.strip() for name in names)
    return file.getvalue().encode("utf-8", "surrogatepass"), columns


def headerless_rows(own: bytes, names: str) -> list[Row]:
    """What such a file says."""
    return oracle.parsed(names.encode() + b"\n" + own, "csv")


def parts_of(rng: Random, rows: list[Row], kind: str) -> list[bytes]:
    """A log cut into files, page by page."""
    pages = list(dict.fromkeys(str(row.get("page_id")) for row in rows))
    of_page = {page: rng.randrange(3) for page in pages}
    parts = [[row for row in rows if of_page[str(row.get("page_id"))] == n] for n in range(3)]
    return [content(part, kind) for part in parts if part]
