"""Joint samples of position bias and of the relevance of some items, from a fitted model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from epiclick.data.arrays import as_array
from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureTable
from epiclick.errors import InputError
from epiclick.models.averaging import bias_by, networks_of
from epiclick.models.fitted import FittedModel
from epiclick.models.parameters import Parameters
from epiclick.models.prediction import contexts_of, relevance_of_pairs, relevance_of_rows
from epiclick.models.uncertainty import parameter_draws, without_uncertainty
from epiclick.relevance.average import matched_beta

LEVEL = 0.9  # of intervals, which are not used here


@dataclass(frozen=True, eq=False)
class ItemSamples:
    """Relevance of some items; row j belongs to the j-th draw of the parameters.

    Attributes:
        query_id: (items,) int64 or string.
        doc_id: (items,) likewise.
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
    """Parameters from the posterior, or members of an ensemble drawn at random; bias is a point."""
    if fitted.members:
        drawn = [fitted.members[i] for i in rng.integers(len(fitted.members), size=count)]
        return [_with_point_bias(fitted, member, rng) for member in drawn]
    if fitted.posterior is None and fitted.parameters.position.is_point:
        raise InputError(
            "there are no samples to export: this model has one number for everything; fit it "
            "with members=5, or fit an EpistemicPBM"
        )
    # the second half would mirror the first
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
    """(draws, contexts) bias in the model's contexts."""
    return bias_by(fitted, draws, np.arange(len(fitted.contexts)))[0]


def samples_given_clicks(
    fitted: FittedModel,
    draws: Sequence[Parameters],
    counts: ClickCounts,
    most: int,
    rng: np.random.Generator,
) -> ItemSamples:
    """Relevance of the most displayed pairs given each draw and the pairs' own clicks.

    That of a draw is taken as the Beta of its exact mean and variance.
    """
    from epiclick.posterior.relevance import item_posterior  # which loads jax

    if not fitted.relevance_head.learns_from_clicks:
        raise InputError(
            "a pointwise model has one number for an item and does not learn from its clicks; give "
            "features alone, or fit an EpistemicPBM"
        )
    shown = np.bincount(counts.pair, counts.displays, len(counts))
    chosen = counts.subset(np.argsort(-shown, kind="stable")[:most])
    theta, rest = bias_by(fitted, draws, contexts_of(fitted, chosen.contexts))
    shape = (len(draws), len(chosen))
    priors = relevance_of_pairs(fitted, networks_of(draws), chosen)
    alpha, beta = (np.broadcast_to(part, shape) for part in priors)
    relevance = np.empty(shape)
    for j in range(len(draws)):
        known = item_posterior(chosen, theta[j], rest[j], alpha[j], beta[j], LEVEL)
        relevance[j] = matched_beta(known.mean, known.variance).sample(rng)
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
            "the model was trained without features, so it cannot predict from them; give clicks"
        )
    rows = np.arange(min(most, len(features)))
    parts = relevance_of_rows(fitted, networks_of(draws), features, rows)
    both = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
    first, second = (np.broadcast_to(part, (len(draws), len(rows))) for part in both)
    relevance = fitted.relevance_head.draw(first, second, rng)
    query_id, doc_id = (
        as_array(features.keys[name].slice(0, len(rows))) for name in ("query_id", "doc_id")
    )
    return ItemSamples(query_id, doc_id, relevance, of=len(features))
