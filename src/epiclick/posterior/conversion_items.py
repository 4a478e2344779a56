"""Items of a log: the probability that a click on each leads to a conversion.

The model of conversions has a Beta for every item, and conversions among clicks update it by
Bayes' rule: Beta(a + conversions, b + clicks without one), averaged over draws of the parameters.
"""

from collections.abc import Sequence

import numpy as np

from epiclick.beta import Beta
from epiclick.data.counts import ClickCounts
from epiclick.data.outcome_counts import conversion_counts, conversions_of
from epiclick.fitted.parameters import Parameters, parameter_draws
from epiclick.fitted.prediction import (
    networks_of,
    relevance_before,
    relevance_by,
    relevance_of_pairs,
)
from epiclick.fitted.state import FittedModel, Items, given_of
from epiclick.posterior.item_posterior import ItemPosterior
from epiclick.relevance.heads import exposure


def conversion_betas(
    conversion: FittedModel, counts: ClickCounts, draws: Sequence[Parameters]
) -> Beta:
    """(draws, pairs) Betas of all pairs given their own clicks, under each draw.

    Args:
        conversion: the model of conversions.
        counts: the pairs; without conversions, their Betas are those of the features alone, or
            those that a model without features keeps from its own log.
        draws: of its parameters.
    """
    clicks, converted = conversions_of(counts)
    outcomes = conversion_counts(counts)
    if counts.conversions is None and conversion.items is not None:
        shape = (len(draws), len(counts))
        kept = relevance_before(conversion, outcomes)
        return Beta(*(np.broadcast_to(each, shape) for each in kept))
    alpha, beta = relevance_of_pairs(conversion, networks_of(draws), outcomes)
    return Beta(alpha + converted, beta + (clicks - converted))


def conversion_posterior(
    conversion: FittedModel, counts: ClickCounts, level: float
) -> ItemPosterior:
    """Of all pairs, averaged over draws of the parameters."""
    return ItemPosterior.of_betas(
        conversion_betas(conversion, counts, parameter_draws(conversion)), level
    )


def kept_conversions(conversion: FittedModel, counts: ClickCounts, level: float) -> Items:
    """The posterior of all pairs of its log that a model without features keeps."""
    # without features all pairs have the same Beta before their clicks
    never = exposure(np.zeros((1, len(given_of(conversion)[0]))))
    networks = networks_of(parameter_draws(conversion))
    alpha, beta = relevance_by(conversion, networks, never)  # (draws, 1)
    numbers, group = np.unique(
        np.stack(conversions_of(counts), axis=1), axis=0, return_inverse=True
    )
    clicks, converted = numbers.T
    betas = Beta(alpha + converted, beta + (clicks - converted))
    known = ItemPosterior.of_betas(betas, level)
    each = (known.betas.alpha, known.betas.beta, known.low, known.high)
    return Items(counts.query_id, counts.doc_id, *(part[group.reshape(-1)] for part in each))
