"""Counts by groups of users, pages or days: which clusters, how they are counted and kept."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import epiclick as ec
from epiclick.data.checksums import with_digest
from epiclick.data.clusters import FEW_CLUSTERS, MOST_GROUPS
from epiclick.data.counts_metadata import KEY

from ..raising import raises_code

pytestmark = pytest.mark.filterwarnings("ignore::epiclick.InputWarning")

KEYS = ["query_id", "doc_id", "position"]


def log(queries: int = 1, users: int = 80, pages: int = 400) -> pd.DataFrame:
    """Pages of three of twelve items, of users and days at random."""
    rng = np.random.default_rng(7)
    shown = rng.permuted(np.tile(np.arange(12), (pages, 1)), axis=1)[:, :3]
    page = np.repeat(np.arange(pages), 3)
    return pd.DataFrame(
        {
            "page_id": page,
            "query_id": page % queries,
            "doc_id": shown.ravel(),
            "position": np.tile([1, 2, 3], pages),
            "click": rng.integers(2, size=3 * pages),
            "user_id": rng.integers(users, size=pages)[page],
            "day": np.array([f"2026-01-0{day}" for day in range(1, 8)])[page % 7],
        }
    )


def rows_of(counts: ec.ClickCounts) -> pd.DataFrame:
    """The clusters as rows."""
    own = counts.clusters
    assert own is not None
    return pd.DataFrame(
        {
            "query_id": counts.query_id.take(own.pair).to_numpy(),
            "doc_id": counts.doc_id.take(own.pair).to_numpy(),
            "position": counts.contexts["position"].to_numpy()[own.context],
            "group": np.array(own.labels)[own.group],
            "displays": own.displays,
            "clicks": own.clicks,
        }
    )


def by_pandas(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    found = rows.groupby([*KEYS, column])["click"].agg(["size", "sum"]).reset_index()
    found.columns = [*KEYS, "group", "displays", "clicks"]
    return found.astype({"group": str})


def same_rows(one: pd.DataFrame, other: pd.DataFrame) -> None:
    order = [*KEYS, "group"]
    pd.testing.assert_frame_equal(
        *(each.sort_values(order).reset_index(drop=True) for each in (one, other)),
        check_dtype=False,
    )


def test_few_clusters_are_groups_each() -> None:
    rows = log()
    counts = ec.read_log(rows, cluster="day")
    assert (counts.clusters.by, counts.clusters.clusters, counts.clusters.groups) == ("day", 7, 7)
    same_rows(rows_of(counts), by_pandas(rows, "day"))


def test_many_clusters_are_hashed_into_groups() -> None:
    rows = log(users=300, pages=2000)
    counts = ec.read_log(rows, cluster="user")
    own = counts.clusters
    assert own.by == "user"
    assert own.clusters == rows["user_id"].nunique() > MOST_GROUPS >= own.groups > 85
    # a user is in one group
    users = ec.read_log(rows.assign(query_id=rows["user_id"]), cluster="user")
    group = pd.DataFrame({"user": users.query[users.clusters.pair], "group": users.clusters.group})
    assert len(group.drop_duplicates()) == users.num_queries
    summed = rows_of(counts).groupby(KEYS)[["displays", "clicks"]].sum().reset_index()
    whole = counts.to_table().to_pandas()
    pd.testing.assert_frame_equal(summed, whole, check_dtype=False)


def test_timestamps_are_days() -> None:
    rows = log()
    rows["time"] = pd.to_datetime(rows["day"]) + pd.to_timedelta(rows["page_id"], "s")
    for column in (rows["time"], rows["time"].astype(str)):
        counts = ec.read_log(rows.assign(time=column), cluster="time")
        assert counts.clusters.clusters == 7
        same_rows(rows_of(counts), by_pandas(rows, "day"))


def test_counted_logs_have_clusters() -> None:
    rows = log()
    summed = by_pandas(rows, "day").rename(columns={"group": "day"})
    same_rows(rows_of(ec.read_log(summed, cluster="day")), by_pandas(rows, "day"))
    # an item that was never shown has no pair
    unseen = summed.iloc[:1].assign(doc_id=99, displays=0, clicks=0)
    more = ec.read_log(pd.concat([summed, unseen]), cluster="day")
    same_rows(rows_of(more), by_pandas(rows, "day"))


def chosen(rows: pd.DataFrame, **settings: object) -> str | None:
    clusters = ec.read_log(rows, **settings).clusters
    return None if clusters is None else clusters.by


@pytest.mark.slow
def test_users_or_pages_replace_few_queries() -> None:
    rows = log()
    assert chosen(rows) == "user"
    assert chosen(rows, cluster="query") is None
    assert chosen(rows, cluster="page") == "page"
    assert chosen(rows.drop(columns="user_id")) == "page"
    assert chosen(rows.drop(columns=["user_id", "page_id"])) is None
    # users who are few, or unknown on some rows, are no better than queries
    assert chosen(log(users=FEW_CLUSTERS - 1)) == "page"
    assert chosen(rows.assign(user_id=rows["user_id"].where(rows.index > 2))) == "page"
    assert chosen(log(queries=FEW_CLUSTERS - 1)) == "user"
    assert chosen(log(queries=FEW_CLUSTERS)) is None
    assert chosen(log(queries=FEW_CLUSTERS), cluster="user") == "user"


def test_clusters_that_cannot_be_used_are_refused() -> None:
    rows = log()
    with raises_code("unknown-column") as caught:
        ec.read_log(rows, cluster="dya")
    assert "day" in str(caught.value)
    with raises_code("missing-column"):
        ec.read_log(rows.drop(columns="user_id"), cluster="user")
    with raises_code("invalid-cluster"):
        ec.read_log(rows, cluster=None)
    with raises_code("reserved-column"):
        ec.read_log(rows.assign(cluster=1), cluster="day", context=("position", "cluster"))
    unknown = rows.assign(day=rows["day"].where(rows.index > 1))
    with raises_code("missing-value") as caught:
        ec.read_log(unknown, cluster="day")
    assert "cluster (day)" in str(caught.value)
    assert "2 rows" in str(caught.value)
    kept = ec.read_log(unknown, cluster="day", on_bad="drop", max_bad=0.1)
    same_rows(rows_of(kept), by_pandas(rows[rows.index > 1], "day"))
    with raises_code("missing-value") as caught:
        ec.read_log(rows.assign(page_id=rows["page_id"].where(rows.index > 1)), cluster="page")
    assert str(caught.value).count("2 rows") == 1


def test_parts_and_pairs_keep_their_clusters() -> None:
    rows = log(queries=4)
    counts = ec.read_log(rows, part="day", cluster="user_id")
    early, late = counts.split(3 / 7, 4 / 7, by="time")
    for part, days in ((early, rows["day"] < "2026-01-04"), (late, rows["day"] >= "2026-01-04")):
        own = rows[days]
        whole = ec.read_log(own, cluster="user_id")
        for name in ("displays", "clicks"):
            assert getattr(part.clusters, name).sum() == getattr(whole.clusters, name).sum()
    both = ec.ClickCounts.concat([early, late])
    same_rows(summed(both), summed(counts))
    some = counts.subset(counts.query == 2)
    expected = summed(counts)
    same_rows(summed(some), expected[expected["query_id"] == 2])


def summed(counts: ec.ClickCounts) -> pd.DataFrame:
    """Rows of the clusters, parts added up."""
    return rows_of(counts).groupby([*KEYS, "group"])[["displays", "clicks"]].sum().reset_index()


def test_conversions_are_counted_by_cluster() -> None:
    rows = log()
    rows["bought"] = rows["click"] * (rows.index % 3 == 0)
    counts = ec.read_log(rows, cluster="day", conversion="bought")
    outcome = counts.clusters.of_conversions()
    clicked = rows[rows["click"] == 1]
    expected = clicked.groupby(["doc_id", "day"])["bought"].agg(["size", "sum"])
    found = pd.DataFrame(
        {
            "doc_id": counts.doc_id.take(outcome.pair).to_numpy(),
            "day": np.array(outcome.labels)[outcome.group],
            "size": outcome.displays,
            "sum": outcome.clicks,
        }
    )
    found = found.groupby(["doc_id", "day"]).sum()
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)


@pytest.mark.parametrize("settings", [{}, {"cluster": "day", "part": "day"}])
def test_a_file_of_counts_keeps_its_clusters(tmp_path: Path, settings: dict[str, str]) -> None:
    counts = ec.read_log(log(), **settings)
    file = tmp_path / "counts.parquet"
    counts.to_parquet(file)
    for again in (ec.ClickCounts.from_parquet(file), ec.read_log(file)):
        same_rows(rows_of(again), rows_of(counts))
        assert sorted(again.clusters.labels) == sorted(counts.clusters.labels)
        assert again.clusters.clusters == counts.clusters.clusters
    assert ec.read_log(file, cluster="query").clusters is None
    with raises_code("options-differ"):
        ec.read_log(file, cluster="page")


def test_files_written_before_clusters_existed_can_be_read(tmp_path: Path) -> None:
    counts = ec.read_log(log(), cluster="query")
    file = tmp_path / "counts.parquet"
    counts.to_parquet(file)
    table = pq.read_table(file)
    record = json.loads(table.schema.metadata[KEY])
    record = {name: value for name, value in record.items() if name not in ("clusters", "digest")}
    del record["options"]["cluster"]
    older = table.replace_schema_metadata({KEY: json.dumps(with_digest(record))})
    pq.write_table(older, file)
    again = ec.read_log(file)
    assert again.clusters is None
    assert again.to_table().equals(counts.to_table())
