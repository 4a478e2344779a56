"""Worlds whose ranker knows more than the features: how much more, and what it does with it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logit

from epiclick.calibration.families import (
    FAMILIES,
    GROUPS,
    HIDDEN,
    Case,
    Family,
    display_rows,
    find_families,
    make_case,
)

pytestmark = [
    pytest.mark.slow,
    # a ranker that knows far more leaves few pages without a click
    pytest.mark.filterwarnings("ignore:only .* of pages are without a click"),
]


def shown(case: Case) -> np.ndarray:
    """(pairs,) how often each item was shown."""
    return np.bincount(display_rows(case.world), minlength=len(case.world.relevance))


def smaller(name: str) -> Family:
    return replace(FAMILIES[name], queries=200, pages=3000)


def without_signal(family: Family) -> Family:
    """The same items with the same features, whose ranker knows nothing more."""
    return replace(family, hidden=0.0, new_items=0.0)


def test_the_group_holds_all_sizes_of_the_signal_and_all_kinds_of_rankers() -> None:
    families = find_families(["confounded"])
    assert len(families) == len(GROUPS["confounded"]) == 9
    assert not any(family.well_specified for family in families)
    assert {family.hidden for family in families} == set(HIDDEN.values())
    assert {family.name for family in families} <= set(GROUPS["misspecified"])


@pytest.mark.parametrize("name", ["knows-a-little-more", "knows-as-much-more", "knows-far-more"])
def test_the_signal_has_the_stated_size_and_the_features_lack_it(name: str) -> None:
    family = smaller(name)
    case, plain = make_case(family, 0, 0), make_case(without_signal(family), 0, 0)
    assert case.world.prior is not None
    assert plain.world.prior is not None
    assert np.array_equal(case.world.features.matrix, plain.world.features.matrix)
    known = logit(plain.world.prior.mean)
    signal = (logit(case.world.prior.mean) - known) / known.std()
    pairs = len(signal)
    assert abs(signal.std() / family.hidden - 1) < 4 / np.sqrt(2 * pairs)
    for column in case.world.features.matrix.T:
        assert abs(np.corrcoef(np.argsort(np.argsort(column)), signal)[0, 1]) < 4 / pairs**0.5
    # the ranker shows items with more of it, given what the features say
    n = shown(case)
    x = np.column_stack([np.ones(pairs), known, signal])
    slope = np.linalg.lstsq(x, np.log(n + 0.5), rcond=None)[0][2]
    noise = np.linalg.lstsq(x[:, [0, 1, 2]], np.log(shown(plain) + 0.5), rcond=None)[0][2]
    assert slope > 0.1
    assert abs(noise) < 0.1 * slope + 4 * np.log(n + 0.5).std() / (signal.std() * pairs**0.5)


def test_deterministic_rankers_rarely_move_an_item() -> None:
    def moved(case: Case) -> float:
        counts = case.train.completed()
        table = np.zeros((len(counts), len(counts.contexts)))
        np.add.at(table, (counts.pair, counts.context), counts.displays)
        return float(1 - table.max(axis=1).sum() / table.sum())

    assert moved(make_case(smaller("knows-far-more-deterministic"), 0, 0)) < 0.05
    assert moved(make_case(smaller("knows-far-more"), 0, 0)) > 0.2


def test_new_items_are_never_shown_and_no_worse_than_others() -> None:
    family = smaller("knows-far-more-new-items")
    case = make_case(family, 0, 0)
    by_query = shown(case).reshape(-1, family.docs)
    never = by_query == 0
    assert np.all(never.sum(axis=1) >= round(family.new_items * family.docs))
    random = make_case(replace(family, policy_strength=0.001, pages=20_000), 0, 0)
    new = shown(random) == 0
    assert new.mean() == family.new_items
    assert np.all(new.reshape(-1, family.docs).sum(axis=1) == 4)
    relevance = random.world.relevance
    error = relevance.std() * np.sqrt(1 / new.sum() + 1 / (~new).sum())
    assert abs(relevance[new].mean() - relevance[~new].mean()) < 4 * error
    # candidates that were not shown are worse: control
    below = never.ravel() & (shown(make_case(replace(family, new_items=0.0), 0, 0)) == 0)
    relevance = case.world.relevance
    assert relevance[below].mean() < relevance[~never.ravel()].mean() - 4 * error


def test_clicks_follow_the_changed_relevance() -> None:
    world = make_case(smaller("knows-as-much-more"), 0, 0).world
    row, position = display_rows(world), world.log["position"].to_numpy() - 1
    p = world.relevance[row] * world.position_bias[position]
    clicks = world.log["click"].to_numpy()
    assert abs((clicks - p).mean()) < 4 * np.sqrt((p * (1 - p)).mean() / len(p))
    assert np.corrcoef(clicks, p)[0, 1] > 0.3
