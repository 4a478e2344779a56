"""One expression counts on every engine, and agrees with a loop over the rows."""

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from epiclick.data.counting import canonical_log, count_expression, page_fold, row_rules
from epiclick.data.readers import read_log
from epiclick.data.schema import LogColumns, LogOptions, resolve_columns

pytestmark = pytest.mark.slow

RAW_SCHEMA = {
    "page_id": "string",
    "query_id": "string",
    "doc_id": "int64",
    "position": "int32",
    "click": "int8",
    "device": "string",
    "day": "timestamp",
}
COUNTED_SCHEMA = {
    "qid": "int64",
    "url": "string",
    "pos": "int32",
    "impressions": "int64",
    "clicks": "int64",
}


def expression(schema: dict[str, str], options: LogOptions) -> tuple[ibis.Table, LogColumns]:
    table = ibis.table(schema, name="log")
    columns = resolve_columns(table.columns, options)
    log = canonical_log(table, columns, options)
    return count_expression(log, columns, options, row_rules(log, columns, options)), columns


CASES = {
    "raw": (RAW_SCHEMA, LogOptions()),
    "contexts": (RAW_SCHEMA, LogOptions(context=("device", "position"), part="day")),
    "folds": (RAW_SCHEMA, LogOptions(page_parts=10, position_base=0)),
    "counted": (COUNTED_SCHEMA, LogOptions(clip_clicks=True)),
    "text": (dict.fromkeys(RAW_SCHEMA, "string"), LogOptions()),
}


@pytest.mark.parametrize("engine", ["duckdb", "pyspark", "bigquery", "snowflake"])
@pytest.mark.parametrize("case", CASES)
def test_the_same_expression_compiles_for_every_engine(engine: str, case: str) -> None:
    counting, columns = expression(*CASES[case])
    sql = str(ibis.to_sql(counting, dialect=engine))
    tree = sqlglot.parse_one(sql, dialect={"pyspark": "spark"}.get(engine, engine))
    groups = list(tree.find_all(sqlglot.exp.Group))
    keys = 2 + len(columns.contexts) + (case in ("contexts", "folds"))
    assert len(groups) == 1, "counting must be one GROUP BY"
    assert len(groups[0].expressions) == keys
    assert [o.this.name for o in tree.find(sqlglot.exp.Order).expressions][:2] == [
        "query_id",
        "doc_id",
    ]
    assert {"displays", "clicks", "bad"} <= {a.alias for a in tree.find_all(sqlglot.exp.Alias)}


def test_compiled_sql_uses_each_engines_own_words() -> None:
    counting, _ = expression(*CASES["raw"])
    assert "COUNTIF(`t1`.`click` = 1)" in ibis.to_sql(counting, dialect="bigquery")
    assert "LOGICAL_OR" in ibis.to_sql(counting, dialect="bigquery")
    assert "SUM(CAST(`t1`.`click` = 1 AS BIGINT))" in ibis.to_sql(counting, dialect="pyspark")
    assert "BOOL_OR" in ibis.to_sql(counting, dialect="pyspark")
    folds, _ = expression(*CASES["folds"])
    assert "HASH(`t0`.`page_id`)" in ibis.to_sql(folds, dialect="pyspark")
    assert "FARM_FINGERPRINT(`t0`.`page_id`)" in ibis.to_sql(folds, dialect="bigquery")


# Ibis fetches from SQLite through pandas, and asks it for an option that is going
@pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")
def test_another_engine_gives_the_same_counts(small_log: pd.DataFrame, tmp_path: Path) -> None:
    """SQLite shares no code with DuckDB; the expression must mean the same there."""
    with closing(sqlite3.connect(tmp_path / "log.db")) as database:
        small_log.to_sql("log", database, index=False)
    there = read_log(ibis.sqlite.connect(tmp_path / "log.db").table("log"))
    here = read_log(small_log)
    assert there.to_table().equals(here.to_table())
    assert there.pages == here.pages == 6


def test_page_folds_are_even_and_those_of_the_id_not_its_type() -> None:
    pages = np.arange(2000)
    folds = []
    for ids in (pa.array(pages), pa.array(pages.astype(str))):
        table = ibis.memtable(pa.table({"page_id": ids}))
        folds.append(table.select(fold=page_fold(table.page_id, 7)).to_pyarrow()["fold"].to_numpy())
    assert np.array_equal(folds[0], folds[1])
    assert set(folds[0]) == set(range(7))
    # binomial(2000, 1/7): five standard deviations
    sizes = np.bincount(folds[0], minlength=7)
    assert np.all(abs(sizes - 2000 / 7) < 5 * np.sqrt(2000 * 1 / 7 * 6 / 7))


rows_of_a_log = st.lists(
    st.tuples(
        st.integers(0, 4), st.sampled_from(["a", "b", "c", "d"]), st.integers(1, 4), st.booleans()
    ),
    min_size=1,
    max_size=60,
).filter(lambda rows: any(click for *_, click in rows))


def counted(rows: list[tuple]) -> list[tuple]:
    """The oracle: a loop with dictionaries."""
    displays: Counter = Counter()
    clicks: Counter = Counter()
    for query, doc, position, click in rows:
        displays[query, doc, position] += 1
        clicks[query, doc, position] += click
    return [(*key, n, clicks[key]) for key, n in sorted(displays.items())]


def as_rows(table) -> list[tuple]:
    return [tuple(row.values()) for row in table.to_pylist()]


@pytest.mark.filterwarnings("ignore::epiclick.errors.InputWarning")
@settings(max_examples=25, deadline=None)
@given(rows=rows_of_a_log, seed=st.integers(0, 2**32 - 1), cut=st.floats(0, 1))
def test_order_splitting_and_counting_first_change_nothing(
    rows, seed, cut, tmp_path_factory
) -> None:
    folder = tmp_path_factory.mktemp("log")
    frame = pd.DataFrame(rows, columns=["query_id", "doc_id", "position", "click"])
    whole = read_log(frame)
    assert as_rows(whole.to_table()) == counted(rows)

    shuffled = frame.sample(frac=1, random_state=seed)
    assert read_log(shuffled).to_table().equals(whole.to_table())

    middle = round(cut * len(shuffled))
    shuffled[:middle].to_parquet(folder / "one.parquet", index=False)
    shuffled[middle:].to_parquet(folder / "two.parquet", index=False)
    assert read_log(folder).to_table().equals(whole.to_table())

    before = frame.groupby(["query_id", "doc_id", "position"], as_index=False).agg(
        displays=("click", "size"), clicks=("click", "sum")
    )
    zero = pd.DataFrame([{"query_id": 9, "doc_id": "z", "position": 1, "displays": 0, "clicks": 0}])
    assert read_log(before).to_table().equals(whole.to_table())
    assert read_log(pd.concat([before, zero])).to_table().equals(whole.to_table())
    twice = pd.concat([before, before]).sample(frac=1, random_state=seed)
    assert read_log(twice).total_displays == 2 * whole.total_displays
