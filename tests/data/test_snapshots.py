"""Daily snapshots of features: the latest on or before a day, and never a later one silently."""

import datetime as dt
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.raising import raises_code

import epiclick as ec
from epiclick.data.features import read_features
from epiclick.errors import InputWarning

RNG = np.random.default_rng(3)
DAYS = [dt.date(2026, 10, 1) + dt.timedelta(days=i) for i in range(5)]


def snapshots() -> pd.DataFrame:
    """Rows of some days for each pair, not of all."""
    pairs = pd.DataFrame({"query_id": np.repeat(np.arange(20), 4), "doc_id": np.arange(80) % 4})
    every = pairs.merge(pd.DataFrame({"day": DAYS}), how="cross")
    kept = every[RNG.random(len(every)) < 0.5]
    # the first pair has all days
    return pd.concat([every[:5], kept[kept.index >= 5]]).assign(ctr=lambda t: RNG.random(len(t)))


TABLE = snapshots()


def written(kind: str) -> pd.DataFrame:
    day = {
        "date": TABLE["day"],
        "timestamp": pd.to_datetime(TABLE["day"]) + pd.Timedelta(hours=7),
        "text": TABLE["day"].map(str),
        "number": TABLE["day"].map(lambda day: day.day),
    }
    return TABLE.assign(day=day[kind])


def expected(last: dt.date) -> pd.DataFrame:
    """The latest row of every pair, by pandas."""
    known = TABLE[TABLE["day"] <= last].sort_values("day")
    return known.groupby(["query_id", "doc_id"]).last().reset_index()


@pytest.mark.parametrize(
    ("kind", "suffix"),
    [
        ("date", ""),
        ("timestamp", ""),
        ("text", ""),
        ("number", ""),
        ("text", ".csv"),
        ("number", ".csv"),
    ],
)
def test_the_latest_row_on_or_before_a_day_is_used(tmp_path: Path, kind: str, suffix: str) -> None:
    source = written(kind)
    if suffix:
        source.to_csv(tmp_path / "a.csv", index=False)
        source = tmp_path / "a.csv"
    for last in (DAYS[0], DAYS[3]):
        table = read_features(source, as_of=last.day if kind == "number" else last)
        wanted = expected(last)
        own = pd.DataFrame({name: table.keys[name].to_numpy() for name in ("query_id", "doc_id")})
        own["ctr"] = table.rows(np.arange(len(table)))[:, table.names.index("ctr")]
        if suffix:  # rows are in the order of their keys, which are text in a CSV file
            own = own.sort_values(["query_id", "doc_id"]).reset_index(drop=True)
        pd.testing.assert_frame_equal(own, wanted[own.columns], check_dtype=False, rtol=1e-6)
        later = (TABLE["day"] > last).sum()
        assert f"{later} rows of later days" in table.notes[0]
        assert "day" not in table.names
    if kind != "number":
        assert table.as_of == "2026-10-04"
        assert len(read_features(source, as_of="latest")) == len(expected(DAYS[-1]))


def test_several_days_are_refused_without_a_choice() -> None:
    with raises_code("snapshots-need-a-day") as caught:
        read_features(written("date"))
    assert "2026-10-01 to 2026-10-05" in str(caught.value)
    assert "as_of=DAY" in str(caught.value)
    with raises_code("repeated-pair") as caught:  # a number called day may be a feature
        read_features(written("number"))
    assert "as_of" in str(caught.value)


def test_one_row_per_key_needs_no_choice_and_leaves_the_day_out() -> None:
    with pytest.warns(InputWarning, match="left out: day"):
        assert read_features(expected(DAYS[-1])).names == ("ctr",)


def test_days_that_cannot_be_used_are_refused() -> None:
    with raises_code("no-snapshot") as caught:
        read_features(written("date"), as_of="2026-09-30")
    assert "the first is of 2026-10-01" in str(caught.value)
    with raises_code("invalid-day"):
        read_features(written("date"), as_of="yesterday")
    with raises_code("no-snapshots"):
        read_features(
            TABLE.drop(columns="day").drop_duplicates(["query_id", "doc_id"]), as_of="latest"
        )
    with raises_code("missing-value"):
        read_features(written("date").assign(day=[None, *TABLE["day"][1:]]), as_of="latest")
    twice = pd.concat([written("date"), written("date")[:1]])
    with raises_code("repeated-pair"):
        read_features(twice, as_of=DAYS[0])


def test_tables_without_days_are_used_as_they_are() -> None:
    items = pd.DataFrame({"doc_id": np.arange(4), "price": np.arange(4.0)})
    table = read_features([written("date"), items], as_of=DAYS[1])
    assert len(table) == len(expected(DAYS[1]))
    assert table.names == ("ctr", "price")


@pytest.mark.parametrize("part", [None, "day"])
def test_snapshots_later_than_the_log_are_reported(recwarn, part: str | None) -> None:
    pairs = expected(DAYS[-1])[["query_id", "doc_id"]]
    log = pairs.assign(position=pairs.groupby("query_id").cumcount() + 1, day="2026-10-03")
    log["click"] = (log.index % 3 == 0).astype(int)
    how = {} if part is None else {"part": part}

    def warned(as_of: str) -> list[str]:
        recwarn.clear()
        table = read_features(written("date"), as_of=as_of)
        ec.read_log(log, features=table, missing_features="drop", **how)
        return [str(w.message) for w in recwarn if "the log begins on 2026-10-03" in str(w.message)]

    assert len(warned("2026-10-04")) == 1
    assert warned("2026-10-03") == []
    assert warned("2026-10-01") == []
