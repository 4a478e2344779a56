"""A model whose parts do not fit together is refused, with all that is wrong."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from epiclick.data.features import FeatureScaler
from epiclick.errors import InputError
from epiclick.fitted.parameters import BetaLookup, Parameters, PointLookup, from_arrays, to_arrays
from epiclick.fitted.state import FeatureSpec, FittedModel, QuerySets
from epiclick.fitted.validation import validate

from .conftest import (
    each_model,
    pointwise,
    with_features,
    with_members,
    with_posterior,
    without_features,
)

F32 = np.float32


def assert_unsound(model: FittedModel, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        validate(model, "the model m", "Mend it.")
    assert str(caught.value).startswith("the model m cannot be used:")
    assert str(caught.value).endswith("\nMend it.")


@each_model
def test_sound_models_pass(make: Callable[[], FittedModel]) -> None:
    validate(make(), "the model m", "Mend it.")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"anchor": 4}, "anchor is context 4, but there are 4"),
        ({"anchor": -1}, "anchor is context -1"),
        ({"kind": "UBM"}, "'UBM' is not a kind of model.*Upgrade epiclick"),
        (
            {"kind": "PointwisePBM", "head": "point"},
            "network has 2 outputs, but PointwisePBM needs 1",
        ),
        ({"contexts": pa.table({})}, "there are 0 contexts"),
        ({"features": None}, "layer 0 takes 3 inputs, but is given 4"),
        ({"queries": QuerySets(pa.array([1.5]), pa.array([2]))}, "queries.train is double"),
        ({"queries": QuerySets(pa.array([1]), pa.array([2, None]))}, "held_out lacks ids: 1 value"),
    ],
)
def test_parts_that_do_not_fit_are_said(change: dict[str, Any], said: str) -> None:
    assert_unsound(replace(with_features(), **change), said)


@pytest.mark.parametrize(
    ("names", "mean", "scale", "said"),
    [
        (("a",), [0, 0, 0], [1, 1, 1], "scaler is of 3 features, but 1 have names"),
        (("a", "b", "c"), [0, np.nan, 0], [1, 1, 1], "finite means"),
        (("a", "b", "c"), [0, 0, 0], [1, np.inf, 1], "finite scales"),
        (("a", "b", "c"), [0, 0, 0], [1, 0, 1], "positive, finite scales"),
    ],
)
def test_scalers_that_do_not_fit_are_said(
    names: tuple[str, ...], mean: list[float], scale: list[float], said: str
) -> None:
    spec = FeatureSpec(names, FeatureScaler(np.array(mean), np.array(scale)))
    assert_unsound(replace(with_features(), features=spec), said)


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"relevance.2.weight": None, "relevance.2.bias": None}, "network has 4 outputs"),
        ({"relevance.1.weight": np.zeros((6, 4), F32)}, "layer 1 takes 6 inputs, but is given 5"),
        ({"relevance.0.weight": np.zeros((2, 5), F32)}, "layer 0 takes 2 inputs, but is given 3"),
        ({"relevance.1.bias": np.zeros(5, F32)}, "layer 1 has weights of shape"),
        ({"relevance.1.weight": np.zeros(4, F32)}, "layer 1 has weights of shape"),
        ({"relevance.1.weight": np.array(1, F32)}, "layer 1 has weights of shape"),
        ({"relevance.2.bias": np.zeros(2, int)}, "relevance.2.bias is int64, not float32"),
        ({"relevance.2.bias": np.zeros(2, np.float16)}, "relevance.2.bias is float16"),
        ({"relevance.2.bias": np.array([np.nan, 1], F32)}, "finite numbers: 1 value"),
        ({"position.mean_logit": np.array([1, 2, np.inf, 4.0])}, "finite numbers: 1 value"),
        ({"position.mean_logit": np.zeros(5)}, r"has shape \(5,\), but there are 4 contexts"),
        ({"position.confidence": np.zeros((4, 1))}, r"has shape \(4, 1\)"),
    ],
)
def test_weights_that_do_not_fit_are_said(arrays: dict[str, np.ndarray | None], said: str) -> None:
    both = {**to_arrays(with_features().parameters), **arrays}
    parameters = from_arrays({name: array for name, array in both.items() if array is not None})
    assert_unsound(replace(with_features(), parameters=parameters), said)


def test_no_weights_at_all_are_said() -> None:
    for model in (with_features(), without_features()):
        empty = Parameters((), model.parameters.position)
        assert_unsound(replace(model, parameters=empty), "the network has no layers")


def test_without_features_the_first_layer_takes_contexts() -> None:
    fourth = pa.table({"position": pa.array([1, 2, 3, 4])})
    said = "layer 0 takes 3 inputs, but is given 4"
    assert_unsound(replace(without_features(), contexts=fourth), said)


def test_a_pointwise_model_has_no_betas() -> None:
    parameters = Parameters(pointwise().parameters.layers, with_features().parameters.position)
    model = replace(pointwise(), parameters=parameters)
    assert_unsound(model, "PointwisePBM has no BetaLookup")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"alpha": np.array([1.0, 0.0, -1.0])}, "items.alpha must be positive: 2 values"),
        ({"beta": np.array([1.0, np.nan, 1.0])}, "items.beta must be finite numbers: 1 value"),
        ({"beta": np.ones(3, int)}, "items.beta is int64"),
        ({"low": np.full(3, 0.2)}, "items.low must not exceed items.high: 1 value"),
        ({"high": np.ones(2)}, r"items.high has shape \(2,\), but there are 3 pairs"),
        ({"doc_id": pa.array([1, 2])}, r"items.doc_id has shape \(2,\), but there are 3 pairs"),
        ({"doc_id": pa.array([1, None, 3])}, "items.doc_id lacks ids: 1 value"),
        ({"query_id": pa.array([0.5, 1.5, 2.5])}, "items.query_id is double"),
    ],
)
def test_items_that_do_not_fit_are_said(change: dict[str, Any], said: str) -> None:
    model = without_features()
    assert model.items is not None
    assert_unsound(replace(model, items=replace(model.items, **change)), said)


SIZE = 3 + 5 * 2  # of the posterior: contexts but the anchor, last layer of 4 + 1 by 2
SKEW = np.eye(SIZE) + np.eye(SIZE, k=1)
NEGATIVE = np.diag(np.r_[np.ones(SIZE - 1), -1e-6])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"mean": np.zeros(SIZE + 1)}, r"posterior.mean has shape \(14,\), not \(13,\)"),
        ({"bayes": np.eye(SIZE - 1)}, r"posterior.bayes has shape \(12, 12\), not \(13, 13\)"),
        ({"robust": np.ones(SIZE)}, r"posterior.robust has shape \(13,\)"),
        ({"samples": np.zeros((0, SIZE))}, r"posterior.samples has shape \(0, 13\)"),
        ({"samples": np.array(1.0)}, r"posterior.samples has shape \(\)"),
        ({"samples": np.full((2, SIZE), np.nan)}, "posterior.samples must be finite.*26 values"),
        ({"mean": np.zeros(SIZE, int)}, "posterior.mean is int64"),
        ({"bayes": np.full((SIZE, SIZE), np.inf)}, "posterior.bayes must be finite"),
        ({"bayes": SKEW}, "posterior.bayes is not symmetric"),
        ({"robust": NEGATIVE}, "posterior.robust is no covariance"),
    ],
)
def test_posteriors_that_do_not_fit_are_said(change: dict[str, Any], said: str) -> None:
    model = with_posterior()
    assert model.posterior is not None
    assert_unsound(replace(model, posterior=replace(model.posterior, **change)), said)


def test_eigenvalues_below_0_by_rounding_alone_are_let_pass() -> None:
    model = with_posterior()
    assert model.posterior is not None
    rounded = np.diag(np.r_[np.ones(SIZE - 1), -1e-15])
    for robust in (rounded, np.zeros((SIZE, SIZE)), 1e-200 * np.eye(SIZE)):
        validate(replace(model, posterior=replace(model.posterior, robust=robust)), "m", "")


def test_the_size_of_a_posterior_depends_on_the_anchor() -> None:
    assert_unsound(replace(with_posterior(), anchor=None), r"\(13,\), not \(14,\)")


def test_a_posterior_is_of_points() -> None:
    model = replace(with_features(), posterior=with_posterior().posterior)
    assert_unsound(model, "a posterior needs position bias as points")


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        (
            {"relevance.0.weight": np.zeros((4, 2), F32)},
            r"member 1 has shape \(4, 2\), not \(3, 2\)",
        ),
        ({"relevance.0.bias": np.zeros(2)}, "bias is float64 in member 1 and float32 in member 0"),
        ({"position.logit": np.array([0, np.nan, 0])}, "logit of member 1 must be finite"),
        ({"relevance.1.weight": np.eye(2), "relevance.1.bias": np.ones(2)}, "not the model's own"),
    ],
)
def test_members_that_do_not_fit_are_said(arrays: dict[str, np.ndarray], said: str) -> None:
    model = with_members()
    other = from_arrays({**to_arrays(model.members[1]), **arrays})
    assert_unsound(replace(model, members=(model.members[0], other)), said)


def test_a_first_member_of_another_kind_is_said() -> None:
    model = with_members()
    deeper = Parameters(
        (*model.parameters.layers, *model.parameters.layers), PointLookup(np.ones(3))
    )
    assert_unsound(replace(model, members=(deeper, *model.members)), "member 0 has the arrays")


def test_all_that_is_wrong_is_said_at_once() -> None:
    lookup = BetaLookup(np.array([0.0, np.nan, np.inf, 1.0]), np.ones(4, int))
    parameters = Parameters(with_features().parameters.layers, lookup)
    model = replace(with_features(), anchor=9, parameters=parameters)
    with pytest.raises(InputError) as caught:
        validate(model, "the model m", "Mend it.")
    assert [str(problem) for problem in caught.value.problems] == [
        "the anchor is context 9, but there are 4, from 0 on.",
        "position.mean_logit must be finite numbers: 2 values.",
        "position.confidence is int64, not float32 or float64.",
    ]
