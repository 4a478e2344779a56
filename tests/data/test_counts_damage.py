"""A damaged file of counts is refused, or read as exactly the same counts."""

import datetime
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from epiclick.data.checksums import digest_rows
from epiclick.data.counts import ClickCounts
from epiclick.data.counts_metadata import FIELD_ID, KEY
from epiclick.data.readers import read_log
from epiclick.errors import InputError

from ..damaging import assert_damage_is_found, flipped
from ..raising import raises_code


def assert_same(first: ClickCounts, second: ClickCounts) -> None:
    """Equal to the last bit, metadata included."""
    assert first.to_table().equals(second.to_table())
    assert first.contexts.equals(second.contexts)
    assert (first.pages, first.options) == (second.pages, second.options)
    for name in ("pair", "context", "displays", "clicks", "part"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert (first.parts is None) == (second.parts is None)
    assert first.parts is None or first.parts.equals(second.parts)


@pytest.fixture
def by_text(small_log: pd.DataFrame) -> ClickCounts:
    log = small_log.assign(device=["phone", "desk"] * 9, day=["mon"] * 9 + ["tue"] * 9)
    return read_log(log, context=("device", "position"), part="day", where="position < 3")


@pytest.fixture
def by_number(small_log: pd.DataFrame) -> ClickCounts:
    codes = {name: small_log[name].factorize()[0] for name in ("query_id", "doc_id")}
    return read_log(small_log.assign(**codes), page_parts=3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["by_text", "by_number"])
def test_damage_is_refused_or_harmless(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    counts, file = request.getfixturevalue(name), tmp_path / "c.parquet"
    counts.to_parquet(file)
    refused, same = assert_damage_is_found(
        file, lambda: assert_same(ClickCounts.from_parquet(file), counts), flips=500
    )
    assert refused > same


@pytest.mark.slow
def test_damage_is_refused_or_harmless_where_a_log_is_read(
    by_text: ClickCounts, tmp_path: Path
) -> None:
    """Whatever the flip, the file is not read as a counted log that epiclick did not write."""
    file = tmp_path / "c.parquet"
    by_text.to_parquet(file)
    refused, _ = assert_damage_is_found(
        file, lambda: assert_same(read_log(file), by_text), flips=400, seed=1
    )
    assert refused > 100


def test_a_column_name_that_is_not_utf8_is_refused(by_text: ClickCounts, tmp_path: Path) -> None:
    file = tmp_path / "c.parquet"
    by_text.to_parquet(file)
    file.write_bytes(file.read_bytes().replace(b"query_id", b"\xf1uery_id"))
    with raises_code("damaged-file") as caught:
        read_log(file)
    assert str(file) in str(caught.value)


@pytest.mark.slow
def test_a_flip_is_found_when_read_together_with_a_foreign_file(
    small_log: pd.DataFrame, tmp_path: Path
) -> None:
    counts, file, log = read_log(small_log), tmp_path / "c.parquet", tmp_path / "l.parquet"
    counts.to_parquet(file)
    small_log.groupby(["query_id", "doc_id", "position"]).click.agg(
        displays="size", clicks="sum"
    ).reset_index().to_parquet(log)
    total = read_log([file, log]).total_displays
    assert total == 36
    content, refused = file.read_bytes(), 0
    for broken in flipped(content, 60, seed=2):
        file.write_bytes(broken)
        try:
            assert read_log([file, log]).total_displays == total
        except InputError:
            refused += 1
    assert refused > 20


def test_a_file_without_its_metadata_is_not_taken_for_a_foreign_log(
    by_text: ClickCounts, tmp_path: Path
) -> None:
    by_text.to_parquet(tmp_path / "c.parquet")
    table = pq.read_table(tmp_path / "c.parquet")
    pq.write_table(table.replace_schema_metadata(None), tmp_path / "c.parquet")
    for read in (read_log, ClickCounts.from_parquet):
        with raises_code("damaged-file") as caught:
            read(tmp_path / "c.parquet")
        assert f"{tmp_path / 'c.parquet'}" in str(caught.value)
        assert "metadata" in str(caught.value)


def test_rows_changed_by_hand_are_refused(by_text: ClickCounts, tmp_path: Path) -> None:
    by_text.to_parquet(tmp_path / "c.parquet")
    table = pq.read_table(tmp_path / "c.parquet")
    pq.write_table(table.slice(1), tmp_path / "c.parquet")
    with raises_code("damaged-file") as caught:
        read_log(tmp_path / "c.parquet")
    assert "count the log again" in str(caught.value)


def test_other_versions_are_named_with_the_remedy(by_text: ClickCounts, tmp_path: Path) -> None:
    file = tmp_path / "c.parquet"
    by_text.to_parquet(file)
    table = pq.read_table(file)
    for version, remedy in ((1, "count the log again"), (9, "upgrade")):
        record = {**json.loads(table.schema.metadata[KEY]), "schema_version": version}
        pq.write_table(table.replace_schema_metadata({KEY: json.dumps(record)}), file)
        with raises_code("unsupported-version") as caught:
            read_log(file)
        assert remedy in str(caught.value)


def test_field_ids_of_other_writers_are_ignored(tmp_path: Path) -> None:
    rows = {"query_id": ["a", "a"], "doc_id": ["b", "b"], "position": [1, 2]}
    table = pa.table({**rows, "displays": [3, 4], "clicks": [1, 1]})
    fields = [f.with_metadata({FIELD_ID: str(i + 1)}) for i, f in enumerate(table.schema)]
    pq.write_table(table.cast(pa.schema(fields)), tmp_path / "iceberg.parquet")
    assert read_log(tmp_path / "iceberg.parquet").total_displays == 7


@pytest.mark.parametrize(
    "values",
    [
        [datetime.date(2026, 1, 1), datetime.date(2026, 1, 2), None],
        [True, False, True],
        [0.5, float("nan"), -0.0],
        pa.array([1, 2, 3], pa.timestamp("s")),
        pa.array(["x", "y", None], pa.string()),
        pa.array(["x", "y", "x"]).dictionary_encode(),
    ],
    ids=str,
)
def test_the_digest_of_rows_survives_parquet_and_chunks(values: object, tmp_path: Path) -> None:
    table = pa.table({"a": values, "b": pa.array(["q", "", "é"]), "c": pa.array([1, 2, 3])})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=2)
    back = pq.read_table(tmp_path / "t.parquet")
    assert digest_rows(back) == digest_rows(table)
    assert digest_rows(pa.concat_tables([back[:1], back[1:]])) == digest_rows(table)
    for other in (table[:2], table.rename_columns(["a", "b", "x"]), table.take([0, 2, 1])):
        assert digest_rows(other) != digest_rows(table)
