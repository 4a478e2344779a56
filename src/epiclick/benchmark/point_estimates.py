"""Point estimates of click models, and the probabilities of clicks that follow from them."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from epiclick.benchmark.page_data import PageLog
from epiclick.click_models.click_model import ClickModel, Emission, PageStates
from epiclick.click_models.recursion import click_chances
from epiclick.evaluation.page_chances import PageChances
from epiclick.reading.pages import reading_on_average, still_reading

PSEUDO = 1.0
"""One pseudo-click and one pseudo-skip, as in PyClick; so that no estimate is 0 or 1."""


def share(successes: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """Share of successes, with one pseudo-success and one pseudo-failure."""
    return (successes + PSEUDO) / (trials + 2 * PSEUDO)


class PointEstimates(Protocol):
    """What is learned from training pages."""

    @property
    def relevance(self) -> np.ndarray:
        """(pairs,)."""
        ...

    def chances(self, pages: PageLog) -> PageChances:
        """Probability of a click at each display of some pages."""
        ...


@dataclass(frozen=True, eq=False)
class ExaminationEstimates:
    """Of a model whose contexts can be read off a page.

    Attributes:
        relevance: (pairs,) attraction.
        emission: (contexts,) of the contexts of `page_states`.
        states: transitions within a page.
    """

    relevance: np.ndarray
    emission: Emission
    states: PageStates

    def chances(self, pages: PageLog) -> PageChances:
        """Given the clicks above by the context they lead to; marginal ones by recursion."""
        zeta = np.where(pages.shown, self.relevance[pages.pair], 0.0)
        context = contexts_on(pages, self.states)
        given = self.emission.at(context).click_probability(zeta)
        one = Emission(*(None if part is None else part[None] for part in self.emission))
        slots = np.where(pages.shown, pages.place, -1)
        marginal = click_chances(self.states, one, slots, zeta[None])[0]
        return PageChances(np.where(pages.shown, given, 0.0), marginal)


@dataclass(frozen=True, eq=False)
class ReadingEstimates:
    """Of a model whose users read from the top and may stop after a click.

    Attributes:
        relevance: (pairs,) attraction.
        going_on: probability of going on after a click: (positions,), or (pairs,) if `by_item`.
        by_item: whether it depends on the item, not on the position.
    """

    relevance: np.ndarray
    going_on: np.ndarray
    by_item: bool

    def chances(self, pages: PageLog) -> PageChances:
        """By the recursions over who still reads."""
        lists, zeta = pages.to_lists(), np.where(pages.shown, self.relevance[pages.pair], 0.0)
        stay = self.going_on[pages.pair if self.by_item else pages.place]
        return PageChances(
            still_reading(lists, self.relevance, stay) * zeta,
            reading_on_average(lists, self.relevance, stay) * zeta,
        )


def page_states(model: ClickModel, depth: int) -> tuple[PageStates, int]:
    """Transitions of a model on pages of this depth, and the number of its contexts."""
    contexts, _ = model.world(np.ones(depth))
    return model.states(contexts), len(contexts)


def contexts_on(pages: PageLog, states: PageStates) -> np.ndarray:
    """(pages, depth) context of each display, which the clicks above it lead to."""
    found = np.zeros(pages.pair.shape, np.int64)
    state = np.full(len(pages), states.start)
    for k in range(pages.depth):
        found[:, k] = states.context[k, state]
        state = np.where(pages.clicked[:, k], states.clicked[k, state], states.skipped[k, state])
    return found
