"""Planned experiments: what the model expects of them, and their power in the world it knows."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import epiclick as ec
from epiclick.experiments.interleaving_analysis import lead_interval
from epiclick.experiments.log_plans import expected_difference
from epiclick.experiments.planned import ON_USERS, Plan
from epiclick.experiments.sample_size import variance_to_reach
from epiclick.experiments.team_draft import rounds, team_draft

from ..comparison.planted import THETA, model_of, planted, rows_of, table_of
from ..raising import raises_code
from .worlds import KnownWorld

pytestmark = pytest.mark.slow

TESTS = 400
SE = np.sqrt(0.8 * 0.2 / TESTS)


@pytest.fixture(scope="module")
def world() -> KnownWorld:
    return KnownWorld.of(120, gap=0.12)


@pytest.fixture(scope="module")
def planned(world: KnownWorld):
    return world.plan()


def ab_power(world: KnownWorld, per_arm: int) -> float:
    rng, found = np.random.default_rng(1), 0
    for _ in range(TESTS):
        new, live = world.ab_lead(per_arm, rng)
        error = np.sqrt((new.var(ddof=1) + live.var(ddof=1)) / per_arm)
        found += abs(new.mean() - live.mean()) / error > norm.ppf(0.975)
    return found / TESTS


def interleaving_power(world: KnownWorld, pages: int, cluster: str) -> float:
    rng, found = np.random.default_rng(2), 0
    for _ in range(TESTS):
        query, lead = world.interleaved(pages, rng)
        number = np.unique(query, return_inverse=True)[1]
        interval, _ = lead_interval(lead, number, cluster, 0.95)
        found += interval.low > 0 or interval.high < 0
    return found / TESTS


def test_an_ab_test_of_the_planned_size_has_the_power(world: KnownWorld, planned) -> None:
    per_arm = planned["ab_test"].pages_per_arm
    assert 500 < per_arm < 20_000
    assert abs(ab_power(world, per_arm) - 0.8) < 4 * SE
    assert ab_power(world, per_arm // 4) < 0.5


@pytest.mark.parametrize("cluster", ["page", "query"])
def test_interleaving_of_the_planned_size_has_the_power(
    cluster: str, world: KnownWorld, planned
) -> None:
    found = planned["interleaving"]
    pages = found.pages if cluster == "page" else found.pages_by_query
    assert abs(interleaving_power(world, pages, cluster) - 0.8) < 4 * SE
    assert interleaving_power(world, pages // 4, cluster) < 0.55


def test_clustering_by_query_takes_more_pages(planned) -> None:
    for name in ("ab_test", "interleaving"):
        assert planned[name].pages_by_query > 1.02 * planned[name].pages


def test_the_expected_lead_is_that_of_all_tosses(world: KnownWorld, planned) -> None:
    every = np.array(list(itertools.product([False, True], repeat=rounds(len(THETA)))))
    lead = []
    for query in range(len(world.new)):
        own = [np.tile(lists[query], (len(every), 1)) for lists in (world.new, world.live)]
        drafted = team_draft(*own, every, len(THETA))
        chance = world.chances(np.full(len(every), query), drafted.item)
        lead.append((chance * drafted.sign).sum(axis=1).mean())
    assert planned.lead.mean == pytest.approx(np.mean(lead), rel=1e-3)
    # its samples vary by what is uncertain about the items
    error = planned.lead.lead.std() / np.sqrt(len(planned.lead.lead))
    assert abs(planned.lead.lead.mean() - np.mean(lead)) < 4 * error


def test_variances_are_those_of_the_pages(world: KnownWorld, planned) -> None:
    # clicks are independent given the page; relevance varies about its mean within a posterior
    for lists, found in ((world.new, planned.variance.one), (world.live, planned.variance.other)):
        query = np.arange(len(lists))
        chance = world.chances(query, lists)
        mean = world.relevance[query[:, None], lists]
        between = chance.sum(axis=1).var() + (THETA**2 * mean * (1 - mean) / 21).sum(axis=1).mean()
        within = (chance * (1 - chance)).sum(axis=1).mean()
        less = (THETA**2 * mean * (1 - mean) / 21).sum(axis=1).mean()  # E p^2 exceeds (E p)^2
        assert found == pytest.approx(within - less + between, rel=0.04)


def test_the_difference_is_that_of_a_comparison(world: KnownWorld, planned) -> None:
    compared = ec.compare(model_of(planted(theta_sd=0, mean_sd=0)), world.rankings, world.features)
    assert planned.difference.to_dict() == compared.difference("new", "live").to_dict()


def test_what_is_certain_needs_no_experiment(planned) -> None:
    assert planned.is_certain
    assert planned.verdict.startswith("No experiment is needed: new is ahead of live with prob")
    assert f"{planned['interleaving'].pages:,} pages" in planned.verdict
    assert planned.cheapest.name == "interleaving"


def test_rankers_that_show_the_same_need_no_experiment(world: KnownWorld) -> None:
    same = KnownWorld(world.relevance, world.live, world.live, world.features).plan()
    assert (same.experiments, same.cheapest) == ((), None)
    assert same.verdict.startswith("There is nothing to test")


@pytest.fixture(scope="module")
def close() -> KnownWorld:
    """Rankers that differ little, in a world where little is known."""
    return KnownWorld.of(40, gap=0.01, seed=3)


def test_days_follow_from_traffic(close: KnownWorld) -> None:
    found = close.plan(pages_per_day=1_000)
    for each in found.experiments:
        if each.pages is not None:
            assert each.days(1_000) == max(each.pages, each.traffic or 0) / 1_000
    assert "day" in found.verdict
    assert found["ab_test"].days(None) is None


def test_more_power_takes_more_pages(close: KnownWorld) -> None:
    less, more = close.plan(power=0.7), close.plan(power=0.9)
    for name in ("ab_test", "interleaving", "show_items"):
        assert more[name].pages > less[name].pages
    strict = close.plan(power=0.7, significance=0.01, sure=0.99)
    for name in ("ab_test", "interleaving", "show_items"):
        assert strict[name].pages > less[name].pages


def test_items_to_show_are_listed_with_their_slots(close: KnownWorld) -> None:
    found = close.plan()
    assert not found.is_certain
    assert found["show_items"].pages is not None
    rows = found.pages.to_pandas()
    assert set(rows["experiment"]) == {"show_items"}
    for row in rows.itertuples():
        place = row.positions[0] - 1
        assert row.doc_id in (close.new[row.query_id][place], close.live[row.query_id][place])
    # rankers share the items that add nothing to the difference
    shared = (close.new == close.live).all(axis=1)
    assert shared.any()
    assert not set(np.flatnonzero(shared)) & set(rows["query_id"])
    by_slot = rows.assign(place=rows["positions"].str[0]).groupby(["query_id", "place"])["pages"]
    assert found["show_items"].pages == by_slot.sum().groupby("query_id").max().sum()


def test_uncertain_position_bias_asks_for_swaps() -> None:
    """New is better at the top and worse below it, so that bias decides which matters more."""
    queries, rng = 600, np.random.default_rng(4)
    relevance = np.array([0.30, 0.34, 0.35, 0.30]) + rng.normal(0, 0.01, (queries, 4))
    live = np.tile([0, 1, 2, 3], (queries, 1))
    query, doc = (each.ravel() for each in np.indices(relevance.shape))
    table = table_of(query, doc, relevance.ravel(), np.full(relevance.size, 100.0))
    world = KnownWorld(relevance, live[:, [1, 0, 3, 2]], live, table)
    found = world.plan(theta_sd=0.5)
    assert not found.is_certain
    assert found.difference.spread.shares()["position_bias"] > 0.9
    swaps = found["swap_positions"]
    assert swaps.pages is not None, swaps.obstacle
    assert "positions" in swaps.way
    rows = found.pages.to_pandas()
    assert set(rows["experiment"]) == {"swap_positions"}
    assert rows["pages"].sum() == swaps.pages
    assert rows["doc_id"].isna().all()
    assert found["show_items"].pages is None
    assert "of the variance, and only" in found["show_items"].obstacle


@pytest.fixture(scope="module")
def hardly_shown(close: KnownWorld) -> Plan:
    """A plan for a log of 80 pages that show other items first."""
    pages = []
    for query, (new, live) in enumerate(zip(close.new, close.live, strict=True)):
        others = [doc for doc in range(8) if doc not in {*new, *live}]
        rows = rows_of({query: [*others, *new][: len(THETA)]})
        pages += [rows.assign(page_id=query + 40 * turn, click=turn) for turn in (0, 1)]
    model = model_of(planted(theta_sd=0, mean_sd=0))
    return ec.plan(model, close.rankings, close.features, clicks=ec.read_log(pd.concat(pages)))


def test_a_failed_check_leaves_only_tests_on_users(hardly_shown: Plan) -> None:
    failed = hardly_shown.comparison
    assert "unseen" in [check.name for check in failed.checks_failed]
    found = replace(hardly_shown, comparison=replace(failed, pages=10**6))
    on_users = [found[name] for name in ON_USERS if found[name].pages is not None]
    assert found["show_items"].pages < min(each.pages for each in on_users)
    assert found.cheapest in on_users
    assert "so only a test on users can settle it" in found.verdict


def test_far_more_pages_than_the_log_has_are_not_worth_it(hardly_shown: Plan) -> None:
    assert hardly_shown.comparison.pages == 80
    assert hardly_shown["ab_test"].pages > 8_000
    assert hardly_shown.cheapest is None
    assert "Even 100 times the log's pages would not settle it" in hardly_shown.verdict


def test_more_of_the_log_settles_what_its_own_items_leave_open(close: KnownWorld) -> None:
    rng, pages = np.random.default_rng(5), []
    for page in range(400):
        query = page % 40
        docs = rng.permutation(8)[: len(THETA)]
        clicks = rng.random(4) < THETA * close.relevance[query, docs]
        pages += [
            (page, query, d, k + 1, int(c))
            for k, (d, c) in enumerate(zip(docs, clicks, strict=True))
        ]
    columns = ["page_id", "query_id", "doc_id", "position", "click"]
    log = ec.read_log(pd.DataFrame(pages, columns=columns))
    model = model_of(planted(theta_sd=0, mean_sd=0))
    found = ec.plan(model, close.rankings, close.features, clicks=log)
    spread = found.difference.spread
    assert spread.shares()["seen"] > 0.8
    more = found["more_pages"]
    lead = abs(expected_difference(found.comparison.values))
    target = variance_to_reach(lead, spread.total, 0.95, 0.8)
    assert spread.unseen < target
    expected = ((spread.total - spread.unseen) / (target - spread.unseen) - 1) * 400
    assert more.pages == int(np.ceil(expected))


def test_bad_arguments_are_refused(world: KnownWorld) -> None:
    model, rankings = model_of(planted()), world.rankings
    with raises_code("not-two-rankings"):
        ec.plan(model, {"new": rankings["new"]}, world.features)
    for wrong in ({"power": 1.0}, {"power": 0.3}, {"sure": 0.2}, {"significance": 0}):
        with raises_code("level-out-of-range"):
            ec.plan(model, rankings, world.features, **wrong)
    with raises_code("pages-per-day-out-of-range"):
        ec.plan(model, rankings, world.features, pages_per_day=0)
    with raises_code("not-a-model"):
        ec.plan("model", rankings)


def test_unknown_experiments_are_refused(planned) -> None:
    with raises_code("unknown-experiment"):
        planned["guess"]
