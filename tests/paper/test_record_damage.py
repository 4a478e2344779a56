"""Damaged files of a cell are rejected with a message, or read with the same content."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from epiclick.paper.cells import CellFiles, Record, read_rows
from epiclick.paper.results import Cost
from epiclick.paper.variants import VARIANTS

from ..damaging import assert_damage_is_found, flipped


@pytest.fixture
def record() -> Record:
    rng = np.random.default_rng(0)
    kept = Record("exact", 3)
    for epoch in (1, 2):
        kept.add(epoch, {"train": rng.normal(size=1), "theta": rng.normal(size=3)})
    kept.add(3, {"train": np.array([np.nan])})
    return kept


def test_damage_is_detected_or_harmless(record: Record, tmp_path: Path) -> None:
    record.save(tmp_path / "03.parquet")
    whole = record.table()

    def check() -> None:
        found = read_rows(tmp_path / "03.parquet")
        assert found.drop_columns("value").equals(whole.drop_columns("value"))
        assert found["value"].to_numpy().tobytes() == whole["value"].to_numpy().tobytes()

    refused, _ = assert_damage_is_found(tmp_path / "03.parquet", check, flips=400)
    assert refused > 150


def test_rows_without_a_digest_are_read(record: Record, tmp_path: Path) -> None:
    pq.write_table(record.table(), tmp_path / "03.parquet")
    assert len(read_rows(tmp_path / "03.parquet")) == len(record.table())


def test_damaged_metadata_are_empty_rather_than_wrong(record: Record, tmp_path: Path) -> None:
    files = CellFiles(tmp_path, VARIANTS["exact"], 3)
    files.finish(record, Cost("exact", 3, 1.5, 2.5, 10**9), rankers=["bm25", "pagerank"])
    before = files.load_metadata()
    del before["digest"]
    assert before["rankers"] == ["bm25", "pagerank"]
    content = files.metadata.read_bytes()
    for broken in flipped(content, len(content)):
        files.metadata.write_bytes(broken)
        found = files.load_metadata()
        assert not found or {**found, **before} == found
    assert replace(files, run=4).load_metadata() == {}
