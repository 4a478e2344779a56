"""Pages are counted and checked exactly, whatever the order of the rows."""

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epiclick.data import pages as page_checks
from epiclick.data.pages import count_pages, share_without_click, without_bad_pages

CONNECTION = ibis.duckdb.connect()

rows_of_pages = st.lists(
    st.tuples(st.integers(0, 6), st.sampled_from("abcde"), st.integers(1, 5)),
    min_size=1,
    max_size=25,
)


def bound(frame: pd.DataFrame) -> ibis.Table:
    CONNECTION.con.register("log", pa.Table.from_pandas(frame, preserve_index=False))
    return CONNECTION.table("log")


def frame_of(rows: list[tuple]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["page_id", "doc_id", "position"]).assign(query_id=1, click=0)


def keeps_the_rules(frame: pd.DataFrame) -> bool:
    """The oracle: pandas finds repeats."""
    return not (
        frame.duplicated(["page_id", "doc_id"]).any()
        or frame.duplicated(["page_id", "position"]).any()
    )


@settings(max_examples=80, deadline=None)
@given(rows=rows_of_pages, ordered=st.booleans(), ids=st.sampled_from([int, str]))
def test_pages_are_judged_as_by_brute_force(rows: list[tuple], ordered: bool, ids: type) -> None:
    frame = frame_of(rows)
    if ordered:
        frame = frame.sort_values(["page_id", "position"], kind="stable")
    frame = frame.assign(page_id=frame.page_id.astype(ids))
    pages, clean = count_pages(bound(frame), ["position"])
    assert pages == frame.page_id.nunique()
    assert clean == keeps_the_rules(frame)


@settings(max_examples=40, deadline=None)
@given(rows=rows_of_pages)
def test_dropping_bad_pages_leaves_exactly_the_good_ones(rows: list[tuple]) -> None:
    frame = frame_of(rows)
    good = [page for page, own in frame.groupby("page_id") if keeps_the_rules(own)]
    left = without_bad_pages(bound(frame), ["position"]).to_pyarrow()
    assert sorted(set(left["page_id"].to_pylist())) == sorted(good)
    assert left.num_rows == frame.page_id.isin(good).sum()


def ordered_log(pages: int, length: int) -> pd.DataFrame:
    page = np.repeat(np.arange(pages), length)
    position = np.tile(np.arange(1, length + 1), pages)
    return pd.DataFrame(
        {"page_id": page, "doc_id": page * 7 + position, "position": position}
    ).assign(query_id=1, click=0)


@pytest.mark.parametrize("shuffled_pages", [False, True])
def test_an_ordered_log_is_proven_in_one_stream(shuffled_pages: bool) -> None:
    """Rows of a page together and positions ascending: no grouping by page is needed."""
    frame = ordered_log(5000, 5)
    if shuffled_pages:
        names = np.random.default_rng(0).permutation(5000)
        frame = frame.assign(page_id=[f"page-{names[page]}" for page in frame.page_id])
    assert page_checks._proven_pages(bound(frame), ["position"]) == 5000


@pytest.mark.parametrize("row", [3, 4, 4999, 24_999])
@pytest.mark.parametrize("column", ["doc_id", "position"])
def test_one_repeat_in_a_large_ordered_log_is_not_missed(row: int, column: str) -> None:
    frame = ordered_log(5000, 5)
    frame.loc[row, column] = frame.loc[row - 3 if row % 5 >= 3 else row + 1, column]
    assert page_checks._proven_pages(bound(frame), ["position"]) is None
    assert count_pages(bound(frame), ["position"]) == (5000, False)


def test_a_page_that_comes_back_later_is_not_proven() -> None:
    frame = ordered_log(100, 5)
    frame.loc[frame.page_id == 99, "page_id"] = 3
    assert page_checks._proven_pages(bound(frame), ["position"]) is None
    assert count_pages(bound(frame), ["position"]) == (99, False)


def test_long_pages_are_grouped_instead() -> None:
    frame = ordered_log(50, page_checks.PROVABLE_PAGE_LENGTH + 1)
    assert page_checks._proven_pages(bound(frame), ["position"]) is None
    assert count_pages(bound(frame), ["position"]) == (50, True)


def test_share_without_click_is_exact_for_few_pages_and_near_for_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(3)
    frame = ordered_log(20_000, 2).assign(click=rng.random(40_000) < 0.2)
    exact = 1 - frame.groupby("page_id").click.any().mean()
    assert share_without_click(bound(frame), 20_000) == pytest.approx(exact, abs=1e-12)
    monkeypatch.setattr(page_checks, "SAMPLED_PAGES", 2000)
    sampled = share_without_click(bound(frame), 20_000)
    assert sampled != exact
    # 2,000 pages of the 20,000: five standard errors of a share
    assert abs(sampled - exact) < 5 * np.sqrt(exact * (1 - exact) / 2000)
