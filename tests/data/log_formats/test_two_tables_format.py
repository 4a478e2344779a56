"""Impressions joined to clicks: the same counts as a dictionary of clicks gives."""

from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import epiclick as ec
from epiclick.data.readers import count_log
from epiclick.data.schema import LogOptions
from epiclick.data.two_sources import TwoTables, two_tables_in, without_role
from epiclick.errors import InputWarning

from ...raising import raises_code

IMPRESSIONS = pd.DataFrame(
    {
        "search_id": ["s1", "s1", "s2", "s2", "s3"],
        "query": ["shoes", "shoes", "shoes", "shoes", "tent"],
        "product_id": ["a", "b", "b", "a", "c"],
        "rank": [1, 2, 1, 2, 1],
        "ts": pd.to_datetime(
            ["2026-01-01 10:00"] * 2 + ["2026-01-01 11:00"] * 2 + ["2026-01-02 09:00"]
        ),
    }
)
CLICKS = pd.DataFrame(
    {
        "search_id": ["s1", "s1", "s2"],
        "product_id": ["a", "a", "a"],
        "time": pd.to_datetime(
            ["2026-01-01 10:00:30", "2026-01-01 10:40:00", "2026-01-01 12:20:00"]
        ),
        "purchase": [0, 1, 0],
    }
)
ORPHAN = pd.DataFrame(
    {"search_id": ["s9"], "product_id": ["a"], "time": [pd.Timestamp("2026-01-01")], "purchase": 0}
)


def frames(counts: ec.ClickCounts) -> pd.DataFrame:
    return counts.to_table().to_pandas()[["query_id", "doc_id", "position", "displays", "clicks"]]


EXPECTED = pd.DataFrame(
    {
        "query_id": ["shoes"] * 4 + ["tent"],
        "doc_id": ["a", "a", "b", "b", "c"],
        "position": [1, 2, 1, 2, 1],
        "displays": 1,
        "clicks": [1, 1, 0, 0, 0],
    }
)


def in_engine(connection: Any, name: str, frame: pd.DataFrame) -> Any:
    connection.con.register(name, pa.Table.from_pandas(frame))
    return connection.table(name)


def given_as(kind: str, folder: Path) -> Any:
    tables = {"impressions": IMPRESSIONS, "clicks": CLICKS}
    if kind == "frames":
        return TwoTables(*tables.values())
    if kind == "arrow":
        return TwoTables(*(pa.Table.from_pandas(each) for each in tables.values()))
    if kind == "ibis":
        connection = ibis.duckdb.connect()
        return TwoTables(*(in_engine(connection, n, t) for n, t in tables.items()))
    if kind == "file and frame":
        IMPRESSIONS.to_parquet(folder / "i.parquet")
        return TwoTables(str(folder / "i.parquet"), CLICKS)
    suffix = "csv" if "csv" in kind else "parquet"
    for name, table in tables.items():
        file = folder / f"{name}.{suffix}"
        table.to_csv(file, index=False) if suffix == "csv" else table.to_parquet(file)
    return [f"{name}={folder / name}.{suffix}" for name in tables]


@pytest.mark.parametrize("kind", ["frames", "arrow", "ibis", "file and frame", "csv", "parquet"])
def test_tables_of_any_kind_are_joined(kind: str, tmp_path: Path) -> None:
    counts, report = count_log(given_as(kind, tmp_path), LogOptions())
    pd.testing.assert_frame_equal(frames(counts), EXPECTED, check_dtype=False)
    assert counts.pages == 3
    assert report.format == "two-tables"
    assert [each for each in report.warnings if "clicks on items already" in each] == [
        "1 further clicks on items already clicked on their page; each item counts as clicked once"
    ]


def test_read_log_takes_the_clicks_by_name() -> None:
    with pytest.warns(InputWarning, match="1 further clicks"):
        counts = ec.read_log(IMPRESSIONS, clicks=CLICKS, conversion="purchase")
    assert counts.total_clicks == 2
    assert counts.conversions.total == 1  # type: ignore[union-attr]


def test_late_clicks_are_left_out_and_reported() -> None:
    counts, report = count_log(TwoTables(IMPRESSIONS, CLICKS), LogOptions(click_window=1800))
    assert counts.total_clicks == 1  # the first click on s1 is in time, that on s2 is not
    assert "1 clicks came more than 1,800 seconds after the display; not counted" in report.warnings


