"""Counts of yesterday and the log of today give the file that all logs together give."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import epiclick as ec
from epiclick.data import clusters, page_clicks
from epiclick.data.counts import ClickCounts

from ..raising import raises_code

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::epiclick.errors.InputWarning"),
]

DAYS = tuple(f"2026-03-{day:02d}" for day in range(1, 4))


def log(days: tuple[str, ...] = DAYS, *, pages: int = 60, queries: int = 6, users: int = 40):
    """Pages of several days; their ids are those of no other day."""
    found = []
    for day in days:
        rng = np.random.default_rng(int(day[-2:]))
        page = np.repeat(np.arange(pages), 4)
        shown = np.concatenate([rng.permutation(8)[:4] for _ in range(pages)])
        rows = pd.DataFrame(
            {
                "page_id": [f"{day}/{number}" for number in page],
                "query_id": [f"q{q}" for q in np.repeat(rng.integers(0, queries, pages), 4)],
                "doc_id": shown,
                "position": np.tile(np.arange(1, 5), pages),
                "click": (rng.random(4 * pages) < 0.3).astype(int),
                "day": day,
                "device": np.where(page % 3 == 0, "phone", "desk"),
                "user_id": np.repeat(rng.integers(0, users, pages), 4),
            }
        )
        rows["bought"] = rows["click"] * (rng.random(len(rows)) < 0.5)
        rows["paid"] = np.where(rows["bought"] == 1, rng.integers(1, 10_000, len(rows)) / 100, 0)
        found.append(rows)
    return pd.concat(found, ignore_index=True)


def written(counts: ClickCounts, folder: Path, name: str) -> bytes:
    counts.to_parquet(folder / name)
    return (folder / name).read_bytes()


SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {"cluster": "query"},
    "few users, as groups": {},
    "users, named": {"cluster": "user", "part": "day"},
    "pages, hashed": {"cluster": "page"},
    "days": {"cluster": "day", "part": "day", "context": ("device", "position")},
    "history": {"click_model": "ubm"},
    "folds": {"page_parts": 5},
    "conversions": {"conversion": "bought", "value": "paid", "part": "day"},
    "text ids, some rows": {"ids": "string", "where": "device = 'phone'", "cluster": "query"},
    "without busy pages": {"max_clicks_per_page": 3},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_day_is_added_byte_for_byte(name: str, tmp_path: Path) -> None:
    rows, settings = log(), SETTINGS[name]
    whole = written(ec.read_log(rows, **settings), tmp_path, "whole.parquet")
    early, today = tmp_path / "early.parquet", tmp_path / "today.parquet"
    ec.read_log(rows[rows["day"] != DAYS[-1]], **settings).to_parquet(early)
    rows[rows["day"] == DAYS[-1]].to_parquet(today)
    # without naming the options again
    assert written(ec.read_log([early, today]), tmp_path, "added.parquet") == whole


def test_days_are_added_one_by_one_in_any_order(tmp_path: Path) -> None:
    rows = log()
    whole = written(ec.read_log(rows), tmp_path, "whole.parquet")
    for day in DAYS:
        rows[rows["day"] == day].to_parquet(tmp_path / f"{day}.parquet")
    last, first, middle = (tmp_path / f"{DAYS[i]}.parquet" for i in (2, 0, 1))
    ec.read_log(last).to_parquet(tmp_path / "one.parquet")
    ec.read_log([first, tmp_path / "one.parquet"]).to_parquet(tmp_path / "two.parquet")
    added = ec.read_log([tmp_path / "two.parquet", middle])
    assert written(added, tmp_path, "all.parquet") == whole


def test_a_single_click_more_is_noticed(tmp_path: Path) -> None:
    rows = log(DAYS[:1])
    whole = written(ec.read_log(rows), tmp_path, "whole.parquet")
    assert written(ec.read_log(rows), tmp_path, "again.parquet") == whole
    rows.loc[rows.index[-1], "click"] = 1 - rows["click"].iloc[-1]
    assert written(ec.read_log(rows), tmp_path, "other.parquet") != whole


def test_text_files_add_up_byte_for_byte(tmp_path: Path) -> None:
    rows = log()
    files = [tmp_path / f"{day}.csv" for day in DAYS]
    for day, file in zip(DAYS, files, strict=True):
        time = rows["day"] + " 12:00:" + (rows.index % 60).astype(str).str.zfill(2)
        rows.assign(time=time)[rows["day"] == day].to_csv(file, index=False)
    whole = written(ec.read_log(files, part="time"), tmp_path, "whole.parquet")
    ec.read_log(files[:2], part="time").to_parquet(tmp_path / "early.parquet")
    added = ec.read_log([tmp_path / "early.parquet", files[2]])
    assert written(added, tmp_path, "added.parquet") == whole
    assert added.parts.to_pylist() == list(DAYS)


@pytest.mark.parametrize("part", [None, "day"])
def test_samples_of_pages_add_up(
    part: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clicks are counted on 1 of 4 pages of a day, and on 1 of 8 of all days."""
    for name in ("SAMPLED_PAGES", "SAMPLED_PAGES_OF_PART"):
        monkeypatch.setattr(page_clicks, name, 50)
    rows = log(pages=200)
    whole = ec.read_log(rows, part=part)
    assert whole.page_clicks.least == 3
    assert whole.page_clicks.pages < whole.pages / 5
    for day in DAYS:
        one = ec.read_log(rows[rows["day"] == day], part=part)
        assert one.page_clicks.least == 2
        one.to_parquet(tmp_path / f"{day}.parquet")
    added = ec.read_log([tmp_path / f"{day}.parquet" for day in DAYS])
    bytes_of = [written(c, tmp_path, f"{i}.parquet") for i, c in enumerate((whole, added))]
    assert bytes_of[0] == bytes_of[1]


