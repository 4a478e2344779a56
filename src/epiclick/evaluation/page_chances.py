r"""Probabilities of the clicks of whole pages: given the clicks above them, and not given them.

With c the context that the clicks above a display lead to, and s the states of its page,

.. math:: \text{given: } A_c \zeta + B_c (1 - \zeta), \qquad
          \text{marginal: } \sum_s p_s(k) \big(A_{c(k, s)} \zeta_k + B_{c(k, s)} (1 - \zeta_k)\big),

the latter by the recursion of `click_models.recursion`. Both are averaged over draws of the
parameters. Without a history there is a single state, and both are the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epiclick.click_models.recursion import click_chances
from epiclick.data.counts import ClickCounts
from epiclick.data.shown_pages import ShownPages
from epiclick.evaluation.backtest import with_known_items
from epiclick.fitted.parameters import Parameters, parameter_draws
from epiclick.fitted.prediction import (
    click_probabilities,
    emission_by,
    given_contexts_of,
    going_on_by,
    lists_of,
    networks_of,
    relevance_before,
    relevance_of_pairs,
    satisfaction_before,
)
from epiclick.fitted.state import FittedModel
from epiclick.reading.pages import reading_on_average, still_reading

MOST_AT_ONCE = 2**22  # draws x pages x states


@dataclass(frozen=True, eq=False)
class PageChances:
    """Probability of a click at each display of some pages; (pages, depth), 0 without a display.

    A model may hold clicks for impossible: where it gives a display that was clicked the
    probability 0, or one that was not the probability 1, its page has probability 0.

    Attributes:
        given: given the clicks above it on its page.
        marginal: averaged over them.
    """

    given: np.ndarray
    marginal: np.ndarray


def page_chances(fitted: FittedModel, counts: ClickCounts, pages: ShownPages) -> PageChances:
    """The probabilities of the clicks of pages.

    Args:
        fitted: the model.
        counts: by the contexts of its click model, with features if the model needs them.
        pages: the pages that they were counted from.
    """
    assert not fitted.clicks.has_latent_state, "these pages are the lists of the counts"
    chance = np.append(click_probabilities(fitted, counts), 0.0)  # entry -1: no display
    given = chance[pages.entry]
    if not fitted.clicks.history:
        return PageChances(given, given)
    # where the model lacks a position there is no recursion, only its mean bias
    known, marginal = _recursion(fitted, counts, pages)
    return PageChances(given, np.where(known, marginal, given))


def list_chances(fitted: FittedModel, counts: ClickCounts) -> PageChances:
    """The same for a model that needs whole pages, at the expected parameters: (lists, depth)."""
    lists = lists_of(fitted, counts)
    alpha, beta = relevance_before(fitted, counts)
    mean = alpha / (alpha + beta)
    stay = going_on_by(fitted, fitted.parameters, lists, satisfaction_before(fitted, counts))
    relevance = np.where(lists.shown, mean[lists.pair], 0.0)
    return PageChances(
        still_reading(lists, mean, stay) * relevance,
        reading_on_average(lists, mean, stay) * relevance,
    )


def _recursion(
    fitted: FittedModel, counts: ClickCounts, pages: ShownPages
) -> tuple[np.ndarray, np.ndarray]:
    """(pages, depth) whether the model knows the position, and the marginal probability there."""
    draws = parameter_draws(fitted)
    states = fitted.clicks.states(fitted.contexts)
    emission = emission_by(fitted, draws, np.arange(len(fitted.contexts)))
    given, index = counts.given
    place = given_contexts_of(fitted, given)[index]  # (contexts,)
    slots = np.where(pages.shown, place[counts.context[pages.entry]], -1)
    pair = counts.pair[pages.entry]
    size = max(MOST_AT_ONCE // (len(draws) * states.context.shape[1]), 1)
    marginal = np.zeros(slots.shape)
    order = np.argsort(pair[:, 0], kind="stable")  # pages of a query share their items
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        own, item = np.unique(pair[rows], return_inverse=True)
        relevance = _relevance(fitted, draws, counts.subset(own))
        at = relevance[:, item.reshape(len(rows), -1)]
        marginal[rows] = click_chances(states, emission, slots[rows], at).mean(axis=0)
    return slots >= 0, marginal


def _relevance(fitted: FittedModel, draws: Sequence[Parameters], counts: ClickCounts) -> np.ndarray:
    """(draws, pairs) expected relevance; of items known by their clicks the same in all draws."""
    alpha, beta = relevance_of_pairs(fitted, networks_of(draws), counts)
    mean = with_known_items(fitted, counts, alpha / (alpha + beta))
    return np.broadcast_to(mean, (len(draws), len(counts)))
