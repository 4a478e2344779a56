"""A model whose parts are inconsistent is rejected, with all its problems."""

import re
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


def assert_invalid(model: FittedModel, code: str, named: str = "") -> None:
    """Some problem has the code, and a message that matches."""
    with pytest.raises(InputError) as caught:
        validate(model, "the model m", "Fix it.")
    assert str(caught.value).startswith("the model m ")
    assert str(caught.value).endswith("\nFix it.")
    found = [(problem.code, str(problem)) for problem in caught.value.problems]
    assert any(own == code and re.search(named, text) for own, text in found), found


@each_model
def test_valid_models_pass(make: Callable[[], FittedModel]) -> None:
    validate(make(), "the model m", "Fix it.")


@pytest.mark.parametrize(
    ("change", "code", "named"),
    [
        ({"anchor": 4}, "anchor-out-of-range", "context 4, .* 4"),
        ({"anchor": -1}, "anchor-out-of-range", "context -1"),
        ({"kind": "UBM"}, "unknown-model-class", "'UBM'.*Upgrade epiclick"),
        (
            {"kind": "PointwisePBM", "head": "point"},
            "shape-mismatch",
            "2 outputs, but PointwisePBM needs 1",
        ),
        ({"contexts": pa.table({})}, "shape-mismatch", "0 contexts"),
        ({"features": None}, "shape-mismatch", "layer 0 takes 3 inputs, .* 4"),
        (
            {"queries": QuerySets(pa.array([1.5]), pa.array([2]))},
            "invalid-type",
            "queries.train is double",
        ),
        (
            {"queries": QuerySets(pa.array([1]), pa.array([2, None]))},
            "ids-missing",
            "held_out.*: 1 value",
        ),
    ],
)
def test_parts_that_do_not_fit_are_reported(change: dict[str, Any], code: str, named: str) -> None:
    assert_invalid(replace(with_features(), **change), code, named)


@pytest.mark.parametrize(
    ("names", "mean", "scale", "code", "named"),
    [
        (("a",), [0, 0, 0], [1, 1, 1], "shape-mismatch", "3 features, but 1 "),
        (("a", "b", "c"), [0, np.nan, 0], [1, 1, 1], "invalid-scaler", "finite means"),
        (("a", "b", "c"), [0, 0, 0], [1, np.inf, 1], "invalid-scaler", "finite scales"),
        (("a", "b", "c"), [0, 0, 0], [1, 0, 1], "invalid-scaler", "positive"),
    ],
)
def test_scalers_that_do_not_fit_are_reported(
    names: tuple[str, ...], mean: list[float], scale: list[float], code: str, named: str
) -> None:
    spec = FeatureSpec(names, FeatureScaler(np.array(mean), np.array(scale)))
    assert_invalid(replace(with_features(), features=spec), code, named)


@pytest.mark.parametrize(
    ("arrays", "code", "named"),
    [
        ({"relevance.2.weight": None, "relevance.2.bias": None}, "shape-mismatch", "4 outputs"),
        ({"relevance.1.weight": np.zeros((6, 4), F32)}, "shape-mismatch", "layer 1 .* 6 .* 5"),
        ({"relevance.0.weight": np.zeros((2, 5), F32)}, "shape-mismatch", "layer 0 .* 2 .* 3"),
        ({"relevance.1.bias": np.zeros(5, F32)}, "shape-mismatch", "layer 1 has weights"),
        ({"relevance.1.weight": np.zeros(4, F32)}, "shape-mismatch", "layer 1 has weights"),
        ({"relevance.1.weight": np.array(1, F32)}, "shape-mismatch", "layer 1 has weights"),
        ({"relevance.2.bias": np.zeros(2, int)}, "invalid-type", "relevance.2.bias is int64"),
        (
            {"relevance.2.bias": np.zeros(2, np.float16)},
            "invalid-type",
            "relevance.2.bias is float16",
        ),
        ({"relevance.2.bias": np.array([np.nan, 1], F32)}, "not-finite", "2.bias.*: 1 value"),
        ({"position.mean_logit": np.array([1, 2, np.inf, 4.0])}, "not-finite", ": 1 value"),
        ({"position.mean_logit": np.zeros(5)}, "shape-mismatch", r"\(5,\), .* 4 contexts"),
        ({"position.confidence": np.zeros((4, 1))}, "shape-mismatch", r"confidence.*\(4, 1\)"),
    ],
)
def test_weights_that_do_not_fit_are_reported(
    arrays: dict[str, np.ndarray | None], code: str, named: str
) -> None:
    both = {**to_arrays(with_features().parameters), **arrays}
    parameters = from_arrays({name: array for name, array in both.items() if array is not None})
    assert_invalid(replace(with_features(), parameters=parameters), code, named)


def test_no_weights_at_all_are_reported() -> None:
    for model in (with_features(), without_features()):
        empty = Parameters((), model.parameters.position)
        assert_invalid(replace(model, parameters=empty), "shape-mismatch", "no layers")


def test_without_features_the_first_layer_takes_contexts() -> None:
    fourth = pa.table({"position": pa.array([1, 2, 3, 4])})
    model = replace(without_features(), contexts=fourth)
    assert_invalid(model, "shape-mismatch", "layer 0 takes 3 inputs, .* 4")


def test_a_pointwise_model_has_no_betas() -> None:
    parameters = Parameters(pointwise().parameters.layers, with_features().parameters.position)
    model = replace(pointwise(), parameters=parameters)
    assert_invalid(model, "head-mismatch", "PointwisePBM .* BetaLookup")


