"""Tables keyed by query, item or both: joined as pandas joins them, all candidates kept."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.raising import raises_code

import epiclick as ec
from epiclick.data.features import FeatureTable, read_features
from epiclick.errors import InputWarning

RNG = np.random.default_rng(5)
PAIRS = pd.DataFrame({"query_id": np.repeat(np.arange(40), 6), "doc_id": RNG.permutation(240) % 60})
PAIRS = PAIRS.drop_duplicates().reset_index(drop=True).assign(bm25=lambda t: RNG.random(len(t)))
ITEMS = pd.DataFrame({"item_id": RNG.permutation(60), "price": RNG.random(60)})
QUERIES = pd.DataFrame({"query": RNG.permutation(40), "words": RNG.integers(1, 9, 40)})
ITEMS["brand"] = RNG.choice(["acme", "zeta"], 60)


def merged(pairs: pd.DataFrame, how: str = "left") -> pd.DataFrame:
    """The same join, by pandas."""
    both = pairs.merge(ITEMS, how=how, left_on="doc_id", right_on="item_id")
    return both.merge(QUERIES, how=how, left_on="query_id", right_on="query")


def values(table: FeatureTable, names: list[str], rows: np.ndarray | None = None) -> np.ndarray:
    index = np.arange(len(table)) if rows is None else rows
    return table.rows(index)[:, [table.names.index(name) for name in names]]


@pytest.mark.parametrize("on_disk", [False, True])
def test_the_join_is_that_of_pandas(tmp_path: Path, on_disk: bool) -> None:
    sources = [ITEMS, PAIRS, QUERIES]
    if on_disk:
        PAIRS.to_parquet(tmp_path / "pairs.parquet")
        ITEMS.to_csv(tmp_path / "items.csv", index=False)
        QUERIES.to_parquet(tmp_path / "queries.parquet")
        sources = [tmp_path / name for name in ("items.csv", "pairs.parquet", "queries.parquet")]
    table = read_features(sources)
    assert table.names == ("price", "brand", "bm25", "words")
    assert not table.is_open
    expected = merged(PAIRS)
    assert table.keys["query_id"].to_pylist() == expected["query_id"].tolist()
    index = RNG.integers(0, len(PAIRS), 100)
    names = ["price", "bm25", "words"]
    own = values(table, names, index)
    np.testing.assert_array_equal(own, expected[names].to_numpy(np.float32)[index])
    brands = np.array(list(table.categories["brand"]))[values(table, ["brand"]).astype(int)[:, 0]]
    assert brands.tolist() == expected["brand"].tolist()


def test_all_candidates_of_several_tables_of_pairs_are_kept() -> None:
    some = PAIRS[["query_id", "doc_id"]].iloc[100:].assign(clicks_before=2.0)
    first = PAIRS.iloc[:150]
    table = read_features([first, some], missing_values="impute")
    expected = first.merge(some, how="outer", on=["query_id", "doc_id"])
    assert len(table) == len(expected) == len(PAIRS)
    own = pd.DataFrame(values(table, ["bm25", "clicks_before"]), columns=["bm25", "before"])
    own = own.assign(**{name: table.keys[name].to_numpy() for name in ("query_id", "doc_id")})
    both = own.merge(expected, on=["query_id", "doc_id"], suffixes=("", "_expected"))
    np.testing.assert_array_equal(both["bm25"], both["bm25_expected"].astype(np.float32))
    np.testing.assert_array_equal(both["before"], both["clicks_before"])
    assert table.missing == {"clicks_before": 100, "bm25": len(PAIRS) - 150}
    with raises_code("missing-features") as caught:
        read_features([first, some])
    assert [problem.count for problem in caught.value.problems] == [len(PAIRS) - 150, 100]


def test_candidates_without_a_row_of_their_item_are_refused_or_imputed() -> None:
    few = ITEMS[ITEMS["item_id"] >= 10]
    lost = int((PAIRS["doc_id"] < 10).sum())
    with raises_code("missing-features") as caught:
        read_features([PAIRS, few])
    assert caught.value.problems[0].count == lost
    assert 'missing_values="impute"' in str(caught.value)
    table = read_features([PAIRS, few], missing_values="impute")
    assert np.isnan(values(table, ["price"])).sum() == lost
    assert table.missing == {"price": lost, "brand": lost}


def test_a_table_may_only_list_candidates() -> None:
    bare = PAIRS[["query_id", "doc_id"]]
    table = read_features([bare, ITEMS])
    np.testing.assert_array_equal(
        values(table, ["price"])[:, 0], merged(PAIRS)["price"].astype(np.float32)
    )
    with raises_code("no-features"):
        read_features([bare])


def test_without_pairs_the_candidates_come_from_logs_and_rankings() -> None:
    with pytest.warns(InputWarning, match="items that the log and the rankings show"):
        table = read_features([ITEMS[ITEMS["item_id"] > 5], QUERIES])
    assert table.is_open
    assert len(table) == 0
    with raises_code("candidates-needed"):
        table.refuse_open()
    shown = PAIRS.iloc[:50]
    first = table.including(pa.array(shown["query_id"]), pa.array(shown["doc_id"]))
    known = merged(shown[shown["doc_id"] > 5])
    assert len(first) == len(known)
    more = first.including(pa.array(PAIRS["query_id"]), pa.array(PAIRS["doc_id"]))
    assert len(more) == (PAIRS["doc_id"] > 5).sum()
    row = more.locate(pa.array(known["query_id"]), pa.array(known["doc_id"]))
    np.testing.assert_array_equal(
        values(more, ["price", "words"], row), known[["price", "words"]].to_numpy(np.float32)
    )
    with pytest.warns(InputWarning):
        imputed = read_features([ITEMS[ITEMS["item_id"] > 5], QUERIES], missing_values="impute")
    every = imputed.including(pa.array(PAIRS["query_id"]), pa.array(PAIRS["doc_id"]))
    assert len(every) == len(PAIRS)


def test_a_log_joins_what_it_shows_and_missing_items_are_refused_or_dropped() -> None:
    log = PAIRS.assign(position=PAIRS.groupby("query_id").cumcount() + 1)
    log["click"] = (log.index % 3 == 0).astype(int)
    few = ITEMS[ITEMS["item_id"] > 5]
    with pytest.warns(InputWarning), raises_code("missing-features"):
        ec.read_log(log, features=[few])
    with pytest.warns(InputWarning):
        counts = ec.read_log(log, features=[few], missing_features="drop")
    assert len(counts) == (PAIRS["doc_id"] > 5).sum()
    assert counts.features is not None
    assert len(counts.features) == len(counts)


def test_parts_of_one_table_are_still_added_up(tmp_path: Path) -> None:
    PAIRS[:100].to_parquet(tmp_path / "a.parquet")
    PAIRS[100:].to_parquet(tmp_path / "b.parquet")
    table = read_features([tmp_path / "a.parquet", ITEMS, tmp_path / "b.parquet"])
    assert len(table) == len(PAIRS)
    assert table.names == ("bm25", "price", "brand")
    with raises_code("repeated-column"):
        read_features([PAIRS[:100], PAIRS[100:]])


def test_a_feature_of_two_tables_is_refused() -> None:
    with raises_code("repeated-column") as caught:
        read_features([PAIRS.assign(price=1.0), ITEMS])
    assert "keyed by query and item" in str(caught.value)
    assert "keyed by item" in str(caught.value)


def test_repeated_items_name_the_column_that_may_be_lacking() -> None:
    with raises_code("repeated-pair") as caught:
        read_features(PAIRS.rename(columns={"query_id": "search"}))
    assert "each item must have one row" in str(caught.value)
    assert "query_id (query_id, query, user_query, qid, search_term)" in str(caught.value)


def test_new_items_may_be_marked_in_the_table_of_items() -> None:
    table = read_features([PAIRS, ITEMS.assign(new_item=ITEMS["item_id"] < 3)])
    np.testing.assert_array_equal(table.is_new, PAIRS["doc_id"] < 3)
