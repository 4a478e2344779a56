"""Worlds of the families: repeatable, split by query, changed as they say."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kstest

from epiclick.calibration.families import FAMILIES, Family, find_families
from epiclick.calibration.worlds import (
    DAYS,
    ONE_BETA,
    display_probability,
    display_rows,
    make_case,
    world_seed,
)
from epiclick.errors import InputError


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


@pytest.mark.parametrize("users", ["pbm", "cascade", "trust"])
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
    broken = find_families(["misspecified"])
    assert {family.name for family in broken} >= {
        "labels",
        "cascade",
        "trust",
        "personal",
        "overdispersed",
    }
    assert len(well) + len(broken) == len(FAMILIES)
    assert all(family.docs >= len(family.theta) for family in FAMILIES.values())
    with pytest.raises(InputError, match=r"'sparce' \(did you mean 'sparse'\?\)"):
        find_families(["sparce"])
