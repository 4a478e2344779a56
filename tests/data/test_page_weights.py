"""Page weights agree with a loop over the rows, for any log in any order."""

from collections import Counter, defaultdict
from pathlib import Path

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from epiclick.data.counts import ClickCounts
from epiclick.data.page_weights import count_by_length, page_weights
from epiclick.data.readers import count_log
from epiclick.data.schema import LogOptions, resolve_columns

from ..raising import raises_code

pytestmark = pytest.mark.slow

KEYS = ["query_id", "doc_id", "position"]


def log_of(lengths: list[int], seed: int, queries: int = 3) -> pd.DataFrame:
    """Pages of the given lengths; a page shows documents of one query, each once."""
    rng = np.random.default_rng(seed)
    rows = []
    for page, length in enumerate(lengths):
        query = int(rng.integers(queries))
        docs = rng.permutation(max(lengths) + 1)[:length]
        rows += [
            (f"p{page}", query, f"d{doc}", k + 1, int(rng.random() < 0.4))
            for k, doc in enumerate(docs)
        ]
    rows[0] = (*rows[0][:4], 1)  # a log without a click is refused
    log = pd.DataFrame(rows, columns=["page_id", *KEYS, "click"])
    return log.sample(frac=1, random_state=seed).reset_index(drop=True)


def by_hand(rows: list[dict], keys: list[str]) -> dict[tuple, list[float]]:
    """The oracle: a loop with dictionaries."""
    length = Counter(row["page_id"] for row in rows)
    weights: dict[tuple, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for row in rows:
        key = tuple(row[name] for name in keys)
        weights[key][0 if row["click"] else 1] += 1 / length[row["page_id"]]
    return dict(weights)


def check(counts: ClickCounts, weights, rows: list[dict], keys: list[str]) -> None:
    expected = by_hand(rows, keys)
    entries = [tuple(row[name] for name in keys) for row in counts.to_table().to_pylist()]
    assert set(entries) == set(expected)
    np.testing.assert_allclose(weights.clicked, [expected[e][0] for e in entries], atol=1e-12)
    np.testing.assert_allclose(weights.unclicked, [expected[e][1] for e in entries], atol=1e-12)
    assert weights.pages == len({row["page_id"] for row in rows})


@settings(max_examples=20, deadline=None)
@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=20), seed=st.integers(0, 10**6))
def test_weights_agree_with_a_loop_over_pages_of_any_length(lengths: list[int], seed: int) -> None:
    log = log_of(lengths, seed)
    counts, _ = count_log(log, LogOptions())
    weights = page_weights(log, LogOptions(), counts)
    check(counts, weights, log.to_dict("records"), KEYS)


LENGTHS = [1, 2, 3, 5, 5, 4, 2, 6, 3, 3, 1, 4] * 4


def test_the_log_is_read_by_all_its_options(tmp_path: Path) -> None:
    """Aliases, a base of 0, a condition, folds of pages and text files at once."""
    log = log_of(LENGTHS, 3).assign(country=lambda t: t.page_id.str[-1])
    raw = log.assign(position=log.position - 1).rename(
        columns={"page_id": "serp_id", "doc_id": "url", "position": "Rank", "click": "clicked"}
    )
    raw.to_csv(tmp_path / "log.csv", index=False)
    options = LogOptions(position_base=0, where="country <> '2'", page_parts=3)
    counts, _ = count_log(tmp_path / "log.csv", options)
    weights = page_weights(tmp_path / "log.csv", options, counts)
    rows = log[log.country != "2"].to_dict("records")
    # folds split an entry: sum its weights for the loop, which does not use folds
    whole = ClickCounts.from_table(counts.to_table().drop_columns(["part"]))
    assert len(whole.pair) < len(counts.pair)
    names = counts.to_table().select(KEYS).to_pylist()
    index = {
        tuple(row.values()): i for i, row in enumerate(whole.to_table().select(KEYS).to_pylist())
    }
    entry = [index[tuple(row.values())] for row in names]
    summed = [np.bincount(entry, w) for w in (weights.clicked, weights.unclicked)]
    check(whole, type(weights)(*summed, weights.pages), rows, KEYS)


def test_several_contexts_and_days() -> None:
    log = log_of(LENGTHS, 5)
    log = log.assign(
        device=np.where(log.page_id.str.len() > 2, "phone", "desk"), day=log.page_id.str[-1]
    )
    options = LogOptions(context=("device", "position"), part="day")
    counts, _ = count_log(log, options)
    keys = ["query_id", "doc_id", "device", "position", "part"]
    rows = log.rename(columns={"day": "part"}).to_dict("records")
    weights = page_weights(log, options, counts)
    check(counts, weights, rows, keys)
    later = counts.split(0.5, 0.5, by="time")[1]
    days = set(later.to_table()["part"].to_pylist())
    assert 0 < len(days) < 10
    check(later, page_weights(log, options, later), [r for r in rows if r["part"] in days], keys)


