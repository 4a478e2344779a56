"""What model.json says makes the model again, or is said to make no sense."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load

from epiclick.data.checksums import MALFORMED
from epiclick.errors import InputError
from epiclick.fitted.metadata import describe, rebuild
from epiclick.fitted.state import FittedModel
from epiclick.fitted.storage import pack

from .conftest import POSTERIOR, assert_same, each_model, put, with_features, with_posterior


def written(model: FittedModel) -> dict[str, Any]:
    """The note as it comes back from a file."""
    return json.loads(json.dumps(describe(model), allow_nan=False))


def read(note: dict[str, Any], model: FittedModel) -> FittedModel:
    posterior = None if model.posterior is None else load(pack(model)[POSTERIOR])
    return rebuild(note, model.parameters, model.queries, model.items, posterior, model.members)


@each_model
def test_a_note_makes_the_model_again(make: Callable[[], FittedModel]) -> None:
    assert_same(read(written(make()), make()), make())


def test_keys_of_later_minor_versions_are_ignored() -> None:
    note = written(with_features())
    for part in (note, note["features"], note["options"], note["training"], note["contexts"][0]):
        part["novelty"] = {"of": ["a later release"]}
    note["training"]["history"][0]["novelty"] = 1
    assert_same(read(note, with_features()), with_features())


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
def test_settings_that_a_file_cannot_hold_are_said(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=f"{said}.*Use plain values"):
        describe(replace(with_features(), settings=settings))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (put("anchor", value=True), "'anchor' is of the wrong type"),
        (put("settings", value=[]), "'settings' is of the wrong type"),
        (put("features", "names", value=[1, 2, 3]), "'names' must be texts"),
        (put("features", "scaler", "scale", value=[1, 0, 1]), "as many positive scales as means"),
        (put("features", "scaler", "scale", value=[1, 1]), "as many positive scales as means"),
        (put("features", "scaler", "mean", value=[[1, 2, 3]]), "as many positive scales"),
        (put("features", "scaler", "mean", value="abc"), "mean must be a number"),
        (put("features", "scaler", value={}), "needs mean and scale"),
        (put("options", "position_base", value=5), "position_base: must be 0 or 1"),
        (put("options", "columns", value=3), "'columns' is of the wrong type"),
        (put("options", "columns", value={"colour": "c"}), "'colour' is not one of"),
        (put("options", "context", value=[[]]), "'context' must be texts"),
        (put("options", "context", value="position"), "'context' is of the wrong type"),
        (put("options", "max_bad", value="x"), "max_bad must be a share from 0 to 1"),
        (put("options", value={}), "'columns' is missing"),
        (put("training", "pairs", value=1.5), "'pairs' is of the wrong type"),
        (put("training", "seconds", value="soon"), "a number is of the wrong type"),
        (put("training", "seconds", value=True), "a number is of the wrong type"),
        (put("training", "warnings", value=[None]), "'warnings' must be texts"),
        (put("training", "checks", value=None), "'checks' is of the wrong type"),
        (lambda note: note.pop("training"), "'training' is missing"),
        (lambda note: note["training"].pop("displays"), "'displays' is missing"),
    ],
)
def test_a_note_that_makes_no_sense_is_said(
    change: Callable[[dict[str, Any]], None], said: str
) -> None:
    note = written(with_features())
    change(note)
    with pytest.raises(MALFORMED, match=said):
        read(note, with_features())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (put("posterior", value=None), "'posterior' is of the wrong type"),
        (put("posterior", "pareto_k", value="high"), "a number is of the wrong type"),
        (put("posterior", "gradient", value=True), "a number is of the wrong type"),
        (lambda note: note["posterior"].pop("gradient"), "'gradient'"),
        (lambda note: note.pop("posterior"), "'posterior' is missing"),
    ],
)
def test_a_posterior_that_makes_no_sense_is_said(
    change: Callable[[dict[str, Any]], None], said: str
) -> None:
    note = written(with_posterior())
    change(note)
    with pytest.raises(MALFORMED, match=said):
        read(note, with_posterior())


def test_a_diagnostic_that_could_not_be_found_is_none() -> None:
    model = with_posterior()
    assert model.posterior is not None
    unknown = replace(model, posterior=replace(model.posterior, pareto_k=float("nan")))
    loaded = read(written(unknown), unknown)
    assert loaded.posterior is not None
    assert loaded.posterior.pareto_k is None
