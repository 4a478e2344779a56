"""Counting by other engines and at other sizes; prints JSON.

spark    one log in Parquet, counted through Spark (two local cores) and through DuckDB.
stream   rows that DuckDB makes while it counts them, so that no file limits their number: epiclick
         and the bare GROUP BY.
joined   impressions joined to clicks as bare SQL, to compare reading two tables with. The two
         tables are left in --folder.

Counts of all ways are asserted to be equal. Every measurement has its own process; peak memory and
processor seconds are that process's, those of Spark also its Java process's. Processor seconds
depend less than wall-clock seconds on what else runs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

MEMORY = "3GB"
POSITIONS = 10
DOCS = 20
BLOCK = 1_000_000
"""Pages that DuckDB keeps as a table, to make all others from in parallel."""

DISPLAYS_PER_PAIR = 500
CLICK_WINDOW = 1800  # seconds


def rows_of(pages: str, count: int) -> str:
    """SQL for the displays of pages: ten positions, documents in an order that varies by page."""
    queries = max(count // DOCS // DISPLAYS_PER_PAIR, 1)
    return f"""
        SELECT page AS page_id, query AS query_id,
            query * 1000 + ((hash(page + 7) % {DOCS})::BIGINT + position * 3) % {DOCS} AS doc_id,
            position,
            (hash(page * 97 + position) % 1000 < 300 // position)::TINYINT AS click
        FROM (SELECT page, (hash(page) % {queries})::BIGINT AS query FROM {pages}),
             (SELECT unnest(range(1, {POSITIONS + 1}))::INTEGER AS position)
        """


def blocks(connection: duckdb.DuckDBPyConnection, count: int) -> str:
    """SQL for the numbers of all pages, from a table, since range() itself is not parallel."""
    pages = count // POSITIONS
    size = min(BLOCK, pages)
    connection.execute(f"CREATE TABLE block AS SELECT range AS page FROM range({size})")
    return f"(SELECT page + {size} * range AS page FROM block, range({pages // size}))"


BARE = """
    SELECT query_id, doc_id, position, count(*) AS displays, sum(click)::BIGINT AS clicks
    FROM {rows} GROUP BY ALL ORDER BY ALL
"""

JOINED = f"""
    SELECT query_id, doc_id, position, count(*) AS displays, count(clicked)::BIGINT AS clicks
    FROM (
        SELECT i.query_id, i.doc_id, i.position, any_value(c.page_id) AS clicked
        FROM read_parquet('{{folder}}/impressions/*.parquet') AS i
        LEFT JOIN read_parquet('{{folder}}/clicks/*.parquet') AS c
            ON i.page_id = c.page_id AND i.doc_id = c.doc_id
            AND c.time BETWEEN i.time AND i.time + {CLICK_WINDOW}
        GROUP BY i.page_id, i.query_id, i.doc_id, i.position
    )
    GROUP BY ALL ORDER BY ALL
"""

JOINED_ON_DISTINCT = f"""
    SELECT i.query_id, i.doc_id, i.position, count(*) AS displays,
        count(c.page_id)::BIGINT AS clicks
    FROM read_parquet('{{folder}}/impressions/*.parquet') AS i
    LEFT JOIN (
        SELECT page_id, doc_id, min(time) AS time
        FROM read_parquet('{{folder}}/clicks/*.parquet') GROUP BY ALL
    ) AS c
        ON i.page_id = c.page_id AND i.doc_id = c.doc_id
        AND c.time BETWEEN i.time AND i.time + {CLICK_WINDOW}
    GROUP BY ALL ORDER BY ALL
"""


def write_log(folder: Path, count: int) -> None:
    """The log as Parquet files of one folder."""
    connection = limited()
    rows = rows_of(blocks(connection, count), count)
    connection.execute(f"COPY ({rows}) TO '{folder}' (FORMAT parquet, PER_THREAD_OUTPUT)")


def write_two_tables(folder: Path, count: int) -> None:
    """Impressions, and a row for every click; one click in fifty is repeated, one is late."""
    connection = limited()
    rows = rows_of(blocks(connection, count), count)
    shown = f"SELECT page_id, query_id, doc_id, position, page_id * 3 AS time FROM ({rows})"
    clicked = f"""
        SELECT page_id, doc_id, page_id * 3 + 5 + repeat * 2 + 100000 * (lot = 1)::BIGINT AS time
        FROM (SELECT page_id, doc_id, hash(page_id * 31 + position) % 50 AS lot
              FROM ({rows}) WHERE click = 1),
             (SELECT unnest([0, 1]) AS repeat)
        WHERE repeat = 0 OR lot = 0
        """
    for name, query in (("impressions", shown), ("clicks", clicked)):
        connection.execute(
            f"COPY ({query}) TO '{folder / name}' (FORMAT parquet, PER_THREAD_OUTPUT, OVERWRITE)"
        )


def limited() -> duckdb.DuckDBPyConnection:
    """DuckDB as epiclick runs it: within 3 GB."""
    return duckdb.connect(config=settings())


def settings() -> dict[str, object]:
    """Bounded memory, spilling into the system's temporary folder."""
    spill = Path(tempfile.gettempdir()) / f"epiclick-engines-{os.getpid()}"
    return {
        "memory_limit": MEMORY,
        "preserve_insertion_order": False,
        "temp_directory": str(spill),
    }


def stream_by_duckdb(count: int, _: str) -> dict[str, object]:
    """The bare GROUP BY over rows that are made on the way."""
    connection = limited()
    rows = rows_of(blocks(connection, count), count)
    return sums_of(connection.execute(BARE.format(rows=f"({rows})")).fetch_arrow_table())


def stream_by_epiclick(count: int, _: str) -> dict[str, object]:
    """read_log over a view of the same rows."""
    import ibis

    from epiclick import read_log

    connection = ibis.duckdb.connect(**settings())
    rows = rows_of(blocks(connection.con, count), count)
    # page checks would make the rows once more; they have a benchmark of their own (counting.py)
    connection.raw_sql(f"CREATE VIEW log AS SELECT * EXCLUDE (page_id) FROM ({rows})")
    return sums_of(read_log(connection.table("log")).to_table())


def joined_by_duckdb(_: int, folder: str) -> dict[str, object]:
    """Bare SQL that counts repeated clicks once by grouping displays."""
    return sums_of(limited().execute(JOINED.format(folder=folder)).fetch_arrow_table())


def joined_on_distinct_by_duckdb(_: int, folder: str) -> dict[str, object]:
    """Bare SQL that first reduces the clicks to one per page and document."""
    query = JOINED_ON_DISTINCT.format(folder=folder)
    return sums_of(limited().execute(query).fetch_arrow_table())


def file_by_duckdb(_: int, folder: str) -> dict[str, object]:
    """epiclick on the files."""
    from epiclick import read_log

    return sums_of(read_log(folder).to_table())


def file_by_spark(_: int, folder: str) -> dict[str, object]:
    """epiclick on a Spark DataFrame of the same files."""
    from pyspark.sql import SparkSession

    from epiclick import read_log

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "4g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "8")
        .getOrCreate()
    )
    frame = session.read.parquet(folder)
    start = time.perf_counter()
    found = sums_of(read_log(frame).to_table())
    found["counting_seconds"] = round(time.perf_counter() - start, 1)
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    (java,) = children
    found["java_peak_gb"] = round(peak_memory(java) / 1e9, 2)
    used = Path(f"/proc/{java}/stat").read_text().rpartition(")")[2].split()[11:13]
    found["java_processor_seconds"] = round(sum(map(int, used)) / os.sysconf("SC_CLK_TCK"), 1)
    return found


