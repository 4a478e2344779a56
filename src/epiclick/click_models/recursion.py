r"""Clicks on whole pages under a click model, from its emissions and its page states.

With p_s(k) the probability of state s before slot k, and q_s(k) that of a click there in state s,

.. math:: q_s(k) = A_c \zeta_k + B_c (1 - \zeta_k), \quad c = \text{context}(k, s), \qquad
          P(\text{click at } k) = \sum_s p_s(k)\, q_s(k),

and the next state depends on whether there was a click. Every probability is multilinear in the
items' relevances: given the parameters, expectations over independent relevances equal the values
at their means. The value of a page, the sum of its clicks weighted by w, has the derivative

.. math:: \frac{\partial V}{\partial \zeta_k} = \sum_s p_s(k)\, (A_c - B_c)
          \big(w_k + U_{k+1}(\text{clicked}) - U_{k+1}(\text{skipped})\big),

with U_k(s) the value from slot k on in state s, computed from the bottom up.

Where users may stop after a click, they go on with probability c_k, which is that of the position
or of the item: in place of U(clicked) stands c_k U(clicked), as a page is worth nothing more to who
has stopped. Values are multilinear in all c_k and zeta_k, and

.. math:: \frac{\partial V}{\partial c_k} = \sum_s p_s(k)\, q_s(k)\, U_{k+1}(\text{clicked}).
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from epiclick.click_models.click_model import Emission, PageStates


def click_chances(
    states: PageStates,
    emission: Emission,
    slots: np.ndarray,
    relevance: np.ndarray,
    going_on: np.ndarray | None = None,
) -> np.ndarray:
    """Marginal probability of a click at each slot: (draws, pages, depth).

    Args:
        states: transitions within a page.
        emission: (draws, contexts) each.
        slots: (pages, depth) given context of each slot; -1 for slots that a page lacks.
        relevance: (draws, pages, depth) of the item in each slot.
        going_on: (draws, pages, depth) probability of reading on after a click there; None for 1.
    """
    chances = np.zeros(relevance.shape)
    for rows, own in _by_layout(slots):
        stay = None if going_on is None else going_on[:, rows]
        chances[:, rows] = _Pages(states, emission, own, relevance[:, rows], stay).forward()[1]
    return chances


class PageValues(NamedTuple):
    """Values of pages and their derivatives.

    Attributes:
        value: (draws, pages).
        slope: (draws, pages, depth) in each relevance.
        chances: (draws, pages, depth) probability of a click at each slot.
        by_going_on: (draws, pages, depth) in each probability of going on; None where it is 1.
    """

    value: np.ndarray
    slope: np.ndarray
    chances: np.ndarray
    by_going_on: np.ndarray | None = None


def value_and_slope(
    states: PageStates,
    emission: Emission,
    slots: np.ndarray,
    relevance: np.ndarray,
    weight: np.ndarray,
    going_on: np.ndarray | None = None,
) -> PageValues:
    """Value of each page, and its derivatives.

    Args:
        states: transitions within a page.
        emission: (draws, contexts) each.
        slots: (pages, depth) given context of each slot; -1 for slots that a page lacks.
        relevance: (draws, pages, depth) of the item in each slot.
        weight: (pages, depth) of a click in each slot, or (draws, pages, depth).
        going_on: (draws, pages, depth) probability of reading on after a click there; None for 1.
    """
    value, slope = np.zeros(relevance.shape[:2]), np.zeros(relevance.shape)
    weight, every = np.broadcast_to(weight, relevance.shape), np.zeros(relevance.shape)
    by_stay = None if going_on is None else np.zeros(relevance.shape)
    for rows, own in _by_layout(slots):
        stay = None if going_on is None else going_on[:, rows]
        pages = _Pages(states, emission, own, relevance[:, rows], stay)
        before, chances = pages.forward()
        value[:, rows] = (chances * weight[:, rows]).sum(axis=2)
        every[:, rows] = chances
        slope[:, rows], found = pages.backward(before, weight[:, rows])
        if by_stay is not None:
            by_stay[:, rows] = found
    return PageValues(value, slope, every, by_stay)


def draw_clicks(
    states: PageStates,
    emission: Emission,
    slots: np.ndarray,
    relevance: np.ndarray,
    rng: np.random.Generator,
    going_on: np.ndarray | None = None,
) -> np.ndarray:
    """Sampled clicks, (pages, depth) bool; emission (contexts,), others (pages, depth)."""
    clicks, uniform = np.zeros(slots.shape, bool), rng.random(slots.shape)
    stops = None if going_on is None else rng.random(slots.shape) >= going_on
    state, reading = np.full(len(slots), states.start), np.ones(len(slots), bool)
    for k in range(slots.shape[1]):
        shown = slots[:, k] >= 0
        given = np.where(shown, slots[:, k], 0)
        chance = emission.at(states.context[given, state]).click_probability(relevance[:, k])
        clicks[:, k] = (uniform[:, k] < chance) & shown & reading
        after = np.where(clicks[:, k], states.clicked[given, state], states.skipped[given, state])
        state = np.where(shown, after, state)
        if stops is not None:
            reading &= ~(clicks[:, k] & stops[:, k])
    return clicks


def contexts_of_clicks(states: PageStates, slots: np.ndarray, clicks: np.ndarray) -> np.ndarray:
    """Context of each display of pages with known clicks, (pages, depth); -1 without a display.

    What `ClickModel.history_columns` reads off a log, for pages in memory.
    """
    context = np.full(slots.shape, -1)
    state = np.full(len(slots), states.start)
    for k in range(slots.shape[1]):
        shown = slots[:, k] >= 0
        given = np.where(shown, slots[:, k], 0)
        context[:, k] = np.where(shown, states.context[given, state], -1)
        after = np.where(
            clicks[:, k] > 0, states.clicked[given, state], states.skipped[given, state]
        )
        state = np.where(shown, after, state)
    return context


def _by_layout(slots: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pages grouped by their given contexts, (depth,): there are few distinct layouts."""
    if not len(slots):
        return
    layouts, layout = np.unique(slots, axis=0, return_inverse=True)
    layout = layout.reshape(-1)
    for i, own in enumerate(layouts):
        yield np.flatnonzero(layout == i), own


