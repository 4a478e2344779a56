"""A log that was exported as OpenSearch UBI would comes back from the export."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import epiclick as ec
from epiclick.data.readers import count_log
from epiclick.data.schema import LogOptions


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


def export(log: pd.DataFrame, folder: Path) -> list[str]:
    """Write the log as UBI would: events in random order, some repeated, some irrelevant."""
    rng = np.random.default_rng(4)
    queries, events = [], []
    for number, (page, rows) in enumerate(log.groupby("page_id", sort=False)):
        typed = rows["query_id"].iloc[0]
        asked = {
            "query_id": page,
            "client_id": f"c-{number % 7}",
            "user_query": f" {typed}" if number % 3 else typed,
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
    files = []
    for name, documents in {"ubi_queries": queries, "ubi_events": events}.items():
        order = rng.permutation(len(documents))
        lines = [json.dumps(documents[i]) for i in order]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        files.append(str(folder / f"{name}.jsonl"))
    return files


@pytest.mark.parametrize("name", ["ubi", "ubi-hits"])
def test_the_log_comes_back(name: str, log: pd.DataFrame, tmp_path: Path) -> None:
    files = export(log, tmp_path)
    found, _ = count_log(files, LogOptions(format=name))
    assert found.to_table().equals(count_log(log, LogOptions())[0].to_table())
    assert found.pages == log["page_id"].nunique()


def test_the_id_of_a_search_used_as_the_query_causes_a_warning(log: pd.DataFrame) -> None:
    mistaken = log.assign(query_id=log["page_id"])
    with pytest.warns(ec.InputWarning, match="is query_id the id of the page"):
        ec.read_log(mistaken)


def test_an_ordinal_from_zero_is_refused_with_the_fix(log: pd.DataFrame) -> None:
    with pytest.raises(ec.InputError, match="position_base=0"):
        ec.read_log(log.assign(position=log["position"] - 1))