def test_users_are_hashed_once_they_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "MOST_GROUPS", 60)
    rows = log(users=1)
    rows["user_id"] = rows["day"].str[-1:] + "-" + (rows.index // 4 % 35).astype(str)
    whole = ec.read_log(rows, cluster="user")
    assert (whole.clusters.clusters, whole.clusters.is_hashed) == (3 * 35, True)
    days = [ec.read_log(rows[rows["day"] == day], cluster="user") for day in DAYS]
    assert not any(day.clusters.is_hashed for day in days)
    added = ClickCounts.concat(days)
    bytes_of = [written(c, tmp_path, f"{i}.parquet") for i, c in enumerate((whole, added))]
    assert bytes_of[0] == bytes_of[1]
    # of hashed users it is not known which are the same: all but their number adds up
    halves = [ClickCounts.concat(days[:2]), ClickCounts.concat(days[1:])]
    assert all(half.clusters.is_hashed for half in halves)
    both = ClickCounts.concat(halves).clusters
    assert both.clusters == 2 * 35
    assert both.labels == whole.clusters.labels
    twice = ec.read_log(rows[rows["day"] == DAYS[1]], cluster="user").clusters.displays.sum()
    assert both.displays.sum() == whole.clusters.displays.sum() + twice


def test_users_are_not_needed_where_queries_become_many(tmp_path: Path) -> None:
    rows = log(queries=20)
    rows["query_id"] = rows["query_id"] + rows["day"].str[-1:]
    whole, first = ec.read_log(rows), ec.read_log(rows[rows["day"] == DAYS[0]])
    assert (first.clusters.by, whole.clusters) == ("user", None)
    days = [ec.read_log(rows[rows["day"] == day]) for day in DAYS]
    bytes_of = [
        written(c, tmp_path, f"{i}.parquet")
        for i, c in enumerate((whole, ClickCounts.concat(days)))
    ]
    assert bytes_of[0] == bytes_of[1]


@pytest.mark.parametrize("settings", [{}, {"cluster": "page"}])
def test_the_last_days_are_those_of_a_log_without_the_others(
    settings: dict[str, str], tmp_path: Path
) -> None:
    rows = log()
    counts = ec.read_log(rows, part="day", **settings)
    kept = ec.read_log(rows[rows["day"] >= DAYS[1]], part="day", **settings)
    file = tmp_path / "counts.parquet"
    counts.to_parquet(file)
    for number, whole in enumerate((counts, ec.read_log(file))):
        bytes_of = written(whole.last(2), tmp_path, f"{number}.parquet")
        assert bytes_of == written(kept, tmp_path, "kept.parquet")
    assert counts.last(3) is counts
    # a window that slides: the oldest day leaves as a new one comes
    today = tmp_path / "today.parquet"
    rows[rows["day"] == DAYS[2]].to_parquet(today)
    ec.read_log(rows[rows["day"] < DAYS[2]], part="day", **settings).to_parquet(file)
    moved = ec.read_log([file, today]).last(2)
    assert written(moved, tmp_path, "moved.parquet") == written(kept, tmp_path, "kept.parquet")


def test_the_last_days_have_their_own_pages_and_samples() -> None:
    rows = log()
    counts = ec.read_log(rows, part="day").last(1)
    own = rows[rows["day"] == DAYS[-1]]
    assert counts.parts.to_pylist() == [DAYS[-1]]
    assert counts.pages == own["page_id"].nunique() == counts.page_clicks.pages
    by_page = own.groupby("page_id")["click"].sum()
    assert counts.page_clicks.clicks.tolist() == np.bincount(by_page).tolist()
    assert len(counts.sample) == len(own)
    assert counts.sample.clicked.sum() == own["click"].sum()


@pytest.mark.parametrize("number", [0, -1, 2.5, True, "2"])
def test_windows_that_make_no_sense_are_refused(number: object) -> None:
    counts = ec.read_log(log(), part="day")
    with raises_code("invalid-last"):
        counts.last(number)  # type: ignore[arg-type]


def test_windows_need_days() -> None:
    for settings in ({}, {"page_parts": 3}):
        with raises_code("no-parts") as caught:
            ec.read_log(log(), **settings).last(2)
        assert 'part="day"' in str(caught.value)


def test_what_cannot_be_added_is_refused(tmp_path: Path) -> None:
    rows = log()
    today = tmp_path / "today.parquet"
    rows[rows["day"] == DAYS[-1]].to_parquet(today)
    file = tmp_path / "counts.parquet"
    early = rows[rows["day"] != DAYS[-1]]
    ec.read_log(early, drop_busiest=0.05).to_parquet(file)
    with raises_code("not-additive") as caught:
        ec.read_log([file, today])
    assert "drop_busiest" in str(caught.value)
    ec.read_log(early).to_parquet(file)
    for settings in ({"part": "day"}, {"context": ("device", "position")}, {"where": "click = 1"}):
        with raises_code("options-differ"):
            ec.read_log([file, today], **settings)
    ec.read_log(early.assign(query_id=early["query_id"].str[1:].astype(int))).to_parquet(file)
    with raises_code("id-types-differ"):
        ec.read_log([file, today])


def test_a_day_without_clicks_is_added_and_one_without_rows_refused(tmp_path: Path) -> None:
    rows = log()
    rows.loc[rows["day"] == DAYS[-1], "click"] = 0
    file, today = tmp_path / "counts.parquet", tmp_path / "today.parquet"
    ec.read_log(rows[rows["day"] != DAYS[-1]]).to_parquet(file)
    last = rows[rows["day"] == DAYS[-1]]
    last.to_parquet(today)
    with raises_code("no-clicks"):
        ec.read_log(today)
    whole = written(ec.read_log(rows), tmp_path, "whole.parquet")
    assert written(ec.read_log([file, today]), tmp_path, "added.parquet") == whole
    last[:0].to_parquet(today)
    with raises_code("no-displays"):
        ec.read_log([file, today])


def test_a_day_that_is_counted_twice_is_reported(tmp_path: Path) -> None:
    rows = log()
    file, today = tmp_path / "counts.parquet", tmp_path / "today.parquet"
    ec.read_log(rows, part="day").to_parquet(file)
    rows[rows["day"] == DAYS[1]].to_parquet(today)
    with pytest.warns(ec.InputWarning, match="1 of 3 values of day, first 2026-03-02, .* twice"):
        ec.read_log([file, today])


def test_revenue_is_summed_in_decimals() -> None:
    """0.1 + 0.2 is not 0.3 in floats, and sums of many depend on their order."""
    rng = np.random.default_rng(1)
    rows = log(pages=300)
    rows["click"] = rows["bought"] = 1
    rows["paid"] = rng.integers(1, 10**8, len(rows)) / 1000
    days = [
        ec.read_log(rows[rows["day"] == day], conversion="bought", value="paid") for day in DAYS
    ]
    orders = [ClickCounts.concat([days[i] for i in o]) for o in itertools.permutations(range(3))]
    expected = (
        (rows["paid"] * 1000)
        .round()
        .astype(int)
        .groupby([rows["query_id"], rows["doc_id"], rows["position"]])
        .sum()
    )
    for total in orders:
        np.testing.assert_array_equal(total.conversions.value, expected.to_numpy() / 1000)
    plain = sum(day.conversions.value.sum() for day in days)
    assert orders[0].conversions.value.sum() == pytest.approx(plain)
