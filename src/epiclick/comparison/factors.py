r"""How much each item's relevance adds to rankers' values, under every draw of the parameters.

Where clicks on a page do not depend on those above, values are linear in relevance,
V = sum_i c_i zeta_i + const. Where they do, a page's clicks follow from a recursion over its
history. They are multilinear in the relevances of its items: given the parameters, the mean of a
value is the recursion at the items' means, and its derivative there takes the place of c_i. This is
exact for means, and correct to first order for variances.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from scipy import sparse

from epiclick.click_models.click_model import Emission, PageStates
from epiclick.click_models.recursion import click_chances, value_and_slope
from epiclick.comparison.slots import Measure, Slots

BLOCK_SIZE = 2**18
"""Numbers per array that is worked on at once: as many as fit in a processor's cache."""

Moments = Iterable[tuple[np.ndarray, np.ndarray]]
"""Mean and variance of relevance, (draws, items) each, in chunks of items."""


class Part(NamedTuple):
    """A chunk of items, with what they add to the values; outputs are measures x rankers.

    Attributes:
        items: (items,) their numbers.
        factors: (draws, outputs, items) derivative of each value in their relevance.
        mean: (draws, items) of relevance.
        variance: (draws, items).
        expected: (draws, outputs) what they add to the expected values.
        by_clicks: the same with relevance at its mean over the draws.
    """

    items: np.ndarray
    factors: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    expected: np.ndarray
    by_clicks: np.ndarray


class Factors(Protocol):
    """What sampling needs to know about how values depend on relevance."""

    @property
    def outputs(self) -> int:
        """Measures x rankers."""
        ...

    def typical(self) -> np.ndarray:
        """(items, outputs) factors at the mean of the parameters, to find the largest."""
        ...

    def same(self) -> np.ndarray:
        """(outputs,) the first output with identical slots; for most, their own number."""
        ...

    def parts(self, moments: Moments) -> Iterator[Part]:
        """All items, chunk by chunk."""
        ...


class GoingOn(NamedTuple):
    """Whether users go on after a click, by the context or by the item.

    Attributes:
        by_context: (draws, given contexts) probability of going on after a click there, or None.
        satisfaction: otherwise, mean and variance of the probability that a click on an item
            satisfies, so that the user stops, in chunks as for relevance.
    """

    by_context: np.ndarray | None = None
    satisfaction: Moments | None = None


def factors_of(
    slots: Slots,
    item: np.ndarray,
    measures: Sequence[Measure],
    items: int,
    states: PageStates,
    emission: Emission,
    going_on: GoingOn | None = None,
) -> Factors:
    """Factors of slots with item numbers (slots,); emission is (draws, contexts)."""
    matrix = _weights(slots, item, measures, items, len(states.context))
    if states.context.shape[1] == 1 and going_on is None:
        return Linear(matrix, emission.at(states.context[:, 0]), len(measures) * _rankers(slots))
    return Chained(matrix, slots, item, tuple(measures), items, states, emission, going_on)


def _rankers(slots: Slots) -> int:
    return int(slots.ranker.max()) + 1


def _weights(
    slots: Slots, item: np.ndarray, measures: Sequence[Measure], items: int, given: int
) -> sparse.csr_array:
    """(items x outputs, given contexts + 1) weights of slots; the last column is without bias."""
    rankers = _rankers(slots)
    outputs = len(measures) * rankers
    rows, columns, weights = [], [], []
    for number, measure in enumerate(measures):
        rows.append(item * outputs + number * rankers + slots.ranker)
        columns.append(slots.given if measure.biased else np.full(len(item), given))
        weights.append(measure.weight(slots))
    where = (np.concatenate(rows), np.concatenate(columns))
    return sparse.csr_array((np.concatenate(weights), where), shape=(items * outputs, given + 1))


def _same(matrix: sparse.csr_array, outputs: int) -> np.ndarray:
    first: dict[tuple[bytes, ...], int] = {}
    found = []
    for output in range(outputs):
        own = matrix[output::outputs]
        key = tuple(part.tobytes() for part in (own.indptr, own.indices, own.data))
        found.append(first.setdefault(key, output))
    return np.array(found)