def sums_of(counted: object) -> dict[str, object]:
    """Sizes and a checksum of counts; equal for equal counts, whatever the order of the rows."""
    found = duckdb.sql(
        "SELECT count(*), sum(displays)::BIGINT, sum(clicks)::BIGINT, "
        "bit_xor(hash(query_id::BIGINT, doc_id::BIGINT, position::BIGINT, displays::BIGINT, "
        "clicks::BIGINT))::VARCHAR FROM counted"
    ).fetchall()[0]
    return dict(zip(("groups", "displays", "clicks", "checksum"), found, strict=True))


def peak_memory(process: str = "self") -> int:
    """Largest resident size of a process in bytes."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if "VmHWM" in line)) * 1024


TASKS: dict[str, Callable[[int, str], dict[str, object]]] = {
    each.__name__: each
    for each in (
        stream_by_duckdb,
        stream_by_epiclick,
        joined_by_duckdb,
        joined_on_distinct_by_duckdb,
        file_by_duckdb,
        file_by_spark,
    )
}


def run_task(name: str, count: int, folder: str) -> None:
    """Run one task in this process and print its record."""
    start, processor = time.perf_counter(), time.process_time()
    found = TASKS[name](count, folder)
    record = {
        **found,
        "seconds": round(time.perf_counter() - start, 1),
        "processor_seconds": round(time.process_time() - processor, 1),
        "peak_gb": round(peak_memory() / 1e9, 2),
    }
    print(json.dumps(record))


def in_own_process(name: str, count: int, folder: Path | str = "") -> dict[str, object]:
    command = [sys.executable, __file__, "--task", name, "--rows", str(count)]
    done = subprocess.run(
        [*command, "--folder", str(folder)], check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def compare(names: tuple[str, ...], count: int, folder: Path | str = "") -> dict[str, object]:
    """Tasks in turn, whose counts must be the same."""
    records = {name: in_own_process(name, count, folder) for name in names}
    sums = {(each["groups"], each["checksum"]) for each in records.values()}
    assert len(sums) == 1, f"counts differ: {records}"
    return {"rows": count, **records}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=("spark", "stream", "joined"), default="spark")
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--folder", type=Path, help="where the tables of `joined` are left")
    parser.add_argument("--task", choices=TASKS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.task:
        run_task(given.task, given.rows, str(given.folder))
        return
    result: dict[str, object] = {"cores": os.cpu_count(), "load": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as own:
        folder = given.folder or Path(own)
        if given.what == "spark":
            write_log(folder / "log", given.rows)
            result |= compare(("file_by_duckdb", "file_by_spark"), given.rows, folder / "log")
        elif given.what == "stream":
            result |= compare(("stream_by_duckdb", "stream_by_epiclick"), given.rows)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            start = time.perf_counter()
            write_two_tables(folder, given.rows)
            result["writing_seconds"] = round(time.perf_counter() - start, 1)
            result |= compare(
                ("joined_by_duckdb", "joined_on_distinct_by_duckdb"), given.rows, folder
            )
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
