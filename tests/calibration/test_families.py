"""Worlds of the families: reproducible, split by query, changed as described."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import kstest

from epiclick.calibration.families import (
    DAYS,
    FAMILIES,
    ONE_BETA,
    Family,
    display_contexts,
    display_probability,
    display_rows,
    find_families,
    make_case,
    world_seed,
)
from epiclick.calibration.methods import know
from epiclick.click_models.registry import CLICK_MODELS, click_model
from epiclick.simulate.users import USERS

from ..raising import raises_code

pytestmark = pytest.mark.slow


def test_a_world_depends_on_family_seed_and_index_alone(tiny: Family) -> None:
    first, again = make_case(tiny, 3, 1), make_case(tiny, 3, 1)
    assert first.world.log.equals(again.world.log)
    assert np.array_equal(first.world.relevance, again.world.relevance)
    assert first.train.query_id.equals(again.train.query_id)
    others = [(tiny, 3, 2), (tiny, 4, 1), (replace(tiny, name="other"), 3, 1)]
    assert len({world_seed(*key) for key in [*others, (tiny, 3, 1)]}) == 4


def test_a_fifth_of_the_queries_is_held_back(tiny: Family) -> None:
    case = make_case(tiny, 0, 0)
    train, unseen = (set(c.query_id.to_pylist()) for c in (case.train, case.unseen))
    assert not train & unseen
    assert len(unseen) == 12
    assert len(train) == 48
    rows = case.rows(case.unseen)
    keys = case.world.features.keys
    assert keys["query_id"].take(rows).combine_chunks().equals(case.unseen.query_id)
    assert keys["doc_id"].take(rows).combine_chunks().equals(case.unseen.doc_id)


@pytest.mark.parametrize("users", ["pbm", "ubm", "impatient", "trust"])
def test_clicks_come_with_the_probability_that_is_taken_for_the_truth(
    tiny: Family, users: str
) -> None:
    world = make_case(replace(tiny, users=users, pages=6000), 0, 0).world
    clicks, p = world.log["click"].to_numpy(), display_probability(world)
    position = world.log["position"].to_numpy()
    for k in (1, 2, 3):
        at = position == k
        error = np.sqrt((p * (1 - p))[at].sum()) / at.sum()
        assert abs(clicks[at].mean() - p[at].mean()) < 4 * error
        # and item by item: clicks grow with the probability
        assert np.corrcoef(clicks[at], p[at])[0, 1] > 0.1


def test_without_features_relevance_is_of_one_beta_and_rankings_know_nothing_of_it(
    tiny: Family,
) -> None:
    case = make_case(
        replace(tiny, queries=300, pages=5000, change="one beta", with_features=False), 0, 0
    )
    world = case.world
    assert case.train.features is None
    assert kstest(world.relevance, "beta", ONE_BETA).pvalue > 0.01
    assert world.prior is not None
    shown = np.bincount(display_rows(world), minlength=len(world.relevance))
    assert abs(np.corrcoef(shown, world.relevance)[0, 1]) < 4 / np.sqrt(len(shown))
    clicks, p = world.log["click"].to_numpy(), display_probability(world)
    assert abs((clicks - p).mean()) < 4 * np.sqrt((p * (1 - p)).mean() / len(p))
    # those of the changed world, not of the one it was made from
    assert np.corrcoef(clicks, p)[0, 1] > 0.3


def test_a_display_is_judged_by_the_clicks_above_it(tiny: Family) -> None:
    world = make_case(replace(tiny, users="ubm"), 0, 0).world
    theta = {
        (row["position"], row["last_click"]): row["theta"] for row in world.examination.to_pylist()
    }
    contexts = world.examination.drop_columns("theta")
    model = click_model("ubm")
    context = display_contexts(world, model, contexts.take([5, 4, 3, 2, 1, 0]))
    relevance = world.relevance[display_rows(world)]
    expected, own, last = [], [], 0
    for row, zeta in zip(world.log.to_pylist(), relevance, strict=True):
        last = 0 if row["position"] == 1 else last
        expected.append(theta[row["position"], last] * zeta)
        own.append({"position": row["position"], "last_click": last})
        last = row["position"] if row["click"] else last
    np.testing.assert_allclose(display_probability(world), expected, rtol=1e-14)
    assert [contexts.to_pylist()[5 - c] for c in context] == own
    # to a model without history they are positions
    position = pa.table({"position": [1, 2, 3]})
    found = display_contexts(world, click_model("pbm"), position)
    assert np.array_equal(found + 1, world.log["position"].to_numpy())


def test_counts_are_by_the_contexts_of_the_click_model(tiny: Family) -> None:
    case = make_case(replace(tiny, users="ubm", click_model="ubm"), 0, 0)
    contexts = case.train.contexts
    assert contexts.column_names == ["position", "last_click"]
    context = display_contexts(case.world, click_model("ubm"), contexts)
    clicks = case.world.log["click"].to_numpy()
    found = [part.by_context() for part in (case.train, case.unseen)]
    for name, expected in (
        ("displays", np.bincount(context, minlength=len(contexts))),
        ("clicks", np.bincount(context, clicks, len(contexts))),
    ):
        assert np.array_equal(sum(table[name].to_numpy() for table in found), expected)


@pytest.mark.parametrize("users", ["ubm", "trust"])
def test_whoever_knows_a_world_is_right(tiny: Family, users: str) -> None:
    """Of 90 % intervals of independent items; a right method fails once in 10,000 seeds."""
    case = make_case(replace(tiny, users=users, click_model=users, pages=2000), 0, 0)
    answers = know(case)
    theta = case.world.examination["theta"].to_numpy()
    assert np.array_equal(answers["position_bias"].truth, theta[1:] / theta[0])
    for name in ("unseen_relevance", "seen_relevance", "click_probability"):
        given = answers[name]
        inside = (given.low[1] <= given.truth) & (given.truth <= given.high[1])
        # some displays are of the same item
        items = len(set(given.truth)) if name != "click_probability" else len(case.unseen)
        assert abs(inside.mean() - 0.9) < 4 * np.sqrt(0.09 / items)


def test_changed_worlds_are_clicked_by_their_own_users(tiny: Family) -> None:
    """Clicks a page agree with the chain at the changed relevance, and not with a sum of slots."""
    family = replace(tiny, users="ubm", pages=20_000, change="one beta", with_features=False)
    world = make_case(family, 0, 0).world
    pages = world.relevance[display_rows(world)].reshape(-1, 3)
    clicks = world.log["click"].to_numpy().reshape(-1, 3)
    error = 4 * clicks.std(axis=0) / np.sqrt(len(clicks))
    chain = USERS["ubm"].probability(pages, world.position_bias).mean(axis=0)
    independent = (pages * world.position_bias).mean(axis=0)
    rate = clicks.mean(axis=0)
    assert np.all(np.abs(rate - chain) < error)
    assert np.any(np.abs(rate - independent) > error)


def test_daily_relevance_makes_clicks_of_a_day_alike_and_keeps_the_mean(tiny: Family) -> None:
    world = make_case(replace(tiny, pages=12_000, change="daily"), 0, 0).world
    p, row = display_probability(world), display_rows(world)
    residual = world.log["click"].to_numpy() - p
    day = world.log["page_id"].to_numpy() * DAYS // world.pages
    assert abs(residual.mean()) < 5 * residual.std() / np.sqrt(len(set(row * DAYS + day)))

    def likeness(group: np.ndarray) -> tuple[float, float]:
        """Mean product of residuals of two displays of a group, and its standard error."""
        _, index = np.unique(group, return_inverse=True)
        sums, squares = np.bincount(index, residual), np.bincount(index, residual**2)
        size = np.bincount(index)
        products, pairs = sums**2 - squares, size * (size - 1)
        mean = products.sum() / pairs.sum()
        return mean, np.sqrt(((products - mean * pairs) ** 2).sum()) / pairs.sum()

    same_day, error = likeness(row * DAYS + day)
    assert same_day > 4 * error
    plain = make_case(replace(tiny, pages=12_000), 0, 0).world
    p, row = display_probability(plain), display_rows(plain)
    residual = plain.log["click"].to_numpy() - p
    mean, error = likeness(row * DAYS + day)
    assert abs(mean) < 4 * error


def test_families_are_found_by_name_and_group() -> None:
    assert find_families(None) == tuple(FAMILIES.values())
    well = find_families(["well-specified"])
    assert all(family.well_specified for family in well)
    assert {len(family.theta) for family in well} == {3, 5, 10}
    assert any(family.theta[0] < 1 for family in well)
    assert any(not family.with_features for family in well)
    assert {family.click_model for family in well} == set(CLICK_MODELS)
    assert all(family.users == family.click_model for family in well)
    broken = find_families(["misspecified"])
    assert {family.name for family in broken} >= {
        "labels",
        "impatient",
        "trust-by-pbm",
        "personal",
        "overdispersed",
    }
    assert len(well) + len(broken) == len(FAMILIES)
    assert all(family.docs >= len(family.theta) for family in FAMILIES.values())
    with raises_code("unknown-family") as caught:
        find_families(["sparce"])
    assert "did you mean 'sparse'" in str(caught.value)