@pytest.mark.parametrize(
    ("change", "code", "named"),
    [
        ({"alpha": np.array([1.0, 0.0, -1.0])}, "not-positive", "items.alpha.*: 2 values"),
        ({"beta": np.array([1.0, np.nan, 1.0])}, "not-finite", "items.beta.*: 1 value"),
        ({"beta": np.ones(3, int)}, "invalid-type", "items.beta is int64"),
        ({"low": np.full(3, 0.2)}, "low-exceeds-high", ": 1 value"),
        ({"high": np.ones(2)}, "shape-mismatch", r"items.high .*\(2,\).* 3 pairs"),
        ({"doc_id": pa.array([1, 2])}, "shape-mismatch", r"items.doc_id .*\(2,\).* 3 pairs"),
        ({"doc_id": pa.array([1, None, 3])}, "ids-missing", "items.doc_id.*: 1 value"),
        ({"query_id": pa.array([0.5, 1.5, 2.5])}, "invalid-type", "items.query_id is double"),
    ],
)
def test_items_that_do_not_fit_are_reported(change: dict[str, Any], code: str, named: str) -> None:
    model = without_features()
    assert model.items is not None
    assert_invalid(replace(model, items=replace(model.items, **change)), code, named)


SIZE = 3 + 5 * 2  # of the posterior: contexts but the anchor, last layer of 4 + 1 by 2
SKEW = np.eye(SIZE) + np.eye(SIZE, k=1)
NEGATIVE = np.diag(np.r_[np.ones(SIZE - 1), -1e-6])


@pytest.mark.parametrize(
    ("change", "code", "named"),
    [
        ({"mean": np.zeros(SIZE + 1)}, "shape-mismatch", r"mean .*\(14,\), not \(13,\)"),
        ({"bayes": np.eye(SIZE - 1)}, "shape-mismatch", r"\(12, 12\), not \(13, 13\)"),
        ({"robust": np.ones(SIZE)}, "shape-mismatch", r"robust .*\(13,\)"),
        ({"samples": np.zeros((0, SIZE))}, "shape-mismatch", r"samples .*\(0, 13\)"),
        ({"samples": np.array(1.0)}, "shape-mismatch", r"samples .*\(\)"),
        ({"samples": np.full((2, SIZE), np.nan)}, "not-finite", "samples .*26 values"),
        ({"mean": np.zeros(SIZE, int)}, "invalid-type", "posterior.mean is int64"),
        ({"bayes": np.full((SIZE, SIZE), np.inf)}, "not-finite", "posterior.bayes"),
        ({"bayes": SKEW}, "not-a-covariance", "posterior.bayes .*symmetric"),
        ({"robust": NEGATIVE}, "not-a-covariance", "posterior.robust .*negative"),
    ],
)
def test_posteriors_that_do_not_fit_are_reported(
    change: dict[str, Any], code: str, named: str
) -> None:
    model = with_posterior()
    assert model.posterior is not None
    assert_invalid(replace(model, posterior=replace(model.posterior, **change)), code, named)


def test_eigenvalues_below_0_by_rounding_pass() -> None:
    model = with_posterior()
    assert model.posterior is not None
    rounded = np.diag(np.r_[np.ones(SIZE - 1), -1e-15])
    for robust in (rounded, np.zeros((SIZE, SIZE)), 1e-200 * np.eye(SIZE)):
        validate(replace(model, posterior=replace(model.posterior, robust=robust)), "m", "")


def test_the_size_of_a_posterior_depends_on_the_anchor() -> None:
    assert_invalid(
        replace(with_posterior(), anchor=None), "shape-mismatch", r"\(13,\), not \(14,\)"
    )


def test_a_posterior_is_of_points() -> None:
    model = replace(with_features(), posterior=with_posterior().posterior)
    assert_invalid(model, "posterior-mismatch")


@pytest.mark.parametrize(
    ("arrays", "code", "named"),
    [
        (
            {"relevance.0.weight": np.zeros((4, 2), F32)},
            "member-mismatch",
            r"member 1 .*\(4, 2\), not \(3, 2\)",
        ),
        ({"relevance.0.bias": np.zeros(2)}, "member-mismatch", "bias is float64 in member 1"),
        ({"position.logit": np.array([0, np.nan, 0])}, "not-finite", "logit of member 1"),
        (
            {"relevance.1.weight": np.eye(2), "relevance.1.bias": np.ones(2)},
            "member-mismatch",
            "member 1",
        ),
    ],
)
def test_members_that_do_not_fit_are_reported(
    arrays: dict[str, np.ndarray], code: str, named: str
) -> None:
    model = with_members()
    other = from_arrays({**to_arrays(model.members[1]), **arrays})
    assert_invalid(replace(model, members=(model.members[0], other)), code, named)


def test_a_first_member_of_another_kind_is_reported() -> None:
    model = with_members()
    deeper = Parameters(
        (*model.parameters.layers, *model.parameters.layers), PointLookup(np.ones(3))
    )
    assert_invalid(replace(model, members=(deeper, *model.members)), "member-mismatch", "member 0")


def test_all_problems_are_reported_at_once() -> None:
    lookup = BetaLookup(np.array([0.0, np.nan, np.inf, 1.0]), np.ones(4, int))
    parameters = Parameters(with_features().parameters.layers, lookup)
    model = replace(with_features(), anchor=9, parameters=parameters)
    with pytest.raises(InputError) as caught:
        validate(model, "the model m", "Fix it.")
    assert [(problem.code, problem.count) for problem in caught.value.problems] == [
        ("anchor-out-of-range", None),
        ("not-finite", 2),
        ("invalid-type", None),
    ]
    assert caught.value.code == "anchor-out-of-range"
