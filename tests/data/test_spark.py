"""Spark counts as DuckDB does; one session and one test, since a session takes seconds to start."""

import gc
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest

from epiclick.data import results
from epiclick.data.readers import LogReport, count_log
from epiclick.data.schema import LogOptions
from epiclick.data.sources import open_source

from ..raising import raises_code

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # of Spark's own

SETTINGS = {
    "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    # compiling every query would take longer than these few rows
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Any]:
    """A local Spark; the test is skipped, by name, where there is no pyspark or no Java."""
    pyspark = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Java is not installed, which Spark needs")
    builder = pyspark.SparkSession.builder.master("local[1]")
    for name, value in {**SETTINGS, "spark.sql.warehouse.dir": str(tmp_path / "house")}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


def log_of_pages() -> pd.DataFrame:
    """Pages with clicks written in several ways."""
    rng = np.random.default_rng(5)
    pages = 120
    log = pd.DataFrame(
        {
            "page_id": np.repeat(np.arange(pages), 4),
            "query_id": np.repeat([f"Größe {i}" for i in rng.integers(0, 6, pages)], 4),
            "position": np.tile(np.arange(1.0, 5.0), pages),
        }
    )
    shift = np.repeat(rng.integers(0, 4, pages), 4)
    log["doc_id"] = [f"d{i}" for i in (log.position.astype(int) + shift) % 4]
    clicked = rng.random(len(log)) < 0.6 / log.position
    yes, no = (rng.choice(words, len(log)) for words in (["1", " true"], ["0", "False ", "0.0"]))
    log["click"] = np.where(clicked, yes, no)
    log["time"] = pd.Timestamp("2026-01-01 20:00") + pd.to_timedelta(log.page_id * 5, unit="min")
    log["bought"] = (clicked & (rng.random(len(log)) < 0.5)).astype(int)
    log["euro"] = np.where(log.bought == 1, rng.integers(1, 9999, len(log)) / 100, 0)
    return log


def with_bad_rows(log: pd.DataFrame) -> pd.DataFrame:
    """The log with three bad rows and a page that shows a document twice."""
    log = log.copy()
    log.loc[9, "position"] = 1.5
    log.loc[14, "click"] = "2"
    log.loc[20, "doc_id"] = None
    log.loc[31, "doc_id"] = log.doc_id[30]
    return log


def same_counts(session: Any, file: Path, options: LogOptions) -> LogReport:
    """Check that a file's counts by Spark are those by DuckDB; how it was read."""
    found, report = count_log(session.read.parquet(str(file)), options)
    expected, expected_report = count_log(file, options)
    assert found.to_table().equals(expected.to_table())
    assert (found.pages, report) == (expected.pages, expected_report)
    assert len(expected) >= 20
    return report


def test_spark_counts_as_duckdb_does(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zone = session.conf.get("spark.sql.session.timeZone")
    bad, good = tmp_path / "bad.parquet", tmp_path / "good.parquet"
    log_of_pages().to_parquet(good, index=False, coerce_timestamps="us")
    with_bad_rows(log_of_pages()).to_parquet(bad, index=False, coerce_timestamps="us")

    value = {"conversion": "bought", "value": "euro", "part": "time"}
    dropping = LogOptions(**value, on_bad="drop", max_bad=0.1, where="query_id <> 'Größe 3'")
    assert same_counts(session, bad, dropping).dropped > 3  # those of one page more

    # by way of a folder that both can reach, and that is left empty
    shared, read = tmp_path / "shared", []
    shared.mkdir()
    monkeypatch.setenv(results.FOLDER, str(shared))
    read_parts = results._read_parts
    monkeypatch.setattr(
        results, "_read_parts", lambda *given: read.append(given[0]) or read_parts(*given)
    )
    same_counts(session, good, LogOptions(click_model="ubm"))
    assert {Path(folder).parent for folder in read} == {shared}
    assert not list(shared.iterdir())

    # a cluster without such a folder: the driver collects the rows
    monkeypatch.delenv(results.FOLDER)
    monkeypatch.setattr(results, "_is_local", lambda _: False)
    frame = session.read.parquet(str(good))
    rows = open_source(frame).table.order_by(["page_id", "position"])
    assert results.fetch(rows)["doc_id"].to_pylist() == pd.read_parquet(good).doc_id.to_list()

    with raises_code("source-unreadable") as caught:
        count_log(frame.selectExpr("*", "raise_error('no luck') AS x"), LogOptions(part="x"))
    assert "no luck" in str(caught.value)

    del rows, caught
    gc.collect()
    assert session.conf.get("spark.sql.session.timeZone") == zone
    assert session.sql("SHOW TABLES").collect() == []


def test_counts_too_large_for_the_driver_have_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def collect() -> None:
        raise RuntimeError("results are bigger than spark.driver.maxResultSize (1024.0 MiB)")

    backend = mock.Mock(_session=mock.Mock(conf={"spark.master": "yarn"}))
    backend.name = "pyspark"
    rows = mock.Mock(get_backend=lambda: backend, to_pyarrow=collect)
    with raises_code("result-too-large") as caught:
        results.fetch(rows)
    assert "EPICLICK_RESULTS" in str(caught.value)
