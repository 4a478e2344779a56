"""A small log and models of it, which the cases of a campaign share."""

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

from torture.program import Ended, call

BIAS = (1.0, 0.6, 0.4)
QUERIES, DOCS = 4, 5
Row = dict[str, Any]


def shown_log(rng: Random, pages: int = 300) -> list[Row]:
    """Pages of three of five results, clicked as a position-based model says."""
    relevance = {(q, d): rng.uniform(0.2, 0.8) for q in range(QUERIES) for d in range(DOCS)}
    rows = []
    for number in range(QUERIES * pages):
        query = number % QUERIES if number < 2 * pages else number % 2
        for place, doc in enumerate(rng.sample(range(DOCS), len(BIAS)), 1):
            clicked = rng.random() < BIAS[place - 1] * relevance[query, doc]
            rows.append(
                {
                    "page_id": number,
                    "query_id": f"query_{query}",
                    "doc_id": doc,
                    "position": place,
                    "click": int(clicked),
                    "day": f"2026-01-0{1 + number % 3}",
                    "device": ("phone", "desk")[number % 5 // 4],
                }
            )
    return rows


def write_csv(rows: Iterable[Row], path: Path) -> None:
    """Write rows that all have the same keys."""
    rows = list(rows)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def done(ended: Ended) -> Any:
    """What a call printed as JSON, which must have worked."""
    assert ended.code == 0, ended.err
    return json.loads(ended.out) if ended.out.startswith("{") else ended.out


def fit(folder: Path, *arguments: object) -> None:
    """Fit a model in a folder."""
    done(call("fit", *arguments, "--json", folder=folder))


def relevance_of(file: Path) -> dict[tuple[str, str], float]:
    """Mean relevance by query and item, of a file written by `relevance`."""
    return {(str(row["query_id"]), str(row["doc_id"])): row["mean"] for row in parquet_rows(file)}


def parquet_rows(file: Path) -> list[Row]:
    """The rows of a Parquet file; threads would not survive a fork."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(file, pre_buffer=False) as opened:
        return opened.read(use_threads=False).to_pylist()
