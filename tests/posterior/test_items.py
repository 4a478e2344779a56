"""Relevance of the pairs of a log, averaged over draws of the parameters, chunk by chunk."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import epiclick as ec
from epiclick.errors import InputError
from epiclick.fitted.parameters import parameter_draws, without_uncertainty
from epiclick.posterior import item_posterior, items
from epiclick.posterior.items import known_items, posteriors

from ..fitted.hand_made import (
    POSITIONS,
    betas_by,
    by_features,
    by_ids,
    clicks_on,
    counts_of,
    model_of,
    theta_by,
    with_bias_betas,
    with_members,
)
from ..fitted.hand_made import items as items_of
from ..raising import raises_code

COLUMNS = ["query_id", "doc_id", "mean", "low", "high", "alpha", "beta"]


def sampled(counts: ec.ClickCounts, theta, alpha, beta, rng, samples: int) -> np.ndarray:
    """(pairs, samples) relevance of one draw: the prior, weighted by the likelihood of the clicks."""
    zeta = rng.beta(alpha[:, None], beta[:, None], (len(counts), samples))
    displays, clicks = counts.dense()
    log_weight = np.zeros_like(zeta)
    for k, bias in enumerate(theta):
        log_weight += clicks[:, k, None] * np.log(np.maximum(bias * zeta, 1e-300))
        log_weight += (displays - clicks)[:, k, None] * np.log1p(-bias * zeta * (1 - 1e-15))
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    chosen = [rng.choice(samples, samples, p=w / w.sum()) for w in weight]
    return np.take_along_axis(zeta, np.array(chosen), axis=1)


@pytest.mark.parametrize("kind", ["posterior", "members", "bias"])
def test_posteriors_are_averaged_over_the_draws(kind: str) -> None:
    makes = {
        "posterior": lambda: by_features(0.4),
        "members": lambda: with_members(by_features()),
        "bias": lambda: with_bias_betas(by_features()),
    }
    fitted = makes[kind]()
    table = items_of(4, 5)
    counts = clicks_on(table, 6)
    found = model_of(fitted).posterior(counts, above=0.3)
    assert list(found.columns) == [*COLUMNS, "prob_above"]
    rng, draws = np.random.default_rng(1), parameter_draws(fitted)
    zeta = []
    for draw in draws:
        alpha, beta = betas_by(fitted, draw, table.matrix, smooth=fitted.parameters.smooth)
        zeta.append(sampled(counts, theta_by(fitted, draw), alpha, beta, rng, 48_000 // len(draws)))
    each = np.concatenate(zeta, axis=1)
    mean, sd = each.mean(axis=1), each.std(axis=1)
    # the effective sample size is about a third of the samples
    error = 4 / np.sqrt(each.shape[1] / 3)
    np.testing.assert_array_less(abs(found["mean"] - mean) / sd, error)
    total = found["alpha"] + found["beta"]
    np.testing.assert_allclose(np.sqrt(mean * (1 - mean) / (total + 1)), sd, rtol=0.05)
    for column, probability in (("low", 0.05), ("high", 0.95)):
        below = (each < found[column].to_numpy()[:, None]).mean(axis=1)
        noise = error * np.sqrt(probability * (1 - probability))
        assert np.all(abs(below - probability) < noise + 0.005)
    share = (each > 0.3).mean(axis=1)
    assert np.all(abs(found["prob_above"] - share) < error / 2 + 0.005)


def test_known_parameters_give_narrower_intervals() -> None:
    counts = clicks_on(items_of(10, 5), 30)
    unsure, sure = (
        model_of(each).posterior(counts)
        for each in (by_features(0.5), without_uncertainty(by_features(0.5)))
    )
    wider = (unsure["high"] - unsure["low"]) > (sure["high"] - sure["low"])
    assert wider.mean() > 0.8


def test_chunks_add_up_to_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted, counts = by_features(), clicks_on(items_of(13, 7), 60)
    model = model_of(fitted)
    whole = model.posterior(counts, above=0.3)
    monkeypatch.setattr(items, "CHUNK", 20)
    parts = list(model.posterior_chunks(counts, above=0.3))
    assert [len(part) for part in parts] == [20, 20, 20, 20, 11]
    pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), whole, rtol=1e-6)
    kept = known_items(by_ids(), replace(counts, features=None, feature_row=None), 0.9)
    by_frame = model_of(by_ids()).posterior(counts)
    for name in ("alpha", "beta", "low", "high"):
        np.testing.assert_allclose(getattr(kept, name), by_frame[name], rtol=1e-9)


def test_an_unknown_context_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "CHUNK", 5)
    counts = clicks_on(items_of(4, 5), 6)
    deeper = replace(counts, contexts=pa.table({"position": [1, 2, 3, 9]}))
    with pytest.warns(ec.InputWarning, match="no position bias for position 9") as caught:
        model_of(by_features()).posterior(deeper)
    assert len(caught) == 1


def test_no_pairs_give_an_empty_table() -> None:
    counts = clicks_on(items_of(2, 2), 3).subset([])
    found = model_of(by_features()).posterior(counts)
    assert list(found.columns) == COLUMNS
    assert len(found) == 0


def test_the_probability_above_a_threshold_of_cold_warm_and_head_items() -> None:
    table = items_of(1, 3)
    displays, clicks = np.zeros((2, 3, POSITIONS), int)
    displays[:, 0], clicks[:, 0] = (1, 40, 100_000), (0, 16, 40_000)
    found = model_of(by_features()).posterior(counts_of(table, displays, clicks), above=0.39)
    cold, warm, head = found["prob_above"]
    assert 0.05 < cold < 0.95
    assert 0.2 < warm < 0.8
    assert head > 0.999


@pytest.mark.slow
def test_memory_is_that_of_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the result itself, 400 chunks take no more than 4: nothing grows with the log."""
    size = 1000
    monkeypatch.setattr(items, "CHUNK", size)

    def alike(counts: ec.ClickCounts, *_: object, **__: object) -> item_posterior.ItemPosterior:
        half = np.full(len(counts), 0.5)
        return item_posterior.ItemPosterior(half, half / 10, half, half, None)

    monkeypatch.setattr(item_posterior, "item_posterior", alike)
    model = model_of(by_ids())
    peaks = []
    for pairs in (4 * size, 4 * size, 400 * size):  # the first call loads what all need
        pair = np.arange(pairs)
        counts = ec.ClickCounts(
            query_id=pa.array(pair // 10),
            doc_id=pa.array(pair),
            contexts=pa.table({"position": np.arange(1, POSITIONS + 1)}),
            pair=pair,
            context=pair % POSITIONS,
            displays=np.ones(pairs, int),
            clicks=np.zeros(pairs, int),
        )
        tracemalloc.start()
        rows = sum(len(frame) for frame in model.posterior_chunks(counts))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert rows == pairs
    assert peaks[2] < 1.5 * peaks[1]
    assert peaks[2] < 400 * size * 8  # not even one column of the result


def test_a_pointwise_model_learns_nothing_from_clicks() -> None:
    counts = clicks_on(items_of(2, 2), 3)
    with raises_code("pointwise-model"):
        next(
            posterior
            for posterior in items.posterior_frames(by_features(kind="PointwisePBM"), counts, 0.9)
        )
    with pytest.raises(InputError, match="above"):
        model_of(by_features()).posterior(counts, above=3)


def test_draws_given_are_those_averaged_over() -> None:
    fitted, counts = by_features(), clicks_on(items_of(3, 3), 5)
    draws = parameter_draws(fitted, 2, seed=9)
    ((_, found),) = posteriors(fitted, counts, 0.9, draws=draws)
    each = [next(posteriors(fitted, counts, 0.9, draws=[draw]))[1].mean for draw in draws]
    np.testing.assert_allclose(found.mean, np.mean(each, axis=0), rtol=1e-9)
    assert abs(each[0] - each[1]).max() > 0.01
