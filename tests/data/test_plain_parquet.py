"""Files read without an engine, and those that are left to it."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from epiclick.data.plain_parquet import plain_parquet
from epiclick.data.sources import open_source

ROWS = pa.table(
    {
        "query_id": pa.array([2, 1, None], pa.int32()),
        "doc_id": ["b", "a", "c"],
        "position": pa.array([1, None, 3], pa.int16()),
        "score": [0.5, np.nan, 1e300],
        "__index_level_0__": [7, 8, 9],
    }
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet"


def test_rows_are_those_the_engine_reads(file: Path) -> None:
    plain = plain_parquet(file)
    assert plain is not None
    by_engine = open_source(file).table.to_pyarrow()
    assert plain.schema.names == by_engine.column_names
    rows = plain.read(plain.schema.names)
    assert rows is not None
    for name in plain.schema.names:
        expected, found = by_engine[name].to_pylist(), rows[name].to_pylist()
        assert str(found) == str(expected)  # as text, since NaN differs from itself


def test_only_plain_columns_need_no_engine(tmp_path: Path) -> None:
    columns = {
        "int": pa.array([1], pa.int8()),
        "unsigned": pa.array([2**64 - 1], pa.uint64()),
        "float": pa.array([1.0], pa.float32()),
        "half": pa.array(np.array([1], np.float16)),
        "text": pa.array(["1"], pa.large_string()),
        "category": pa.array(["1"]).dictionary_encode(),
        "flag": pa.array([True]),
    }
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    plain = plain_parquet(tmp_path / "rows.parquet")
    assert plain is not None
    assert [name for name in columns if plain.has_keys([name])] == ["int", "unsigned", "text"]
    assert [name for name in columns if plain.has_numbers(name)] == ["int", "float"]


def test_other_sources_are_left_to_the_engine(file: Path, tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "more.parquet")
    assert plain_parquet(tmp_path) is None  # two files
    assert plain_parquet(ROWS) is None
    assert plain_parquet(tmp_path / "missing.parquet") is None
    (tmp_path / "rows.csv").write_text("query_id,doc_id\n1,2\n")
    assert plain_parquet(tmp_path / "rows.csv") is None
    day = tmp_path / "day=1"
    day.mkdir()
    file.rename(day / "rows.parquet")  # the folder is a column
    assert plain_parquet(day / "rows.parquet") is None
    (tmp_path / "cut.parquet").write_bytes((day / "rows.parquet").read_bytes()[:-9])
    assert plain_parquet(tmp_path / "cut.parquet") is None
    same = pa.table([[1], [2]], names=["doc_id", "DOC_ID"])
    pq.write_table(same, tmp_path / "same.parquet")
    assert plain_parquet(tmp_path / "same.parquet") is None


def test_a_file_whose_rows_are_damaged_is_left_to_the_engine(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(ROWS, path)
    content = bytearray(path.read_bytes())
    content[4:60] = bytes(56)  # the first pages; the footer is intact
    path.write_bytes(content)
    plain = plain_parquet(path)
    assert plain is not None
    assert plain.read(["query_id"]) is None
