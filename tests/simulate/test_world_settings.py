import json
import math

import numpy as np
import pytest

from epiclick.errors import InputError
from epiclick.simulate.users import USERS
from epiclick.simulate.world_settings import RELEVANCE, WorldSettings, resolve_settings

from ..raising import raises_code

NOT_GIVEN = {
    "queries": None,
    "docs": None,
    "features": None,
    "pages": 100,
    "positions": None,
    "theta": None,
    "relevance": "label",
    "dataset": None,
    "users": "pbm",
    "policy_strength": 1.0,
    "taste_sd": 1.0,
    "seed": 0,
}


def resolve(**given):
    return resolve_settings(**{**NOT_GIVEN, **given})


def test_defaults_are_the_documented_ones():
    settings = resolve()
    assert (settings.queries, settings.docs, settings.features) == (2_000, 20, 20)
    assert settings.positions == 5
    assert settings.theta == (1, 1 / 2, 1 / 3, 1 / 4, 1 / 5)


def test_theta_decides_positions():
    assert resolve(theta=[1, 0.5]).positions == 2
    assert resolve(positions=3).theta == (1, 1 / 2, 1 / 3)


def test_settings_survive_json():
    settings = resolve(theta=np.array([0.9, 0.3]), queries=np.int64(7), policy_strength=2)
    stored = json.loads(json.dumps(settings.to_dict()))
    assert WorldSettings.from_dict(stored) == settings


def test_a_dataset_has_its_own_sizes():
    settings = resolve(dataset="mslr")
    assert (settings.queries, settings.docs, settings.features) == (None, None, None)
    with raises_code("option-does-not-apply") as caught:
        resolve(dataset="mslr", queries=10, features=3)
    assert [p.examples[0] for p in caught.value.problems] == ["queries=10", "features=3"]
    assert "leave out dataset" in str(caught.value)


@pytest.mark.parametrize(
    ("argument", "value", "code"),
    [
        ("queries", 0, "not-whole-number"),
        ("docs", 2.5, "not-whole-number"),
        ("features", True, "not-whole-number"),
        ("pages", -1, "not-whole-number"),
        ("positions", 0, "not-whole-number"),
        ("seed", -1, "not-whole-number"),
        ("policy_strength", -0.1, "invalid-number"),
        ("policy_strength", math.inf, "invalid-number"),
        ("taste_sd", math.nan, "invalid-number"),
        ("users", "dbn", "unknown-choice"),
        ("relevance", "gamma", "unknown-choice"),
        ("theta", [1.0, 0.0, 1.2], "probability-out-of-range"),
        ("theta", [math.nan], "probability-out-of-range"),
        ("theta", [], "not-whole-number"),
    ],
)
def test_refuses_each_wrong_argument(argument, value, code):
    with raises_code(code) as caught:
        resolve(**{argument: value})
    (problem,) = caught.value.problems
    named = "positions" if value == [] else argument  # taken from theta
    assert problem.what.startswith(named)
    if code == "unknown-choice":
        assert all(
            name in problem.what for name in {"users": USERS, "relevance": RELEVANCE}[argument]
        )


def test_reports_all_problems_together():
    with pytest.raises(InputError) as caught:
        resolve(queries=0, pages="many", theta=[0.5, 2.0], positions=3, users="dbn", seed=1.5)
    found = {(problem.what.split()[0], problem.code) for problem in caught.value.problems}
    assert found == {
        *((name, "not-whole-number") for name in ("pages", "queries", "seed")),
        *(("theta", "wrong-length"), ("theta", "probability-out-of-range")),
        ("users", "unknown-choice"),
    }
    assert "position 2: 2.0" in str(caught.value)
    assert "3 positions" in str(caught.value)


def test_impatient_users_need_a_position_bias_that_falls():
    assert resolve(users="impatient", theta=[1, 0.5, 0.5]).theta == (1, 0.5, 0.5)
    assert resolve(users="pbm", theta=[0.5, 1]).theta == (0.5, 1)
    with raises_code("theta-increases"):
        resolve(users="impatient", theta=[0.5, 1])
