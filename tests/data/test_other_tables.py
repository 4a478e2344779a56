"""Tables of other libraries: polars frames and Arrow datasets have the counts of the same rows."""

from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds

from epiclick.data.other_tables import open_lazy
from epiclick.data.readers import read_log

from ..raising import raises_code


def test_polars_frames_have_the_counts_of_their_rows(small_log: pd.DataFrame) -> None:
    expected = read_log(small_log).to_table()
    frame = pl.from_pandas(small_log)
    categories = frame.with_columns(pl.col("query_id").cast(pl.Categorical))
    for source in (frame, categories, frame.lazy(), frame.lazy().with_columns(x=pl.lit(1))):
        assert read_log(source).to_table().equals(expected)
    earlier = frame.lazy().filter(pl.col("page_id") < 4)
    assert (
        read_log(earlier).to_table().equals(read_log(small_log[small_log.page_id < 4]).to_table())
    )


def test_the_rows_of_a_lazy_frame_are_removed_with_their_connection(
    small_log: pd.DataFrame,
) -> None:
    opened = open_lazy(pl.from_pandas(small_log).lazy())
    view = "SELECT sql FROM duckdb_views() WHERE view_name = 'epiclick_source'"
    (made,) = opened.table.get_backend().raw_sql(view).fetchone()
    file = Path(made.split("'")[1])
    assert file.exists()
    del opened
    assert not file.parent.exists()


def test_a_lazy_frame_that_fails_is_refused(tmp_path: Path, small_log: pd.DataFrame) -> None:
    small_log.to_parquet(tmp_path / "log.parquet")
    frame = pl.scan_parquet(tmp_path / "log.parquet").with_columns(pl.col("query_id").cast(int))
    with raises_code("source-unreadable"):
        read_log(frame)


def test_arrow_datasets_have_the_counts_of_their_rows(
    small_log: pd.DataFrame, tmp_path: Path
) -> None:
    expected = read_log(small_log).to_table()
    rows = pa.Table.from_pandas(small_log)
    partitioned = ds.partitioning(pa.schema([("page_id", pa.int64())]), flavor="hive")
    ds.write_dataset(rows, tmp_path, format="parquet", partitioning=partitioned)
    for source in (ds.dataset(tmp_path, partitioning=partitioned), ds.dataset(rows)):
        counts = read_log(source, where="position >= 1")
        assert counts.to_table().equals(expected)
        assert counts.pages == 6


def test_a_reader_that_can_be_read_once_is_refused(small_log: pd.DataFrame) -> None:
    with raises_code("invalid-type"):
        read_log(pa.Table.from_pandas(small_log).to_reader())


def test_columns_of_one_name_are_refused(small_log: pd.DataFrame) -> None:
    with raises_code("repeated-column"):
        read_log(pl.from_pandas(small_log).with_columns(Click=pl.lit(1)))
