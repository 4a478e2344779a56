r"""How much each item's relevance adds to rankers' values, under every draw of the parameters.

Where clicks on a page do not depend on those above, values are linear in relevance,
V = sum_i c_i zeta_i + const. Where they do, a page's clicks follow from a recursion over its
history. They are multilinear in the relevances of its items: given the parameters, the mean of a
value is the recursion at the items' means, and its derivative there takes the place of c_i. This is
exact for means, and correct to first order for variances.

Some measures count a click by what it is worth, h_i of its item: the probability of a conversion,
or its expected value. Values are then sums of c_i zeta_i h_i, and the h_i are a further kind of
item with factors of their own. The variance of a product of independent factors,

.. math:: \operatorname{Var}(\zeta h) = \bar h^2 \operatorname{Var} \zeta
          + \bar\zeta^2 \operatorname{Var} h + \operatorname{Var} \zeta \operatorname{Var} h,

has a third part, which is a kind of its own, too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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

    @property
    def kinds(self) -> int:
        """Kinds of items, each as many as there are items, numbered one after the other."""
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
    worth: Mapping[str, Moments] | None = None,
) -> Factors:
    """Factors of slots with item numbers (slots,); emission is (draws, contexts).

    `worth` has mean and variance of what a click on each item counts, for measures that need it.
    """
    matrix = _weights(slots, item, measures, items, len(states.context))
    worth = {} if worth is None else worth
    own = tuple(measures)
    if states.context.shape[1] == 1 and going_on is None:
        at_given = emission.at(states.context[:, 0])
        return Linear(matrix, at_given, len(measures) * _rankers(slots), items, own, worth)
    return Chained(matrix, slots, item, own, items, states, emission, going_on, worth)


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


def _same(matrix: sparse.csr_array, outputs: int, measures: Sequence[Measure]) -> np.ndarray:
    first: dict[tuple[str | bytes, ...], int] = {}
    found = []
    for output in range(outputs):
        own, worth = matrix[output::outputs], _by_output(measures, outputs)[output]
        key = (worth, *(part.tobytes() for part in (own.indptr, own.indices, own.data)))
        found.append(first.setdefault(key, output))
    return np.array(found)


def _by_output(measures: Sequence[Measure], outputs: int) -> list[str]:
    """What a click counts under each output; "" for 1."""
    return [measure.worth for measure in measures for _ in range(outputs // len(measures))]


class _Chunks:
    """Moments taken in chunks of other sizes than they come in."""

    def __init__(self, moments: Moments) -> None:
        self._more = iter(moments)
        self._left: tuple[np.ndarray, np.ndarray] | None = None

    def take(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the next items, (draws, size) each."""
        parts = [] if self._left is None else [self._left]
        while sum(mean.shape[1] for mean, _ in parts) < size:
            parts.append(next(self._more))
        mean, variance = (np.concatenate([part[i] for part in parts], axis=1) for i in (0, 1))
        self._left = (mean[:, size:], variance[:, size:])
        return mean[:, :size], variance[:, :size]


