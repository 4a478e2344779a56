"""What is known about the items rankers show: from their clicks, their features, or neither."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa

from epiclick.beta import Beta
from epiclick.comparison.never_shown import BY_FEATURES, Absent, discount_by_id
from epiclick.data.arrays import distinct, locate_rows
from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureTable
from epiclick.data.placement import Placement, placement_in, query_in
from epiclick.errors import InputError
from epiclick.fitted.exposure import Exposure
from epiclick.fitted.parameters import Parameters
from epiclick.fitted.prediction import (
    exposure_of_rows,
    floor_by,
    networks_of,
    relevance_by,
    relevance_of_rows,
)
from epiclick.fitted.state import FittedModel, given_of
from epiclick.posterior.item_posterior import moments_by_draw
from epiclick.posterior.reading_items import ItemDraws, reading_item_draws
from epiclick.relevance.average import total_moments
from epiclick.relevance.heads import exposure
from epiclick.relevance.reported import reported_moments

CHUNK = 1024  # items at once

POPULATION = 2_048
"""Rows of features drawn to stand for an item without features."""

Moments = tuple[np.ndarray, np.ndarray]
"""Mean and variance of relevance under every draw, (draws, items) each."""


@dataclass(frozen=True, eq=False)
class Items:
    """The distinct items of some slots, ordered by what is known about them.

    Attributes:
        counts: the pairs in the log, which come first; None if there are none.
        features: table of features.
        rows: of `features`, for items known by their features only, which come after `kept`.
        placement: of these items in the log, which has not shown them; None without a log.
        log: of a model without features, the log whose items are compared; else None.
        absent: of a log without features, the unknown items.
        kept: rows of the items that a model without features keeps from its log.
        unknown: number of items about which nothing is known, which come last.
        index: (slots,) item of each slot.
    """

    counts: ClickCounts | None
    features: FeatureTable | None
    rows: np.ndarray
    kept: np.ndarray
    unknown: int
    index: np.ndarray
    placement: Placement | None = None
    log: ClickCounts | None = None
    absent: Absent | None = None

    @property
    def never_shown(self) -> np.ndarray:
        """(items,) whether the log showed others of the query, but not this one, which it could."""
        found = np.zeros(len(self), bool)
        if self.placement is not None:
            assert self.features is not None
            own = slice(self.seen, self.seen + len(self.rows))
            found[own] = np.isfinite(self.placement.pages) & ~self.features.is_new[self.rows]
        if self.absent is not None:
            found[len(self) - self.unknown :] = self.absent.query >= 0
        return found

    @property
    def seen(self) -> int:
        """Number of items whose relevance is estimated from their own clicks."""
        return (0 if self.counts is None else len(self.counts)) + len(self.kept)

    def __len__(self) -> int:
        """Number of items."""
        return self.seen + len(self.rows) + self.unknown

    @property
    def was_seen(self) -> np.ndarray:
        """(items,) whether relevance is estimated from an item's own clicks."""
        return np.arange(len(self)) < self.seen

    @property
    def is_unknown(self) -> np.ndarray:
        """(items,) whether nothing is known about an item."""
        return np.arange(len(self)) >= len(self) - self.unknown


