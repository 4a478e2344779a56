"""Tables of an engine at a URL: counted there, and its password shown nowhere."""

import sqlite3
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from epiclick.data import credentials
from epiclick.data.connections import ConnectedTable, connected_tables, connection_to
from epiclick.data.credentials import hidden, keep_secret
from epiclick.data.readers import read_log

from ..raising import raises_code

# Ibis's way to rows of engines other than DuckDB leads through pandas
pytestmark = pytest.mark.filterwarnings(
    "ignore:The 'future.infer_string' option:DeprecationWarning"
)


@pytest.fixture
def urls(small_log: pd.DataFrame, tmp_path: Path) -> dict[str, str]:
    """Two engines with the same table in different databases."""
    small_log.to_parquet(tmp_path / "log.parquet")
    with duckdb.connect(str(tmp_path / "a.duckdb")) as made:
        made.execute(f"CREATE TABLE searches AS FROM '{tmp_path}/log.parquet'")
        made.execute("CREATE SCHEMA web; CREATE TABLE web.clicks AS FROM searches")
        made.execute("CREATE TABLE short AS SELECT query_id, doc_id FROM searches")
    connection = sqlite3.connect(tmp_path / "b.sqlite")
    small_log.to_sql("searches", connection, index=False)
    connection.close()
    return {"duckdb": f"duckdb://{tmp_path}/a.duckdb", "sqlite": f"sqlite://{tmp_path}/b.sqlite"}


@pytest.mark.parametrize("engine", ["duckdb", "sqlite"])
def test_a_table_is_counted_by_its_engine(
    engine: str, urls: dict[str, str], small_log: pd.DataFrame
) -> None:
    tables = connected_tables(urls[engine], ["searches"])
    counts = read_log(tables, where="position < 3")
    expected = read_log(small_log[small_log.position < 3])
    assert counts.to_table().equals(expected.to_table())
    assert counts.pages == 6
    assert connection_to(urls[engine]).name == engine


def test_several_tables_are_one_log(urls: dict[str, str], small_log: pd.DataFrame) -> None:
    assert read_log(connected_tables(urls["duckdb"], ["web.clicks"])).pages == 6
    both = connected_tables(urls["duckdb"], ["searches", "web.clicks"])
    with raises_code("repeated-document"):
        read_log(both)
    with raises_code("columns-differ"):
        read_log(connected_tables(urls["duckdb"], ["searches", "short"]))


def test_a_missing_table_is_named_with_those_there_are(urls: dict[str, str]) -> None:
    with raises_code("unknown-table") as caught:
        read_log(connected_tables(urls["sqlite"], ["serches"]))
    assert "did you mean 'searches'" in str(caught.value)


def test_a_missing_file_is_not_created(tmp_path: Path) -> None:
    for engine in ("duckdb", "sqlite"):
        with raises_code("file-missing"):
            read_log(connected_tables(f"{engine}://{tmp_path}/none.db", ["searches"]))
    assert not list(tmp_path.iterdir())


def test_the_url_may_be_in_the_environment(
    urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAREHOUSE", urls["duckdb"])
    assert read_log(connected_tables("env:WAREHOUSE", ["searches"])).pages == 6
    with raises_code("variable-not-set"):
        connected_tables("env:NO_SUCH_WAREHOUSE", ["searches"])


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("warehouse.duckdb", "invalid-url"),
        ("postgress://ann:hunter-22@host/shop", "unknown-engine"),
        ("snowflake://ann:hunter-22@account/shop?token=hunter-23", "engine-not-installed"),
    ],
)
def test_what_is_no_engine_is_refused_without_the_password(url: str, code: str) -> None:
    with raises_code(code) as caught:
        read_log(connected_tables(url, ["searches"]))
    assert "hunter" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_table_shows_no_password() -> None:
    table = ConnectedTable("postgres://ann:hunter-22@host/shop", "searches")
    assert "hunter" not in f"{table} {table!r}"


def test_secrets_are_hidden_in_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "_secrets", set())
    keep_secret("databricks://token-77@host/path")
    assert hidden("no access by token-77") == "no access by ***"
    keep_secret("mysql://bob%40x:a%2Fb-secret@db/shop?key=k-123&mode=ro")
    text = (
        "cannot reach mysql://bob%40x:a%2Fb-secret@db/shop?key=k-123&mode=ro as bob@x, a/b-secret"
    )
    assert hidden(text) == "cannot reach *** as bob@x, ***"
    assert hidden("k-123 or k-1234") == "*** or k-1234"
    assert hidden("the rows of the shop") == "the rows of the shop"
