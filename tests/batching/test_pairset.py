"""The network's inputs: scaled features, cached or read on demand, and exposure without features."""

from dataclasses import replace

import numpy as np
import pytest

import epiclick as ec
from epiclick.batching import pairset as module
from epiclick.batching.pairset import Inputs, PairSet, fit_scaler
from epiclick.relevance.heads import exposure


def test_kept_and_streamed_features_are_the_same(
    small_counts: ec.ClickCounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    scaler = fit_scaler(small_counts)
    assert scaler is not None
    pairs = np.array([5, 0, -1, 17])
    kept = Inputs(small_counts, scaler).take(pairs)
    monkeypatch.setattr(module, "CACHED_BYTES", 0)
    streamed = Inputs(small_counts, scaler)
    np.testing.assert_array_equal(streamed.take(pairs), kept)
    assert streamed._cached is None
    assert kept.dtype == np.float32
    assert np.all(kept[2] == 0)
    assert np.any(kept[0] != 0)


def test_a_mapped_file_is_read_and_given_back(
    small_counts: ec.ClickCounts, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert small_counts.features is not None
    np.save(tmp_path / "matrix.npy", small_counts.features.matrix)
    mapped = np.load(tmp_path / "matrix.npy", mmap_mode="r")
    counts = replace(small_counts, features=replace(small_counts.features, matrix=mapped))
    scaler = fit_scaler(counts)
    assert scaler is not None
    monkeypatch.setattr(module, "CACHED_BYTES", 0)
    pairs = np.arange(10)
    np.testing.assert_array_equal(
        Inputs(counts, scaler).take(pairs), Inputs(small_counts, scaler).take(pairs)
    )


def test_inputs_are_standardised_by_the_training_pairs(small_counts: ec.ClickCounts) -> None:
    scaler = fit_scaler(small_counts)
    assert scaler is not None
    inputs = Inputs(small_counts, scaler).take(np.arange(len(small_counts)))
    np.testing.assert_allclose(inputs.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(inputs.std(axis=0), 1, atol=1e-5)


def test_without_features_inputs_are_shares_of_displays(small_counts: ec.ClickCounts) -> None:
    bare = replace(small_counts, features=None, feature_row=None)
    pairs = PairSet.of(bare, fit_scaler(bare), 50)
    assert pairs.width == 3
    for (shares, _), index in zip(pairs.epoch(), pairs.batches.epoch(), strict=True):
        displays, _ = bare.dense(np.maximum(index, 0))
        expected = displays / displays.sum(axis=1, keepdims=True)
        expected[index < 0] = 1 / 3  # room that is left, and counts for nothing
        np.testing.assert_allclose(shares, expected, rtol=1e-6)


def test_exposure_of_a_pair_never_shown_is_that_of_one_shown_everywhere_alike() -> None:
    np.testing.assert_array_equal(exposure(np.zeros((1, 3))), exposure(np.full((1, 3), 7)))
    np.testing.assert_array_equal(exposure(np.array([[0, 1, 3]])), [[0, 0.25, 0.75]])
