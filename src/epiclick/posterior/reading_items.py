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
from epiclick.reading.gibbs import Chains, Prior, Shapes, chains_at_once
from epiclick.reading.stops import Evidence

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
    own = Shapes(*relevance_of_pairs(fitted, [draw.layers for draw in draws], counts))
    other, going_on = None, None
    if SATISFACTION in fitted.clicks.channels:
        satisfaction = [draw.satisfaction for draw in draws]
        other = Shapes(*relevance_of_pairs(fitted, satisfaction, counts))
    else:
        logits = np.stack([np.asarray(draw.position.points.logit) for draw in draws])
        going_on = fitted.clicks.going_on(logits)
    prior, rng = Prior(own, other, going_on), np.random.default_rng([seed, 22])
    found = np.empty((2, 2, len(draws), len(counts)))
    for some in chains_at_once(len(draws), len(evidence.pages) + evidence.pairs):
        few = prior.of_chains(some)
        chains = Chains.start(evidence, rng, few, len(draws[some]))
        chains.sweep(few, SWEEPS)
        known, (a, b) = evidence.completed(chains.went_on), few.attraction
        found[0, :, some] = a + evidence.clicks, b + (known.read - evidence.clicks)
        if few.satisfaction is not None:
            a, b = few.satisfaction
            found[1, :, some] = a + known.stopped, b + known.went_on
    return ItemDraws(Beta(*found[0]), None if other is None else Beta(*found[1]))


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
    pairs: np.ndarray | None = None,
) -> ReadingItems:
    """Relevance and satisfaction of each pair of the counts, or of some, given all their pages."""
    drawn = reading_item_draws(fitted, counts, draws or parameter_draws(fitted, DRAWS))
    own, satisfied = (
        each if each is None or pairs is None else Beta(each.alpha[:, pairs], each.beta[:, pairs])
        for each in drawn
    )
    assert own is not None
    return ReadingItems(
        ItemPosterior.of_betas(own, level, above),
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
