import json
import math

import numpy as np
import pytest

from epiclick.errors import InputError
from epiclick.simulate.world_settings import WorldSettings, resolve_settings

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
    with pytest.raises(InputError) as caught:
        resolve(dataset="mslr", queries=10, features=3)
    assert [p.examples[0] for p in caught.value.problems] == ["queries=10", "features=3"]
    assert "leave out dataset" in str(caught.value)


@pytest.mark.parametrize(
    ("argument", "value", "rule"),
    [
        ("queries", 0, "queries must be a whole number above 0"),
        ("docs", 2.5, "docs must be a whole number above 0"),
        ("features", True, "features must be a whole number above 0"),
        ("pages", -1, "pages must be a whole number above 0"),
        ("positions", 0, "positions must be a whole number above 0"),
        ("seed", -1, "seed must be a whole number, 0 or above"),
        ("policy_strength", -0.1, "policy_strength must be a finite number"),
        ("policy_strength", math.inf, "policy_strength must be a finite number"),
        ("taste_sd", math.nan, "taste_sd must be a finite number"),
        ("users", "dbn", "users must be one of pbm, ubm, cascade, trust, personal"),
        ("relevance", "gamma", "relevance must be one of label, beta"),
        ("theta", [1.0, 0.0, 1.2], "theta must be probabilities above 0 and at most 1"),
        ("theta", [math.nan], "theta must be probabilities"),
        ("theta", [], "positions must be a whole number above 0"),
    ],
)
def test_refuses_each_wrong_argument(argument, value, rule):
    with pytest.raises(InputError) as caught:
        resolve(**{argument: value})
    assert len(caught.value.problems) == 1
    assert rule in str(caught.value)


def test_refuses_all_that_is_wrong_together():
    with pytest.raises(InputError) as caught:
        resolve(queries=0, pages="many", theta=[0.5, 2.0], positions=3, users="dbn", seed=1.5)
    rules = [problem.what.split()[0] for problem in caught.value.problems]
    assert sorted(rules) == ["pages", "queries", "seed", "theta", "theta", "users"]
    assert "position 2: 2.0" in str(caught.value)
    assert "one value for each of the 3 positions" in str(caught.value)


def test_cascade_users_need_a_position_bias_that_falls():
    assert resolve(users="cascade", theta=[1, 0.5, 0.5]).theta == (1, 0.5, 0.5)
    assert resolve(users="pbm", theta=[0.5, 1]).theta == (0.5, 1)
    with pytest.raises(InputError, match="must not increase down the page"):
        resolve(users="cascade", theta=[0.5, 1])