@dataclass(frozen=True, eq=False)
class Linear:
    """Values that are linear in relevance.

    Attributes:
        matrix: weights of slots; see `_weights`.
        emission: (draws, given contexts) each.
        outputs: measures x rankers.
    """

    matrix: sparse.csr_array
    emission: Emission
    outputs: int

    def typical(self) -> np.ndarray:
        """(items, outputs) factors at the mean of the parameters."""
        return (self.matrix @ self._slope.mean(axis=0)).reshape(-1, self.outputs)

    def same(self) -> np.ndarray:
        """(outputs,) the first output with identical slots."""
        return _same(self.matrix, self.outputs)

    def parts(self, moments: Moments) -> Iterator[Part]:
        """All items, chunk by chunk."""
        start = 0
        for mean, variance in moments:
            stop = start + mean.shape[1]
            rows = self.matrix[start * self.outputs : stop * self.outputs]
            factors = self._by_draw(rows @ self._slope.T)
            expected = (factors @ mean[:, :, None])[:, :, 0]
            by_clicks = factors @ mean.mean(axis=0)
            if self.emission.unattractive is not None:  # clicks on items that do not attract
                always = np.column_stack([self.emission.unattractive, np.zeros(len(expected))])
                more = self._by_draw(rows @ always.T).sum(axis=2)
                expected, by_clicks = expected + more, by_clicks + more
            items = np.arange(start, stop)
            start = stop
            yield Part(items, factors, mean, variance, expected, by_clicks)

    @cached_property
    def _slope(self) -> np.ndarray:
        """(draws, given contexts + 1) derivative of a click in relevance; 1 without bias."""
        a, _, b, _ = self.emission
        return np.column_stack([a if b is None else a - b, np.ones(len(a))])

    def _by_draw(self, found: np.ndarray) -> np.ndarray:
        """(draws, outputs, items) of (items x outputs, draws)."""
        by_item = found.reshape(-1, self.outputs, found.shape[1])
        return np.ascontiguousarray(by_item.transpose(2, 1, 0))


