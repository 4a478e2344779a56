"""GA4, Snowplow and Metarank events, in their published layouts, against loops over the events."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import epiclick as ec
from epiclick.data.readers import count_log
from epiclick.data.schema import LogOptions

from ...raising import raises_code

DROP = LogOptions(on_bad="drop", max_bad=0.9)


def entries(counts: ec.ClickCounts) -> set[tuple]:
    frame = counts.to_table().to_pandas()
    names = ["query_id", "doc_id", "position", "displays", "clicks"]
    return {tuple(row) for row in frame[names].itertuples(index=False)}


def written(folder: Path, events: list[dict[str, Any]], kind: str) -> str:
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(events), folder / "events.parquet")
        return str(folder / "events.parquet")
    file = folder / "events.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in events))
    return str(file)


def ga4(name: str, at: int, items: list[tuple], user: str = "u1", **params: str) -> dict[str, Any]:
    base = 1_767_225_600_000_000  # 2026-01-01, in microseconds
    value = {"string_value": None, "int_value": None, "double_value": None}
    own = [{"key": "ga_session_id", "value": {**value, "int_value": 77}}]
    own += [{"key": k, "value": {**value, "string_value": v}} for k, v in params.items()]
    return {
        "event_date": "20260101",
        "event_timestamp": base + at * 1_000_000,
        "event_name": name,
        "event_params": own,
        "user_pseudo_id": user,
        "platform": "WEB",
        "device": {"category": "mobile", "language": "en"},
        "items": [
            {"item_id": i, "item_list_id": "(not set)", "item_list_name": n, "item_list_index": x}
            for i, n, x in items
        ],
    }


GA4 = [
    ga4("view_item_list", 0, [("a", "Search", "0"), ("b", "Search", "1")], search_term="shoes"),
    ga4("select_item", 5, [("b", "Search", "(not set)")]),
    ga4("view_item_list", 60, [("b", "Search", "0"), ("a", "Search", "1")], search_term="shoes"),
    ga4("view_item_list", 61, [("b", "Related", "0"), ("c", "Related", "1")]),
    ga4("select_item", 65, [("b", "Search", "(not set)")]),
    ga4("select_item", 66, [("b", "Search", "(not set)")]),
    ga4("add_to_cart", 70, [("b", "(not set)", "(not set)")]),
    ga4("purchase", 90, [("z", "(not set)", "(not set)")]),
    ga4("view_item_list", 3, [("a", "Search", "0")], user="u2", search_term="shoes"),
    ga4("page_view", 91, []),
]
GA4_ROWS = {
    ("shoes", "a", 1, 2, 0),
    ("shoes", "b", 2, 1, 1),
    ("shoes", "b", 1, 1, 1),
    ("shoes", "a", 2, 1, 0),
    ("Related", "b", 1, 1, 0),
    ("Related", "c", 2, 1, 0),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_ga4_clicks_belong_to_the_latest_list(tmp_path: Path, kind: str) -> None:
    file = written(tmp_path, GA4, kind)
    counts, report = count_log(file, LogOptions())
    assert entries(counts) == GA4_ROWS
    assert (report.format, counts.pages) == ("ga4", 4)
    said = " ".join(report.warnings)
    assert "platform WEB counts positions from 0" in said
    assert "1 further clicks" in said
    assert "1 conversions of items that no list had shown before were not used" in said
    # the cart's item was last shown in another list than the clicked one
    with raises_code("conversion-without-click"):
        count_log(file, LogOptions(conversion="add_to_cart"))
    by_device, _ = count_log(file, LogOptions(context=("device", "position"), part="day"))
    assert by_device.contexts["device"].unique().to_pylist() == ["mobile"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stray", "code"),
    [
        (ga4("select_item", 1, [("b", "Nowhere", "1")]), "click-without-display"),
        # a click before the list was shown
        (ga4("select_item", -9, [("a", "Search", "1")]), "click-without-display"),
        (ga4("select_item", 9, [("a", "Search", "1")], user="u3"), "click-without-display"),
        (
            ga4("view_item_list", 9, [("a", "Search", "(not set)")], search_term="x"),
            "missing-value",
        ),
        (ga4("view_item_list", 9, [("a", "(not set)", "1")]), "missing-value"),
    ],
)
def test_bad_ga4_events_are_refused_or_dropped(tmp_path: Path, stray: dict, code: str) -> None:
    file = written(tmp_path, [*GA4, stray], "jsonl")
    with raises_code(code) as caught:
        count_log(file, LogOptions())
    assert caught.value.problems[0].count == 1
    counts, report = count_log(file, DROP)
    assert (entries(counts), report.dropped) == (GA4_ROWS, 1)


ACTION = "unstruct_event_com_snowplowanalytics_snowplow_ecommerce_snowplow_ecommerce_action_1"
PRODUCT = "contexts_com_snowplowanalytics_snowplow_ecommerce_product_1"


def snowplow(kind: str, number: int, name: str | None, items: list[tuple]) -> dict[str, Any]:
    return {
        "app_id": "shop",
        "platform": "web",
        "event_id": f"e{number}",
        "derived_tstamp": f"2026-01-01 10:00:{number:02}.000",
        "domain_userid": "u1",
        "domain_sessionid": "s1",
        ACTION: {"type": kind, "name": name},
        PRODUCT: [
            {"id": i, "category": "shoes", "price": 1.5, "currency": "EUR", "position": at}
            for i, at in items
        ],
    }


SNOWPLOW = [
    snowplow("list_view", 1, "search: shoes", [("a", 1), ("b", 2)]),
    snowplow("list_click", 2, "search: shoes", [("b", 2)]),
    snowplow("list_view", 3, "search: shoes", [("b", 1), ("a", 2)]),
    snowplow("list_click", 4, "search: shoes", [("a", 2)]),
    snowplow("add_to_cart", 5, None, [("a", None)]),
    snowplow("transaction", 6, None, [("a", None)]),
    snowplow("product_view", 7, None, [("a", None)]),
]
SNOWPLOW_ROWS = {
    ("search: shoes", "a", 1, 1, 0),
    ("search: shoes", "b", 2, 1, 1),
    ("search: shoes", "b", 1, 1, 0),
    ("search: shoes", "a", 2, 1, 1),
}


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_snowplow_lists(tmp_path: Path, kind: str) -> None:
    file = written(tmp_path, SNOWPLOW, kind)
    counts, report = count_log(file, LogOptions(conversion="purchase"))
    assert entries(counts) == SNOWPLOW_ROWS
    assert (report.format, counts.pages) == ("snowplow", 2)
    assert counts.conversions.total == 1  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_snowplow_click_on_no_list_is_refused_or_dropped(tmp_path: Path) -> None:
    stray = snowplow("list_click", 8, "recommended", [("a", 1)])
    file = written(tmp_path, [*SNOWPLOW, stray], "jsonl")
    with raises_code("click-without-display"):
        count_log(file, LogOptions())
    assert entries(count_log(file, DROP)[0]) == SNOWPLOW_ROWS


def ranking(name: str, query: str | None, items: list[str]) -> dict[str, Any]:
    fields = [{"name": "source", "value": "search"}]
    return {
        "event": "ranking",
        "id": name,
        "timestamp": "1599391467000",
        "user": "u1",
        "session": "s1",
        "fields": fields + ([{"name": "query", "value": query}] if query else []),
        "items": [{"id": item, "relevancy": 1.0} for item in items],
    }


def interaction(kind: str, of: str | None, item: str) -> dict[str, Any]:
    base = {"event": "interaction", "id": f"{kind}-{of}-{item}", "ranking": of, "type": kind}
    return {**base, "timestamp": "1599391468000", "user": "u1", "session": "s1", "item": item}


METARANK = [
    ranking("r1", "cat", ["x", "y", "z"]),
    ranking("r2", "cat", ["y", "x"]),
    interaction("click", "r1", "y"),
    interaction("purchase", "r1", "y"),
    {
        "event": "item",
        "id": "m1",
        "timestamp": "1599391467000",
        "item": "x",
        "fields": [{"name": "title", "value": "You"}],
    },
]
METARANK_ROWS = {
    ("cat", "x", 1, 1, 0),
    ("cat", "y", 2, 1, 1),
    ("cat", "z", 3, 1, 0),
    ("cat", "y", 1, 1, 0),
    ("cat", "x", 2, 1, 0),
}


def test_metarank_rankings(tmp_path: Path) -> None:
    file = written(tmp_path, METARANK, "jsonl")
    counts, report = count_log(file, LogOptions(conversion="purchase", part="day"))
    assert entries(counts) == METARANK_ROWS
    assert (report.format, counts.pages) == ("metarank", 2)
    assert counts.conversions.total == 1  # type: ignore[union-attr]
    assert [str(day) for day in counts.parts.to_pylist()] == ["2020-09-06"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stray", "code"),
    [
        (interaction("click", None, "x"), "click-without-display"),
        (interaction("click", "r1", "elsewhere"), "click-without-display"),
        (ranking("r3", None, ["x"]), "missing-value"),
    ],
)
def test_bad_metarank_events_are_refused_or_dropped(tmp_path: Path, stray: dict, code: str) -> None:
    file = written(tmp_path, [*METARANK, stray], "jsonl")
    with raises_code(code):
        count_log(file, LogOptions())
    counts, report = count_log(file, DROP)
    assert (entries(counts), report.dropped) == (METARANK_ROWS, 1)


@pytest.mark.parametrize(
    "kind",
    ["impression", "Rank", "clicked", "CLICK", "Purchase", "epiclick_flaw", "epiclick_late", "a\0"],
)
def test_metarank_interactions_may_be_called_like_columns(tmp_path: Path, kind: str) -> None:
    file = written(tmp_path, [*METARANK, interaction(kind, "r1", "x")], "jsonl")
    counts, report = count_log(file, LogOptions(conversion="purchase"))
    assert entries(counts) == METARANK_ROWS
    assert report.format == "metarank"
    assert counts.conversions.total == 1  # type: ignore[union-attr]
