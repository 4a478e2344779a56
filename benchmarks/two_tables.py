"""Impressions joined to clicks, against the bare join with GROUP BY in DuckDB; prints JSON.

The bare SQL reduces the clicks to one per page and document, joins them, counts displays and clicks
of each query, document and position, and sorts the counts; it checks nothing. Its counts and ours
are asserted to be equal.

Both run in processes of their own, in turn. Processor seconds are of all threads, and depend less
than wall-clock seconds on what else runs; they include the start of Python.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import duckdb

POSITIONS = 10
DOCS = 30

BARE = """
import duckdb
duckdb.execute("SET memory_limit = '3GB'; SET enable_progress_bar = false")
counted = duckdb.execute(
    "SELECT query_id, doc_id, position, count(*) AS displays, count(click) AS clicks "
    "FROM 'impressions.parquet' LEFT JOIN "
    "(SELECT page_id, doc_id, 1 AS click FROM 'clicks.parquet' GROUP BY ALL) "
    "USING (page_id, doc_id) GROUP BY ALL ORDER BY ALL"
).fetch_arrow_table()
"""
OURS = """
from epiclick.data.readers import count_log
from epiclick.data.schema import LogOptions
counts, _ = count_log(["impressions=impressions.parquet", "clicks=clicks.parquet"], LogOptions())
"""
MEASURED = """
import json, resource, time
begun = time.perf_counter()
{code}
used = resource.getrusage(resource.RUSAGE_SELF)
record = {{
    "wall": time.perf_counter() - begun,
    "processor": used.ru_utime + used.ru_stime,
    "gigabytes": used.ru_maxrss / 2**20,
}}
import duckdb
counted = {table}
(sums,) = duckdb.sql(
    "SELECT count(*), sum(displays)::BIGINT, sum(clicks)::BIGINT, "
    "bit_xor(hash(query_id, doc_id, position::BIGINT, displays::BIGINT, clicks::BIGINT))::VARCHAR "
    "FROM counted"
).fetchall()
print(json.dumps({{**record, "sums": sums}}))
"""
WAYS = {"bare": (BARE, "counted"), "ours": (OURS, "counts.to_table()")}
"""Name -> code to measure, and its counts as a table."""


def write_tables(folder: Path, rows: int) -> int:
    """Pages of ten documents and the clicks on 6 % of them; returns the number of clicks."""
    queries = max(rows // (POSITIONS * 100), 1)
    duckdb.execute("SET memory_limit = '4GB'; SET enable_progress_bar = false")
    duckdb.execute(
        f"""
        COPY (
            SELECT page AS page_id, 'query ' || query AS query_id,
                query * {DOCS} + position * 3 + (hash(page + 7) % 3)::BIGINT AS doc_id, position
            FROM (
                SELECT range AS page, (hash(range) % {queries})::BIGINT AS query,
                    unnest(range(1, {POSITIONS + 1})) AS position
                FROM range({rows // POSITIONS})
            )
        ) TO '{folder}/impressions.parquet' (FORMAT parquet)
        """
    )
    duckdb.execute(
        f"""
        COPY (
            SELECT page_id, doc_id FROM '{folder}/impressions.parquet'
            WHERE hash(page_id, position) % 1000 < 200 // position
        ) TO '{folder}/clicks.parquet' (FORMAT parquet)
        """
    )
    found = duckdb.execute(f"SELECT count(*) FROM '{folder}/clicks.parquet'").fetchone()
    assert found is not None
    return found[0]


def measured(way: str, folder: Path) -> dict[str, Any]:
    """Time and memory of a process that counts the tables of a folder, and sums of its counts."""
    code, table = WAYS[way]
    done = subprocess.run(
        [sys.executable, "-c", MEASURED.format(code=code, table=table)],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout)


def main() -> None:
    """Measure both in turn and print the medians and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        clicks = write_tables(Path(folder), given.rows)
        rounds = [{way: measured(way, Path(folder)) for way in WAYS} for _ in range(given.rounds)]
    sums = {tuple(each[way].pop("sums")) for each in rounds for way in WAYS}
    assert len(sums) == 1, f"counts differ: {sums}"
    median = {
        way: {kind: statistics.median(each[way][kind] for each in rounds) for kind in measure}
        for way, measure in rounds[0].items()
    }
    ratio = {kind: median["ours"][kind] / median["bare"][kind] for kind in ("wall", "processor")}
    record = {"rows": given.rows, "clicks": clicks, "cores": os.cpu_count(), "load": load}
    print(json.dumps({**record, **median, "ratio": ratio}, indent=2))


if __name__ == "__main__":
    main()
