"""OpenSearch UBI: counts equal those of loops over the raw lines, whatever they are packed in."""

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import epiclick as ec
from epiclick.data.readers import count_log
from epiclick.data.schema import LogOptions

from ...raising import raises_code

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = ROOT.parent / "shared" / "data" / "ubi-esci" / "queries_events.ndjson.gz"
CLICKS = ("click", "click_through", "item_click")


def query(page: str, text: str | None, app: str = "shop", **more: Any) -> dict[str, Any]:
    base = {"query_id": page, "user_query": text, "application": app, "client_id": "c1"}
    return {**base, "timestamp": "2026-03-02T09:00:00Z", **more}


def event(action: str, page: str, doc: str, ordinal: Any, app: str = "shop", **more: Any) -> dict:
    where = {"object": {"object_id": doc}, "position": {"ordinal": ordinal}}
    base = {"action_name": action, "query_id": page, "application": app, "client_id": "c1"}
    return {**base, "timestamp": 1772442000000, "event_attributes": where, **more}


DOCUMENTS = [
    query("p1", "red shoes"),
    query("p2", "tent", query_response_hit_ids=["t1", "t2"]),
    event("impression", "p1", "a", 0),
    event("impression", "p1", "b", 1),
    event("impression", "p1", "b", 1),
    event("click", "p1", "b", 1),
    event("click_through", "p1", "b", 1),
    event("impression", "p2", "t1", 0),
    event("add_to_cart", "p1", "b", 1),
    {**event("search", "p2", "", None), "event_attributes": None},
    query("h1", "soap", app="no-impressions", query_response_hit_ids=["s1", "s2", "s3"]),
    event("item_click", "h1", "s2", 2, app="no-impressions"),
]


def written(path: Path, documents: list[dict], *, bulk: bool = False) -> Path:
    lines = []
    for each in documents:
        if bulk:
            kind = "ubi_events" if "action_name" in each else "ubi_queries"
            lines.append({"index": {"_index": kind, "_id": str(len(lines))}})
        lines.append(each)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def entries(counts: ec.ClickCounts) -> set[tuple]:
    frame = counts.to_table().to_pandas()
    names = ["query_id", "doc_id", "position", "displays", "clicks"]
    return {tuple(row) for row in frame[names].itertuples(index=False)}


EXPECTED = {
    ("red shoes", "a", 1, 1, 0),
    ("red shoes", "b", 2, 1, 1),
    ("tent", "t1", 1, 1, 0),
    ("soap", "s1", 1, 1, 0),
    ("soap", "s2", 2, 1, 1),
    ("soap", "s3", 3, 1, 0),
}


@pytest.mark.parametrize("packing", ["plain", "bulk", "two files"])
def test_lines_in_any_packing_give_the_same_counts(tmp_path: Path, packing: str) -> None:
    if packing == "two files":
        is_event = ["action_name" in each for each in DOCUMENTS]
        source: Any = [
            str(
                written(
                    tmp_path / f"{kind}.jsonl",
                    [d for d, e in zip(DOCUMENTS, is_event, strict=True) if e == kind],
                )
            )
            for kind in (False, True)
        ]
    else:
        source = str(written(tmp_path / "ubi.ndjson", DOCUMENTS, bulk=packing == "bulk"))
    counts, report = count_log(source, LogOptions())
    assert entries(counts) == EXPECTED
    assert counts.pages == 3
    assert report.format == "ubi"
    said = " ".join(report.warnings)
    assert "1 further clicks" in said
    assert "1 impressions of items already shown" in said
    assert "application shop counts positions from 0" in said
    assert "application no-impressions: displays are the results in query_response" in said
    assert "1 events of other kinds were not used: search 1" in said


def test_hits_in_place_of_impressions(tmp_path: Path) -> None:
    file = written(tmp_path / "ubi.ndjson", [d for d in DOCUMENTS if d["query_id"] != "p1"])
    counts, _ = count_log(str(file), LogOptions(format="ubi-hits"))
    assert {entry[:3] for entry in entries(counts) if entry[0] == "tent"} == {
        ("tent", "t1", 1),
        ("tent", "t2", 2),
    }