def test_orphans_are_refused_or_dropped() -> None:
    both = TwoTables(IMPRESSIONS, pd.concat([CLICKS, ORPHAN]))
    with raises_code("click-without-display") as caught:
        count_log(both, LogOptions())
    assert caught.value.problems[0].count == 1
    assert "(page s9, doc a)" in str(caught.value)
    counts, report = count_log(both, LogOptions(on_bad="drop", max_bad=0.2))
    pd.testing.assert_frame_equal(frames(counts), EXPECTED, check_dtype=False)
    assert report.dropped == 1
    with raises_code("click-without-display"):
        count_log(both, LogOptions(on_bad="drop", max_bad=0.1))  # 1 of 6 is more


def test_bad_impressions_are_dropped_beside_orphans() -> None:
    bad = IMPRESSIONS.assign(rank=[1, 2, 1, 2, 0])
    counts, report = count_log(
        TwoTables(bad, pd.concat([CLICKS, ORPHAN])), LogOptions(on_bad="drop", max_bad=0.5)
    )
    assert report.dropped == 2
    assert counts.total_displays == 4


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_clicks_equal_those_of_a_set(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pages = np.repeat(np.arange(30), 4)
    shown = pd.DataFrame(
        {
            "page_id": pages,
            "query_id": pages % 3,
            "doc_id": np.tile(np.arange(4), 30) + 4 * (pages % 3),
            "position": np.tile([1, 2, 3, 4], 30),
        }
    )
    clicks = shown.sample(25, replace=True, random_state=seed % 2**32)[["page_id", "doc_id"]]
    clicked = set(clicks.itertuples(index=False, name=None))
    keys = list(shown[["page_id", "doc_id"]].itertuples(index=False, name=None))
    expected = shown.assign(click=[key in clicked for key in keys])
    expected = expected.groupby(["query_id", "doc_id", "position"]).click.agg(["size", "sum"])
    # in any order of the rows
    counts, _ = count_log(
        TwoTables(shown.sample(frac=1, random_state=int(rng.integers(99))), clicks), LogOptions()
    )
    table = frames(counts).set_index(["query_id", "doc_id", "position"])
    assert (table.displays == expected["size"]).all()
    assert (table.clicks == expected["sum"]).all()


@pytest.mark.parametrize(
    ("impressions", "clicks", "options", "code"),
    [
        (IMPRESSIONS, CLICKS.drop(columns="search_id"), {}, "missing-column"),
        (IMPRESSIONS, CLICKS.assign(request_id=1), {}, "ambiguous-column"),
        (IMPRESSIONS.assign(click=0), CLICKS, {}, "reserved-column"),
        (IMPRESSIONS.drop(columns="ts"), CLICKS, {"click_window": 60.0}, "missing-column"),
    ],
)
def test_tables_that_cannot_be_joined(
    impressions: pd.DataFrame, clicks: pd.DataFrame, options: dict[str, Any], code: str
) -> None:
    with raises_code(code):
        count_log(TwoTables(impressions, clicks), LogOptions(**options))


def test_two_connections_cannot_be_joined() -> None:
    one, other = ibis.duckdb.connect(), ibis.duckdb.connect()
    both = TwoTables(in_engine(one, "i", IMPRESSIONS), in_engine(other, "c", CLICKS))
    with raises_code("different-connections"):
        count_log(both, LogOptions())


def test_roles_of_paths(tmp_path: Path) -> None:
    assert without_role("day=1/clicks.parquet") == ("", "day=1/clicks.parquet")
    folder = tmp_path / "clicks=1"
    folder.mkdir()
    assert without_role(folder) == ("", str(folder))
    with raises_code("impressions-need-clicks"):
        two_tables_in(["impressions=a.parquet"])
    with raises_code("impressions-need-clicks"):
        two_tables_in(["impressions=a.parquet", "clicks=b.parquet", "c.parquet"])
    with raises_code("impressions-need-clicks"):
        count_log(IMPRESSIONS, LogOptions(format="two-tables"))


def test_a_window_needs_the_times_of_clicks() -> None:
    log = EXPECTED.assign(click=EXPECTED.clicks).drop(columns=["clicks", "displays"])
    with raises_code("click-window-needs-times"):
        count_log(log, LogOptions(click_window=60.0))
