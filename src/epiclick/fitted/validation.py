"""Validation of fitted models, before they are written and after they are read."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from epiclick.click_models.click_model import SATISFACTION
from epiclick.click_models.registry import CLICK_MODELS
from epiclick.errors import InputError, Problem
from epiclick.fitted.parameters import (
    POSTERIOR_ARRAYS,
    POWERS,
    ParameterPosterior,
    Parameters,
    to_arrays,
)
from epiclick.fitted.state import (
    HEADS_OF,
    ITEM_NUMBERS,
    FeatureSpec,
    FittedModel,
    Items,
    given_of,
    history_of,
)
from epiclick.relevance.network import Layers

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))

ROUNDING = 1e-8
"""Relative tolerance for asymmetry and negative eigenvalues of covariances."""


def validate(fitted: FittedModel, source: str, remedy: str) -> None:
    """Raise InputError with all problems of a model whose parts are inconsistent."""
    if problems := list(_problems(fitted)):
        error = InputError.of(source, problems)
        raise error.with_message(f"{error}\n{remedy}")


def _problems(fitted: FittedModel) -> Iterator[Problem]:
    contexts = len(fitted.contexts)
    if lost := [name for name in history_of(fitted) if name not in fitted.contexts.column_names]:
        what = f"the {fitted.options.click_model} needs contexts by {', '.join(lost)}"
        yield Problem(what, code="context-columns-missing")
        return
    if fitted.anchor is not None and not 0 <= fitted.anchor < contexts:
        what = f"the anchor is context {fitted.anchor}, but there are {contexts}, numbered from 0"
        yield Problem(what, code="anchor-out-of-range")
    if fitted.features is not None:
        yield from _feature_problems(fitted.features)
    for name, array in to_arrays(fitted.parameters).items():
        yield from _number_problems(name, array)
    unknown = list(_name_problems(fitted))
    yield from unknown or _network_problems(fitted)
    known = fitted.click_model in CLICK_MODELS
    size = fitted.clicks.size(contexts) if known else contexts
    for name, array in fitted.parameters.position._asdict().items():
        if np.shape(array) != (size,):
            what = f"position.{name} has shape {np.shape(array)}, but there are {contexts} contexts"
            yield Problem(what, code="shape-mismatch")
    for i, member in enumerate(fitted.members):
        yield from _member_problems(i, member, fitted)
    if fitted.clicks.has_latent_state:
        yield from _reading_problems(fitted)
    if fitted.posterior is not None:
        yield from _posterior_problems(fitted.posterior, fitted)
    yield from _at_bound_problems(fitted)
    yield from _robot_problems(fitted)
    yield from _assumption_problems(fitted)
    for name in ("train", "held_out"):
        yield from _id_problems(f"queries.{name}", getattr(fitted.queries, name))
    if fitted.items is not None:
        yield from _item_problems(fitted.items)
    if fitted.conversion is not None:
        yield from _conversion_problems(fitted, fitted.conversion)


def _conversion_problems(fitted: FittedModel, conversion: FittedModel) -> Iterator[Problem]:
    """The model of conversions is a model of the same items, with the same features."""
    for problem in _problems(conversion):
        yield replace(problem, what=f"conversion: {problem.what}")
    names = [None if m.features is None else m.features.names for m in (fitted, conversion)]
    pairs = [None if m.items is None else len(m.items.query_id) for m in (fitted, conversion)]
    if names[0] != names[1] or pairs[0] != pairs[1] or conversion.conversion is not None:
        what = "the model of conversions has other features or items than that of clicks"
        yield Problem(what, code="conversion-mismatch")
    if fitted.revenue is None:
        return
    arrays = fitted.revenue.to_arrays()
    for name, array in arrays.items():
        yield from _number_problems(f"revenue.{name}", array)
    shapes: dict[str, tuple[int, ...]] = {"numbers": (3,), "draws": (len(fitted.revenue.draws),)}
    shapes |= {} if pairs[0] is None else {"items": (pairs[0], 2)}
    if {name: np.shape(array) for name, array in arrays.items()} != shapes:
        yield Problem("revenue has arrays of other shapes than the items", code="shape-mismatch")


def _name_problems(fitted: FittedModel) -> Iterator[Problem]:
    """Class, relevance head and click model exist, and can be combined."""
    kind, head, click_model = f"{fitted.kind:.40}", f"{fitted.head:.40}", fitted.click_model
    if kind not in HEADS_OF:
        what = f"'{kind}' is not a kind of model that this epiclick has"
        yield _unknown(what, HEADS_OF, "unknown-model-class")
    elif head not in HEADS_OF[kind]:
        what = f"'{head}' is not a relevance head of {kind}"
        yield _unknown(what, HEADS_OF[kind], "unknown-relevance-head")
    if click_model not in CLICK_MODELS:
        what = f"'{click_model:.40}' is not a click model that this epiclick has"
        yield _unknown(what, CLICK_MODELS, "unknown-click-model")


def _unknown(what: str, known: Iterable[str], code: str) -> Problem:
    remedy = "Upgrade epiclick if a later release wrote it."
    return Problem(f"{what} ({', '.join(known)})", remedy=remedy, code=code)


def _feature_problems(features: FeatureSpec) -> Iterator[Problem]:
    mean, scale = features.scaler.mean, features.scaler.scale
    if not len(features.names) == len(mean) == len(scale):
        what = f"the scaler has {len(mean)} features, but {len(features.names)} have names"
        yield Problem(what, code="shape-mismatch")
    if not (np.isfinite(mean).all() and np.isfinite(scale).all() and np.all(scale > 0)):
        what = "the scaler needs finite means and positive, finite scales"
        yield Problem(what, code="invalid-scaler")
    if features.encoding is not None and features.encoding.inputs != features.names:
        what = "the encoding of the features gives others than the network takes"
        yield Problem(what, code="shape-mismatch")


def _network_problems(fitted: FittedModel) -> Iterator[Problem]:
    """Widths of layers match, from the network's inputs to the outputs of the relevance head.

    The inputs are the features, or without any the shares of displays in each given context. The
    last layer may take the units of all others and the inputs.
    """
    head, position = fitted.relevance_head, fitted.parameters.position
    yield from _layer_problems("", fitted.parameters.layers, fitted)
    satisfaction = fitted.parameters.satisfaction
    if bool(satisfaction) != (SATISFACTION in fitted.clicks.channels):
        what = f"a {fitted.clicks.title} {'has no' if satisfaction else 'needs a'} network"
        yield Problem(f"{what} of satisfaction", code="head-mismatch")
    elif satisfaction:
        yield from _layer_problems("satisfaction: ", satisfaction, fitted)
    if head.uses_features != (fitted.features is not None):
        wrong = "needs features" if head.uses_features else "takes no features"
        yield Problem(f"the relevance head {fitted.head} {wrong}", code="head-mismatch")
    if not (head.has_uncertainty or position.is_point):
        yield Problem(f"{fitted.kind} has no {type(position).__name__}", code="head-mismatch")


def _layer_problems(name: str, layers: Layers, fitted: FittedModel) -> Iterator[Problem]:
    """Problems of one network."""
    head = fitted.relevance_head
    width = len(given_of(fitted)[0]) if fitted.features is None else fitted.features.width
    last, all_units = len(layers) - 1, width
    for i, (weight, bias) in enumerate(layers):
        if np.ndim(weight) != 2 or np.shape(bias) != np.shape(weight)[1:]:
            shapes = f"weights of shape {np.shape(weight)} and biases of {np.shape(bias)}"
            yield Problem(f"{name}layer {i} has {shapes}", code="shape-mismatch")
            return
        if len(weight) != width and not (i == last and len(weight) == all_units):
            what = f"{name}layer {i} takes {len(weight)} inputs, but gets {width}"
            yield Problem(what, code="shape-mismatch")
        width = len(bias)
        all_units += width
    if not layers:
        yield Problem("the network has no layers", code="shape-mismatch")
    elif width != head.outputs:
        what = f"{name}the network has {width} outputs, but {fitted.kind} needs {head.outputs}"
        yield Problem(what, code="shape-mismatch")


def _member_problems(number: int, member: Parameters, fitted: FittedModel) -> Iterator[Problem]:
    """A member has the same arrays as the model, though the last layer may be more precise."""
    arrays, own, first = map(to_arrays, (member, fitted.parameters, fitted.members[0]))
    if arrays.keys() != own.keys():
        what = f"member {number} has the arrays {', '.join(arrays)}, not those of the model"
        yield Problem(what, code="member-mismatch")
        return
    for name, array in arrays.items():
        if array.shape != own[name].shape:
            what = f"{name} of member {number} has shape {array.shape}, not {own[name].shape}"
            yield Problem(what, code="member-mismatch")
        if name in first and array.dtype != first[name].dtype:
            what = f"{name} is {array.dtype} in member {number}, {first[name].dtype} in member 0"
            yield Problem(what, code="member-mismatch")
        yield from _number_problems(f"{name} of member {number}", array)


def _posterior_problems(posterior: ParameterPosterior, fitted: FittedModel) -> Iterator[Problem]:
    """Its size is that of the free parameters of the click model and the last layer."""
    if not fitted.parameters.position.is_point or not fitted.parameters.layers:
        what = "a posterior needs position bias as points, and a network"
        yield Problem(what, code="posterior-mismatch")
        return
    size = len(fitted.clicks.free(len(fitted.contexts), fitted.anchor))
    for layers in (fitted.parameters.layers, fitted.parameters.satisfaction):
        size += sum(np.size(part) for part in layers[-1]) if layers else 0
    shapes = dict(zip(POSTERIOR_ARRAYS, [(size,), (size, size), (size, size)], strict=True))
    if posterior.samples is not None:
        shapes["samples"] = (max((1, *np.shape(posterior.samples)[:1])), size)
    if posterior.ridge is not None:
        shapes["ridge"] = (len(POWERS), size)
    for name, shape in shapes.items():
        array = np.asarray(getattr(posterior, name))
        if array.shape != shape:
            what = f"posterior.{name} has shape {array.shape}, not {shape}"
            yield Problem(what, code="shape-mismatch")
            return
        problems = list(_number_problems(f"posterior.{name}", array))
        yield from problems
        if name in ("bayes", "robust") and not problems:
            yield from _covariance_problems(f"posterior.{name}", array)


def _covariance_problems(name: str, covariance: np.ndarray) -> Iterator[Problem]:
    largest = np.max(np.abs(covariance), initial=0.0)
    if np.max(np.abs(covariance - covariance.T), initial=0.0) > ROUNDING * largest:
        yield Problem(f"{name} is not symmetric", code="not-a-covariance")
        return
    # much faster than eigenvalues, so that loading stays fast
    with np.errstate(over="ignore"):
        floor = ROUNDING * np.abs(np.diag(covariance)).sum() + np.finfo(float).tiny
    try:
        np.linalg.cholesky(covariance + np.diag(np.full(len(covariance), floor)))
    except np.linalg.LinAlgError:
        what = f"{name} is not a covariance: it has a negative eigenvalue"
        yield Problem(what, code="not-a-covariance")


def _item_problems(items: Items) -> Iterator[Problem]:
    pairs = len(items.query_id)
    for name in ("query_id", "doc_id"):
        yield from _id_problems(f"items.{name}", getattr(items, name))
    for name in ("doc_id", *ITEM_NUMBERS):
        if (shape := np.shape(getattr(items, name))) != (pairs,):
            what = f"items.{name} has shape {shape}, but there are {pairs} pairs"
            yield Problem(what, code="shape-mismatch")
            return
    if items.satisfied is not None:
        if (shape := np.shape(items.satisfied)) != (pairs, 2):
            what = f"items.satisfied has shape {shape}, but there are {pairs} pairs"
            yield Problem(what, code="shape-mismatch")
            return
        yield from _number_problems("items.satisfied", items.satisfied)
        if count := int(np.sum(np.asarray(items.satisfied) <= 0)):
            yield Problem("items.satisfied must be positive", count, "value", code="not-positive")
    for name in ITEM_NUMBERS:
        yield from _number_problems(f"items.{name}", getattr(items, name))
    for name in ("alpha", "beta"):
        if count := int(np.sum(np.asarray(getattr(items, name)) <= 0)):
            yield Problem(f"items.{name} must be positive", count, "value", code="not-positive")
    if count := int(np.sum(np.asarray(items.low) > np.asarray(items.high))):
        what = "items.low must not exceed items.high"
        yield Problem(what, count, "value", code="low-exceeds-high")


def _reading_problems(fitted: FittedModel) -> Iterator[Problem]:
    """A model whose users may stop reading keeps how far they read."""
    record = fitted.training.checks.get("reading")
    found = record.get("draws") if isinstance(record, Mapping) else None
    try:
        drawn = np.asarray(found, np.float64)
    except (TypeError, ValueError):
        drawn = np.zeros(0)
    if drawn.ndim != 2 or drawn.shape[1] != len(fitted.contexts) or not np.isfinite(drawn).all():
        yield Problem("it does not say how far users read", code="reading-missing")


def _number_problems(name: str, array: np.ndarray) -> Iterator[Problem]:
    if array.dtype not in FLOATS:
        yield Problem(f"{name} is {array.dtype}, not float32 or float64", code="invalid-type")
    elif count := int(np.sum(~np.isfinite(array))):
        yield Problem(f"{name} must be finite numbers", count, "value", code="not-finite")


def _at_bound_problems(fitted: FittedModel) -> Iterator[Problem]:
    """`at_bound` lists indices of contexts; older files lack it."""
    found, contexts = fitted.training.checks.get("at_bound", []), len(fitted.contexts)
    listed = found if isinstance(found, list | tuple) else [found]
    numbers = [each.get("index") if isinstance(each, Mapping) else None for each in listed]
    if any(type(k) is not int or not 0 <= k < contexts for k in numbers):
        what = f"training.checks.at_bound must list contexts from 0 to {contexts - 1}"
        yield Problem(what, code="invalid-checks")


def _robot_problems(fitted: FittedModel) -> Iterator[Problem]:
    """`robots` has whether it was checked, and a description of what was found; or is absent."""
    record = fitted.training.checks.get("robots", {"checked": False, "found": None})
    found = record.get("found", False) if isinstance(record, Mapping) else False
    named = found is None or (isinstance(found, Mapping) and isinstance(found.get("words"), str))
    if not (named and type(record.get("checked")) is bool):
        what = "training.checks.robots must have the keys checked and found"
        yield Problem(what, code="invalid-checks")


def _assumption_problems(fitted: FittedModel) -> Iterator[Problem]:
    """`assumptions` has the number of displays that were checked, and warnings; or is absent."""
    record = fitted.training.checks.get("assumptions", {"displays": 0, "warnings": []})
    found = record.get("warnings") if isinstance(record, Mapping) else None
    listed = isinstance(found, list) and all(isinstance(each, str) for each in found)
    if not (listed and type(record.get("displays")) is int):
        what = "training.checks.assumptions must have the keys displays and warnings"
        yield Problem(what, code="invalid-checks")


def _id_problems(name: str, ids: pa.Array) -> Iterator[Problem]:
    kind = ids.type
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not (text or pa.types.is_integer(kind)):
        yield Problem(f"{name} is {kind}, not integers or text", code="invalid-type")
    elif ids.null_count:
        yield Problem(f"{name} lacks ids", ids.null_count, "value", code="ids-missing")
