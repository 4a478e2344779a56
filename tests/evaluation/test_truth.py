"""The truth of simulated worlds with all kinds of users, against their tables and samplers."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from epiclick.evaluation.truth import Truth, read_truth
from epiclick.simulate.users import USERS
from epiclick.simulate.world import simulate

from ..raising import raises_code

THETA = np.array([0.9, 0.7, 0.5, 0.4])
RELEVANCE = np.array([[0.6, 0.3, 0.8, 0.5], [0.9, 0.2, 0.0, 0.0]])


def truth_of(users: str) -> Truth:
    ids = pa.table({"query_id": [1], "doc_id": [1]})
    return Truth(THETA, ids, np.ones(1), users)


@pytest.mark.parametrize("users", USERS)
def test_chances_are_those_of_the_users_own_sampler(users: str) -> None:
    page, place = np.nonzero(RELEVANCE)  # the second page is short
    order = np.random.default_rng(0).permutation(len(page))
    page, place = page[order], place[order]
    found = truth_of(users).click_chances(page, place + 1, RELEVANCE[page, place])
    count, rng = 40_000, np.random.default_rng(1)
    clicks = USERS[users].draw(np.repeat(RELEVANCE, count, axis=0), THETA, rng)
    rate = clicks.reshape(2, count, 4).mean(axis=1)[page, place]
    assert np.all(np.abs(rate - found) < 4 * np.sqrt(found * (1 - found) / count))


def test_lists_may_skip_positions_and_be_deeper_than_the_world() -> None:
    position = np.array([1, 3, 6])
    chances = truth_of("ubm").click_chances(np.zeros(3, int), position, np.array([0.5, 0.4, 1.0]))
    first, third = 0.9 * 0.5, 0.4 * 0.5 ** (2 / 3)
    after = first * third + (1 - first) * 0.4 * 0.5  # a click at the third
    last = (
        after * 0.4 ** (3 / 4)
        + first * (1 - third) * 0.4 ** (5 / 6)
        + (1 - first) * (1 - 0.4 * 0.5) * 0.4
    )
    assert chances == pytest.approx([first, after, last], rel=1e-12)


def test_the_truth_that_is_read_is_that_of_the_world(tmp_path: Path) -> None:
    sizes = {"queries": 30, "docs": 6, "features": 4, "pages": 200, "theta": THETA}
    for users in ("pbm", "ubm", "trust"):
        world = simulate(**sizes, users=users)
        world.save(tmp_path / users)
        truth = read_truth(tmp_path / users)
        assert truth.users == users
        model = USERS[users].click_model
        contexts = world.examination.select(["position", *model.history])
        assert np.array_equal(truth.bias_at(contexts), world.examination["theta"].to_numpy())
        keys = world.features.keys
        found = truth.relevance_of(
            keys["query_id"].combine_chunks(), keys["doc_id"].combine_chunks()
        )
        assert np.array_equal(found, world.relevance)


def test_a_folder_that_is_not_a_world_is_refused(tmp_path: Path) -> None:
    with raises_code("folder-missing") as error:
        read_truth(tmp_path / "nowhere")
    assert "nowhere" in str(error.value)
    with raises_code("not-a-world") as error:
        read_truth(tmp_path)
    assert "no truth.json and no relevance.parquet" in str(error.value)
