"""Tables with digests of their row groups: what is damaged is refused, or read as the same."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from epiclick.cli.interleave import write_table
from epiclick.cli.relevance import write_frames
from epiclick.comparison.rankings import read_ranking
from epiclick.data import checked_tables
from epiclick.data.checked_tables import DIGESTS, check_tables, write_tables
from epiclick.data.plain_parquet import plain_parquet

from ..damaging import assert_damage_is_found


@pytest.fixture
def table() -> pa.Table:
    rng = np.random.default_rng(0)
    columns = {"query_id": np.repeat([f"query {q}" for q in range(4)], 5), "doc_id": np.arange(20)}
    return pa.table({**columns, "mean": rng.random(20), "low": rng.random(20, np.float32)})


def test_damaged_relevance_is_refused_as_a_ranking_or_read_as_the_same(
    table: pa.Table, tmp_path: Path
) -> None:
    path = tmp_path / "relevance.parquet"
    frame = table.to_pandas()
    assert write_frames([frame[:13], frame[13:]], path) == 20
    whole = read_ranking((str(path), "mean"), "new")

    def check() -> None:
        found = read_ranking((str(path), "mean"), "new")
        assert found.doc_id.equals(whole.doc_id)
        assert found.query_id.equals(whole.query_id)

    refused, _ = assert_damage_is_found(path, check, flips=600)
    assert refused > 100


def test_damaged_pages_are_refused_or_read_as_the_same(table: pa.Table, tmp_path: Path) -> None:
    path = tmp_path / "pages.parquet"
    write_table(table.append_column("position", pa.array([1, 2, 3, 4, 5] * 4)), path)
    whole = read_ranking(str(path), "new")

    def check() -> None:
        found = read_ranking(str(path), "new")
        assert found.doc_id.equals(whole.doc_id)
        assert found.query_id.equals(whole.query_id)
        assert found.contexts.equals(whole.contexts)

    refused, _ = assert_damage_is_found(path, check, flips=600)
    assert refused > 100


def test_row_groups_of_any_size_are_checked(
    table: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checked_tables, "ROW_GROUP", 7)
    path = tmp_path / "table.parquet"
    assert write_tables([table, table[:0], table[:3]], path) == 23
    assert pq.read_metadata(path).num_row_groups >= 4
    check_tables(path)
    assert pq.read_table(path).equals(pa.concat_tables([table, table[:3]]))


def test_lists_are_checked(table: pa.Table, tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    lists = pa.array([[k, k + 1] for k in range(19)] + [None], pa.list_(pa.int32()))
    write_tables([table.append_column("swapped", lists)], path)
    check_tables(path)
    other = pa.array([[k, k + 1] for k in range(20)], pa.list_(pa.int32()))
    stated = pq.read_metadata(path).metadata[DIGESTS]
    pq.write_table(
        table.append_column("swapped", other).replace_schema_metadata({DIGESTS: stated}), path
    )
    with pytest.raises(ValueError, match="does not match its checksum"):
        check_tables(path)


def test_tables_without_digests_are_read(table: pa.Table, tmp_path: Path) -> None:
    pq.write_table(table, tmp_path / "other.parquet")
    check_tables(tmp_path / "other.parquet")
    assert plain_parquet(str(tmp_path / "other.parquet")) is not None


def test_an_empty_table_is_whole(tmp_path: Path) -> None:
    empty = pd.DataFrame({"query_id": pd.Series([], dtype="int64")})
    assert write_frames([empty], tmp_path / "empty.parquet") == 0
    check_tables(tmp_path / "empty.parquet")
