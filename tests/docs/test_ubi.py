"""The SQL of the page on OpenSearch UBI recovers the log behind a simulated export."""

import json
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

import epiclick as ec

from .pages import DOCS, blocks_of

SQL = {block.file: block.text for block in blocks_of(DOCS / "howto" / "ubi.md") if block.file}


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    """300 pages of 20 queries, with some clicks."""
    rng = np.random.default_rng(3)
    rows = []
    for page in range(300):
        query = int(rng.integers(20))
        for position, doc in enumerate(rng.permutation(8)[:5], start=1):
            click = int(rng.random() < 0.6 / position)
            rows.append((f"q-{page}", f"query {query}", f"P{query}-{doc}", position, click))
    return pd.DataFrame(rows, columns=["page_id", "query_id", "doc_id", "position", "click"])


def export(log: pd.DataFrame, folder: Path) -> None:
    """Write the log as UBI would: events in random order, some repeated, some irrelevant."""
    rng = np.random.default_rng(4)
    queries, events = [], []
    for number, (page, rows) in enumerate(log.groupby("page_id", sort=False)):
        typed = rows["query_id"].iloc[0]
        asked = {
            "query_id": page,
            "client_id": f"c-{number % 7}",
            "user_query": f" {typed.title()}" if number % 3 else typed,
            "query_response_id": f"r-{number}",
            "query_response_hit_ids": list(rows["doc_id"]),
            "timestamp": f"2026-03-02T09:{number % 60:02d}:00Z",
        }
        queries.append(asked)
        if number % 50 == 0:  # run again later under the same id, with another answer
            again = {"query_response_hit_ids": ["P0"], "timestamp": "2026-03-09T00:00:00Z"}
            queries.append(asked | again)
        for row in rows.itertuples():
            place = {"object": {"object_id": row.doc_id}, "position": {"ordinal": row.position}}
            event = {"query_id": page, "client_id": "c", "timestamp": "2026-03-02T10:00:00Z"}
            actions = ["impression"] * (1 + (number % 4 == 0)) + ["add_to_cart"] * (number % 5 == 0)
            actions += [("click", "click_through")[number % 2]] * (row.click * (1 + number % 2))
            events += [event | {"action_name": a, "event_attributes": place} for a in actions]
    for name, documents in {"ubi_queries": queries, "ubi_events": events}.items():
        order = rng.permutation(len(documents))
        lines = [json.dumps(documents[i]) for i in order]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("name", ["ubi.sql", "ubi_hits.sql"])
def test_the_log_comes_back(
    name: str, log: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export(log, tmp_path)
    monkeypatch.chdir(tmp_path)
    found = duckdb.sql(SQL[name]).df()[list(log.columns)]
    key = ["page_id", "position"]
    expected = log.sort_values(key, ignore_index=True)
    found = found.sort_values(key, ignore_index=True)
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)
    assert ec.read_log(found).total_clicks == log["click"].sum()


def test_the_id_of_a_search_used_as_the_query_causes_a_warning(log: pd.DataFrame) -> None:
    mistaken = log.assign(query_id=log["page_id"])
    with pytest.warns(ec.InputWarning, match="is query_id the id of the page"):
        ec.read_log(mistaken)


def test_an_ordinal_from_zero_is_refused_with_the_fix(log: pd.DataFrame) -> None:
    with pytest.raises(ec.InputError, match="--position-base 0"):
        ec.read_log(log.assign(position=log["position"] - 1))
