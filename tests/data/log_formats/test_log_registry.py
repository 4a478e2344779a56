"""Formats by name: recognised only where unambiguous, saved with a model, refused by their code."""

import datetime as dt
from pathlib import Path

import ibis
import pandas as pd
import pyarrow as pa
import pytest

from epiclick.data.log_formats.log_format import AUTO, ROWS, TITLES
from epiclick.data.log_formats.log_registry import FORMATS, chosen_format, is_plain
from epiclick.data.log_formats.nested import text_at, time_of
from epiclick.data.readers import count_log
from epiclick.data.schema import LogOptions
from epiclick.data.sources import open_source

from ...raising import raises_code

PLAIN = pd.DataFrame(
    {"page_id": [1, 1], "query_id": [1, 1], "doc_id": [1, 2], "position": [1, 2], "click": [0, 1]}
)


def test_every_format_has_a_title_and_a_module() -> None:
    assert {ROWS, *FORMATS} == {*TITLES}
    assert all(name == each.name for name, each in FORMATS.items())


@pytest.mark.parametrize(
    "name", ["ubi", "ubi-hits", "open-bandit", "ga4", "snowplow", "metarank", "page-lines"]
)
def test_a_format_that_the_log_is_not_in_is_refused(name: str) -> None:
    with raises_code("not-in-format"):
        count_log(PLAIN, LogOptions(format=name))


@pytest.mark.parametrize(
    "extra",
    [
        {"items": [["a"], ["b"]], "clicks": [["a"], []]},
        {"action_name": "click", "event_attributes": "{}"},
        {"propensity_score": 0.1, "user_feature_0": "x", "timestamp": "2026-01-01"},
        {"event_name": "x", "event_timestamp": 1, "user_pseudo_id": "u"},
    ],
)
def test_a_plain_log_stays_plain_whatever_else_it_has(extra: dict) -> None:
    log = PLAIN.assign(**extra)
    assert chosen_format(open_source(log), LogOptions()) == ROWS
    assert count_log(log, LogOptions())[0].total_clicks == 1


def test_lists_are_not_plain_columns() -> None:
    schema = ibis.schema({"query_id": "string", "doc_id": "array<string>", "click": "int8"})
    assert not is_plain(dict(schema.items()))
    assert is_plain(dict(ibis.schema({"qid": "int64", "url": "string", "clicked": "int8"}).items()))


def test_two_formats_at_once_are_refused() -> None:
    both = pd.DataFrame(
        {
            "query_id": ["p"],
            "action_name": ["click"],
            "event_attributes": ["{}"],
            "items": [["a"]],
            "clicks": [["a"]],
        }
    )
    with raises_code("ambiguous-format"):
        count_log(both, LogOptions())


def test_the_format_is_an_option_like_others() -> None:
    options = LogOptions(format="ubi", click_window=60)
    assert LogOptions.from_dict(options.to_dict()) == options
    assert options.for_another_log() == options
    older = {k: v for k, v in options.to_dict().items() if k not in ("format", "click_window")}
    assert LogOptions.from_dict(older).format == AUTO
    with raises_code("invalid-format"):
        LogOptions(format="xml")
    with raises_code("invalid-click-window"):
        LogOptions(click_window=-1)


@pytest.mark.parametrize(
    "written",
    [
        *("2026-03-02T09:00:00Z", "2026-03-02 09:00:00", "2026-03-02T10:00:00+01:00"),
        *("2026-03-02T04:30:00.000-0430", "2026-03-02T09:00:00.000Z"),
        *("1772442000", "1772442000000", "1772442000000000", "1772442000000000000"),
        *(1772442000, 1772442000000, 1772442000000000, dt.datetime(2026, 3, 2, 9)),
    ],
)
def test_times_in_any_notation(written: object) -> None:
    connection = ibis.duckdb.connect()
    connection.con.register("times", pa.table({"t": [written]}))
    found = time_of(connection.table("times").t).to_pyarrow().to_pylist()
    assert found == [dt.datetime(2026, 3, 2, 9)]


def test_values_that_are_no_times_are_missing() -> None:
    connection = ibis.duckdb.connect()
    connection.con.register("times", pa.table({"t": ["soon", "", None]}))
    assert time_of(connection.table("times").t).to_pyarrow().to_pylist() == [None] * 3


@pytest.mark.parametrize(
    "value",
    [
        pa.array([{"b": {"c": 7}}, None]),
        pa.array(['{"b": {"c": 7}}', None]),
        pa.array(['{"b": {"c": "7"}}', "not JSON"]),
        pa.array([[("b", '{"c": 7}')], None], pa.map_(pa.string(), pa.string())),
    ],
)
def test_a_path_is_found_in_structs_maps_and_json(value: pa.Array) -> None:
    connection = ibis.duckdb.connect()
    connection.con.register("nested", pa.table({"a": value}))
    table = connection.table("nested")
    found = table.select(c=text_at(table.a, "b", "c"), other=text_at(table.a, "b", "other"))
    assert found.to_pyarrow().to_pydict() == {"c": ["7", None], "other": [None, None]}


@pytest.mark.slow
def test_all_steps_after_reading_see_rows_of_displays(tmp_path: Path) -> None:
    """History, page lists, clusters, columns and robots, on pages as lists and as plain rows."""
    pages = pd.DataFrame(
        {
            "page_id": range(40),
            "query": [f"q{page % 4}" for page in range(40)],
            "user_id": [f"u{page % 9}" for page in range(40)],
            "device": ["m" if page % 3 else "d" for page in range(40)],
            "items": [[f"a{(page + k) % 5}" for k in range(4)] for page in range(40)],
            "clicks": [[f"a{(page + k) % 5}" for k in range(page % 3)] for page in range(40)],
        }
    )
    plain = pages.explode("items", ignore_index=True).rename(columns={"items": "doc_id"})
    plain["position"] = plain.groupby("page_id").cumcount() + 1
    plain["click"] = [int(d in c) for d, c in zip(plain.doc_id, plain.clicks, strict=True)]
    plain = plain.drop(columns="clicks")
    for options in (
        LogOptions(click_model="ubm", page_parts=3),
        LogOptions(click_model="sdbn", where="device = 'm'"),
        LogOptions(context=("device", "position"), cluster="user", max_clicks_per_page=1),
    ):
        ours, theirs = (count_log(log, options)[0] for log in (pages, plain))
        assert ours.to_table().equals(theirs.to_table())
        assert ours.pages == theirs.pages
        assert (ours.lists is None) == (theirs.lists is None)
        assert (ours.clusters is None) == (theirs.clusters is None)