@dataclass(frozen=True, eq=False)
class Chained:
    """Values of pages whose clicks depend on each other.

    Means and variances of all items are kept, in float32; the rest is done query by query, as no
    item belongs to two of them.

    Attributes:
        matrix: weights of slots; see `_weights`.
        slots: of all rankers.
        item: (slots,) the item in each.
        measures: how rankers are valued.
        items: number of items.
        states: how a page's history evolves.
        emission: (draws, contexts) each.
        going_on: whether users go on after a click; None if always. Satisfaction adds as many
            items again, numbered after the others.
    """

    matrix: sparse.csr_array
    slots: Slots
    item: np.ndarray
    measures: tuple[Measure, ...]
    items: int
    states: PageStates
    emission: Emission
    going_on: GoingOn | None = None

    @property
    def outputs(self) -> int:
        """Measures x rankers."""
        return len(self.measures) * _rankers(self.slots)

    def typical(self) -> np.ndarray:
        """(items, outputs) factors at the mean of the parameters and a relevance of one half."""
        mean = Emission(*(None if p is None else p.mean(axis=0)[None] for p in self.emission))
        half = np.full((1, self.items), 0.5)
        context, satisfied = self._going_on(1)
        if context is not None:
            context = context.mean(axis=0, keepdims=True)
        kinds = 1 if satisfied is None else 2
        found = np.zeros((kinds * self.items, self.outputs))
        for pages in self._blocks(1):
            own = self._of(pages, mean, half, context, satisfied)
            found[own.items] = own.factors[0].T
            if own.by_satisfaction is not None:
                found[self.items + own.items] = own.by_satisfaction[0].T
        return found

    def _going_on(self, draws: int) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Probability of going on by context; or a satisfaction of one half, (draws, items)."""
        if self.going_on is None or self.going_on.by_context is not None:
            return None if self.going_on is None else self.going_on.by_context, None
        return None, np.full((draws, self.items), 0.5)

    def same(self) -> np.ndarray:
        """(outputs,) the first output with identical slots."""
        return _same(self.matrix, self.outputs)

    def parts(self, moments: Moments) -> Iterator[Part]:
        """All items, in blocks of whole queries."""
        mean, variance = _together(moments)
        centre = np.broadcast_to(mean.mean(axis=0, keepdims=True, dtype=np.float64), mean.shape)
        context, satisfied = self._going_on(len(mean))
        spread = typical = None
        if satisfied is not None:
            assert self.going_on is not None
            assert self.going_on.satisfaction is not None
            satisfied, spread = _together(self.going_on.satisfaction)
            average = satisfied.mean(axis=0, keepdims=True, dtype=np.float64)
            typical = np.broadcast_to(average, satisfied.shape)
        for pages in self._blocks(len(mean)):
            found = self._of(pages, self.emission, mean, context, satisfied)
            fixed = self._of(pages, self.emission, centre, context, typical, slopes=False)
            items = found.items
            own_mean, own_variance = (
                each[:, items].astype(np.float64) for each in (mean, variance)
            )
            yield Part(items, found.factors, own_mean, own_variance, found.expected, fixed.expected)
            if found.by_satisfaction is not None:
                assert satisfied is not None
                assert spread is not None
                nothing = np.zeros_like(found.expected)  # it is in the expected values above
                own_mean, own_variance = (
                    each[:, items].astype(np.float64) for each in (satisfied, spread)
                )
                own = (found.by_satisfaction, own_mean, own_variance)
                yield Part(self.items + items, *own, nothing, nothing)

    def _of(
        self,
        pages: np.ndarray,
        emission: Emission,
        relevance: np.ndarray,
        by_context: np.ndarray | None,
        satisfied: np.ndarray | None,
        *,
        slopes: bool = True,
    ) -> "_PagesOf":
        """Items of some pages, their factors (if `slopes`), and the expected values of the pages.

        Args:
            pages: numbers of the lists.
            emission: (draws, contexts) each.
            relevance: (draws, items).
            by_context: (draws, given contexts) probability of going on after a click, or None.
            satisfied: (draws, items) probability that a click satisfies, or None.
            slopes: whether factors are wanted.
        """
        at = self._slot[pages]  # (pages, depth)
        shown = at >= 0
        at = np.where(shown, at, 0)
        items, place = np.unique(self.item[at[shown]], return_inverse=True)
        index = np.zeros(at.shape, int)
        index[shown] = place
        zeta = relevance[:, items][:, index].astype(np.float64)  # (draws, pages, depth)
        given = np.where(shown, self.slots.given[at], -1)
        stay = None
        if by_context is not None:
            stay = np.broadcast_to(by_context[:, np.maximum(given, 0)], zeta.shape)
        elif satisfied is not None:
            stay = 1 - satisfied[:, items][:, index].astype(np.float64)
        ranker, rankers = self.slots.ranker[at[:, 0]], _rankers(self.slots)
        draws = len(zeta)
        factors = np.zeros((draws, self.outputs, len(items)))
        by_satisfaction = None if satisfied is None else np.zeros_like(factors)
        expected = np.zeros((draws, self.outputs))
        for number, measure in enumerate(self.measures):
            weight = np.where(shown, measure.weight(self.slots)[at], 0)
            by_stay = None
            if measure.biased and slopes:
                value, slope, by_stay = value_and_slope(
                    self.states, emission, given, zeta, weight, stay
                )
            elif measure.biased:
                chances = click_chances(self.states, emission, given, zeta, stay)
                value, slope = (chances * weight).sum(axis=2), np.zeros(zeta.shape)
            else:
                slope = np.broadcast_to(weight, zeta.shape)
                value = (weight * zeta).sum(axis=2)
            for r in range(rankers):
                own, output = ranker == r, number * rankers + r
                expected[:, output] = value[:, own].sum(axis=1)
                if not slopes:
                    continue
                page, place_on = np.nonzero(own[:, None] & shown)
                by_slot = sparse.csr_array(
                    (np.ones(len(page)), (np.arange(len(page)), index[page, place_on])),
                    shape=(len(page), len(items)),
                )
                factors[:, output] = slope[:, page, place_on] @ by_slot
                if by_satisfaction is not None and by_stay is not None:
                    by_satisfaction[:, output] = -by_stay[:, page, place_on] @ by_slot
        return _PagesOf(items, factors, expected, by_satisfaction)

    @cached_property
    def _slot(self) -> np.ndarray:
        """(pages, depth) slot at each place of every list, in order; -1 past its end."""
        _, first, length = np.unique(self.slots.page, return_index=True, return_counts=True)
        place = np.arange(length.max())
        return np.where(place < length[:, None], first[:, None] + place, -1)

    @cached_property
    def _query(self) -> np.ndarray:
        """(pages,) number of the query of each list."""
        code = self.slots.query_id.dictionary_encode().indices.to_numpy()
        return code[self._slot[:, 0]]

    def _blocks(self, draws: int) -> Iterator[np.ndarray]:
        """Lists in blocks of whole queries, each small enough to be worked on at once."""
        order = np.argsort(self._query, kind="stable")
        query = self._query[order]
        per_page = draws * self._slot.shape[1] * self.states.context.shape[1]
        most = max(BLOCK_SIZE // max(per_page, 1), 1)
        start = 0
        while start < len(order):
            stop = min(start + most, len(order))
            if stop < len(order):  # up to the end of a query
                stop = int(np.searchsorted(query, query[stop], side="left"))
                if stop <= start:
                    stop = int(np.searchsorted(query, query[start], side="right"))
            yield order[start:stop]
            start = stop


class _PagesOf(NamedTuple):
    """What some pages add.

    Attributes:
        items: (items,) their numbers.
        factors: (draws, outputs, items) derivatives of values in relevance.
        expected: (draws, outputs) values.
        by_satisfaction: (draws, outputs, items) derivatives in satisfaction, where there is one.
    """

    items: np.ndarray
    factors: np.ndarray
    expected: np.ndarray
    by_satisfaction: np.ndarray | None


def _together(moments: Moments) -> tuple[np.ndarray, np.ndarray]:
    """All means and variances, (draws, items) float32 each."""
    chunks = [[each.astype(np.float32) for each in pair] for pair in moments]
    mean, variance = (np.concatenate([pair[i] for pair in chunks], axis=1) for i in (0, 1))
    return mean, variance
