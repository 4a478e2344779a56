"""Counting against the bare DuckDB GROUP BY on the same file, in one run; prints JSON.

Each kind of log is counted five times by both methods in turn; a ratio is the median of the rounds.
Processor seconds are of all threads, and depend less than wall-clock seconds on what else runs.
Peak memory is that of a process that only counts.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb

ROUNDS = 5
POSITIONS = 5
DOCS = 10
REPEATS = 10


def write_log(path: Path, rows: int, *, pages: bool, text: bool) -> None:
    """A log of pages with five documents each; one row in ten has a distinct key."""
    queries = rows // 10 // (DOCS * POSITIONS)
    page = "page AS page_id, " if pages else ""
    query = "'query ' || query::VARCHAR" if text else "query"
    number = "query * 1000 + (hash(page + 7) % 10 + position * 3) % 10"
    doc = f"'https://shop.example/' || ({number})::VARCHAR" if text else f"({number})::BIGINT"
    duckdb.execute(
        f"""
        COPY (
            SELECT {page}{query} AS query_id, {doc} AS doc_id, position,
                (hash(page * 97 + position) % 10 < 1)::TINYINT AS click
            FROM (SELECT range AS page, (hash(range) % {queries})::BIGINT AS query
                  FROM range({rows // POSITIONS})),
                 (SELECT unnest(range(1, {POSITIONS + 1}))::INTEGER AS position)
            ORDER BY page, position
        ) TO '{path}' (FORMAT parquet)
        """
    )


@dataclass(frozen=True)
class Seconds:
    """Time that a call takes."""

    wall: float
    processor: float

    @classmethod
    def of(cls, call: Callable[[], object]) -> "Seconds":
        """The time of one call."""
        wall, processor = time.perf_counter(), time.process_time()
        call()
        return cls(time.perf_counter() - wall, time.process_time() - processor)


def bare(path: Path) -> None:
    """The obvious query, on its own connection, as in read_log."""
    duckdb.connect().execute(
        "SELECT query_id, doc_id, position, count(*) AS displays, sum(click) AS clicks "
        f"FROM read_parquet('{path}') GROUP BY ALL"
    ).fetch_arrow_table()


def counted(path: Path) -> None:
    """read_log, with all checks."""
    from epiclick import read_log

    read_log(path)


def compare(path: Path) -> dict[str, object]:
    bare(path)  # warm the file cache
    counted(path)
    rounds = [
        (Seconds.of(lambda: bare(path)), Seconds.of(lambda: counted(path))) for _ in range(ROUNDS)
    ]
    return {
        kind: {
            "bare_seconds": statistics.median(getattr(base, kind) for base, _ in rounds),
            "epiclick_seconds": statistics.median(getattr(ours, kind) for _, ours in rounds),
            "ratio": statistics.median(
                getattr(ours, kind) / getattr(base, kind) for base, ours in rounds
            ),
        }
        for kind in ("processor", "wall")
    }


def peak_memory() -> int:
    """Largest resident size of this process in bytes; getrusage would return the parent's."""
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if "VmHWM" in line)) * 1024


def count_only(path: str, repeats: int) -> None:
    """Count a log in this process, and print its size and the peak memory."""
    from epiclick import read_log

    start = time.perf_counter()
    counts = read_log([path] * repeats)
    print(
        json.dumps(
            {
                "displays": counts.total_displays,
                "clicks": counts.total_clicks,
                "pairs": len(counts),
                "seconds": time.perf_counter() - start,
                "peak_gb": peak_memory() / 1e9,
            }
        )
    )


def in_own_process(path: Path, repeats: int) -> dict[str, object]:
    command = [sys.executable, __file__, "--count", str(path), "--repeats", str(repeats)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--count", help=argparse.SUPPRESS)
    parser.add_argument("--repeats", type=int, default=REPEATS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.count:
        count_only(given.count, given.repeats)
        return
    result: dict[str, object] = {"rows": given.rows, "cores": os.cpu_count()}
    with tempfile.TemporaryDirectory() as folder:
        for name, pages, text in (
            ("integer ids", False, False),
            ("text ids", False, True),
            ("integer ids with page checks", True, False),
            ("text ids with page checks", True, True),
        ):
            path = Path(folder) / "log.parquet"
            write_log(path, given.rows, pages=pages, text=text)
            result[name] = compare(path)
        path = Path(folder) / "plain.parquet"
        write_log(path, given.rows, pages=False, text=True)
        once, often = in_own_process(path, 1), in_own_process(path, REPEATS)
        assert often["displays"] == REPEATS * once["displays"], (
            "repeating a log must multiply its counts"
        )
        assert often["clicks"] == REPEATS * once["clicks"]
        result["once"], result[f"{REPEATS} times"] = once, often
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
