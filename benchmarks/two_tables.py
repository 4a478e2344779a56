"""Impressions joined to clicks, against the bare join with GROUP BY in DuckDB; prints JSON.

Both run in processes of their own, in turn. Processor seconds are of all threads, and depend less
than wall-clock seconds on what else runs.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb

POSITIONS = 10
DOCS = 30

BARE = """
import duckdb
duckdb.execute("SET memory_limit = '3GB'; SET enable_progress_bar = false")
duckdb.execute(
    "SELECT query_id, doc_id, position, count(*), count(click) "
    "FROM 'impressions.parquet' LEFT JOIN "
    "(SELECT page_id, doc_id, 1 AS click FROM 'clicks.parquet' GROUP BY ALL) "
    "USING (page_id, doc_id) GROUP BY ALL ORDER BY ALL"
).fetch_arrow_table()
"""
OURS = """
from epiclick.data.readers import count_log
from epiclick.data.schema import LogOptions
count_log(["impressions=impressions.parquet", "clicks=clicks.parquet"], LogOptions())
"""
MEASURED = """
import json, resource, time
begun = time.perf_counter()
{code}
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({{
    "wall": time.perf_counter() - begun,
    "processor": used.ru_utime + used.ru_stime,
    "gigabytes": used.ru_maxrss / 2**20,
}}))
"""


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


def measured(code: str, folder: Path) -> dict[str, float]:
    """Time and memory of a process that runs the code in a folder."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED.format(code=code)],
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
    with tempfile.TemporaryDirectory() as folder:
        clicks = write_tables(Path(folder), given.rows)
        rounds = [
            {name: measured(code, Path(folder)) for name, code in (("bare", BARE), ("ours", OURS))}
            for _ in range(given.rounds)
        ]
    median = {
        name: {kind: statistics.median(each[name][kind] for each in rounds) for kind in measure}
        for name, measure in rounds[0].items()
    }
    ratio = {kind: median["ours"][kind] / median["bare"][kind] for kind in ("wall", "processor")}
    print(json.dumps({"rows": given.rows, "clicks": clicks, **median, "ratio": ratio}, indent=2))


if __name__ == "__main__":
    main()
