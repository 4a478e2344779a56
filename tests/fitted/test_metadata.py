"""A model is rebuilt from its metadata; invalid metadata are reported."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load

from epiclick.data.checksums import MALFORMED
from epiclick.fitted.metadata import describe, rebuild
from epiclick.fitted.state import FittedModel
from epiclick.fitted.storage import pack

from ..raising import raises_code
from .conftest import POSTERIOR, assert_same, each_model, put, with_features, with_posterior


def written(model: FittedModel) -> dict[str, Any]:
    """The metadata as read from a file."""
    return json.loads(json.dumps(describe(model), allow_nan=False))


def read(metadata: dict[str, Any], model: FittedModel) -> FittedModel:
    posterior = None if model.posterior is None else load(pack(model)[POSTERIOR])
    return rebuild(metadata, model.parameters, model.queries, model.items, posterior, model.members)


@each_model
def test_metadata_restore_the_model(make: Callable[[], FittedModel]) -> None:
    assert_same(read(written(make()), make()), make())


def test_keys_of_later_minor_versions_are_ignored() -> None:
    metadata = written(with_features())
    for part in (
        metadata,
        metadata["features"],
        metadata["options"],
        metadata["training"],
        metadata["contexts"][0],
    ):
        part["novelty"] = {"of": ["a later release"]}
    metadata["training"]["history"][0]["novelty"] = 1
    assert_same(read(metadata, with_features()), with_features())


def test_numbers_and_dates_that_json_does_not_have() -> None:
    training = replace(
        with_features().training,
        log_likelihood=float("-inf"),
        seconds=float("nan"),
        checks={"ratio": np.float64("nan"), "sizes": np.arange(2), "day": date(2026, 1, 2)},
    )
    model = replace(with_features(), training=training)
    loaded = read(written(model), model).training
    assert loaded.log_likelihood == float("-inf")
    assert np.isnan(loaded.seconds)
    assert loaded.checks == {"ratio": None, "sizes": [0, 1], "day": "2026-01-02"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"epochs": float("nan")}, "settings.epochs is nan"),
        ({"seed": object()}, "settings.seed is <object"),
        ({"anchor": {1: 2}}, "settings.anchor is {1: 2}"),
    ],
)
def test_settings_that_a_file_cannot_store_are_reported(
    settings: dict[str, Any], said: str
) -> None:
    with raises_code("unsupported-value") as caught:
        describe(replace(with_features(), settings=settings))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (put("anchor", value=True), "'anchor'"),
        (put("settings", value=[]), "'settings'"),
        (put("features", "names", value=[1, 2, 3]), "'names'"),
        (put("features", "scaler", "scale", value=[1, 0, 1]), "as many positive scales as means"),
        (put("features", "scaler", "scale", value=[1, 1]), "as many positive scales as means"),
        (put("features", "scaler", "mean", value=[[1, 2, 3]]), "as many positive scales"),
        (put("features", "scaler", "mean", value="abc"), "mean must be a number"),
        (put("features", "scaler", value={}), "needs mean and scale"),
        (put("options", "position_base", value=5), "position_base: must be 0 or 1"),
        (put("options", "columns", value=3), "'columns'"),
        (put("options", "columns", value={"colour": "c"}), "'colour' is not one of"),
        (put("options", "context", value=[[]]), "'context'"),
        (put("options", "context", value="position"), "'context'"),
        (put("options", "max_bad", value="x"), "max_bad: must be a share from 0 to 1"),
        (put("options", value={}), "'columns'"),
        (put("training", "pairs", value=1.5), "'pairs'"),
        (put("training", "seconds", value="soon"), "a number is of the wrong type"),
        (put("training", "seconds", value=True), "a number is of the wrong type"),
        (put("training", "warnings", value=[None]), "'warnings'"),
        (put("training", "checks", value=None), "'checks'"),
        (lambda metadata: metadata.pop("training"), "'training'"),
        (lambda metadata: metadata["training"].pop("displays"), "'displays'"),
    ],
)
def test_invalid_metadata_are_reported(change: Callable[[dict[str, Any]], None], said: str) -> None:
    metadata = written(with_features())
    change(metadata)
    with pytest.raises(MALFORMED, match=said):
        read(metadata, with_features())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (put("posterior", value=None), "'posterior'"),
        (put("posterior", "pareto_k", value="high"), "a number is of the wrong type"),
        (put("posterior", "gradient", value=True), "a number is of the wrong type"),
        (lambda metadata: metadata["posterior"].pop("gradient"), "'gradient'"),
        (lambda metadata: metadata.pop("posterior"), "'posterior'"),
    ],
)
def test_an_invalid_posterior_is_reported(
    change: Callable[[dict[str, Any]], None], said: str
) -> None:
    metadata = written(with_posterior())
    change(metadata)
    with pytest.raises(MALFORMED, match=said):
        read(metadata, with_posterior())


def test_a_diagnostic_that_could_not_be_found_is_none() -> None:
    model = with_posterior()
    assert model.posterior is not None
    unknown = replace(model, posterior=replace(model.posterior, pareto_k=float("nan")))
    loaded = read(written(unknown), unknown)
    assert loaded.posterior is not None
    assert loaded.posterior.pareto_k is None
