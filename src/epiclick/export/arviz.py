"""Posterior samples of position bias and relevance, as ArviZ's InferenceData."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from epiclick.arguments import require_extra
from epiclick.data.arrays import as_array
from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureTable, read_features
from epiclick.data.writing import written_aside
from epiclick.errors import InputError
from epiclick.fitted.affine_table import lines_of
from epiclick.fitted.parameters import Parameters, parameter_draws, without_uncertainty
from epiclick.fitted.prediction import (
    contexts_of,
    drawn,
    emission_by,
    floor_by,
    networks_of,
    relevance_of_pairs,
    relevance_of_rows,
)
from epiclick.fitted.state import FittedModel
from epiclick.fitted.tables import stored_at_bound
from epiclick.relevance.average import matched_beta
from epiclick.relevance.reported import reported

LEVEL = 0.9  # of intervals, which are not used here


@dataclass(frozen=True, eq=False)
class ItemSamples:
    """Relevance of some items; row j belongs to the j-th draw of the parameters.

    Attributes:
        query_id: (items,) int64 or string.
        doc_id: (items,) int64 or string.
        relevance: (draws, items).
        of: number of items that these were chosen from.
    """

    query_id: pa.Array
    doc_id: pa.Array
    relevance: np.ndarray
    of: int


def independent_draws(
    fitted: FittedModel, count: int, kind: str, rng: np.random.Generator
) -> list[Parameters]:
    """Parameters from the posterior, or random members of an ensemble; bias is a point in each."""
    if fitted.members:
        drawn = [fitted.members[i] for i in rng.integers(len(fitted.members), size=count)]
        return [_with_point_bias(fitted, member, rng) for member in drawn]
    if fitted.posterior is None and fitted.parameters.position.is_point:
        raise InputError(
            "there are no samples to export: this model has point estimates only; fit it with "
            "members=5, or fit an EpistemicPBM",
            code="no-samples",
        )
    # the second half mirrors the first
    draws = parameter_draws(fitted, 2 * count, kind=kind, seed=int(rng.integers(2**31)))
    return list(draws[:count])


def _with_point_bias(
    fitted: FittedModel, member: Parameters, rng: np.random.Generator
) -> Parameters:
    if member.position.is_point:
        return member
    alone = without_uncertainty(replace(fitted, parameters=member))
    return parameter_draws(alone, 1, seed=int(rng.integers(2**31)))[0]


def position_bias_samples(fitted: FittedModel, draws: Sequence[Parameters]) -> np.ndarray:
    """(draws, contexts) bias in the model's contexts, as in `BaseModel.position_bias`."""
    emission = emission_by(fitted, draws, np.arange(len(fitted.contexts)))
    if emission.is_affine:
        return lines_of(emission, fitted.anchor or 0)[0]
    return emission.attractive


def samples_given_clicks(
    fitted: FittedModel,
    draws: Sequence[Parameters],
    counts: ClickCounts,
    most: int,
    rng: np.random.Generator,
) -> ItemSamples:
    """Relevance of the most displayed pairs given each draw and the pairs' own clicks.

    Given a draw, it is sampled from the Beta with its exact mean and variance.
    """
    from epiclick.posterior.item_posterior import item_posterior  # loads jax

    if not fitted.relevance_head.learns_from_clicks:
        raise InputError(
            "a pointwise model has a point estimate per item and does not learn from its clicks; "
            "give features alone, or fit an EpistemicPBM",
            code="pointwise-model",
        )
    shown = np.bincount(counts.pair, counts.displays, len(counts))
    chosen = counts.subset(np.argsort(-shown, kind="stable")[:most])
    emission = emission_by(fitted, draws, contexts_of(fitted, chosen.contexts))
    shape = (len(draws), len(chosen))
    priors = relevance_of_pairs(fitted, networks_of(draws), chosen)
    alpha, beta = (np.broadcast_to(part, shape) for part in priors)
    relevance = np.empty(shape)
    for j in range(len(draws)):
        known = item_posterior(chosen, drawn(emission, j), alpha[j], beta[j], LEVEL)
        relevance[j] = matched_beta(known.mean, known.variance).sample(rng)
    relevance = reported(relevance, floor_by(fitted, draws))
    return ItemSamples(chosen.query_id, chosen.doc_id, relevance, of=len(counts))


def samples_by_features(
    fitted: FittedModel,
    draws: Sequence[Parameters],
    features: FeatureTable,
    most: int,
    rng: np.random.Generator,
) -> ItemSamples:
    """Relevance of the first items of a table given each draw."""
    if fitted.features is None:
        raise InputError(
            "the model was trained without features, so it cannot predict from them; give clicks",
            code="trained-without-features",
        )
    features.refuse_open()
    rows = np.arange(min(most, len(features)))
    parts = relevance_of_rows(fitted, networks_of(draws), features, rows)
    both = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
    first, second = (np.broadcast_to(part, (len(draws), len(rows))) for part in both)
    relevance = fitted.relevance_head.draw(first, second, rng)
    relevance = reported(relevance, floor_by(fitted, draws))
    query_id, doc_id = (
        as_array(features.keys[name].slice(0, len(rows))) for name in ("query_id", "doc_id")
    )
    return ItemSamples(query_id, doc_id, relevance, of=len(features))


DRAWS = 1000
ITEMS = 100
"""Default of the most items whose relevance is sampled."""

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
        model: a fitted model.
        counts: clicks; relevance of the most displayed items is sampled given their own.
        features: of the items; without counts, relevance of the first ones given these alone.
        draws: samples, in one chain, as they are independent.
        items: most items whose relevance is sampled.
        kind: "robust": spread estimated from the differences between queries, or other clusters;
            "bayes": as if the model were exact. An ensemble, and the paper's estimators, have their
            own spread.
        seed: of the samples.
    """
    require_extra("InferenceData", ["arviz"], "arviz")
    fitted = getattr(model, "fitted_", None)
    if fitted is None:
        raise InputError(
            f"this {type(model).__name__} is not fitted yet; call fit first", code="not-fitted"
        )
    if draws < 1 or items < 1:
        raise InputError(
            f"draws and items must be at least 1, not {draws} and {items}",
            code="draws-out-of-range" if draws < 1 else "items-out-of-range",
        )
    if kind not in KINDS:
        raise InputError(
            f"kind must be one of {', '.join(KINDS)}, not {kind!r}", code="unknown-kind"
        )
    rng = np.random.default_rng([seed, 9])
    drawn = independent_draws(fitted, draws, kind, rng)
    found = None
    table = (
        None
        if features is None or fitted.features is None
        else read_features(features, like=fitted)
    )
    if counts is not None:
        if table is not None and counts.features is None:
            counts = counts.with_features(table)
        found = samples_given_clicks(fitted, drawn, counts, items, rng)
    elif features is not None:
        found = samples_by_features(fitted, drawn, read_features(features, like=fitted), items, rng)
    return _inference_data(fitted, position_bias_samples(fitted, drawn), found)


def write_inference_data(path: str | Path, data: Any) -> None:
    """Write samples as NetCDF, which `arviz.from_netcdf` and `xarray.open_datatree` read."""
    with written_aside(path) as aside:
        data.to_netcdf(str(aside))


def _inference_data(fitted: FittedModel, bias: np.ndarray, items: ItemSamples | None) -> Any:
    with warnings.catch_warnings():
        # ArviZ announces its next version at the first import of a day
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
