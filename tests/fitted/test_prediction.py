"""Clicks and relevance of items averaged over draws of the parameters, by brute force."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import epiclick as ec
from epiclick.fitted import prediction
from epiclick.fitted.parameters import parameter_draws, without_uncertainty
from epiclick.fitted.prediction import chunks_of
from epiclick.fitted.state import Items
from epiclick.relevance.heads import exposure

from ..raising import raises_code
from .hand_made import (
    betas_by,
    by_features,
    by_ids,
    clicks_on,
    items,
    model_of,
    theta_by,
    with_bias_betas,
    with_members,
)

COLUMNS = ["query_id", "doc_id", "mean", "low", "high", "alpha", "beta"]


@pytest.mark.parametrize("ensemble", [False, True])
def test_relevance_is_averaged_over_the_draws(ensemble: bool) -> None:
    fitted = with_members(by_features()) if ensemble else by_features()
    table = items(20, 5)
    found = model_of(fitted, level=0.8).relevance(table, above=0.4)
    assert list(found.columns) == [*COLUMNS, "prob_above"]
    each = [betas_by(fitted, draw, table.matrix) for draw in parameter_draws(fitted)]
    alpha, beta = np.array(each).swapaxes(0, 1)
    known = stats.beta(alpha, beta)
    mean = known.mean().mean(axis=0)
    variance = known.var().mean(axis=0) + known.mean().var(axis=0)
    np.testing.assert_allclose(found["mean"], mean, rtol=1e-5)
    total = found["alpha"] + found["beta"]
    np.testing.assert_allclose(found["alpha"] / total, mean, rtol=1e-5)
    np.testing.assert_allclose(mean * (1 - mean) / (total + 1), variance, rtol=1e-4)
    for end, probability in (("low", 0.1), ("high", 0.9)):
        below = known.cdf(found[end].to_numpy()).mean(axis=0)
        np.testing.assert_allclose(below, probability, atol=1e-4)
    np.testing.assert_allclose(found["prob_above"], known.sf(0.4).mean(axis=0), rtol=1e-4)


def test_parameters_that_are_known_leave_the_networks_own_betas() -> None:
    sure = without_uncertainty(by_features())
    table = items(10, 5)
    found = model_of(sure).relevance(table)
    alpha, _ = betas_by(sure, sure.parameters, table.matrix)
    np.testing.assert_allclose(found["alpha"], alpha, rtol=1e-5)
    low, high = ec.Beta(found["alpha"].to_numpy(), found["beta"].to_numpy()).interval(0.9)
    np.testing.assert_array_equal(found["low"], low)
    np.testing.assert_array_equal(found["high"], high)
    unsure = model_of(by_features()).relevance(table)
    assert np.mean(unsure["high"] - unsure["low"] > found["high"] - found["low"]) > 0.8


def test_members_of_a_pointwise_model_give_an_interval() -> None:
    fitted = by_features(kind="PointwisePBM")
    table = items(10, 5)
    alone = model_of(fitted).relevance(table, above=0.5)
    assert alone[["low", "high", "alpha", "beta", "prob_above"]].isna().all(axis=None)
    members = with_members(fitted)
    found = model_of(members).relevance(table, above=0.5)
    each = [model_of(replace(fitted, parameters=own)).relevance(table) for own in members.members]
    values = np.array([one["mean"] for one in each])
    np.testing.assert_allclose(found["mean"], values.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(found["low"], np.quantile(values, 0.05, axis=0), rtol=1e-6)
    np.testing.assert_allclose(found["high"], np.quantile(values, 0.95, axis=0), rtol=1e-6)
    np.testing.assert_allclose(found["prob_above"], (values > 0.5).mean(axis=0))
    assert found[["alpha", "beta"]].isna().all(axis=None)


@pytest.mark.parametrize("kind", ["posterior", "members", "pointwise members", "ids"])
def test_clicks_are_predicted_jointly(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    makes = {
        "posterior": by_features,
        "members": lambda: with_members(by_features()),
        "pointwise members": lambda: with_members(by_features(kind="PointwisePBM")),
        "ids": by_ids,
    }
    fitted = makes[kind]()
    counts = clicks_on(items(20, 5), 6)
    x = counts.features.matrix
    if kind == "ids":
        x = exposure(counts.dense()[0])
        counts = replace(counts, features=None, feature_row=None)
    expected, apart = np.zeros(len(counts.pair)), np.zeros((2, len(counts.pair)))
    draws = parameter_draws(fitted)
    for draw in draws:
        theta = theta_by(fitted, draw)[counts.context]
        if fitted.kind == "PointwisePBM":
            mean = model_of(replace(fitted, parameters=draw, members=())).relevance(counts.features)
            zeta = mean["mean"].to_numpy()[counts.pair]
        else:
            alpha, beta = betas_by(fitted, draw, x)
            zeta = (alpha / (alpha + beta))[counts.pair]
        expected += theta * zeta / len(draws)
        apart += np.array([theta, zeta]) / len(draws)
    found = model_of(fitted).predict_clicks(counts)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert abs(apart[0] * apart[1] / expected - 1).max() > 1e-3  # what E[theta] E[zeta] would say
    monkeypatch.setattr(prediction, "CHUNK", 7)
    np.testing.assert_allclose(model_of(fitted).predict_clicks(counts), found, rtol=1e-6)


def test_clicks_where_bias_alone_is_uncertain_are_a_product_of_means() -> None:
    fitted = with_bias_betas(by_features())
    counts = clicks_on(items(5, 5), 6)
    bias = model_of(fitted).position_bias()["mean"].to_numpy()
    mean = model_of(fitted).relevance(counts.features)["mean"].to_numpy()
    found = model_of(fitted).predict_clicks(counts)
    np.testing.assert_allclose(found, bias[counts.context] * mean[counts.pair], rtol=1e-6)


def test_items_known_from_training_are_predicted_by_their_clicks_there() -> None:
    counts = clicks_on(items(5, 4), 6)
    counts = replace(counts, features=None, feature_row=None)
    known = counts.subset(np.arange(len(counts)) % 2 == 0)
    share = np.linspace(0.2, 0.9, len(known))
    own = Items(known.query_id, known.doc_id, share * 10, (1 - share) * 10, share, share)
    fitted = by_ids()
    found = model_of(replace(fitted, items=own)).predict_clicks(counts)
    other = model_of(fitted).predict_clicks(counts)
    theta = np.mean([theta_by(fitted, draw) for draw in parameter_draws(fitted)], axis=0)
    is_known = counts.pair % 2 == 0
    expected = theta[counts.context] * share[counts.pair // 2]
    np.testing.assert_allclose(found, np.where(is_known, expected, other), rtol=1e-6)


@pytest.mark.parametrize("above", [0, 1, -0.3, 30, float("nan")])
def test_a_threshold_outside_of_relevance_is_refused(above: float) -> None:
    with raises_code("threshold-out-of-range"):
        model_of(by_features()).relevance(items(2, 2), above=above)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_chunks_are_the_counts(size: int) -> None:
    counts = clicks_on(items(6, 4), 5)
    parts = list(chunks_of(counts, size))
    assert len(parts) == -(-24 // size)
    for i, (start, stop, part) in enumerate(parts):
        same = counts.subset(np.arange(24) // size == i)
        assert part.to_table().equals(same.to_table())
        np.testing.assert_array_equal(part.feature_row, same.feature_row)
        np.testing.assert_array_equal(part.displays, counts.displays[start:stop])
    assert [len(part) for _, _, part in chunks_of(counts.subset([]), size)] == [0]
