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


def _by_layout(slots: np.ndarray) -> Iterator[tuple[np.ndarray | slice, np.ndarray]]:
    """Pages grouped by their given contexts, (depth,): there are few distinct layouts."""
    if not len(slots):
        return
    if np.all(slots == slots[0]):
        yield slice(None), slots[0]
        return
    layouts, layout = np.unique(slots, axis=0, return_inverse=True)
    layout = layout.reshape(-1)
    for i, own in enumerate(layouts):
        yield np.flatnonzero(layout == i), own


ByState = dict[int, np.ndarray]
"""(draws, pages) of each state that can be reached."""


class _Pages:
    """Pages with the same layout, under several draws of the parameters.

    Only states that can be reached are followed: of those of a UBM, half.
    """

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

    def forward(self) -> tuple[list[ByState], np.ndarray]:
        """Probability of each state before every slot, and of a click, (draws, pages, depth)."""
        at: ByState = {self.states.start: np.ones(self.relevance.shape[:2])}
        before, chances = [], np.zeros(self.relevance.shape)
        for k, given in enumerate(self.slots):
            before.append(at)
            if given < 0:
                continue
            zeta, stay, after = self._relevance(k), self._stay(k), ByState()
            every = np.zeros_like(zeta)
            for state, here in at.items():
                clicked = here * self._chance(k, state, zeta)
                skipped = here - clicked
                every += clicked
                if stay is not None:  # who stops leaves the page
                    clicked *= stay
                _add(after, int(self.states.clicked[given, state]), clicked)
                _add(after, int(self.states.skipped[given, state]), skipped)
            chances[..., k] = every
            at = after
        return before, chances

    def backward(self, before: list[ByState], weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of each page's value in relevance, and in going on: (draws, pages, depth)."""
        slope, by_stay = np.zeros(self.relevance.shape), np.zeros(self.relevance.shape)
        following: ByState = {}  # value from the next slot on; 0 past the last
        nothing = np.zeros(self.relevance.shape[:2])
        for k in reversed(range(len(before))):
            given = self.slots[k]
            if given < 0:
                continue
            zeta, stay = self._relevance(k), self._stay(k)
            own, here = np.ascontiguousarray(weight[..., k]), ByState()
            in_relevance, in_stay = np.zeros_like(zeta), np.zeros_like(zeta)
            for state, reached in before[k].items():
                chance = self._chance(k, state, zeta)
                after = following.get(int(self.states.clicked[given, state]), nothing)
                by_skip = following.get(int(self.states.skipped[given, state]), nothing)
                if stay is not None:
                    in_stay += reached * chance * after
                    after = stay * after
                gain = own + after
                gain -= by_skip
                a, b = self._emitted(k, state)
                in_relevance += reached * ((a - b) * gain)
                gain *= chance
                gain += by_skip
                here[state] = gain
            slope[..., k], by_stay[..., k] = in_relevance, in_stay
            following = here
        return slope, by_stay

    def _relevance(self, k: int) -> np.ndarray:
        """(draws, pages) of the items in a slot."""
        return np.ascontiguousarray(self.relevance[..., k])

    def _stay(self, k: int) -> np.ndarray | None:
        """(draws, pages) probability of reading on after a click in a slot; None for 1."""
        return None if self.going_on is None else np.ascontiguousarray(self.going_on[..., k])

    def _emitted(self, k: int, state: int) -> tuple[np.ndarray | float, np.ndarray | float]:
        """A and B in a state of a slot, (draws, 1); 0 in an impossible state."""
        context = self.states.context[self.slots[k], state]
        if context < 0:
            return 0.0, 0.0
        a, _, b, _ = self.emission
        return a[:, [context]], 0.0 if b is None else b[:, [context]]

    def _chance(self, k: int, state: int, relevance: np.ndarray) -> np.ndarray:
        """Probability of a click in a state of a slot, (draws, pages)."""
        a, b = self._emitted(k, state)
        return (a - b) * relevance + b if np.any(b) else a * relevance


def _add(values: ByState, state: int, more: np.ndarray) -> None:
    """Add to the value of a state, which may have none so far."""
    values[state] = values[state] + more if state in values else more
