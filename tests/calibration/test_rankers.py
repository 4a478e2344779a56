"""Rankers of calibration worlds, and their true values."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from epiclick.calibration.families import FAMILIES, Case, Family, make_case
from epiclick.calibration.quantities import rankings_of, true_value

pytestmark = pytest.mark.slow

SMALL = Family("small", (1.0, 0.6, 0.3), queries=30, docs=5, features=4, pages=400)


@pytest.fixture(scope="module")
def case() -> Case:
    return make_case(SMALL, 0, 0)


def test_rankings_are_the_best_by_their_scores_and_near_ties_are_near(case: Case) -> None:
    rankings = rankings_of(case)
    assert len(rankings) == 6
    values = case.world.features.rows(np.arange(150))
    first = rankings["feature 1"].to_pandas()
    for query in range(30):
        own = values[query * 5 : query * 5 + 5, 1]
        shown = first[first.query_id == query]
        assert list(shown.position) == [1, 2, 3]
        np.testing.assert_array_equal(own[shown.doc_id], np.sort(own)[::-1][:3])
    same = (
        rankings["feature 0"]["doc_id"].to_numpy()
        == rankings["near feature 0"]["doc_id"].to_numpy()
    )
    other = rankings["feature 0"]["doc_id"].to_numpy() == rankings["feature 1"]["doc_id"].to_numpy()
    assert np.mean(other) < 0.7 < np.mean(same) < 1


def test_the_truth_is_that_of_a_plain_loop(case: Case) -> None:
    ranking = rankings_of(case)["sum"].to_pylist()
    relevance, theta = case.world.relevance, case.world.position_bias
    total = sum(
        theta[slot["position"] - 1] * relevance[slot["query_id"] * 5 + slot["doc_id"]]
        for slot in ranking
    )
    assert true_value(case, rankings_of(case)["sum"]) == pytest.approx(total / 30)


def test_the_truth_of_users_with_history_is_that_of_all_patterns_of_clicks() -> None:
    case = make_case(replace(SMALL, users="ubm"), 0, 0)
    ranking, relevance = rankings_of(case)["sum"], case.world.relevance
    theta = {
        (row["position"], row["last_click"]): row["theta"]
        for row in case.world.examination.to_pylist()
    }
    slots = ranking.to_pylist()
    total = 0.0
    for first in range(0, len(slots), 3):
        zeta = [relevance[s["query_id"] * 5 + s["doc_id"]] for s in slots[first : first + 3]]
        for pattern in product((0, 1), repeat=3):
            probability, last = 1.0, 0
            for k, click in enumerate(pattern, start=1):
                chance = theta[k, last] * zeta[k - 1]
                probability *= chance if click else 1 - chance
                last = k if click else last
            total += probability * sum(pattern)
    assert true_value(case, ranking) == pytest.approx(total / 30, rel=1e-12)


def test_impatient_users_are_worth_less_where_they_stop() -> None:
    family = replace(FAMILIES["impatient"], queries=30, docs=6, pages=400)
    case = make_case(family, 0, 0)
    ranking = rankings_of(case)["sum"]
    as_pbm = replace(
        case, world=replace(case.world, settings=replace(case.world.settings, users="pbm"))
    )
    assert true_value(case, ranking) != pytest.approx(true_value(as_pbm, ranking), rel=1e-3)
