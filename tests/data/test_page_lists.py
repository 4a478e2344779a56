"""Distinct lists of pages: the same as reading the rows one by one, in any order and any part."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import epiclick as ec
from epiclick.data.page_lists import PageLists

from ..raising import raises_code

pytestmark = pytest.mark.filterwarnings("ignore::epiclick.errors.InputWarning")


def some_log(seed: int = 0, pages: int = 60, queries: int = 4) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = []
    for page in range(pages):
        query = int(rng.integers(queries))
        depth = int(rng.integers(1, 5))
        for position, item in enumerate(rng.permutation(5)[:depth], 1):
            rows.append((f"p{page}", query, f"d{item}", position, int(rng.random() < 0.3)))
    return pd.DataFrame(rows, columns=["page_id", "query_id", "doc_id", "position", "click"])


def as_pages(counts: ec.ClickCounts) -> dict[tuple, int]:
    """Every list in words, with the number of its pages."""
    lists = counts.lists
    found: dict[tuple, int] = {}
    for pair, given_, clicked, pages in zip(
        lists.pair, lists.given, lists.clicked, lists.pages, strict=True
    ):
        key = tuple(
            (
                counts.query_id[int(p)].as_py(),
                counts.doc_id[int(p)].as_py(),
                counts.given[0]["position"][int(g)].as_py(),
                bool(c),
            )
            for p, g, c in zip(pair, given_, clicked, strict=True)
            if p >= 0
        )
        assert key not in found, "a list twice"
        found[key] = int(pages)
    return found


def by_hand(log: pd.DataFrame) -> dict[tuple, int]:
    found: dict[tuple, int] = {}
    for _, page in log.sort_values("position").groupby("page_id"):
        key = tuple(
            (row.query_id, row.doc_id, row.position, bool(row.click)) for row in page.itertuples()
        )
        found[key] = found.get(key, 0) + 1
    return found


@pytest.mark.parametrize("model", ["dcm", "sdbn"])
def test_lists_are_those_of_the_log(model: str) -> None:
    log = some_log()
    assert as_pages(ec.read_log(log, click_model=model)) == by_hand(log)
    assert ec.read_log(log).lists is None  # other models do without


def test_the_order_of_rows_does_not_matter() -> None:
    log = some_log(1)
    shuffled = log.sample(frac=1, random_state=3)
    one, other = (ec.read_log(each, click_model="dcm").lists for each in (log, shuffled))
    for name in ("pair", "given", "clicked", "pages"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_text_files_and_positions_from_0_give_the_same_lists(tmp_path) -> None:
    log = some_log(2)
    path = tmp_path / "log.csv"
    log.assign(position=log["position"] - 1).to_csv(path, index=False)
    counts = ec.read_log(path, click_model="dcm", position_base=0)
    assert as_pages(counts) == by_hand(log)


def test_splits_divide_pages_and_sums_restore_them() -> None:
    log = some_log(3, pages=200)
    counts = ec.read_log(log, click_model="dcm", page_parts=10)
    whole = by_hand(log)
    for by in ("query", "page"):
        parts = counts.split(0.5, 0.5, by=by, seed=1)
        total: dict[tuple, int] = {}
        for part in parts:
            clicks = (part.lists.clicked.sum(axis=1) * part.lists.pages).sum()
            assert clicks == part.total_clicks
            for key, pages in as_pages_of(part).items():
                total[key] = total.get(key, 0) + pages
        assert total == whole
        again = ec.ClickCounts.concat(parts)
        assert as_pages_of(again) == whole


def as_pages_of(counts: ec.ClickCounts) -> dict[tuple, int]:
    """As `as_pages`, where equal lists of different parts are added."""
    lists = counts.lists
    merged = PageLists.distinct(lists.pair, lists.given, lists.clicked, lists.pages)
    return as_pages(type(counts)(**{**vars_of(counts), "lists": merged}))


def vars_of(counts: ec.ClickCounts) -> dict:
    return {name: getattr(counts, name) for name in counts.__dataclass_fields__}


def test_some_pairs_of_a_page_have_no_lists() -> None:
    counts = ec.read_log(some_log(4), click_model="dcm")
    assert counts.subset(np.arange(len(counts)) % 2 == 0).lists is None
    whole = counts.subset(counts.query == 1)
    assert whole.lists is not None
    assert (whole.lists.clicked.sum(axis=1) * whole.lists.pages).sum() == whole.total_clicks


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 40), st.integers(1, 4))
def test_distinct_lists_add_up(seed: int, pages: int, depth: int) -> None:
    rng = np.random.default_rng(seed)
    pair = rng.integers(-1, 2, (pages, depth))
    context, clicked = rng.integers(0, 2, (pages, depth)), rng.random((pages, depth)) < 0.5
    found = PageLists.distinct(pair, context, clicked)
    rows = np.concatenate([pair, context, clicked], axis=1)
    distinct, number = np.unique(rows, axis=0, return_counts=True)
    assert found.pages.sum() == pages
    ours = np.concatenate([found.pair, found.given, found.clicked], axis=1)
    order = np.lexsort(ours.T[::-1])
    np.testing.assert_array_equal(ours[order], distinct)
    np.testing.assert_array_equal(found.pages[order], number)


def test_pages_with_holes_are_refused() -> None:
    log = some_log(5)
    longest = log.groupby("page_id")["position"].transform("max")
    holed = log[~((log["position"] == 2) & (longest > 2))]
    with raises_code("pages-with-holes") as caught:
        ec.read_log(holed, click_model="sdbn")
    assert "position 3 follows 1" in str(caught.value)
    ec.read_log(holed, click_model="ubm")  # others can do without a position


@pytest.mark.parametrize("model", ["cascade", "dcm", "sdbn"])
def test_logs_without_pages_are_refused(model: str) -> None:
    with raises_code("missing-column") as caught:
        ec.read_log(some_log().drop(columns="page_id"), click_model=model)
    assert "page_id" in str(caught.value)
    counted = some_log().rename(columns={"click": "clicks"}).assign(displays=1)
    with raises_code("needs-single-displays"):
        ec.read_log(counted, click_model=model)


def test_counts_without_pages_are_refused(tmp_path) -> None:
    counts = ec.read_log(some_log(), click_model="dcm")
    with raises_code("counts-without-pages"):
        counts.to_parquet(tmp_path / "counts.parquet")
    with raises_code("pages-needed"):
        ec.EpistemicDCM().fit(ec.read_log(some_log()))