class _Pages:
    """Pages with the same layout, under several draws of the parameters."""

    def __init__(
        self,
        states: PageStates,
        emission: Emission,
        slots: np.ndarray,
        relevance: np.ndarray,
        going_on: np.ndarray | None,
    ) -> None:
        """`slots` is (depth,), `relevance` and `going_on` are (draws, pages, depth)."""
        self.states, self.emission = states, emission
        self.slots, self.relevance, self.going_on = slots, relevance, going_on

    def forward(self) -> tuple[list[np.ndarray], np.ndarray]:
        """Probability of each state before every slot, (draws, pages, states), and of a click."""
        draws, pages, depth = self.relevance.shape
        at = np.zeros((draws, pages, self.states.context.shape[1]))
        at[..., self.states.start] = 1
        before, chances = [], np.zeros((draws, pages, depth))
        for k in range(depth):
            before.append(at)
            if self.slots[k] < 0:
                continue
            clicked = at * self._chance(k)
            chances[..., k] = clicked.sum(axis=2)
            after_click, after_skip = self._moves(k)
            skipped = (at - clicked) @ after_skip
            if self.going_on is None:
                at = clicked @ after_click + skipped
            else:  # who stops leaves the page
                at = (self.going_on[..., k, None] * clicked) @ after_click + skipped
        return before, chances

    def backward(
        self, before: list[np.ndarray], weight: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of each page's value in relevance, and in going on: (draws, pages, depth)."""
        slope, by_stay = np.zeros(self.relevance.shape), np.zeros(self.relevance.shape)
        following = np.zeros_like(before[0])
        for k in reversed(range(len(before))):
            if self.slots[k] < 0:
                continue
            after_click, after_skip = self._moves(k)
            own = weight[:, :, k, None]
            after, by_skip = following @ after_click.T, following @ after_skip.T
            chance = self._chance(k)
            by_stay[..., k] = (before[k] * chance * after).sum(axis=2)
            if self.going_on is not None:
                after = self.going_on[..., k, None] * after
            by_click = own + after
            a, b = self._emitted(k)
            slope[..., k] = (before[k] * (a - b) * (by_click - by_skip)).sum(axis=2)
            following = chance * by_click + (1 - chance) * by_skip
        return slope, by_stay

    def _emitted(self, k: int) -> tuple[np.ndarray, np.ndarray | float]:
        """A and B in every state of a slot, (draws, 1, states); 0 in impossible states."""
        context = self.states.context[self.slots[k]]
        possible = context >= 0
        a, _, b, _ = self.emission.at(np.where(possible, context, 0))
        attractive = np.where(possible, a, 0)[:, None]
        return attractive, 0.0 if b is None else np.where(possible, b, 0)[:, None]

    def _chance(self, k: int) -> np.ndarray:
        """Probability of a click in every state, (draws, pages, states)."""
        a, b = self._emitted(k)
        relevance = self.relevance[..., k, None]
        return a * relevance + b * (1 - relevance)

    def _moves(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """(states, states) transition matrices, with and without a click."""
        every = np.eye(self.states.context.shape[1])
        given = self.slots[k]
        return every[self.states.clicked[given]], every[self.states.skipped[given]]
