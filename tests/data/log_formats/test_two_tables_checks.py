"""Every kind of bad row in two tables is found, counted and dropped as pandas would."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from epiclick.data import page_clicks, page_sample
from epiclick.data.counts import ClickCounts
from epiclick.data.readers import count_log
from epiclick.data.schema import LogOptions
from epiclick.data.two_sources import TwoTables
from epiclick.errors import InputError

from ...raising import raises_code

PAGES, LENGTH = 400, 5
WINDOW = 600.0
KEYS = ["query_id", "doc_id", "position"]
DROP = {"on_bad": "drop", "max_bad": 0.5}


def impressions() -> pd.DataFrame:
    page = np.repeat(np.arange(PAGES), LENGTH)
    position = np.tile(np.arange(1, LENGTH + 1), PAGES)
    return pd.DataFrame(
        {
            "page_id": page,
            "query_id": page % 7,
            "doc_id": (page % 7) * 100 + (position + page) % 9,
            "position": position,
            "timestamp": pd.Timestamp("2026-01-01") + pd.to_timedelta(page, unit="min"),
        }
    )


def clicks() -> pd.DataFrame:
    """A click on a third of the displays; some are repeated, and some come too late."""
    rng = np.random.default_rng(5)
    shown = impressions()
    clicked = shown[rng.random(len(shown)) < 1 / 3]
    again = clicked.sample(50, random_state=1)
    both = pd.concat([clicked, again])
    wait = np.where(rng.random(len(both)) < 0.1, 3600, 30)
    both = both.assign(timestamp=both.timestamp + pd.to_timedelta(wait, unit="s"))
    return both[["page_id", "doc_id", "timestamp"]]


ORPHANS = pd.DataFrame(
    {"page_id": [3, 9999], "doc_id": [88, 5], "timestamp": pd.Timestamp("2026-01-01")}
)
"""An item that was not on its page, and a page without impressions."""


def joined(shown: pd.DataFrame, clicked: pd.DataFrame, window: float | None) -> pd.DataFrame:
    """The oracle: the first click on each item of a page, merged by pandas."""
    first = clicked.groupby(["page_id", "doc_id"], as_index=False).timestamp.min()
    rows = shown.merge(first, "left", ["page_id", "doc_id"], suffixes=("", "_click"))
    wait = (rows.timestamp_click - rows.timestamp).dt.total_seconds()
    late = wait > (np.inf if window is None else window)
    return rows.assign(click=(wait.notna() & ~late).astype(int), late=late)


def by_hand(rows: pd.DataFrame) -> pd.DataFrame:
    counted = rows.groupby(KEYS).click.agg(displays="size", clicks="sum").reset_index()
    return counted.sort_values(KEYS, ignore_index=True)


def check_counts(counts: ClickCounts, rows: pd.DataFrame) -> None:
    found = counts.to_table().to_pandas()[[*KEYS, "displays", "clicks"]]
    pd.testing.assert_frame_equal(found, by_hand(rows), check_dtype=False)
    assert counts.pages == rows.page_id.nunique()


def problems_of(tables: TwoTables, **options: Any) -> dict[str, int | None]:
    """Code -> number, of what is refused."""
    with pytest.raises(InputError) as caught:
        count_log(tables, LogOptions(**options))
    return {problem.code: problem.count for problem in caught.value.problems}


windows = pytest.mark.parametrize("window", [None, WINDOW])
orders = pytest.mark.parametrize("shuffled", [False, True])


def in_order(shown: pd.DataFrame, shuffled: bool) -> pd.DataFrame:
    return shown.sample(frac=1, random_state=2) if shuffled else shown


@windows
@orders
def test_good_tables_are_counted_as_by_pandas(window: float | None, shuffled: bool) -> None:
    tables = TwoTables(in_order(impressions(), shuffled), clicks())
    counts, report = count_log(tables, LogOptions(click_window=window))
    rows = joined(impressions(), clicks(), window)
    check_counts(counts, rows)
    assert not report.dropped
    again = len(clicks()) - len(clicks().drop_duplicates(["page_id", "doc_id"]))
    expected = [
        f"{again} further clicks on items already clicked on their page; each item counts as "
        "clicked once"
    ]
    if window is not None:
        assert rows.late.sum() > 10
        expected.append(
            f"{rows.late.sum()} clicks came more than 600 seconds after the display; not counted"
        )
    assert [each for each in report.warnings if "click" in each] == expected


@windows
@orders
@pytest.mark.parametrize("ids", ["int64", "int32", "str", "float64"])
def test_clicks_without_an_impression_are_counted(
    window: float | None, shuffled: bool, ids: str
) -> None:
    """Ids of the clicks may be of another type than those of the impressions."""
    clicked = pd.concat([clicks(), ORPHANS, ORPHANS[:1]])
    clicked = clicked.assign(page_id=clicked.page_id.astype(ids))
    tables = TwoTables(in_order(impressions(), shuffled), clicked)
    assert problems_of(tables, click_window=window) == {
        "click-without-display": 3,
        "bad-rows": None,
    }
    counts, report = count_log(tables, LogOptions(click_window=window, **DROP))
    check_counts(counts, joined(impressions(), clicks(), window))
    assert report.dropped == 3


def test_a_click_without_a_page_is_one_without_an_impression() -> None:
    unknown = ORPHANS[:1].assign(page_id=None)
    clicked = pd.concat([clicks(), unknown]).astype({"page_id": "Int64"})
    assert problems_of(TwoTables(impressions(), clicked))["click-without-display"] == 1


@windows
@orders
@pytest.mark.parametrize("orphans", [0, 1])
def test_an_impression_twice_does_not_make_up_for_a_click_without_one(
    window: float | None, shuffled: bool, orphans: int
) -> None:
    """One display more and one less has a click, so that totals alone would agree."""
    rows = joined(impressions(), clicks(), window)
    twice = rows[rows.click == 1].iloc[[17]][impressions().columns]
    shown = pd.concat([impressions(), twice]).sort_values(["page_id", "position"], kind="stable")
    tables = TwoTables(in_order(shown, shuffled), pd.concat([clicks(), ORPHANS[:orphans]]))
    expected = {"repeated-document": 1, "repeated-position": 1, "bad-rows": None}
    if orphans:
        expected["click-without-display"] = 1
    assert problems_of(tables, click_window=window) == expected
    counts, report = count_log(tables, LogOptions(click_window=window, **DROP))
    page = twice.page_id.iloc[0]
    check_counts(counts, rows[rows.page_id != page])
    assert report.dropped == LENGTH + 1 + orphans


@windows
def test_bad_impressions_are_refused_beside_clicks_without_one(window: float | None) -> None:
    shown = impressions()
    shown.loc[[0, 7], "position"] = [0, 1]  # below 1, and that of another item of page 1
    tables = TwoTables(shown, pd.concat([clicks(), ORPHANS]))
    assert problems_of(tables, click_window=window) == {
        "click-without-display": 2,
        "position-below-base": 1,
        "repeated-position": 1,
        "bad-rows": None,
    }
    counts, report = count_log(tables, LogOptions(click_window=window, **DROP))
    rows = joined(impressions(), clicks(), window)
    left = rows.drop(index=[0])
    check_counts(counts, left[left.page_id != 1])
    assert report.dropped == 2 + 1 + LENGTH


@windows
def test_clicks_are_judged_by_all_impressions_where_some_are_left_out(window: float | None) -> None:
    rows = joined(impressions(), clicks(), window)
    options = {"where": "page_id < 100", "click_window": window}
    counts, report = count_log(TwoTables(impressions(), clicks()), LogOptions(**options))
    check_counts(counts, rows[rows.page_id < 100])
    if window is not None:
        late = [each for each in report.warnings if "seconds after the display" in each]
        assert late == [
            f"before where: {rows.late.sum()} clicks came more than 600 seconds after the display; "
            "not counted"
        ]
    with raises_code("click-without-display"):
        count_log(TwoTables(impressions(), pd.concat([clicks(), ORPHANS])), LogOptions(**options))


@windows
@orders
@pytest.mark.parametrize("ids", ["int64", "int32", "str"])
def test_a_sample_of_pages_is_that_of_the_joined_log(
    window: float | None, shuffled: bool, ids: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sample joins only its own pages, which must change nothing but the time."""
    monkeypatch.setattr(page_clicks, "SAMPLED_PAGES", 50)
    monkeypatch.setattr(page_sample, "SAMPLED_DISPLAYS", 100)
    shown = in_order(impressions(), shuffled)
    clicked = clicks().assign(page_id=lambda frame: frame.page_id.astype(ids))
    both, _ = count_log(TwoTables(shown, clicked), LogOptions(click_window=window))
    rows = joined(impressions(), clicks(), window)[["page_id", *KEYS, "click"]]
    one, _ = count_log(rows, LogOptions())
    assert both.page_clicks is not None
    assert one.page_clicks is not None
    assert both.page_clicks.least == 3
    assert both.page_clicks.to_dict() == one.page_clicks.to_dict()
    assert both.sample is not None
    assert one.sample is not None
    assert 0 < len(both.sample) < len(rows) // 4
    for name in ("page", "pair", "context", "clicked"):
        np.testing.assert_array_equal(getattr(both.sample, name), getattr(one.sample, name))


def test_a_column_of_the_impressions_named_as_clicks_is_checked() -> None:
    """Clicks of the join are 0 or 1; those of any other column must be looked at."""
    rows = joined(impressions(), clicks(), None)
    own = rows.assign(tapped=rows.click)[[*impressions().columns, "tapped"]]
    options = LogOptions(columns={"click": "tapped"})
    counts, _ = count_log(TwoTables(own, clicks()), options)
    check_counts(counts, rows)
    # as many displays are tapped as there are clicked items, one of which was never displayed
    own.loc[own.index[own.tapped == 0][:1], "tapped"] = 1
    with raises_code("click-without-display"):
        count_log(TwoTables(own, pd.concat([clicks(), ORPHANS[:1]])), options)
    own.loc[3, "tapped"] = 2
    with raises_code("click-not-binary"):
        count_log(TwoTables(own, clicks()), options)
