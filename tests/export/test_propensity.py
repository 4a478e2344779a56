"""Weights of clicks: where bias is known, the weighted mean of labels is relevance."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import epiclick as ec
from epiclick.errors import InputWarning
from epiclick.export.lightgbm import relative_bias, weighted_clicks

pytestmark = pytest.mark.slow


def shown(displays: np.ndarray, clicks: np.ndarray) -> ec.ClickCounts:
    """Counts of one query, (docs, positions) each."""
    docs, positions = np.indices(displays.shape) + 1
    return ec.ClickCounts.from_table(
        pa.table(
            {
                "query_id": np.ones(displays.size, int),
                "doc_id": docs.ravel(),
                "position": positions.ravel(),
                "displays": displays.ravel(),
                "clicks": clicks.ravel(),
            }
        )
    )


def test_the_weighted_mean_of_labels_is_relevance(model: ec.EpistemicPBM) -> None:
    theta = model.position_bias()["relative"].to_numpy()
    relevance = np.array([0.05, 0.3, 0.6, 0.9])
    displays = np.random.default_rng(0).integers(1, 9, (4, 4)) * 1_000_000
    clicks = np.rint(displays * theta * relevance[:, None]).astype(int)
    rows = weighted_clicks(model.fitted_, shown(displays, clicks), clip=100)
    found = np.bincount(rows.pair, rows.label * rows.weight) / np.bincount(rows.pair, rows.weight)
    np.testing.assert_allclose(found, relevance, rtol=1e-4)
    np.testing.assert_allclose(np.bincount(rows.pair, rows.weight), displays.sum(axis=1))
    raw = clicks.sum(axis=1) / displays.sum(axis=1)
    assert np.all(raw < 0.7 * relevance)


def test_a_bound_keeps_weights_small(model: ec.EpistemicPBM) -> None:
    one = np.array([[0, 0, 0, 1]])
    for clip, expected in ((2.0, 2.0), (1e9, 1 / model.position_bias()["relative"].iloc[-1])):
        rows = weighted_clicks(model.fitted_, shown(one, one), clip)
        assert rows.label.tolist() == [1]
        assert rows.weight.tolist() == [pytest.approx(expected)]


def test_bias_is_relative_to_the_anchor(model: ec.EpistemicPBM) -> None:
    counts = shown(np.ones((1, 4), int), np.zeros((1, 4), int))
    found = relative_bias(model.fitted_, counts)
    assert found[0] == 1
    np.testing.assert_array_equal(found, model.position_bias()["relative"])
    backwards = replace(counts, contexts=counts.contexts.take([3, 2, 1, 0]))
    np.testing.assert_array_equal(relative_bias(model.fitted_, backwards), found[::-1])


def test_a_position_that_was_never_learned_takes_the_mean(model: ec.EpistemicPBM) -> None:
    counts = shown(np.ones((1, 5), int), np.zeros((1, 5), int))
    with pytest.warns(InputWarning, match="no position bias for position 5"):
        found = relative_bias(model.fitted_, counts)
    assert found[4] == pytest.approx(model.position_bias()["relative"].mean())
