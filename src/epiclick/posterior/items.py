"""Relevance of items under a fitted model, given their clicks or from their features."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from epiclick.batching.distinct import distinct_counts
from epiclick.click_models.click_model import CONVERSION, SATISFACTION
from epiclick.collective import ALONE, Collective
from epiclick.data.counts import ClickCounts
from epiclick.data.features import read_features
from epiclick.data.folded_features import like_queries
from epiclick.errors import InputError
from epiclick.fitted.parameters import Parameters, parameter_draws
from epiclick.fitted.prediction import (
    chunks_of,
    contexts_of,
    emission_by,
    floor_by,
    networks_of,
    relevance_of_pairs,
)
from epiclick.fitted.state import FittedModel, Items, conversion_of_items
from epiclick.fitted.tables import (
    check_above,
    frame_of,
    item_frame,
    outcome_columns,
    relevance_frames,
)
from epiclick.relevance.average import beta_columns

if TYPE_CHECKING:
    from epiclick.posterior.item_posterior import ItemPosterior

CHUNK = 65_536  # pairs at once


def posteriors(
    fitted: FittedModel,
    counts: ClickCounts,
    level: float,
    *,
    above: float | None = None,
    draws: Sequence[Parameters] | None = None,
) -> "Iterator[tuple[ClickCounts, ItemPosterior]]":
    """Pairs and their relevance given their clicks, averaged over draws of the parameters.

    The posterior of the parameters is not updated by these clicks, most of which it already
    includes.
    """
    if fitted.clicks.has_latent_state:
        from epiclick.posterior.reading_items import reading_items

        yield counts, reading_items(fitted, counts, level, above=above, draws=draws).attraction
        return
    from epiclick.posterior.item_posterior import item_posterior

    draws = draws or parameter_draws(fitted)
    networks = networks_of(draws)
    emission = emission_by(fitted, draws, contexts_of(fitted, counts.contexts))
    floor = floor_by(fitted, draws)
    for _, _, part in chunks_of(counts, CHUNK):
        alpha, beta = relevance_of_pairs(fitted, networks, part)
        yield (
            part,
            item_posterior(part, emission, alpha, beta, level, CHUNK, above=above, floor=floor),
        )


def posterior_frames(
    fitted: FittedModel,
    counts: ClickCounts,
    level: float,
    *,
    above: float | None = None,
    draws: Sequence[Parameters] | None = None,
) -> Iterator[pd.DataFrame]:
    """The columns of `relevance_frames` for the pairs of counts, in their order."""
    check_above(above)
    if not fitted.relevance_head.learns_from_clicks:
        raise InputError(
            "a pointwise model has a point estimate per item and does not learn from its clicks; "
            "fit an EpistemicPBM",
            code="pointwise-model",
        )
    if fitted.parameters.satisfaction:
        from epiclick.posterior.reading_items import reading_items

        known, satisfied = reading_items(fitted, counts, level, above=above, draws=draws)
        columns = beta_columns(known.betas, known.mean, known.low, known.high, known.above)
        assert satisfied is not None
        columns |= outcome_columns(SATISFACTION.name, satisfied.mean, satisfied.low, satisfied.high)
        columns |= _conversion_columns(fitted, counts, level)
        yield frame_of(counts.query_id, counts.doc_id, columns)
        return
    for part, known in posteriors(fitted, counts, level, above=above, draws=draws):
        columns = beta_columns(known.betas, known.mean, known.low, known.high, known.above)
        columns |= _conversion_columns(fitted, part, level)
        yield frame_of(part.query_id, part.doc_id, columns)


def _conversion_columns(
    fitted: FittedModel, counts: ClickCounts, level: float
) -> dict[str, np.ndarray]:
    """Columns of the probability of a conversion after a click; none if the model has no such."""
    if fitted.conversion is None:
        return {}
    from epiclick.posterior.conversion_items import conversion_posterior

    known = conversion_posterior(fitted.conversion, counts, level)
    return outcome_columns(CONVERSION.name, known.mean, known.low, known.high)


def known_items(
    fitted: FittedModel, counts: ClickCounts, level: float, processes: Collective = ALONE
) -> Items:
    """The posterior of its log's pairs that a model without features keeps."""
    # pairs without features that were displayed and clicked alike have the same posterior
    alike = distinct_counts(counts)
    own = slice(processes.rank, None, processes.count)
    found = [known for _, known in posteriors(fitted, counts.subset(alike.first[own]), level)]
    columns = np.zeros((4, len(alike.first)))
    columns[:, own] = np.concatenate(
        [[k.betas.alpha, k.betas.beta, k.low, k.high] for k in found], axis=1
    )
    (columns,) = processes.sum([columns])
    return Items(counts.query_id, counts.doc_id, *columns[:, alike.group])


def judged_items(
    fitted: FittedModel,
    features: Any,
    counts: ClickCounts | None,
    level: float,
    *,
    draws: Sequence[Parameters] | None = None,
) -> pd.DataFrame:
    """The columns of `relevance_frames` for items with clicks, and for others that have features.

    Args:
        fitted: the model.
        features: of the items, read by `read_features`; None for the items of the counts only.
        counts: the items' own clicks, if any.
        level: probability of the interval from `low` to `high`.
        draws: of the parameters; default those of `parameter_draws`.

    With neither features nor counts, a model without features returns the items of its log.
    """
    if counts is None and features is None:
        if fitted.items is None:
            raise InputError(
                "the model was trained with features; give those of the items",
                code="features-needed",
            )
        return item_frame(fitted.items, conversion=conversion_of_items(fitted))
    frames: list[pd.DataFrame] = []
    table = None
    if features is not None:
        table = like_queries(read_features(features, like=fitted), fitted.options)
    if table is not None and counts is not None:
        table = table.including(counts.query_id, counts.doc_id)
    if table is not None:
        frames += relevance_frames(fitted, table, level, draws=draws)
    if counts is not None:
        if table is not None:
            if counts.features is None:
                counts = counts.with_features(table)
            row = table.locate(counts.query_id, counts.doc_id)
            frames = [pd.concat(frames, ignore_index=True).drop(index=row[row >= 0])]
        frames += posterior_frames(fitted, counts, level, draws=draws)
    return pd.concat(frames, ignore_index=True)