@pytest.mark.slow
def test_conversions_days_and_users_are_columns(tmp_path: Path) -> None:
    file = str(written(tmp_path / "ubi.ndjson", DOCUMENTS))
    options = LogOptions(conversion="add_to_cart", part="day", where="application = 'shop'")
    counts, _ = count_log(file, options)
    assert counts.conversions is not None
    assert counts.conversions.total == 1
    # milliseconds since 1970 in events
    assert [str(part) for part in counts.parts.to_pylist()] == ["2026-03-02"]
    by_user, _ = count_log(file, LogOptions(cluster="user"))
    assert by_user.clusters is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stray", "code"),
    [
        (event("click", "p1", "elsewhere", 0), "click-without-display"),
        (event("click", "unknown-page", "a", 0), "click-without-display"),
        ({**event("click", "p1", "a", 0), "event_attributes": None}, "click-without-display"),
        (event("impression", "p1", "c", None), "missing-value"),
        (event("impression", "no-query", "c", 1), "missing-value"),
        (event("impression", "p1", "c", 1), "repeated-position"),
    ],
)
def test_bad_events_are_refused_or_dropped(tmp_path: Path, stray: dict, code: str) -> None:
    file = str(written(tmp_path / "ubi.ndjson", [*DOCUMENTS, stray]))
    with raises_code(code) as caught:
        count_log(file, LogOptions())
    assert caught.value.problems[0].count == 1
    kept, report = count_log(file, LogOptions(on_bad="drop", max_bad=0.9))
    gone = {entry for entry in EXPECTED if code == "repeated-position" and entry[0] == "red shoes"}
    assert entries(kept) == EXPECTED - gone
    assert report.dropped == (3 if gone else 1)


def test_a_conversion_without_a_display_matters_only_if_conversions_are_counted(
    tmp_path: Path,
) -> None:
    stray = event("add_to_cart", "p1", "elsewhere", 0)
    file = str(written(tmp_path / "ubi.ndjson", [*DOCUMENTS, stray]))
    assert entries(count_log(file, LogOptions())[0]) == EXPECTED
    with raises_code("conversion-without-display"):
        count_log(file, LogOptions(conversion="add_to_cart"))


@pytest.mark.slow
def test_clicks_after_the_window_do_not_count(tmp_path: Path) -> None:
    late = event("click", "p2", "t1", 0, timestamp="2026-03-02T09:30:01Z")
    file = str(written(tmp_path / "ubi.ndjson", [*DOCUMENTS, late]))
    every, _ = count_log(file, LogOptions())
    within, report = count_log(file, LogOptions(click_window=1800.0))
    assert every.total_clicks == within.total_clicks + 1
    assert any("1 clicks came more than 1,800 seconds" in each for each in report.warnings)


@pytest.mark.slow
@pytest.mark.skipif(not SAMPLE.is_file(), reason="the ubi-esci sample is not at hand")
def test_the_sample_has_the_counts_of_its_raw_lines() -> None:
    with gzip.open(SAMPLE, "rt") as text:
        lines = [json.loads(line) for line in text]
    documents = [line for line in lines if "index" not in line]
    frame = pd.json_normalize(
        [d for d in documents if "action_name" in d], max_level=3, errors="ignore"
    )
    queries = pd.DataFrame([d for d in documents if "action_name" not in d])
    frame = frame.rename(
        columns={
            "event_attributes.object.object_id": "doc",
            "event_attributes.position.ordinal": "ordinal",
        }
    )
    shown = frame[frame.action_name == "impression"]
    clicked = set(
        frame[frame.action_name.isin(CLICKS)][["query_id", "doc"]].itertuples(
            index=False, name=None
        )
    )
    text = queries[queries.user_query.fillna("") != ""].sort_values("timestamp", kind="stable")
    first = text.drop_duplicates("query_id").set_index("query_id").user_query
    for app, of_app in shown.groupby("application"):
        base = of_app.ordinal.min()
        rows = of_app.assign(
            position=(of_app.ordinal - base + 1).astype(int),
            query=of_app.query_id.map(first)
            .fillna(of_app.user_query)
            .str.strip()
            .replace("", None),
            click=[
                pair in clicked
                for pair in of_app[["query_id", "doc"]].itertuples(index=False, name=None)
            ],
        )
        # the rules for rows and pages, on the raw events
        rows = rows[rows["query"].notna()]
        twice = rows.duplicated(["query_id", "position"], keep=False)
        rows = rows[~rows.query_id.isin(rows[twice].query_id)]
        expected = Counter()
        clicks = Counter()
        for row in rows.itertuples():
            expected[row.query, row.doc, row.position] += 1
            clicks[row.query, row.doc, row.position] += row.click
        options = LogOptions(where=f"application = '{app}'", on_bad="drop", max_bad=0.9)
        counts, report = count_log(str(SAMPLE), options)
        assert entries(counts) == {(*key, n, clicks[key]) for key, n in expected.items()}
        assert counts.pages == rows.query_id.nunique()
        own = frame[frame.application == app]
        on_shown = set(of_app[["query_id", "doc"]].itertuples(index=False, name=None))
        done = own[own.action_name.isin(CLICKS)][["query_id", "doc"]].itertuples(
            index=False, name=None
        )
        orphans = sum(pair not in on_shown for pair in done)
        assert report.dropped == len(of_app) - len(rows) + orphans
    assert {app: int(n.ordinal.min()) for app, n in shown.groupby("application")} == {
        "Chorus": 1,
        "esci_ubi_sample": 0,
    }
