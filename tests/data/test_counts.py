"""Counts are canonical, can be added, split without loss and survive a round trip."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureTable
from epiclick.data.readers import count_log, read_log
from epiclick.data.schema import LogOptions
from epiclick.errors import InputError

from ..raising import raises_code

KEYS = ["query_id", "doc_id", "position"]

entries = st.dictionaries(
    st.tuples(st.integers(0, 5), st.sampled_from("abcde"), st.integers(1, 4), st.integers(0, 3)),
    st.tuples(st.integers(1, 50), st.integers(0, 50)),
    min_size=1,
    max_size=40,
)


def table_of(rows: dict) -> pa.Table:
    flat = [(*key, n, min(n, m)) for key, (n, m) in rows.items()]
    columns = list(zip(*flat, strict=True))
    names = [*KEYS, "part", "displays", "clicks"]
    return pa.table({name: pa.array(column) for name, column in zip(names, columns, strict=True)})


def summed(table: pa.Table, keys: list[str]) -> pd.DataFrame:
    """The oracle: pandas adds up."""
    frame = table.to_pandas().groupby(keys, as_index=False)[["displays", "clicks"]].sum()
    return frame.sort_values(keys, ignore_index=True)


def same(counts: ClickCounts, expected: pd.DataFrame, keys: list[str]) -> bool:
    own = summed(counts.to_table(), keys)
    return own.astype(object).equals(expected.astype(object))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(rows=entries, order=st.randoms())
def test_table_in_any_order_gives_the_same_counts(rows: dict, order) -> None:
    table = table_of(rows)
    index = list(range(table.num_rows))
    order.shuffle(index)
    counts = ClickCounts.from_table(table)
    assert counts.to_table().equals(ClickCounts.from_table(table.take(index)).to_table())
    assert same(counts, summed(table, [*KEYS, "part"]), [*KEYS, "part"])
    halves = [table.slice(0, len(index) // 2), table.slice(len(index) // 2)]
    added = ClickCounts.concat([ClickCounts.from_table(h) for h in halves if h.num_rows])
    assert added.to_table().equals(counts.to_table())


@settings(max_examples=60, deadline=None)
@given(rows=entries, data=st.data())
def test_dense_agrees_with_a_loop(rows: dict, data) -> None:
    counts = ClickCounts.from_table(table_of(rows))
    pairs = np.array(data.draw(st.lists(st.integers(0, len(counts) - 1), max_size=8)), dtype=int)
    displays, clicks = counts.dense(pairs)
    position = counts.contexts["position"].to_pylist()
    for i, pair in enumerate(pairs):
        query, doc = counts.query_id[int(pair)].as_py(), counts.doc_id[int(pair)].as_py()
        for k, where in enumerate(position):
            mine = [
                (n, min(n, m))
                for (q, d, p, _), (n, m) in rows.items()
                if (q, d, p) == (query, doc, where)
            ]
            assert displays[i, k] == sum(n for n, _ in mine)
            assert clicks[i, k] == sum(m for _, m in mine)
    assert counts.dense()[0].sum() == counts.total_displays


@settings(max_examples=40, deadline=None)
@given(rows=entries.filter(lambda r: len({k[0] for k in r}) > 2), seed=st.integers(0, 99))
def test_split_by_query_loses_nothing_and_shares_no_query(rows: dict, seed: int) -> None:
    counts = ClickCounts.from_table(table_of(rows))
    parts = counts.split(0.4, 0.6, seed=seed)
    again = counts.split(0.4, 0.6, seed=seed)
    assert all(a.to_table().equals(b.to_table()) for a, b in zip(parts, again, strict=True))
    assert ClickCounts.concat(parts).to_table().equals(counts.to_table())
    assert not set(parts[0].query_id.to_pylist()) & set(parts[1].query_id.to_pylist())


def test_split_by_time_keeps_days_whole_and_in_order() -> None:
    days = [f"2026-01-{day:02d}" for day in range(1, 11)]
    table = pa.table(
        {
            "query_id": [1] * 10,
            "doc_id": ["a"] * 10,
            "position": [1, 2] * 5,
            "part": days,
            "displays": [10] * 10,
            "clicks": [1] * 10,
        }
    )
    train, valid, test = ClickCounts.from_table(table).split(0.6, 0.2, 0.2, by="time")
    assert [sorted(set(c.to_table()["part"].to_pylist())) for c in (train, valid, test)] == [
        days[:6],
        days[6:8],
        days[8:],
    ]


def test_split_by_page_divides_folds(small_log: pd.DataFrame) -> None:
    big = pd.concat([small_log.assign(page_id=small_log.page_id + 10 * i) for i in range(40)])
    counts = read_log(big, page_parts=10)
    halves = counts.split(0.5, 0.5, by="page", seed=1)
    assert ClickCounts.concat(halves).to_table().equals(counts.to_table())
    assert abs(halves[0].total_displays - halves[1].total_displays) < 0.3 * counts.total_displays
    # a page is in one fold: its three rows stay together
    assert all(h.total_displays % 3 == 0 for h in halves)
    assert halves[0].to_table() != counts.split(0.5, 0.5, by="page", seed=2)[0].to_table()


@pytest.mark.parametrize(
    ("call", "code", "named"),
    [
        (lambda c: c.split(0.5, 0.4), "invalid-shares", "(0.5, 0.4)"),
        (lambda c: c.split(1.5, -0.5), "invalid-shares", "(1.5, -0.5)"),
        (lambda c: c.split(0.5, 0.5, by="time"), "no-parts", "part="),
        (lambda c: c.split(0.5, 0.5, by="page"), "no-parts", "page_parts="),
        (lambda c: c.split(*[0.1] * 10), "too-few-groups", "(2)"),
        (lambda c: ClickCounts.concat([]), "nothing-to-add", ""),
    ],
)
def test_impossible_splits_are_refused(call, code: str, named: str, small_log) -> None:
    with raises_code(code) as caught:
        call(read_log(small_log))
    assert named in str(caught.value)


def test_an_unknown_way_to_split_is_refused(small_log: pd.DataFrame) -> None:
    with pytest.raises(InputError, match=r"by .*query, page, time"):
        read_log(small_log).split(0.5, 0.5, by="user")  # type: ignore[arg-type]


def test_subset_by_mask_and_index_agree(small_log: pd.DataFrame) -> None:
    counts = read_log(small_log)
    mask = np.array([True, False, True, False, False, True])
    by_mask, by_index = counts.subset(mask), counts.subset([5, 0, 2])
    assert by_mask.to_table().equals(by_index.to_table())
    assert by_mask.doc_id.to_pylist() == ["x", "z", "c"]


def test_parquet_round_trip_keeps_everything(small_log: pd.DataFrame, tmp_path: Path) -> None:
    log = small_log.assign(device=["phone", "desk", "phone"] * 6, day=["mon", "tue"] * 9)
    counts = read_log(log, context=("device", "position"), part="day")
    counts.to_parquet(tmp_path / "c.parquet")
    back = ClickCounts.from_parquet(tmp_path / "c.parquet")
    assert back.to_table().equals(counts.to_table())
    assert back.contexts.equals(counts.contexts)
    assert (back.pages, back.options) == (counts.pages, counts.options)
    assert [p.name for p in tmp_path.iterdir()] == ["c.parquet"]


@pytest.mark.filterwarnings("ignore::epiclick.errors.InputWarning")
def test_counts_of_days_add_up_when_read_together(small_log: pd.DataFrame, tmp_path: Path) -> None:
    whole = read_log(small_log)
    for name, rows in {"mon": small_log[:9], "tue": small_log[9:]}.items():
        read_log(rows).to_parquet(tmp_path / f"{name}.parquet")
    added = read_log([tmp_path / "mon.parquet", tmp_path / "tue.parquet"])
    assert added.to_table().equals(whole.to_table())
    assert added.pages == whole.pages == 6


def test_contexts_are_the_distinct_combinations(small_log: pd.DataFrame) -> None:
    counts = read_log(
        small_log.assign(device=["phone", "desk", "phone"] * 6), context=("device", "position")
    )
    assert counts.contexts.to_pylist() == [
        {"device": "desk", "position": 2},
        {"device": "phone", "position": 1},
        {"device": "phone", "position": 3},
    ]
    by_context = counts.by_context()
    assert by_context["displays"].tolist() == [6, 6, 6]
    assert by_context["clicks"].tolist() == [2, 3, 1]


@pytest.mark.parametrize(
    ("displays", "clicks", "code", "named"),
    [
        ([1.5, 2.0], [1.0, 1.0], "not-whole-number", "displays"),
        ([1, 2], [2, 1], "clicks-exceed-displays", "1 of 2 entries"),
        ([1, -2], [0, 0], "negative-count", "1 of 2 entries"),
    ],
)
def test_impossible_counts_are_refused(displays: list, clicks: list, code: str, named: str) -> None:
    table = pa.table(
        {
            "query_id": [1, 1],
            "doc_id": [1, 2],
            "position": [1, 1],
            "displays": displays,
            "clicks": clicks,
        }
    )
    with raises_code(code) as caught:
        ClickCounts.from_table(table)
    assert named in str(caught.value)


def test_counts_with_ids_of_two_types_cannot_be_added() -> None:
    def one(query: object) -> ClickCounts:
        row = {"query_id": [query], "doc_id": [1], "position": [1], "displays": [2], "clicks": [1]}
        return ClickCounts.from_table(pa.table(row))

    with raises_code("id-types-differ") as caught:
        ClickCounts.concat([one(1), one("1")])
    assert "ids='string'" in str(caught.value)


def features_of(pairs: list[tuple[str, str]]) -> FeatureTable:
    keys = pa.table({"query_id": [q for q, _ in pairs], "doc_id": [d for _, d in pairs]})
    matrix = np.arange(2 * len(pairs), dtype=np.float32).reshape(-1, 2)
    return FeatureTable(keys, ("f0", "f1"), matrix)


ALL_PAIRS = [
    ("shoes", "c"),
    ("hats", "y"),
    ("hats", "x"),
    ("shoes", "a"),
    ("hats", "z"),
    ("shoes", "b"),
]


def test_features_follow_their_pairs_through_splits(small_log: pd.DataFrame) -> None:
    features = features_of(ALL_PAIRS)
    counts = read_log(small_log).with_features(features)
    for part in (
        counts,
        *counts.split(0.5, 0.5),
        counts.subset([1, 4]),
        ClickCounts.concat([counts, counts]),
    ):
        for i, row in enumerate(part.feature_row):
            assert (part.query_id[i].as_py(), part.doc_id[i].as_py()) == ALL_PAIRS[row]


def test_pairs_without_features_are_refused_or_dropped(small_log: pd.DataFrame) -> None:
    features = features_of([p for p in ALL_PAIRS if p != ("hats", "y")])
    with raises_code("missing-features") as caught:
        read_log(small_log, features=features)
    assert ": 1 pair, first (query hats, doc y)" in str(caught.value)
    assert 'missing_features="drop"' in str(caught.value)
    counts = read_log(small_log, features=features, missing_features="drop")
    assert len(counts) == 5
    assert ("hats", "y") not in zip(
        counts.query_id.to_pylist(), counts.doc_id.to_pylist(), strict=True
    )


def test_features_of_no_pair_are_refused(small_log: pd.DataFrame) -> None:
    with raises_code("no-pair-with-features"):
        read_log(small_log, features=features_of([("gloves", "q")]), missing_features="drop")


def test_the_sum_of_counts_is_for_the_rows_of_either(small_log: pd.DataFrame) -> None:
    first, rest = "page_id % 2 = 0", "page_id % 2 = 1 -- the others"
    one, two, whole, again = (
        count_log(small_log, LogOptions(where=where))[0]
        for where in (first, rest, None, f"({first}\n) OR ({rest}\n)")
    )
    both = ClickCounts.concat([one, two])
    assert both.options.where == again.options.where
    assert both.to_table().equals(again.to_table())
    assert ClickCounts.concat([one, one]).options.where == first
    assert ClickCounts.concat([one, whole]).options.where is None
