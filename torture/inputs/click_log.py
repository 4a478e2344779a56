"""Small random logs as rows of text, written as files of several kinds."""

import csv
import gzip
import io
import json
from pathlib import Path
from random import Random
from typing import Any

Row = dict[str, Any]

COLUMNS = ("page_id", "query_id", "doc_id", "position", "click")
KINDS = ("csv", "tsv", "jsonl", "parquet", "csv.gz")
DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")


def random_log(rng: Random, pages: int = 40) -> list[Row]:
    """Pages of three results, with columns that options may use."""
    rows = []
    for page in range(pages):
        query = rng.randrange(5)
        device, day = rng.choice(("phone", "desktop")), rng.choice(DAYS)
        number = rng.choice((1, 1, 2))
        for position, doc in enumerate(rng.sample(range(6), 3), 1):
            clicked = rng.random() < 0.6 / position
            rows.append(
                {
                    "page_id": page,
                    "query_id": f"query {query}",
                    "doc_id": doc,
                    "position": position,
                    "click": int(clicked),
                    "device": device,
                    "day": day,
                    "results_page": number,
                    "in_view": int(clicked or rng.random() < 0.8),
                    "ad": int(rng.random() < 0.15),
                }
            )
    rows[0]["click"] = rows[0]["in_view"] = 1
    return rows


def as_text(value: Any) -> str:
    """A value in a text file; missing ones are empty."""
    return "" if value is None else str(value)


def content(rows: list[Row], kind: str) -> bytes:
    """The rows as a file of a text format."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    if kind == "jsonl":
        return "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    file = io.StringIO()
    writer = csv.writer(file, delimiter="\t" if kind == "tsv" else ",", lineterminator="\n")
    writer.writerow(names)
    writer.writerows([as_text(row.get(name)) for name in names] for row in rows)
    text = file.getvalue().encode("utf-8", "surrogatepass")
    return gzip.compress(text, mtime=0) if kind == "csv.gz" else text


def write(rows: list[Row], path: Path, kind: str) -> None:
    """Write a log; columns of Parquet have the type of their values, or are text."""
    if kind != "parquet":
        path.write_bytes(content(rows, kind))
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        known = {type(value) for value in values} - {type(None)}
        if len(known) > 1 and known != {int, float}:
            values = [None if value is None else str(value) for value in values]
        elif known == {int, float}:
            values = [None if value is None else float(value) for value in values]
        columns[name] = pa.array(values)
    pq.write_table(pa.table(columns), path)
