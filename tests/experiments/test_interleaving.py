"""Interleaved pages and the analysis of their clicks."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import epiclick as ec
from epiclick.experiments.interleave_rankings import NEITHER
from epiclick.experiments.interleaving_analysis import lead_interval

from ..comparison.planted import rows_of
from ..raising import raises_code

NEW = {"shoes": ["a", "b", "c"], "hats": ["x", "y"], "new": ["n"]}
LIVE = {"shoes": ["b", "d", "a"], "hats": ["y", "z", "x"], "old": ["o"]}


def made(**options):
    return ec.interleave({"new": rows_of(NEW), "live": rows_of(LIVE)}, **options)


def test_pages_have_the_items_of_both() -> None:
    found = made(pages=50, seed=1)
    table = found.table.to_pandas()
    assert (found.pages, found.queries, found.names) == (100, 2, ("new", "live"))
    assert table.columns.tolist() == ["page_id", "query_id", "doc_id", "position", "team"]
    assert table["page_id"].nunique() == 100
    assert set(table["query_id"]) == {"shoes", "hats"}
    assert any("2 queries that only one ranker has were left out" in note for note in found.notes)
    for (query, _), page in table.groupby(["query_id", "page_id"]):
        assert page["position"].tolist() == [1, 2, 3]
        assert page["doc_id"].is_unique
        # the first pick of each team is its best that the other has not taken
        for team, lists in (("new", NEW), ("live", LIVE)):
            own = [doc for doc in lists[query] if doc in set(page["doc_id"][page["team"] == team])]
            assert page["doc_id"][page["team"] == team].tolist() == own
    firsts = table[table["position"] == 1]["team"].value_counts()
    assert stats.binomtest(firsts["new"], 100).pvalue > 1e-3


def test_depth_cuts_and_seeds_repeat() -> None:
    assert made(depth=2).table["position"].to_pylist() == [1, 2, 1, 2]
    assert made(pages=9, seed=3).table.equals(made(pages=9, seed=3).table)
    assert not made(pages=9, seed=3).table.equals(made(pages=9, seed=4).table)


def test_a_longer_list_fills_the_page_without_credit() -> None:
    found = ec.interleave(
        {"new": rows_of({1: [7]}), "live": rows_of({1: [7, 8, 9]})}, pages=20
    ).table.to_pandas()
    assert set(found["team"][found["position"] > 1]) == {NEITHER}
    assert found["doc_id"].tolist() == [7, 8, 9] * 20
    assert set(found["team"][found["position"] == 1]) == {"new", "live"}


def test_pages_follow_the_traffic_of_a_log() -> None:
    log = ec.read_log(
        pd.DataFrame(
            {
                "page_id": [1, 1, 2, 3, 4],
                "query_id": ["shoes", "shoes", "shoes", "hats", "shoes"],
                "doc_id": ["a", "b", "a", "x", "b"],
                "position": [1, 2, 1, 1, 1],
                "click": [1, 0, 0, 1, 0],
            }
        )
    )
    table = made(traffic=log).table.to_pandas()
    assert table.groupby("query_id")["page_id"].nunique().to_dict() == {"shoes": 3, "hats": 1}
    with raises_code("no-common-query"):
        ec.interleave({"n": rows_of({"z": ["a"]}), "l": rows_of({"z": ["b"]})}, traffic=log)


def test_bad_rankings_are_refused() -> None:
    new, live = rows_of(NEW), rows_of(LIVE)
    with raises_code("not-two-rankings"):
        ec.interleave({"new": new})
    with raises_code("not-two-rankings"):
        ec.interleave([new, live])
    with raises_code("no-common-query"):
        ec.interleave({"new": rows_of({1: [1]}), "live": rows_of({2: [1]})})
    with raises_code("depth-out-of-range"):
        made(depth=0)
    with raises_code("pages-out-of-range"):
        made(pages=0)
    with raises_code("invalid-ranker-name"):
        ec.interleave({"new": new, NEITHER: live})
    with raises_code("id-types-differ"):
        ec.interleave({"new": new, "live": rows_of({1: [1]})})
    with raises_code("features-needed"):
        ec.interleave({"new": new, "live": lambda frame: frame})
    twice = pd.concat([new.assign(page_id=1), new.assign(page_id=2)])
    with raises_code("several-lists"):
        ec.interleave({"new": twice, "live": live})
    repeated = rows_of({"shoes": ["a", "a"]})
    with raises_code("repeated-document"):
        ec.interleave({"new": repeated, "live": live})


@pytest.fixture(scope="module")
def clicked() -> pd.DataFrame:
    """Clicks on interleaved pages of 30 queries, more on the new ranker's items."""
    rng = np.random.default_rng(0)
    new, live = ({q: rng.permutation(9)[:4].tolist() for q in range(30)} for _ in "ab")
    table = ec.interleave({"new": rows_of(new), "live": rows_of(live)}, pages=40).table.to_pandas()
    chance = np.where(table["team"] == "new", 0.34, 0.28)
    return table.assign(click=(rng.random(len(table)) < chance).astype(int))