@pytest.mark.parametrize("ids", [str, int, "category"])
def test_pairs_left_out_do_not_count_in_their_pages(ids: type | str) -> None:
    """Such as items without features: the mean within a page is over the scored rows."""
    log = log_of(LENGTHS, 7)
    log["doc_id"] = (
        log.doc_id.astype("category") if ids == "category" else log.doc_id.str[1:].astype(ids)
    )
    counts, _ = count_log(log, LogOptions())
    some = counts.subset(np.arange(len(counts)) % 3 != 0)
    kept = set(zip(some.query_id.to_pylist(), some.doc_id.to_pylist(), strict=True))
    rows = [r for r in log.to_dict("records") if (r["query_id"], r["doc_id"]) in kept]
    weights = page_weights(log, LogOptions(), some)
    check(some, weights, rows, KEYS)
    whole = page_weights(log, LogOptions(), counts)
    assert whole.clicked.sum() + whole.unclicked.sum() == pytest.approx(len(LENGTHS))
    assert weights.pages < whole.pages  # some pages had no other item


def test_ids_of_a_part_of_the_log_keep_the_type_of_the_whole(tmp_path: Path) -> None:
    """Text ids that happen to be numbers in the part that is left."""
    log = log_of(LENGTHS, 11)
    log["doc_id"] = log.doc_id.str[1:].replace({"0": "x"})
    log.to_csv(tmp_path / "log.csv", index=False)
    counts, _ = count_log(tmp_path / "log.csv", LogOptions())
    some = counts.subset([i for i, doc in enumerate(counts.doc_id.to_pylist()) if doc != "x"])
    rows = [r for r in log.to_dict("records") if r["doc_id"] != "x"]
    check(some, page_weights(tmp_path / "log.csv", LogOptions(), some), rows, KEYS)


def test_rows_dropped_as_bad_do_not_count_in_their_pages() -> None:
    log = log_of(LENGTHS, 13).astype({"position": "Int64"})
    log.loc[3, "position"] = None
    log.loc[5, "page_id"] = None
    twice = log[log.page_id == "p7"].head(1).assign(position=9)
    broken = pd.concat([log, twice], ignore_index=True)
    options = LogOptions(on_bad="drop", max_bad=0.5)
    counts, report = count_log(broken, options)
    assert report.dropped > 2
    good = broken[broken.position.notna() & broken.page_id.notna() & (broken.page_id != "p7")]
    check(counts, page_weights(broken, options, counts), good.to_dict("records"), KEYS)


def test_logs_without_pages_give_none(small_log: pd.DataFrame, tmp_path: Path) -> None:
    options = LogOptions()
    without = small_log.drop(columns="page_id")
    counts, _ = count_log(without, options)
    assert page_weights(without, options, counts) is None
    counted = counts.to_table()
    assert page_weights(counted, options, counts) is None
    counts.to_parquet(tmp_path / "counts.parquet")
    renamed = LogOptions(columns={"doc_id": "url"})  # of the log, not of the counts made from it
    assert page_weights(tmp_path / "counts.parquet", renamed, counts) is None
    assert page_weights(small_log, options, count_log(small_log, options)[0]) is not None


def test_another_log_is_refused(small_log: pd.DataFrame) -> None:
    counts, _ = count_log(small_log, LogOptions())
    other = small_log.assign(click=1 - small_log.click)
    differ = int(np.sum(2 * counts.clicks != counts.displays))
    with raises_code("counts-differ-from-log") as caught:
        page_weights(other, LogOptions(), counts)
    assert f"{differ} of 14 entries" in str(caught.value)
    with raises_code("options-differ") as caught:
        page_weights(small_log, LogOptions(page_parts=2), counts)
    assert "query_id, doc_id, position, part" in str(caught.value)


def test_counts_of_some_positions_are_refused(small_log: pd.DataFrame) -> None:
    """Pairs alone do not determine which rows of a page were counted."""
    counts, _ = count_log(small_log, LogOptions())
    table = counts.to_table()
    first_two = ClickCounts.from_table(table.filter(pa.compute.field("position") < 3))
    with raises_code("counts-differ-from-log") as caught:
        page_weights(small_log, LogOptions(), first_two)
    assert "6 of its displays are in no entry" in str(caught.value)


@pytest.mark.parametrize("engine", ["duckdb", "pyspark", "bigquery", "snowflake"])
def test_the_expression_compiles_for_every_engine(engine: str) -> None:
    schema = dict.fromkeys(["page_id", *KEYS, "click"], "string")
    table = ibis.table(schema, name="log")
    columns = resolve_columns(table.columns, LogOptions())
    sql = str(ibis.to_sql(count_by_length(table, columns, LogOptions()), dialect=engine))
    tree = sqlglot.parse_one(sql, dialect={"pyspark": "spark"}.get(engine, engine))
    assert len(list(tree.find_all(sqlglot.exp.Group))) == 1
    assert len(list(tree.find_all(sqlglot.exp.Window))) == 1
