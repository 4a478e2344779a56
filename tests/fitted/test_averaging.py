"""Networks and lookups under draws of the parameters, against brute force."""

from dataclasses import replace

import numpy as np
import pytest

from epiclick.fitted import prediction
from epiclick.fitted.parameters import parameter_draws
from epiclick.fitted.prediction import emission_by, networks_of, relevance_by

from .hand_made import (
    FEATURES,
    betas_by,
    by_features,
    by_ids,
    theta_by,
    with_bias_betas,
    with_members,
)


@pytest.mark.parametrize("ensemble", [False, True])
def test_networks_say_what_each_alone_would(ensemble: bool) -> None:
    fitted = with_members(by_features()) if ensemble else by_features()
    draws = parameter_draws(fitted)
    assert len(draws) == (5 if ensemble else 16)
    x = np.random.default_rng(8).normal(size=(40, FEATURES)).astype(np.float32)
    alpha, beta = relevance_by(fitted, networks_of(draws), x)
    for j, draw in enumerate(draws):
        expected = betas_by(replace(fitted, features=None), draw, x)
        np.testing.assert_allclose((alpha[j], beta[j]), expected, rtol=1e-5)


def test_a_body_that_draws_share_is_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    monkeypatch.setattr(
        prediction,
        "given_to_last",
        lambda layers, x, width: runs.append(width) or [x @ layers[0][0]],
    )
    x = np.zeros((3, FEATURES), np.float32)
    for fitted, expected in ((by_features(), 1), (with_members(by_features()), 5)):
        runs.clear()
        relevance_by(fitted, networks_of(parameter_draws(fitted)), x)
        assert len(runs) == expected


def test_bias_by_draw_and_where_the_model_knows_none() -> None:
    fitted = by_ids()
    draws = parameter_draws(fitted)
    theta, rest, *others = emission_by(fitted, draws, np.array([2, 0, -1]))
    expected = np.array([theta_by(fitted, draw) for draw in draws])
    np.testing.assert_allclose(theta[:, 0], expected[:, 2])
    assert np.all(theta[:, 1] == 1)
    assert np.all(rest[:, 1] == 0)
    np.testing.assert_allclose(theta[:, 2], expected.mean(axis=1))
    np.testing.assert_allclose(theta + rest, 1)
    assert others == [None, None]


def test_bias_drawn_from_betas_leaves_one_network() -> None:
    fitted = with_bias_betas(by_features())
    draws = parameter_draws(fitted)
    assert len(draws) == 16
    assert len(networks_of(draws)) == 1
    x = np.random.default_rng(9).normal(size=(4, FEATURES)).astype(np.float32)
    alpha, _ = relevance_by(fitted, networks_of(draws), x)
    expected, _ = betas_by(
        replace(fitted, features=None), fitted.parameters, x, smooth=fitted.parameters.smooth
    )
    assert not fitted.parameters.smooth
    np.testing.assert_allclose(alpha[0], expected, rtol=1e-6)
