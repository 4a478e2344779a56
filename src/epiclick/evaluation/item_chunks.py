"""Relevance of items, chunk by chunk, from their clicks, their features or the model itself."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureTable
from epiclick.fitted.parameters import parameter_draws
from epiclick.fitted.prediction import chunks_of, floor_by, networks_of, relevance_of_pairs
from epiclick.fitted.state import FittedModel, Items
from epiclick.fitted.tables import relevance_frames

CHUNK = 65_536  # items at once


@dataclass(frozen=True, eq=False)
class ItemRelevance:
    """Relevance of some items; (items,) each.

    Attributes:
        query_id: their queries.
        doc_id: their documents.
        mean: expected relevance.
        low: lower end of its interval; NaN without one.
        high: upper end.
        alpha: first parameter of the Beta with the same mean and variance; NaN for points.
        beta: second parameter.
        displays: number of displays; None without a log.
        clicks: number of clicks; None without a log.
        position: mean position of the displays; None without a log, or if contexts have none.
    """

    query_id: pa.Array
    doc_id: pa.Array
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    alpha: np.ndarray
    beta: np.ndarray
    displays: np.ndarray | None = None
    clicks: np.ndarray | None = None
    position: np.ndarray | None = None


def item_chunks(
    fitted: FittedModel, log: ClickCounts | None, features: FeatureTable | None, level: float
) -> Iterator[ItemRelevance]:
    """Items of the log; without one those that the model keeps, or else those of the features.

    Intervals have this level; those of items that the model keeps have the model's own.
    """
    if log is not None:
        by_clicks = fitted.relevance_head.learns_from_clicks
        yield from (_by_clicks if by_clicks else _by_features)(fitted, log, level)
        return
    if fitted.items is not None:
        yield from _kept(fitted.items)
        return
    assert features is not None
    keys, start = features.keys, 0
    for frame in relevance_frames(fitted, features, level):
        own = keys.slice(start, len(frame))
        start += len(frame)
        ids = (own[name].combine_chunks() for name in ("query_id", "doc_id"))
        columns = (frame[name].to_numpy() for name in ("mean", "low", "high", "alpha", "beta"))
        yield ItemRelevance(*ids, *columns)


def _kept(items: Items) -> Iterator[ItemRelevance]:
    for start in range(0, len(items.query_id), CHUNK):
        part = slice(start, start + CHUNK)
        alpha, beta = items.alpha[part], items.beta[part]
        yield ItemRelevance(
            items.query_id.slice(start, CHUNK),
            items.doc_id.slice(start, CHUNK),
            *(alpha / (alpha + beta), items.low[part], items.high[part], alpha, beta),
        )


def _by_clicks(fitted: FittedModel, log: ClickCounts, level: float) -> Iterator[ItemRelevance]:
    from epiclick.posterior.items import posteriors  # which loads jax

    for part, known in posteriors(fitted, log, level):
        betas = known.betas
        yield ItemRelevance(
            part.query_id,
            part.doc_id,
            *(known.mean, known.low, known.high, betas.alpha, betas.beta),
            *_counted(part),
        )


def _by_features(fitted: FittedModel, log: ClickCounts, level: float) -> Iterator[ItemRelevance]:
    draws = parameter_draws(fitted)
    networks, floor = networks_of(draws), floor_by(fitted, draws)
    for _, _, part in chunks_of(log, CHUNK):
        found = relevance_of_pairs(fitted, networks, part)  # (members, pairs) each
        own = fitted.relevance_head.columns(*found, level, floor=floor)
        yield ItemRelevance(
            part.query_id,
            part.doc_id,
            *(own["mean"], own["low"], own["high"], own["alpha"], own["beta"]),
            *_counted(part),
        )


def _counted(part: ClickCounts) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """(pairs,) displays, clicks and mean position."""
    displays, clicks = (
        np.bincount(part.pair, amount, len(part)).astype(np.int64)
        for amount in (part.displays, part.clicks)
    )
    if "position" not in part.contexts.column_names:
        return displays, clicks, None
    position = part.contexts["position"].to_numpy()[part.context]
    total = np.bincount(part.pair, position * part.displays, len(part))
    return displays, clicks, total / np.maximum(displays, 1)
