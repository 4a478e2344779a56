"""Logs that are tables: --connect, FILE:TABLE and --columns, through whole sequences of verbs."""

import re
import shutil
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from .conftest import TRAINING, epiclick

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def warehouse(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A DuckDB file with the early and the late log of the world, and rankings."""
    file = tmp_path_factory.mktemp("house") / "shop.duckdb"
    with duckdb.connect(str(file)) as made:
        for name in ("early", "late"):
            made.execute(f"CREATE TABLE {name} AS FROM '{world}/{name}.parquet'")
        made.execute(
            "CREATE TABLE ranking AS SELECT query_id, doc_id, doc_id % 7 AS score, 1 AS other "
            "FROM (SELECT DISTINCT query_id, doc_id FROM early)"
        )
    return file


def test_a_table_is_read_as_the_file_it_came_from(warehouse: Path, world: Path) -> None:
    expected = epiclick("count", world / "early.parquet", "--json").record
    for given in ([f"{warehouse}:early"], ["early", "--connect", f"duckdb://{warehouse}"]):
        assert epiclick("count", *given, "--json").record == expected


def test_a_connection_serves_all_logs_and_leaves_no_trace(
    warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = shutil.copy(warehouse, tmp_path / "own.duckdb")
    monkeypatch.setenv("HOUSE", f"duckdb://{own}?custom_user_agent=secret-word")
    reading = ["--connect", "env:HOUSE"]
    model = tmp_path / "model"
    fitted = epiclick("fit", "early", *reading, "--out", model, *TRAINING)
    assert fitted.code == 0, fitted.err
    scored = epiclick("evaluate", model, "late", *reading, "--json")
    assert scored.code == 0, scored.err
    report = tmp_path / "report.html"
    made = epiclick("report", model, "early", "--backtest", "late", *reading, "--out", report)
    assert made.code == 0, made.err
    printed = "".join(done.out + done.err for done in (fitted, scored, made))
    written = "".join(file.read_bytes().decode("latin-1") for file in [report, *model.iterdir()])
    assert not re.search("secret-word|duckdb://", printed + written)
    # what is searched for would be found: the report names its logs
    assert "late" in written


def test_a_ranking_may_be_a_table_and_its_column(warehouse: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    assert epiclick("fit", f"{warehouse}:early", "--out", model, *TRAINING).code == 0
    found = epiclick(
        *("compare", model, "--clicks", f"{warehouse}:early", "--json", "--depth", 3),
        *("--ranking", f"new={warehouse}:ranking:score", "--ranking", f"old={warehouse}:ranking"),
    )
    assert [each["name"] for each in found.record["rankers"]] == ["new", "old"]


def test_a_headerless_log_is_read_again_with_its_names(world: Path, tmp_path: Path) -> None:
    log = pd.read_parquet(world / "early.parquet")
    log.to_csv(tmp_path / "early.tsv", sep="\t", header=False, index=False)
    names = ",".join(log.columns)
    model = tmp_path / "model"
    fitted = epiclick("fit", tmp_path / "early.tsv", "--columns", names, "--out", model, *TRAINING)
    assert fitted.code == 0, fitted.err
    again = epiclick("evaluate", model, tmp_path / "early.tsv", "--json").record
    named = epiclick("evaluate", model, world / "early.parquet", "--json").record
    assert again["backtest"] == named["backtest"]
    assert not again["warnings"]
    assert any("--columns is not used" in warning for warning in named["warnings"])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["early", "--connect", "duckdb"], "needs a URL"),
        (["early", "--connect", "oracel://ann:pw-12@h/d"], "no such engine"),
        (["early", "--columns", "a,,b"], "header: must be"),
    ],
)
def test_wrong_connections_and_names_are_refused(given: list[str], words: str) -> None:
    epiclick("count", *given).assert_refused(words)


def test_two_tables_of_a_connection_are_refused_with_the_remedy() -> None:
    call = ["count", "--impressions", "shown", "--clicks", "clicked"]
    done = epiclick(*call, "--connect", "duckdb:///shop.duckdb")
    done.assert_refused("join impressions and clicks in a view", "option-does-not-apply")