def items_of(
    fitted: FittedModel,
    query_id: pa.Array,
    doc_id: pa.Array,
    features: FeatureTable | None,
    counts: ClickCounts | None,
) -> Items:
    """The distinct items of slots, looked up in the log and in the features."""
    table, slot = distinct({"query_id": query_id, "doc_id": doc_id})
    keys = {name: table[name] for name in ("query_id", "doc_id")}
    none = np.full(len(table), -1)
    pair, row, kept = none, none, none
    if fitted.features is not None:
        if features is None:
            raise InputError(
                "the model was trained with features; give those of the items",
                code="features-needed",
            )
        row = features.locate(*(table[name].combine_chunks() for name in keys))
        if counts is not None and counts.features is None:
            counts = counts.with_features(features, missing="drop")
    if counts is not None:
        pair = locate_rows(keys, {"query_id": counts.query_id, "doc_id": counts.doc_id})
    elif fitted.items is not None:
        own = fitted.items
        kept = locate_rows(keys, {"query_id": own.query_id, "doc_id": own.doc_id})
    known_by = np.select([pair >= 0, kept >= 0, row >= 0], [0, 1, 2], 3)
    within = np.select([known_by == i for i in range(3)], [pair, kept, row])
    order = np.lexsort((within, known_by))
    place = np.empty(len(order), int)
    place[order] = np.arange(len(order))
    groups = [order[known_by[order] == i] for i in range(4)]
    placement = absent = None
    if counts is not None and fitted.features is not None:
        placement = placement_in(counts, *_ids_of(table, groups[2]))
    elif counts is not None and len(groups[3]):
        ids = _ids_of(table, groups[3])
        absent = Absent(placement_in(counts, *ids), query_in(counts, ids[0]))
    return Items(
        counts=None if counts is None or not len(groups[0]) else counts.subset(pair[groups[0]]),
        features=features,
        rows=row[groups[2]],
        kept=kept[groups[1]],
        unknown=len(groups[3]),
        index=place[slot],
        placement=placement,
        log=None if absent is None else counts,
        absent=absent,
    )


def _ids_of(table: pa.Table, rows: np.ndarray) -> tuple[pa.Array, pa.Array]:
    """query_id and doc_id of some rows."""
    query_id, doc_id = (table[name].combine_chunks().take(rows) for name in ("query_id", "doc_id"))
    return query_id, doc_id


def moments_of(
    fitted: FittedModel,
    items: Items,
    draws: Sequence[Parameters],
    rng: np.random.Generator,
    given_clicks: Iterator[Moments] | None = None,
) -> Iterator[Moments]:
    """Moments of all items under every draw of the parameters, in chunks of items.

    Args:
        fitted: the model.
        items: of all slots.
        draws: of the parameters.
        rng: for items about which nothing is known.
        given_clicks: of the pairs of `items.counts`, where they are estimated elsewhere: because
            items of a page depend on each other, or from other outcomes than clicks.
    """
    parts: list[Iterator[Moments]] = []
    if items.counts is not None and given_clicks is not None:
        parts.append(given_clicks)
    elif items.counts is not None and not fitted.relevance_head.learns_from_clicks:
        assert items.counts.features is not None
        assert items.counts.feature_row is not None
        rows, placed = items.counts.feature_row, items.counts.placed
        parts.append(_of_rows(fitted, items.counts.features, rows, draws, placed))
    elif items.counts is not None:
        parts.append(moments_by_draw(fitted, items.counts, draws))
    if len(items.kept):
        parts.append(_of_kept(fitted, items.kept, len(draws)))
    if len(items.rows):
        assert items.features is not None
        factors = None
        if fitted.features is not None and fitted.features.exposure is not None:
            factors = BY_FEATURES.draws(fitted.features.exposure, len(draws), rng)
        parts.append(_of_rows(fitted, items.features, items.rows, draws, items.placement, factors))
    if items.unknown:
        parts.append(_of_population(fitted, items, draws, rng))
    return chain.from_iterable(parts)


def of_betas(betas: Beta | None) -> Iterator[Moments] | None:
    """Moments of Betas under every draw, (draws, pairs)."""
    return None if betas is None else iter([(betas.mean, betas.variance)])


class Satisfaction(NamedTuple):
    """A model and draws of its parameters, whose relevance is the satisfaction of a click."""

    fitted: FittedModel
    draws: Sequence[Parameters]

    @classmethod
    def of(cls, fitted: FittedModel, draws: Sequence[Parameters]) -> Self:
        """The channel of satisfaction in place of that of clicks."""
        items = fitted.items
        if items is not None and items.satisfied is not None:
            alpha, beta = items.satisfied.T
            items = replace(items, alpha=alpha, beta=beta)
        own = [draw._replace(layers=draw.satisfaction) for draw in draws]
        return cls(replace(fitted, items=items), own)


