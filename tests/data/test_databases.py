"""Tables of DuckDB and SQLite files: the counts of the same rows, read only, nothing else opened."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from epiclick.data.features import read_features
from epiclick.data.files import split_table, state_of
from epiclick.data.readers import count_log, read_log
from epiclick.data.schema import LogOptions
from epiclick.data.sources import open_source

from ..raising import raises_code

KINDS = ("duckdb", "sqlite")


def write(path: Path, **tables: pd.DataFrame) -> Path:
    """A database of the kind that its name says."""
    for name, frame in tables.items():
        if path.suffix == ".duckdb":
            with duckdb.connect(str(path)) as connection:
                connection.register("rows", frame)
                connection.execute(f'CREATE TABLE "{name}" AS FROM rows')
        else:
            connection = sqlite3.connect(path)
            frame.to_sql(name, connection, index=False)
            connection.close()
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_has_the_counts_of_its_rows(
    kind: str, small_log: pd.DataFrame, tmp_path: Path
) -> None:
    file = write(tmp_path / f"shop.{kind}", searches=small_log, other=small_log.head(3))
    before = state_of([file])
    counts = read_log(f"{file}:searches")
    assert counts.to_table().equals(read_log(small_log).to_table())
    assert counts.pages == 6
    assert state_of([file]) == before


@pytest.mark.parametrize("kind", KINDS)
def test_tables_of_several_files_add_up(kind: str, small_log: pd.DataFrame, tmp_path: Path) -> None:
    january = write(tmp_path / f"january.{kind}", searches=small_log)
    later = small_log.assign(page_id=small_log.page_id + 100)[small_log.columns[::-1]]
    february = write(tmp_path / f"february.{kind}", searches=later)
    both = read_log([f"{january}:searches", f"{february}:searches"])
    assert both.to_table().equals(read_log(pd.concat([small_log, later])).to_table())
    assert read_log(f"{tmp_path}/*.{kind}:searches").pages == 12


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_lists_the_tables(kind: str, small_log: pd.DataFrame, tmp_path: Path) -> None:
    file = write(tmp_path / f"shop.{kind}", searches=small_log, visits=small_log)
    with raises_code("table-not-named") as caught:
        read_log(file)
    assert "It has searches, visits" in str(caught.value)
    with raises_code("unknown-table") as caught:
        read_log(f"{file}:serches")
    assert "did you mean 'searches'?" in str(caught.value)
    with raises_code("file-missing"):
        read_log(f"{tmp_path}/none.{kind}:searches")


@pytest.mark.parametrize("kind", KINDS)
def test_columns_that_one_table_lacks_are_refused(
    kind: str, small_log: pd.DataFrame, tmp_path: Path
) -> None:
    file = write(tmp_path / f"shop.{kind}", a=small_log, b=small_log.drop(columns="position"))
    with raises_code("partial-column"):
        read_log([f"{file}:a", f"{file}:b"])


@pytest.mark.parametrize("kind", KINDS)
def test_bad_rows_are_counted_and_dropped_as_from_any_log(
    kind: str, small_log: pd.DataFrame, tmp_path: Path
) -> None:
    file = write(tmp_path / f"shop.{kind}", log=small_log.assign(click=[7, *small_log.click[1:]]))
    with raises_code("click-not-binary"):
        read_log(f"{file}:log")
    counts, report = count_log(f"{file}:log", LogOptions(on_bad="drop", max_bad=0.1))
    assert (report.dropped, counts.total_displays) == (1, len(small_log) - 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_or_renamed_file_is_refused(kind: str, tmp_path: Path) -> None:
    for content in (b"query_id,doc_id\n" * 20, b""):
        file = tmp_path / f"shop.{kind}"
        file.write_bytes(content)
        with raises_code("damaged-file" if content else "empty-file"):
            read_log(f"{file}:log")


def test_a_truncated_sqlite_file_is_refused(small_log: pd.DataFrame, tmp_path: Path) -> None:
    file = write(tmp_path / "shop.sqlite", log=pd.concat([small_log] * 400))
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with raises_code("source-unreadable"):
        read_log(f"{file}:log")


def test_a_database_without_tables_is_refused(tmp_path: Path) -> None:
    duckdb.connect(str(tmp_path / "empty.duckdb")).close()
    with raises_code("no-tables"):
        read_log(tmp_path / "empty.duckdb")


def test_other_schemas_and_views_are_found(small_log: pd.DataFrame, tmp_path: Path) -> None:
    file = write(tmp_path / "shop.duckdb", searches=small_log)
    with duckdb.connect(str(file)) as made:
        made.execute("CREATE SCHEMA web; CREATE VIEW web.half AS FROM searches WHERE page_id < 4")
    assert read_log(f"{file}:web.half").pages == 3


def test_a_view_reaches_no_other_file(small_log: pd.DataFrame, tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    small_log.to_parquet(other)
    file = write(tmp_path / "shop.duckdb", searches=small_log)
    with duckdb.connect(str(file)) as made:
        made.execute(f"CREATE VIEW beyond AS FROM '{other}'")
        assert made.execute("SELECT count(*) FROM beyond").fetchone() == (18,)
    with raises_code("source-unreadable") as caught:
        read_log(f"{file}:beyond")
    assert "disabled by configuration" in str(caught.value)


def test_nothing_can_be_written(small_log: pd.DataFrame, tmp_path: Path) -> None:
    file = write(tmp_path / "shop.duckdb", searches=small_log)
    connection = open_source(f"{file}:searches").table.get_backend()
    with pytest.raises(duckdb.Error, match="read-only"):
        connection.raw_sql("DELETE FROM database_0.main.searches")


@pytest.mark.slow
def test_a_file_open_for_writing_elsewhere_is_named(
    small_log: pd.DataFrame, tmp_path: Path
) -> None:
    file = write(tmp_path / "shop.duckdb", searches=small_log)
    program = f"import duckdb; c = duckdb.connect({str(file)!r}); print(1, flush=True); input()"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"1\n"
        with raises_code("database-locked"):
            read_log(f"{file}:searches")
        writer.communicate(b"\n")


def test_sqlite_text_that_is_not_utf8_is_refused_in_one_line(
    small_log: pd.DataFrame, tmp_path: Path
) -> None:
    file = write(tmp_path / "shop.sqlite", searches=small_log.assign(query_id="query 1"))
    content = file.read_bytes()
    at = content.index(b"query 1")
    file.write_bytes(content[:at] + b"\xff" + content[at + 1 :])
    with raises_code("source-unreadable") as caught:
        read_log(f"{file}:searches")
    assert "query_id" in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_sqlite_values_keep_their_own_types(tmp_path: Path) -> None:
    """SQLite stores any value in any column, whatever its declared type."""
    file = tmp_path / "shop.sqlite"
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE log (query_id TEXT, doc_id INTEGER, position REAL, click)")
    rows = [("q", 7, 1.0, 1), ("q", "seven", 2.0, 0), (None, 8, 1.0, 0)]
    connection.executemany("INSERT INTO log VALUES (?, ?, ?, ?)", rows)
    connection.commit()
    connection.close()
    opened = open_source(f"{file}:log")
    assert opened.mixed == ("doc_id",)
    assert opened.table.to_pyarrow().to_pydict() == {
        "query_id": ["q", "q", None],
        "doc_id": ["7", "seven", "8"],
        "position": [1.0, 2.0, 1.0],
        "click": [1, 0, 0],
    }
    with raises_code("mixed-types"):
        read_log(f"{file}:log")
    counts, _ = count_log(f"{file}:log", LogOptions(ids="string", on_bad="drop", max_bad=0.5))
    assert counts.doc_id.to_pylist() == ["7", "seven"]


def test_features_are_read_from_a_table(tmp_path: Path) -> None:
    features = pd.DataFrame({"query_id": ["q", "q"], "doc_id": [1, 2], "match": [0.5, 0.25]})
    file = write(tmp_path / "shop.duckdb", features=features, prices=features.assign(match=9.0))
    for table, expected in (("features", [0.5, 0.25]), ("prices", [9.0, 9.0])):
        assert read_features(f"{file}:{table}").matrix[:, 0].tolist() == expected


def test_a_folder_is_searched_for_files_only(small_log: pd.DataFrame, tmp_path: Path) -> None:
    write(tmp_path / "shop.duckdb", searches=small_log)
    small_log.to_parquet(tmp_path / "log.parquet")
    assert read_log(tmp_path).pages == 6


def test_a_colon_is_part_of_a_path_that_exists(small_log: pd.DataFrame, tmp_path: Path) -> None:
    odd = tmp_path / "a.duckdb:b.parquet"
    small_log.to_parquet(odd)
    assert split_table(odd) == (odd, "")
    assert read_log(odd).pages == 6
