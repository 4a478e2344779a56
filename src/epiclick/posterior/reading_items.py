"""Items of pages whose users may stop after a click: their relevance given the clicks.

Under every draw of the parameters a Gibbs chain draws who went on (`reading.stops`); given that,
relevance and satisfaction of an item are Betas. Their average over the draws is the posterior.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from epiclick.beta import Beta
from epiclick.click_models.click_model import SATISFACTION
from epiclick.data.counts import ClickCounts
from epiclick.fitted.parameters import Parameters, parameter_draws
from epiclick.fitted.prediction import lists_of, relevance_of_pairs
from epiclick.fitted.state import FittedModel, Items
from epiclick.posterior.item_posterior import ItemPosterior
from epiclick.reading.stops import Chain, Evidence, Prior, Shapes

DRAWS = 32
"""Draws of the parameters, and of who went on."""

SWEEPS = 8
"""Of every chain, from a start at the expected items."""


class ItemDraws(NamedTuple):
    """Betas of items under every draw of the parameters and of who went on; (draws, pairs) each.

    Attributes:
        attraction: of relevance.
        satisfaction: of the probability that a click satisfies; None without that channel.
    """

    attraction: Beta
    satisfaction: Beta | None


def reading_item_draws(
    fitted: FittedModel, counts: ClickCounts, draws: Sequence[Parameters], seed: int = 0
) -> ItemDraws:
    """Draw who went on under every draw of the parameters."""
    lists = lists_of(fitted, counts)
    evidence = Evidence.of(lists, len(counts))
    attraction = relevance_of_pairs(fitted, [draw.layers for draw in draws], counts)
    satisfied = None
    if SATISFACTION in fitted.clicks.channels:
        satisfied = relevance_of_pairs(fitted, [draw.satisfaction for draw in draws], counts)
    found = np.empty((2, 2, len(draws), len(counts)))
    for i, draw in enumerate(draws):
        own = Shapes(attraction[0][i], attraction[1][i])
        other = None if satisfied is None else Shapes(satisfied[0][i], satisfied[1][i])
        going_on = fitted.clicks.going_on(np.asarray(draw.position.points.logit))
        prior = Prior(own, other, going_on)
        chain = Chain.start(evidence, np.random.default_rng([seed, 22, i]), prior)
        known = chain.sweep(prior, SWEEPS)
        found[0, :, i] = own.alpha + evidence.clicks, own.beta + (known.read - evidence.clicks)
        if other is not None:
            found[1, :, i] = other.alpha + known.stopped, other.beta + known.went_on
    return ItemDraws(Beta(*found[0]), None if satisfied is None else Beta(*found[1]))


class ReadingItems(NamedTuple):
    """Posterior of each pair given all pages: of its relevance, and of satisfaction if any."""

    attraction: ItemPosterior
    satisfaction: ItemPosterior | None


def reading_items(
    fitted: FittedModel,
    counts: ClickCounts,
    level: float,
    *,
    above: float | None = None,
    draws: Sequence[Parameters] | None = None,
) -> ReadingItems:
    """Relevance and satisfaction of each pair of the counts given all their pages."""
    drawn = reading_item_draws(fitted, counts, draws or parameter_draws(fitted, DRAWS))
    satisfied = drawn.satisfaction
    return ReadingItems(
        ItemPosterior.of_betas(drawn.attraction, level, above),
        None if satisfied is None else ItemPosterior.of_betas(satisfied, level, None),
    )


def kept_items(counts: ClickCounts, drawn: ItemDraws, level: float) -> Items:
    """The posterior of its log's pairs that a model without features keeps."""
    known = ItemPosterior.of_betas(drawn.attraction, level, None)
    satisfied = None
    if drawn.satisfaction is not None:
        matched = ItemPosterior.of_betas(drawn.satisfaction, level, None).betas
        satisfied = np.stack([matched.alpha, matched.beta], axis=1)
    betas = known.betas
    ids = (counts.query_id, counts.doc_id)
    return Items(*ids, betas.alpha, betas.beta, known.low, known.high, satisfied)
