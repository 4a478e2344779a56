"""Items of slots: where something is known about them, and their relevance from that."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import logit

import epiclick as ec
from epiclick.comparison import shown_items as module
from epiclick.comparison.shown_items import Items, items_of, moments_of
from epiclick.errors import InputError
from epiclick.fitted.parameters import Parameters, PointLookup, parameter_draws
from epiclick.fitted.state import FittedModel
from epiclick.fitted.state import Items as Kept

from ..raising import raises_code
from .planted import (
    MEAN,
    NU,
    THETA,
    WIDEST,
    betas_by,
    planted,
    posterior_moments,
    table_of,
    theta_by,
)

QUERIES, DOCS, DRAWS = 5, 6, 7
CLICKED = 3  # docs of each query below this one are in the log
WITH_FEATURES = 5  # docs below this one have features


@pytest.fixture(scope="module")
def prior() -> tuple[np.ndarray, np.ndarray]:
    """Mean and confidence of all items by the planted network, (queries, docs)."""
    rng = np.random.default_rng(1)
    return rng.uniform(0.1, 0.6, (QUERIES, DOCS)), rng.uniform(1.5, 8, (QUERIES, DOCS))


@pytest.fixture(scope="module")
def table(prior: tuple[np.ndarray, np.ndarray]) -> ec.FeatureTable:
    """Features, in no order."""
    query, doc = (each.ravel() for each in np.indices((QUERIES, WITH_FEATURES)))
    order = np.random.default_rng(2).permutation(len(query))
    query, doc = query[order], doc[order]
    return table_of(query, doc, *(each[query, doc] for each in prior))


@pytest.fixture(scope="module")
def displays() -> np.ndarray:
    """(queries, docs, positions) of all items in the log."""
    shown = np.random.default_rng(3).integers(0, 30, (QUERIES, DOCS, len(THETA)))
    shown[:, :, 0] += 1
    shown[:, CLICKED:] = 0
    return shown


@pytest.fixture(scope="module")
def clicks(displays: np.ndarray) -> np.ndarray:
    return np.random.default_rng(4).binomial(displays, 0.4 * THETA)


@pytest.fixture(scope="module")
def log(displays: np.ndarray, clicks: np.ndarray) -> ec.ClickCounts:
    return counts_of(displays, clicks)


def counts_of(displays: np.ndarray, clicks: np.ndarray) -> ec.ClickCounts:
    query, doc, place = np.nonzero(displays)
    rows = {"query_id": query, "doc_id": doc, "position": place + 1}
    rows |= {"displays": displays[query, doc, place], "clicks": clicks[query, doc, place]}
    return ec.ClickCounts.from_table(pa.table(rows))


@pytest.fixture(scope="module")
def slots() -> tuple[np.ndarray, np.ndarray]:
    """Query and doc of slots, each item several times, in no order."""
    every = np.indices((QUERIES, DOCS)).reshape(2, -1)
    picked = np.random.default_rng(5).permutation(np.tile(every, 3), axis=1)
    return picked[0], picked[1]


def found(
    fitted: FittedModel, slots: tuple[np.ndarray, ...], table=None, counts=None
) -> tuple[Items, tuple[np.ndarray, np.ndarray]]:
    """The items and their moments, (draws, items)."""
    items = items_of(fitted, *(pa.array(each) for each in slots), table, counts)
    draws = parameter_draws(fitted, DRAWS)
    parts = list(moments_of(fitted, items, draws, np.random.default_rng(6)))
    mean, variance = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
    assert mean.shape == variance.shape == (len(draws), len(items))
    return items, (mean, variance)


def keys_of(items: Items, fitted: FittedModel) -> list[tuple[int, int] | None]:
    """(query, doc) of every item in its place; None for those about which nothing is known."""
    known: list[tuple[int, int] | None] = []
    if items.counts is not None:
        known += zip(
            items.counts.query_id.to_pylist(), items.counts.doc_id.to_pylist(), strict=True
        )
    if len(items.kept):
        own = fitted.items
        known += [(own.query_id[i].as_py(), own.doc_id[i].as_py()) for i in items.kept.tolist()]
    if len(items.rows):
        rows = items.features.keys.take(items.rows)
        known += zip(rows["query_id"].to_pylist(), rows["doc_id"].to_pylist(), strict=True)
    return known + [None] * items.unknown


def beta_moments(alpha: np.ndarray, beta: np.ndarray) -> np.ndarray:
    total = alpha + beta
    return np.stack([alpha / total, alpha * beta / total**2 / (total + 1)])


def test_items_are_ordered_by_what_is_known_about_them(slots, table, log) -> None:
    fitted = planted()
    items, _ = found(fitted, slots, table, log)
    assert len(items) == QUERIES * DOCS
    assert items.seen == QUERIES * CLICKED
    assert len(items.rows) == QUERIES * (WITH_FEATURES - CLICKED)
    assert items.unknown == QUERIES * (DOCS - WITH_FEATURES)
    keys = keys_of(items, fitted)
    assert len(set(keys)) == QUERIES * WITH_FEATURES + 1  # all but those that are unknown
    for query, doc, item in zip(*slots, items.index, strict=True):
        assert keys[item] == ((query, doc) if doc < WITH_FEATURES else None)
        assert items.was_seen[item] == (doc < CLICKED)
        assert items.is_unknown[item] == (doc >= WITH_FEATURES)
    # slots of one item have one index, those of two have two
    assert len({*zip(*slots, items.index, strict=True)}) == len(items)
    assert set(items.index) == set(range(len(items)))


def test_every_kind_of_item_has_its_moments(slots, table, log, prior, displays, clicks) -> None:
    fitted = planted()
    items, (mean, variance) = found(fitted, slots, table, log)
    keys = keys_of(items, fitted)
    in_table = [each[:, :WITH_FEATURES].ravel() for each in prior]
    moved = 0
    for j, draw in enumerate(parameter_draws(fitted, DRAWS)):
        theta = theta_by(fitted, draw)
        by_row = beta_moments(*betas_by(draw, *in_table))
        of_any = by_row[0].mean(), by_row[1].mean() + by_row[0].var()
        for i, key in enumerate(keys):
            if key is None:
                expected = of_any
            else:
                alpha, beta = betas_by(draw, *(each[key] for each in prior))
                expected = beta_moments(alpha, beta)
                if key[1] < CLICKED:
                    before = expected[0]
                    expected = posterior_moments(alpha, beta, theta, displays[key], clicks[key])
                    moved += abs(before - expected[0]) > np.sqrt(expected[1])
            assert abs(mean[j, i] - expected[0]) < 0.01 * np.sqrt(expected[1])
            assert variance[j, i] == pytest.approx(expected[1], rel=0.03)
    assert moved > 5  # the control: without their clicks, items would come out elsewhere


def test_without_a_log_relevance_is_from_features(slots, table, prior) -> None:
    fitted = planted()
    items, (mean, variance) = found(fitted, slots, table)
    assert items.seen == 0
    assert not items.was_seen.any()
    for j, draw in enumerate(parameter_draws(fitted, DRAWS)):
        for i, key in enumerate(keys_of(items, fitted)):
            if key is not None:
                expected = beta_moments(*betas_by(draw, *(each[key] for each in prior)))
                assert (mean[j, i], variance[j, i]) == pytest.approx(tuple(expected), rel=1e-5)


def test_a_log_with_features_of_its_own_gives_the_same(slots, table, log) -> None:
    fitted = planted()
    _, first = found(fitted, slots, table, log)
    _, second = found(fitted, slots, table, log.with_features(table))
    np.testing.assert_array_equal(first, second)


def test_items_of_the_log_without_features_are_unknown(slots, table, displays, clicks) -> None:
    """There is no prediction of the network to combine their clicks with."""
    more = displays.copy()
    more[2, WITH_FEATURES, 0] = 9
    items, _ = found(planted(), slots, table, counts_of(more, np.minimum(clicks, more)))
    assert items.seen == QUERIES * CLICKED
    assert items.unknown == QUERIES * (DOCS - WITH_FEATURES)


def test_a_population_is_sampled_where_it_is_large(slots) -> None:
    fitted, rng = planted(), np.random.default_rng(7)
    many = 6_000
    mean, nu = rng.beta(2, 4, many), rng.uniform(1.5, 8, many)
    table = table_of(np.full(many, 99), np.arange(many), mean, nu)
    items, (found_mean, found_variance) = found(fitted, slots, table)
    assert items.unknown == len(items) == QUERIES * DOCS
    for j, draw in enumerate(parameter_draws(fitted, DRAWS)):
        each = beta_moments(*betas_by(draw, mean, nu))
        error = each[0].std() / np.sqrt(module.POPULATION)
        assert np.all(found_mean[j] == found_mean[j, 0])
        assert found_mean[j, 0] == pytest.approx(each[0].mean(), abs=4 * error)
        assert found_variance[j, 0] == pytest.approx(each[1].mean() + each[0].var(), rel=0.1)
        # the control: an item of mean features is more certain than a random one
        assert found_variance[j, 0] > 1.1 * each[1].mean()


def test_a_model_without_features_estimates_from_clicks(slots, log, displays, clicks) -> None:
    fitted = planted(features=False)
    items, (mean, variance) = found(fitted, slots, None, log)
    assert items.seen == QUERIES * CLICKED
    assert len(items.rows) == 0
    assert items.unknown == QUERIES * (DOCS - CLICKED)
    for j, draw in enumerate(parameter_draws(fitted, DRAWS)):
        alpha, beta = betas_by(draw, np.array(MEAN), np.array(NU))
        for i, key in enumerate(keys_of(items, fitted)):
            expected = tuple(beta_moments(alpha, beta))
            if key is not None:
                theta = theta_by(fitted, draw)
                expected = posterior_moments(alpha, beta, theta, displays[key], clicks[key])
            assert abs(mean[j, i] - expected[0]) < 0.01 * np.sqrt(expected[1])
            assert variance[j, i] == pytest.approx(expected[1], rel=0.03)


def test_a_model_without_features_keeps_the_items_of_its_log(slots, log) -> None:
    rng = np.random.default_rng(8)
    alpha, beta = rng.gamma(2, size=(2, len(log)))
    kept = Kept(log.query_id, log.doc_id, alpha, beta, 0 * alpha, 0 * alpha + 1)
    fitted = replace(planted(features=False), items=kept)
    items, (mean, variance) = found(fitted, slots)
    assert items.counts is None
    assert items.seen == len(items.kept) == QUERIES * CLICKED
    keys = keys_of(items, fitted)
    row = {
        key: i
        for i, key in enumerate(zip(log.query_id.to_pylist(), log.doc_id.to_pylist(), strict=True))
    }
    for query, doc, item in zip(*slots, items.index, strict=True):
        assert keys[item] == ((query, doc) if doc < CLICKED else None)
        if doc < CLICKED:
            own = row[query, doc]
            expected = beta_moments(alpha[own], beta[own])
            np.testing.assert_allclose(mean[:, item], expected[0])
            np.testing.assert_allclose(variance[:, item], expected[1])
    # clicks of a given log replace the items that were kept
    assert len(found(fitted, slots, None, log)[0].kept) == 0


def test_a_pointwise_model_knows_relevance_and_learns_from_no_click(
    slots, table, log, prior
) -> None:
    layer = (WIDEST * np.eye(2)[:, :1], np.zeros(1))
    bias = PointLookup(logit(np.clip(THETA, None, 1 - 1e-9)))
    fitted = replace(
        planted(),
        kind="PointwisePBM",
        head="point",
        parameters=Parameters((layer,), bias),
        posterior=None,
    )
    items, (mean, variance) = found(fitted, slots, table, log)
    assert items.seen == QUERIES * CLICKED
    assert len(mean) == 1
    assert not variance[:, ~items.is_unknown].any()
    for i, key in enumerate(keys_of(items, fitted)):
        if key is not None:
            assert mean[0, i] == pytest.approx(prior[0][key], rel=1e-5)
    # an item without features is less certain
    spread = prior[0][:, :WITH_FEATURES].var()
    np.testing.assert_allclose(variance[:, items.is_unknown], spread, rtol=1e-5)


def test_chunks_change_nothing(slots, table, log, monkeypatch: pytest.MonkeyPatch) -> None:
    _, whole = found(planted(), slots, table, log)
    monkeypatch.setattr(module, "CHUNK", 4)
    _, parts = found(planted(), slots, table, log)
    np.testing.assert_allclose(parts, whole, rtol=1e-9)


def test_a_model_with_features_needs_them(slots, log) -> None:
    with raises_code("features-needed"):
        found(planted(), slots, None, log)
    texts = tuple(each.astype(str) for each in slots)
    with pytest.raises(InputError, match="1 is not '1'"):
        found(planted(features=False), texts, None, log)