@dataclass(frozen=True, eq=False)
class Linear:
    """Values that are linear in relevance.

    Attributes:
        matrix: weights of slots; see `_weights`.
        emission: (draws, given contexts) each.
        outputs: measures x rankers.
        items: number of items.
        measures: how rankers are valued.
        worth: what clicks on items count, by name.
    """

    matrix: sparse.csr_array
    emission: Emission
    outputs: int
    items: int
    measures: tuple[Measure, ...]
    worth: Mapping[str, Moments]

    @property
    def kinds(self) -> int:
        """Relevance, and for every worth itself and its product with relevance."""
        return 1 + 2 * len(self.worth)

    def typical(self) -> np.ndarray:
        """(items, outputs) factors at the mean of the parameters, and one half of a worth."""
        own = (self.matrix @ self._slope.mean(axis=0)).reshape(-1, self.outputs)
        found = [own]
        for name in self.worth:
            found += [np.where(self._counts(name), 0.5 * own, 0.0), np.zeros_like(own)]
        return np.concatenate(found)

    def same(self) -> np.ndarray:
        """(outputs,) the first output with identical slots."""
        return _same(self.matrix, self.outputs, self.measures)

    def parts(self, moments: Moments) -> Iterator[Part]:
        """All items, chunk by chunk."""
        start, worth = 0, {name: _Chunks(each) for name, each in self.worth.items()}
        for mean, variance in moments:
            stop = start + mean.shape[1]
            rows = self.matrix[start * self.outputs : stop * self.outputs]
            slope = self._by_draw(rows @ self._slope.T)  # (draws, outputs, items)
            floor: np.ndarray | None = None  # clicks on items that do not attract
            if self.emission.unattractive is not None:
                always = np.column_stack([self.emission.unattractive, np.zeros(len(slope))])
                floor = self._by_draw(rows @ always.T)
            known = {name: each.take(stop - start) for name, each in worth.items()}
            counts = {name: each for name, (each, _) in known.items()}
            usual = {name: each.mean(axis=0, keepdims=True) for name, each in counts.items()}
            factors = self._counted(slope, counts)
            expected = (factors @ mean[:, :, None])[:, :, 0]
            by_clicks = self._counted(slope, usual) @ mean.mean(axis=0)
            if floor is not None:
                expected = expected + self._counted(floor, counts).sum(axis=2)
                by_clicks = by_clicks + self._counted(floor, usual).sum(axis=2)
            items = np.arange(start, stop)
            start = stop
            yield Part(items, factors, mean, variance, expected, by_clicks)
            for number, (name, (its, spread)) in enumerate(known.items()):
                own, first = self._counts(name)[:, None], items + (1 + 2 * number) * self.items
                clicks = slope * mean[:, None] + (0.0 if floor is None else floor)
                yield _further(first, np.where(own, clicks, 0.0), its, spread)
                both = np.where(own, slope, 0.0)
                yield _further(first + self.items, both, np.zeros_like(mean), variance * spread)

    def _counted(self, of_clicks: np.ndarray, worth: Mapping[str, np.ndarray]) -> np.ndarray:
        """(draws, outputs, items) numbers of clicks times what they count, (draws, items)."""
        for name, its in worth.items():
            of_clicks = np.where(self._counts(name)[:, None], of_clicks * its[:, None], of_clicks)
        return of_clicks

    def _counts(self, name: str) -> np.ndarray:
        """(outputs,) whether clicks count this worth."""
        return np.array([each == name for each in _by_output(self.measures, self.outputs)])

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
        worth: what clicks on items count, by name.
    """

    matrix: sparse.csr_array
    slots: Slots
    item: np.ndarray
    measures: tuple[Measure, ...]
    items: int
    states: PageStates
    emission: Emission
    going_on: GoingOn | None
    worth: Mapping[str, Moments]

    @property
    def outputs(self) -> int:
        """Measures x rankers."""
        return len(self.measures) * _rankers(self.slots)

    @property
    def kinds(self) -> int:
        """Relevance, satisfaction, and for every worth itself and its product with relevance."""
        satisfied = self.going_on is not None and self.going_on.satisfaction is not None
        return 1 + satisfied + 2 * len(self.worth)

    def typical(self) -> np.ndarray:
        """(items, outputs) factors at the mean of the parameters; all else is one half."""
        mean = Emission(*(None if p is None else p.mean(axis=0)[None] for p in self.emission))
        half = np.full((1, self.items), 0.5)
        context, satisfied = self._going_on(1)
        if context is not None:
            context = context.mean(axis=0, keepdims=True)
        found = np.zeros((self.kinds * self.items, self.outputs))
        for pages in self._blocks(1):
            own = self._of(pages, mean, half, context, satisfied, dict.fromkeys(self.worth, half))
            found[own.items] = own.factors[0].T
            if own.by_satisfaction is not None:
                found[self.items + own.items] = own.by_satisfaction[0].T
            for name, (by_worth, _) in own.by_worth.items():
                found[self._first(name) + own.items] = by_worth[0].T
        return found

    def _first(self, name: str) -> int:
        """Number of the first item of the kind that a worth is; its product follows."""
        number = list(self.worth).index(name)
        return (self.kinds - 2 * (len(self.worth) - number)) * self.items

    def _going_on(self, draws: int) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Probability of going on by context; or a satisfaction of one half, (draws, items)."""
        if self.going_on is None or self.going_on.by_context is not None:
            return None if self.going_on is None else self.going_on.by_context, None
        return None, np.full((draws, self.items), 0.5)

    def same(self) -> np.ndarray:
        """(outputs,) the first output with identical slots."""
        return _same(self.matrix, self.outputs, self.measures)

    def parts(self, moments: Moments) -> Iterator[Part]:
        """All items, in blocks of whole queries."""
        mean, variance = _together(moments)
        centre = _at_mean(mean)
        context, satisfied = self._going_on(len(mean))
        spread = typical = None
        if satisfied is not None:
            assert self.going_on is not None
            assert self.going_on.satisfaction is not None
            satisfied, spread = _together(self.going_on.satisfaction)
            typical = _at_mean(satisfied)
        worth = {name: _together(each) for name, each in self.worth.items()}
        counts = {name: each for name, (each, _) in worth.items()}
        usual = {name: _at_mean(each) for name, each in counts.items()}
        for pages in self._blocks(len(mean)):
            found = self._of(pages, self.emission, mean, context, satisfied, counts)
            fixed = self._of(pages, self.emission, centre, context, typical, usual, slopes=False)
            items = found.items
            own_mean, own_variance = (
                each[:, items].astype(np.float64) for each in (mean, variance)
            )
            yield Part(items, found.factors, own_mean, own_variance, found.expected, fixed.expected)
            if found.by_satisfaction is not None:
                assert satisfied is not None
                assert spread is not None
                own = (each[:, items].astype(np.float64) for each in (satisfied, spread))
                yield _further(self.items + items, found.by_satisfaction, *own)
            for name, (by_worth, by_both) in found.by_worth.items():
                first = self._first(name) + items
                its, away = (each[:, items].astype(np.float64) for each in worth[name])
                yield _further(first, by_worth, its, away)
                nothing = np.zeros_like(own_mean)
                yield _further(first + self.items, by_both, nothing, own_variance * away)

    def _of(
        self,
        pages: np.ndarray,
        emission: Emission,
        relevance: np.ndarray,
        by_context: np.ndarray | None,
        satisfied: np.ndarray | None,
        worth: Mapping[str, np.ndarray],
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
            worth: (draws, items) what clicks count, by name.
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
        by_worth = {name: (np.zeros_like(factors), np.zeros_like(factors)) for name in worth}
        for number, measure in enumerate(self.measures):
            alone = np.where(shown, measure.weight(self.slots)[at], 0)
            weight, by_stay = alone, None
            more: list[tuple[np.ndarray, np.ndarray]] = []  # further factors, by slot
            if measure.worth:
                weight = alone * worth[measure.worth][:, items][:, index].astype(np.float64)
            if measure.biased and slopes:
                value, slope, chances, by_stay = value_and_slope(
                    self.states, emission, given, zeta, weight, stay
                )
                if measure.worth:
                    rise = np.divide(chances, zeta, out=np.zeros(zeta.shape), where=zeta > 0)
                    into = by_worth[measure.worth]
                    more = [(into[0], alone * chances), (into[1], alone * rise)]
                if by_satisfaction is not None and by_stay is not None:
                    more.append((by_satisfaction, -by_stay))
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
                for into_kind, by_place in [(factors, slope), *more]:
                    into_kind[:, output] = by_place[:, page, place_on] @ by_slot
        return _PagesOf(items, factors, expected, by_satisfaction, by_worth)

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
        by_worth: by name of a worth, the same in it, and in its product with relevance.
    """

    items: np.ndarray
    factors: np.ndarray
    expected: np.ndarray
    by_satisfaction: np.ndarray | None
    by_worth: Mapping[str, tuple[np.ndarray, np.ndarray]]


def _further(
    items: np.ndarray, factors: np.ndarray, mean: np.ndarray, variance: np.ndarray
) -> Part:
    """A further kind of items, which the expected values include already."""
    nothing = np.zeros(factors.shape[:2])
    return Part(items, factors, mean, variance, nothing, nothing)


def _at_mean(values: np.ndarray) -> np.ndarray:
    """Values (draws, items) at their mean over the draws."""
    average = values.mean(axis=0, keepdims=True, dtype=np.float64)
    return np.broadcast_to(average, values.shape)


def _together(moments: Moments) -> tuple[np.ndarray, np.ndarray]:
    """All means and variances, (draws, items) float32 each."""
    chunks = [[each.astype(np.float32) for each in pair] for pair in moments]
    mean, variance = (np.concatenate([pair[i] for pair in chunks], axis=1) for i in (0, 1))
    return mean, variance
