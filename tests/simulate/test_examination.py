"""The true examination of a world, in the contexts of models that may have others."""

import json

import numpy as np
import pyarrow as pa
import pytest

from epiclick.simulate.users import examination_at, examination_table, unattractive_at
from epiclick.simulate.world import World, simulate

THETA = np.array([0.9, 0.6, 0.4])
NAN = np.nan


def test_position_bias_is_all_there_is_without_history():
    for users in ("pbm", "impatient", "personal"):
        table = examination_table(users, THETA)
        assert table.to_pydict() == {"position": [1, 2, 3], "theta": THETA.tolist()}


def test_users_with_trust_bias_also_click_for_the_position():
    table = examination_table("trust", THETA)
    attractive = THETA * [1, 0.9, 0.8 + 0.2 / 3]
    unattractive = THETA * [0.3, 0.15, 0.1]
    assert table.column_names == ["position", "theta", "unattractive"]
    np.testing.assert_allclose(table["theta"].to_numpy(), attractive - unattractive, rtol=1e-12)
    np.testing.assert_allclose(table["unattractive"].to_numpy(), unattractive, rtol=1e-12)
    contexts = pa.table({"position": [2, 1, 7]})
    found = unattractive_at(table, contexts)
    np.testing.assert_allclose(found, [*unattractive[[1, 0]], NAN], rtol=1e-12)
    # other users do not
    found = unattractive_at(examination_table("pbm", THETA), contexts)
    np.testing.assert_array_equal(found, [0, 0, NAN])


def test_users_look_further_right_after_a_click():
    table = examination_table("ubm", THETA)
    assert table.column_names == ["position", "last_click", "theta"]
    found = {(row["position"], row["last_click"]): row["theta"] for row in table.to_pylist()}
    assert found == pytest.approx(
        {
            (1, 0): 0.9,
            (2, 0): 0.6,
            (2, 1): 0.6 ** (1 / 2),
            (3, 0): 0.4,
            (3, 1): 0.4 ** (2 / 3),
            (3, 2): 0.4 ** (1 / 2),
        }
    )


@pytest.mark.parametrize(
    ("users", "contexts", "expected"),
    [
        ("pbm", {"position": [3, 1, 4]}, [0.4, 0.9, NAN]),
        # earlier clicks do not matter to these users
        ("pbm", {"position": [3, 2], "last_click": [2, 0]}, [0.4, 0.6]),
        ("ubm", {"position": [3, 2, 3], "last_click": [2, 0, 3]}, [0.4**0.5, 0.6, NAN]),
        # for these users examination depends on more than the position, except at the first
        ("ubm", {"position": [1, 2, 3]}, [0.9, NAN, NAN]),
        ("pbm", {"position": [1], "device": ["phone"]}, [NAN]),
        ("ubm", {"device": ["phone"], "position": [1], "last_click": [0]}, [NAN]),
        ("pbm", {"position": ["1", "2"]}, [NAN, NAN]),
        ("pbm", {"device": ["phone"]}, [NAN]),
    ],
)
def test_contexts_of_models_are_found_in_the_world(users, contexts, expected):
    found = examination_at(examination_table(users, THETA), pa.table(contexts))
    np.testing.assert_array_equal(found, expected)


def test_a_world_with_trust_bias_is_stored_with_its_truth(small_settings, tmp_path):
    world = simulate(**{**small_settings, "pages": 500}, users="trust")
    np.testing.assert_allclose(world.click_if_first, 0.3 + 0.7 * world.relevance, rtol=1e-12)
    world.save(tmp_path / "w")
    truth = json.loads((tmp_path / "w" / "truth.json").read_text())
    assert truth["position_bias"] == world.position_bias.tolist()
    assert truth["examination"] == world.examination.to_pylist()
    assert World.load(tmp_path / "w").examination.equals(world.examination)


def test_a_world_with_history_is_stored_with_its_truth(small_settings, tmp_path):
    world = simulate(**{**small_settings, "pages": 500}, users="ubm")
    np.testing.assert_array_equal(world.click_if_first, world.relevance)
    world.save(tmp_path / "w")
    truth = json.loads((tmp_path / "w" / "truth.json").read_text())
    assert truth["position_bias"] == world.position_bias.tolist()
    assert truth["examination"] == world.examination.to_pylist()
    loaded = World.load(tmp_path / "w")
    assert loaded.examination.equals(world.examination)
    assert loaded.log.equals(world.log)
    simulate(**{**small_settings, "pages": 500}).save(tmp_path / "plain")
    assert "examination" not in json.loads((tmp_path / "plain" / "truth.json").read_text())