def items_given_clicks(
    fitted: FittedModel,
    items: Items,
    log: ClickCounts | None,
    draws: Sequence[Parameters],
    seed: int,
) -> ItemDraws | None:
    """For a model that needs whole pages, items of the log under every draw; None for others."""
    if not fitted.clicks.has_latent_state or items.counts is None or log is None:
        return None
    if log.features is None and items.features is not None:
        log = log.with_features(items.features)
    drawn = reading_item_draws(fitted, log, draws, seed)
    row = items.counts.numbers_in(log)
    own = [None if each is None else Beta(each.alpha[:, row], each.beta[:, row]) for each in drawn]
    assert own[0] is not None
    return ItemDraws(own[0], own[1])


def _of_rows(
    fitted: FittedModel,
    features: FeatureTable,
    rows: np.ndarray,
    draws: Sequence[Parameters],
    placement: Placement | None,
    factors: np.ndarray | None = None,
) -> Iterator[Moments]:
    """Moments of items known by their features, and by where they were shown."""
    networks, floor = networks_of(draws), floor_by(fitted, draws)
    if len(networks) < len(draws):  # all draws share a network
        factors = None
    exposed = exposure_of_rows(fitted, features, rows, placement)
    for start in range(0, len(rows), CHUNK):
        part = slice(start, start + CHUNK)
        own = None if exposed is None else Exposure(*(each[part] for each in exposed))
        for alpha, beta in relevance_of_rows(fitted, networks, features, rows[part], own, factors):
            yield reported_moments(*_moments(fitted, alpha, beta, len(draws)), floor)


def _of_kept(fitted: FittedModel, kept: np.ndarray, draws: int) -> Iterator[Moments]:
    """Moments of items that the model keeps, the same under all draws."""
    assert fitted.items is not None
    for start in range(0, len(kept), CHUNK):
        part = kept[start : start + CHUNK]
        yield _moments(fitted, fitted.items.alpha[None, part], fitted.items.beta[None, part], draws)


def _of_population(
    fitted: FittedModel, items: Items, draws: Sequence[Parameters], rng: np.random.Generator
) -> Iterator[Moments]:
    """Moments of items about which nothing is known: those of a random item with features.

    A model without features has one distribution for all items that were never shown.
    """
    networks = networks_of(draws)
    if items.features is not None and fitted.features is not None:
        rows = rng.choice(len(items.features), min(POPULATION, len(items.features)), replace=False)
        alpha, beta = next(relevance_of_rows(fitted, networks, items.features, np.sort(rows)))
    else:
        never_shown = exposure(np.zeros((1, len(given_of(fitted)[0]))))
        alpha, beta = relevance_by(fitted, networks, never_shown)
    own = _moments(fitted, alpha, beta, len(draws))
    means, variances = reported_moments(*own, floor_by(fitted, draws))
    mean, variance = total_moments(means.T, variances.T)  # over the population, per draw
    if items.absent is not None and items.log is not None and fitted.items is not None:
        discount = discount_by_id(fitted.items, items.log, items.absent, len(draws), rng)
        for start in range(0, items.unknown, CHUNK):
            part = discount.below[start : start + CHUNK]
            yield discount._replace(below=part).apply(mean, variance)
        return
    for start in range(0, items.unknown, CHUNK):
        shape = (len(draws), min(CHUNK, items.unknown - start))
        yield np.broadcast_to(mean[:, None], shape), np.broadcast_to(variance[:, None], shape)


def _moments(fitted: FittedModel, alpha: np.ndarray, beta: np.ndarray, draws: int) -> Moments:
    """Moments under every draw, of Betas (networks, items) that all draws may share."""
    mean, variance = fitted.relevance_head.moments(alpha, beta)
    shape = (draws, alpha.shape[1])
    return np.broadcast_to(mean, shape), np.broadcast_to(variance, shape)
