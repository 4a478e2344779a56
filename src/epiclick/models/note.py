"""What model.json says of a model: all but its arrays."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from epiclick.data.log import LogOptions
from epiclick.data.scaler import FeatureScaler
from epiclick.data.stored_json import get, texts
from epiclick.models.fitted import FeatureSpec, FittedModel, Items, QuerySets, TrainingSummary
from epiclick.models.kinds import head_of
from epiclick.models.note_tables import (
    context_columns,
    history_records,
    read_contexts,
    read_history,
)
from epiclick.models.note_values import plain, real, stored_real, tuples
from epiclick.models.parameters import Parameters
from epiclick.models.seal import WITH_CLICK_MODELS
from epiclick.models.uncertainty import ParameterPosterior

COUNTS = ("pairs", "displays", "clicks", "epochs", "best_epoch")


def describe(fitted: FittedModel) -> dict[str, Any]:
    """All of a model but its arrays, as JSON can hold it."""
    return {
        "kind": fitted.kind,
        "click_model": fitted.click_model,
        "head": fitted.head,
        "settings": plain(fitted.settings, "settings", finite=True),
        "anchor": None if fitted.anchor is None else int(fitted.anchor),
        "contexts": context_columns(fitted.contexts),
        "features": None if fitted.features is None else _describe_features(fitted.features),
        "options": fitted.options.to_dict(),
        "training": _describe_training(fitted.training),
        "posterior": None if fitted.posterior is None else _describe_posterior(fitted.posterior),
    }


def upgraded(note: Mapping[str, Any]) -> Mapping[str, Any]:
    """The note as this release writes it, of an earlier version; raises as `rebuild` does.

    Up to version 2 the class decided what click model and relevance head now say.
    """
    if get(note, "schema_version", int) >= WITH_CLICK_MODELS:
        return note
    with_features = get(note, "features", dict, type(None)) is not None
    head = head_of(get(note, "kind", str), with_features=with_features)
    return {**note, "click_model": "pbm", "head": head}


def rebuild(
    note: Mapping[str, Any],
    parameters: Parameters,
    queries: QuerySets,
    items: Items | None,
    posterior: Mapping[str, np.ndarray] | None = None,
    members: tuple[Parameters, ...] = (),
) -> FittedModel:
    """The model that `describe` described; raises one of MALFORMED where that cannot be.

    Keys that are not needed are ignored: a later release may add some.
    """
    features = get(note, "features", dict, type(None))
    return FittedModel(
        kind=get(note, "kind", str),
        head=get(note, "head", str),
        settings=tuples(get(note, "settings", dict)),
        parameters=parameters,
        anchor=get(note, "anchor", int, type(None)),
        contexts=read_contexts(get(note, "contexts", list)),
        features=None if features is None else _features(features),
        options=_options(get(note, "options", dict)),
        queries=queries,
        items=items,
        training=_training(get(note, "training", dict)),
        posterior=None if posterior is None else _posterior(note, posterior),
        members=members,
        click_model=get(note, "click_model", str),
    )


def _describe_features(features: FeatureSpec) -> dict[str, Any]:
    return {"names": list(features.names), "scaler": features.scaler.to_dict()}


def _features(stored: Mapping[str, Any]) -> FeatureSpec:
    scaler = FeatureScaler.from_dict(get(stored, "scaler", dict))
    return FeatureSpec(texts(stored, "names"), scaler)


def _options(stored: Mapping[str, Any]) -> LogOptions:
    get(stored, "columns", dict)
    texts(stored, "context")
    known = {field.name for field in fields(LogOptions)}
    return LogOptions.from_dict({key: stored[key] for key in stored if key in known})


def _describe_training(training: TrainingSummary) -> dict[str, Any]:
    types, records = history_records(training.history)
    return {
        **{name: int(getattr(training, name)) for name in COUNTS},
        "seconds": stored_real(training.seconds),
        "log_likelihood": stored_real(training.log_likelihood),
        "checks": plain(training.checks, "training.checks"),
        "warnings": list(training.warnings),
        "history_types": types,
        "history": records,
    }


def _training(stored: Mapping[str, Any]) -> TrainingSummary:
    return TrainingSummary(
        **{name: get(stored, name, int) for name in COUNTS},
        seconds=real(stored["seconds"]),
        log_likelihood=real(stored["log_likelihood"]),
        history=read_history(get(stored, "history_types", dict), get(stored, "history", list)),
        checks=get(stored, "checks", dict),
        warnings=texts(stored, "warnings"),
    )


def _describe_posterior(posterior: ParameterPosterior) -> dict[str, Any]:
    k = posterior.pareto_k
    return {
        "pareto_k": None if k is None else stored_real(k),
        "gradient": stored_real(posterior.gradient),
        "hyperparameters": {name: float(v) for name, v in posterior.hyperparameters.items()},
    }


def _posterior(note: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> ParameterPosterior:
    stored = get(note, "posterior", dict)
    k = stored["pareto_k"]
    return ParameterPosterior(
        **arrays,
        pareto_k=None if k is None else real(k),
        gradient=real(stored["gradient"]),
        hyperparameters={
            name: real(value) for name, value in dict(stored.get("hyperparameters", {})).items()
        },
    )