def leads(clicked: pd.DataFrame) -> pd.DataFrame:
    """Query and lead of every page, by pandas."""
    sign = clicked["team"].map({"new": 1, "live": -1, NEITHER: 0})
    signed = clicked.assign(lead=clicked["click"] * sign)
    return signed.groupby("page_id").agg(query=("query_id", "first"), lead=("lead", "sum"))


def test_the_difference_and_its_interval_follow_from_the_pages(clicked: pd.DataFrame) -> None:
    found, pages = ec.analyse_interleaving(clicked), leads(clicked)
    assert (found.name, found.against, found.pages, found.queries) == ("new", "live", 1200, 30)
    assert found.difference == pytest.approx(pages["lead"].mean())
    by_query = pages.groupby("query")["lead"].sum()  # all queries have as many pages
    half = stats.t.ppf(0.975, 29) * by_query.std() / np.sqrt(30) / 40
    assert (found.low, found.high) == pytest.approx(
        (found.difference - half, found.difference + half)
    )
    assert (found.wins, found.losses) == ((pages["lead"] > 0).sum(), (pages["lead"] < 0).sum())
    assert found.win_share == pytest.approx(found.wins / (found.wins + found.losses))
    teams = clicked.groupby("team")["click"].sum()
    assert (found.clicks, found.clicks_against) == (teams["new"], teams["live"])
    assert found.is_decided
    assert found.verdict.startswith("new beats live: +0.")


def test_clusters_may_be_pages(clicked: pd.DataFrame) -> None:
    found, pages = ec.analyse_interleaving(clicked, cluster="page", level=0.9), leads(clicked)
    half = stats.t.ppf(0.95, 1199) * pages["lead"].std() / np.sqrt(1200)
    assert found.high - found.low == pytest.approx(2 * half)
    single = ec.analyse_interleaving(clicked[clicked["query_id"] == 3])
    assert (single.cluster, single.queries, len(single.notes)) == ("page", 1, 1)


def test_the_other_ranker_may_come_first(clicked: pd.DataFrame) -> None:
    found, other = (ec.analyse_interleaving(clicked, against=name) for name in ("live", "new"))
    assert (other.name, other.against) == ("live", "new")
    assert other.difference == -found.difference
    assert other.verdict == found.verdict


@pytest.mark.slow
def test_teams_may_come_from_the_pages(clicked: pd.DataFrame) -> None:
    plain = ec.analyse_interleaving(clicked).to_dict()
    pages, log = clicked.drop(columns="click"), clicked.drop(columns="team")
    assert ec.analyse_interleaving(log, pages).to_dict() == plain
    shuffled = log.sample(frac=1, random_state=1).rename(columns={"page_id": "search_id"})
    assert ec.analyse_interleaving(shuffled, pages).to_dict() == plain


def test_intervals_exclude_no_difference_as_rarely_as_they_say() -> None:
    """In worlds without a difference, whose queries have tastes of their own."""
    rng, tests, query = np.random.default_rng(1), 2_000, np.repeat(np.arange(40), 10)
    excluded = {"query": 0, "page": 0}
    for _ in range(tests):
        lead = rng.normal(rng.normal(0, 0.5, 40)[query], 1.0)
        for cluster in excluded:
            interval, by = lead_interval(lead, query, cluster, 0.95)
            assert by == cluster
            excluded[cluster] += interval.low > 0 or interval.high < 0
    assert stats.binomtest(excluded["query"], tests, 0.05).pvalue > 1e-3
    assert excluded["page"] > 0.15 * tests  # pages of a query are alike


@pytest.mark.slow
def test_bad_logs_are_refused(clicked: pd.DataFrame) -> None:
    log, pages = clicked.drop(columns="team"), clicked.drop(columns="click")
    with raises_code("team-missing"):
        ec.analyse_interleaving(log)
    with raises_code("page-id-needed"):
        ec.analyse_interleaving(clicked.drop(columns="page_id"))
    with raises_code("unknown-page"):
        ec.analyse_interleaving(log.assign(page_id=log["page_id"] + 5), pages)
    with raises_code("unknown-display"):
        ec.analyse_interleaving(log.assign(doc_id=log["doc_id"] + 50), pages)
    with raises_code("not-two-teams"):
        ec.analyse_interleaving(clicked.assign(team="new"))
    with raises_code("unknown-ranker"):
        ec.analyse_interleaving(clicked, against="lvie")
    with raises_code("too-few-pages"):
        ec.analyse_interleaving(
            clicked[clicked["page_id"] == clicked["page_id"].iloc[0]].assign(click=1)
        )
    with raises_code("missing-column"):
        ec.analyse_interleaving(log, pages.drop(columns="team"))
    with raises_code("not-interleaved-pages"):
        ec.analyse_interleaving(log, pages.drop(columns="page_id"))
    with raises_code("unknown-choice"):
        ec.analyse_interleaving(clicked, cluster="user")
    with raises_code("level-out-of-range"):
        ec.analyse_interleaving(clicked, level=95)
