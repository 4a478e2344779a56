"""Posterior samples as ArviZ's InferenceData, which its plots and diagnostics take."""

import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from epiclick.data.atomic import written_aside
from epiclick.data.counts import ClickCounts
from epiclick.data.features import read_features
from epiclick.errors import InputError
from epiclick.export.samples import (
    ItemSamples,
    independent_draws,
    position_bias_samples,
    samples_by_features,
    samples_given_clicks,
)
from epiclick.models.bias_table import stored_at_bound
from epiclick.models.fitted import FittedModel

DRAWS = 1000
ITEMS = 100
"""Most items whose relevance is sampled, unless told."""

KINDS = ("robust", "bayes")


class Model(Protocol):
    """A fitted model, such as `EpistemicPBM`."""

    fitted_: FittedModel


def to_inference_data(
    model: Model,
    counts: ClickCounts | None = None,
    features: Any = None,
    *,
    draws: int = DRAWS,
    items: int = ITEMS,
    kind: str = "robust",
    seed: int = 0,
) -> Any:
    """An `arviz.InferenceData`: `position_bias`, and `relevance` of items where any are given.

    Args:
        model: what was fitted.
        counts: clicks; relevance of the most displayed items is given their own.
        features: of the items; without counts relevance of the first of them is from these alone.
        draws: samples, in one chain: they are independent.
        items: of how many items relevance is sampled, at most.
        kind: "robust": as spread as the differences between queries tell; "bayes": as if clicks
            followed the model. An ensemble, and the paper's estimators, have a spread of their own.
        seed: of the samples.
    """
    require_arviz()
    fitted = getattr(model, "fitted_", None)
    if fitted is None:
        raise InputError(f"this {type(model).__name__} is not fitted yet; call fit first")
    if draws < 1 or items < 1:
        raise InputError(f"draws and items must be at least 1, not {draws} and {items}")
    if kind not in KINDS:
        raise InputError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    rng = np.random.default_rng([seed, 9])
    drawn = independent_draws(fitted, draws, kind, rng)
    found = None
    table = None if features is None or fitted.features is None else read_features(features)
    if counts is not None:
        if table is not None and counts.features is None:
            counts = counts.with_features(table)
        found = samples_given_clicks(fitted, drawn, counts, items, rng)
    elif features is not None:
        found = samples_by_features(fitted, drawn, read_features(features), items, rng)
    return _inference_data(fitted, position_bias_samples(fitted, drawn), found)


def write_inference_data(path: str | Path, data: Any) -> None:
    """Write samples as NetCDF, which `arviz.from_netcdf` and `xarray.open_datatree` read."""
    with written_aside(path) as aside:
        data.to_netcdf(str(aside))


def require_arviz() -> None:
    """Refuse to go on without ArviZ; to be asked before anything that takes long."""
    if find_spec("arviz") is None:
        raise InputError(
            "InferenceData needs arviz, which is not installed; install it with "
            '`pip install "epiclick[arviz]"`'
        )


def _inference_data(fitted: FittedModel, bias: np.ndarray, items: ItemSamples | None) -> Any:
    with warnings.catch_warnings():
        # ArviZ tells of its next version at the first import of a day
        warnings.simplefilter("ignore", FutureWarning)
        import arviz

    context, labels = _contexts(fitted)
    posterior, dims, coords = {"position_bias": bias[None]}, {"position_bias": [context]}, {}
    coords[context] = labels
    if items is not None:
        posterior["relevance"] = items.relevance[None]
        dims["relevance"] = ["item"]
        query_id, doc_id = items.query_id.to_pylist(), items.doc_id.to_pylist()
        coords["item"] = [f"{q}/{d}" for q, d in zip(query_id, doc_id, strict=True)]
    attributes = {"inference_library": "epiclick", "model": fitted.kind}
    if bound := stored_at_bound(fitted):
        attributes["at_bound"] = ", ".join(str(labels[k]) for k in bound)
    if items is not None:
        attributes["items"] = f"{len(items.query_id)} of {items.of}"
    data = arviz.from_dict(
        posterior=posterior, dims=dims, coords=coords, posterior_attrs=attributes
    )
    if items is not None:
        data.posterior = data.posterior.assign_coords(
            query_id=("item", query_id), doc_id=("item", doc_id)
        )
    return data


def _contexts(fitted: FittedModel) -> tuple[str, list[Any]]:
    """Name and labels of the dimension of position bias."""
    names = fitted.contexts.column_names
    if len(names) == 1:
        return names[0], fitted.contexts[names[0]].to_pylist()
    rows = fitted.contexts.to_pylist()
    return "context", ["/".join(str(row[name]) for name in names) for row in rows]
