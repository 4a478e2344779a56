"""Pages are counted and checked exactly, whatever the order of the rows."""

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epiclick.data import page_clicks
from epiclick.data import pages as page_checks
from epiclick.data.page_clicks import PageClicks
from epiclick.data.pages import clicks_of_pages, count_pages, without_bad_pages

pytestmark = pytest.mark.slow

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
    found = count_pages(bound(frame), ["position"])
    assert (found is not None) == keeps_the_rules(frame)
    if found is not None:
        assert found == frame.page_id.nunique()
        assert clicks_of_pages(bound(frame), found).pages == found


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
    assert count_pages(bound(frame), ["position"]) is None


def test_a_page_that_comes_back_later_is_not_proven() -> None:
    frame = ordered_log(100, 5)
    frame.loc[frame.page_id == 99, "page_id"] = 3
    assert page_checks._proven_pages(bound(frame), ["position"]) is None
    assert count_pages(bound(frame), ["position"]) is None


def test_long_pages_are_grouped_instead() -> None:
    frame = ordered_log(50, page_checks.PROVABLE_PAGE_LENGTH + 1)
    assert page_checks._proven_pages(bound(frame), ["position"]) is None
    found = count_pages(bound(frame), ["position"])
    assert found is not None
    assert found == clicks_of_pages(bound(frame), found).pages == 50


def clicks_by_hand(frame: pd.DataFrame) -> dict[str, list[int]]:
    """The oracle: pandas groups the pages."""
    page = frame.groupby("page_id").click.agg(["size", "sum"]).astype(int)
    every = page[page["size"] == page["sum"]]
    return {
        "clicks": np.bincount(page["sum"]).tolist(),
        "displays": np.bincount(page["size"]).tolist(),
        "everywhere": np.bincount(every["size"], minlength=page["size"].max() + 1).tolist(),
    }


def totals(found: PageClicks) -> dict[str, list[int]]:
    return {name: getattr(found, name).tolist() for name in ("clicks", "displays", "everywhere")}


def pages_of_any_length(pages: int) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    frame = ordered_log(pages, 4)
    frame = frame[frame.position <= rng.integers(1, 5, pages)[frame.page_id]]
    return frame.assign(click=(rng.random(len(frame)) < 0.4).astype(int))


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
def test_pages_in_any_order_are_counted_with_their_clicks(ordered: bool, text: bool) -> None:
    frame = pages_of_any_length(2000)
    if not ordered:
        frame = frame.sample(frac=1, random_state=0)
    if text:
        frame = frame.assign(click=frame.click.map({0: "false", 1: "true"}))
    assert count_pages(bound(frame), ["position"]) == 2000
    assert (page_checks._proven_pages(bound(frame), ["position"]) is not None) == ordered
    assert totals(clicks_of_pages(bound(frame), 2000)) == clicks_by_hand(pages_of_any_length(2000))


@pytest.mark.parametrize("ordered", [False, True])
def test_a_sample_of_many_pages_stands_for_all(
    ordered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pages_of_any_length(20_000)
    if not ordered:
        frame = frame.sample(frac=1, random_state=0)
    monkeypatch.setattr(page_clicks, "SAMPLED_PAGES", 2000)
    assert count_pages(bound(frame), ["position"]) == 20_000
    clicks = clicks_of_pages(bound(frame), 20_000)
    exact = np.array(clicks_by_hand(frame)["clicks"]) / 20_000
    size = clicks.pages
    assert 1000 < size < 8000
    # five standard errors of a share
    assert np.all(np.abs(clicks.clicks / size - exact) < 5 * np.sqrt(exact * (1 - exact) / size))


def test_clicks_of_pages_add_up_and_come_back_from_a_record() -> None:
    long, short = ordered_log(10, 6).assign(click=1), ordered_log(4, 2)
    one, other = (clicks_of_pages(bound(log), 10) for log in (long, short))
    both = PageClicks.sum([one, other])
    assert both is not None
    assert totals(both) == {
        "clicks": [4, 0, 0, 0, 0, 0, 10],
        "displays": [0, 0, 4, 0, 0, 0, 10],
        "everywhere": [0, 0, 0, 0, 0, 0, 10],
    }
    assert both.without_click == 4 / 14
    assert PageClicks.from_dict(both.to_dict()).to_dict() == both.to_dict()
    assert PageClicks.sum([one, None]) is None


@pytest.mark.parametrize("kind", ["UUID", "DATE", "DOUBLE", "DECIMAL(9, 2)", "UBIGINT"])
def test_pages_with_ids_of_any_type_are_counted(kind: str) -> None:
    value = {
        "UUID": "printf('%08d-0000-0000-0000-000000000000', page_id)",
        "DATE": "DATE '2026-01-01' + page_id::INTEGER",
    }.get(kind, "page_id")
    bound(ordered_log(50, 5))
    rows = f"SELECT * REPLACE (({value})::{kind} AS page_id) FROM log"
    assert count_pages(CONNECTION.sql(rows), ["position"]) == 50
    assert clicks_of_pages(CONNECTION.sql(rows), 50).pages == 50
    repeated = f"{rows} UNION ALL SELECT * FROM ({rows}) WHERE doc_id = 8"
    assert count_pages(CONNECTION.sql(repeated), ["position"]) is None


@pytest.mark.parametrize("first_doc", [0, 2**31 - 30_000, 2**40, -(2**31) - 5])
@pytest.mark.parametrize("first_position", [0, 1, 40_000])
def test_numbers_of_any_size_are_proven_in_few_bytes(first_doc: int, first_position: int) -> None:
    """Types are chosen by the counts, whose positions begin with 1 where those of rows do with 0."""
    frame = ordered_log(3000, 5)
    frame = frame.assign(
        doc_id=frame.doc_id - frame.doc_id.min() + first_doc,
        position=frame.position - 1 + first_position,
    )
    shift = 1 if first_position == 0 else 0
    counted = pa.table({"doc_id": frame.doc_id, "position": frame.position + shift})
    assert page_checks._proven_pages(bound(frame), ["position"], counted) == 3000
    frame.loc[13, "doc_id"] = frame.loc[10, "doc_id"]
    assert page_checks._proven_pages(bound(frame), ["position"], counted) is None
