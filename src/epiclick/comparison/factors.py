r"""How much each item's relevance adds to rankers' values, under every draw of the parameters.

Where clicks on a page do not depend on those above, values are linear in relevance,
V = sum_i c_i zeta_i + const. Where they do, a page's clicks follow from a recursion over its
history. They are multilinear in the relevances of its items: given the parameters, the mean of a
value is the recursion at the items' means, and its derivative there takes the place of c_i. This is
exact for means. Variances also have a part from products of relevances on a page, which is
uncorrelated with the linear one: it is estimated from a few draws of all relevances. Where users
stop reading, it is a tenth of the variance of a value, and more of that of a difference.

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
from epiclick.relevance.average import matched_beta

BLOCK_SIZE = 2**18
"""Numbers per array that is worked on at once: as many as fit in a processor's cache."""

Moments = Iterable[tuple[np.ndarray, np.ndarray]]
"""Mean and variance of relevance, (draws, items) each, in chunks of items."""

RELEVANCE, SATISFIED, TIMES_RELEVANCE = "relevance", "satisfied", " x relevance"
"""Kinds of items that are not a worth, and what is added to a worth's name for the product."""

PRODUCT_DRAWS = 32
"""Draws of the parameters, and of all relevances, for what products of relevances add."""


class Part(NamedTuple):
    """A chunk of items, with what they add to the values; outputs are measures x rankers.

    Attributes:
        items: (items,) their numbers.
        factors: (draws, outputs, items) derivative of each value in their relevance.
        mean: (draws, items) of relevance.
        variance: (draws, items).
        expected: (draws, outputs) what they add to the expected values.
        by_clicks: the same with relevance at its mean over the draws.
        products: (outputs, outputs) covariance between values, given the parameters, from products
            of relevances on their pages; None where values are linear or it is not wanted.
    """

    items: np.ndarray
    factors: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    expected: np.ndarray
    by_clicks: np.ndarray
    products: np.ndarray | None = None


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

    def parts(self, moments: Moments, rng: np.random.Generator | None = None) -> Iterator[Part]:
        """All items, chunk by chunk; with what products of relevances add, if there is a `rng`."""
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

    def parts(self, moments: Moments, rng: np.random.Generator | None = None) -> Iterator[Part]:
        """All items, chunk by chunk; there are no products."""
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
        known = _Known(mean, half, context, satisfied, dict.fromkeys(self.worth, half))
        found = np.zeros((self.kinds * self.items, self.outputs))
        for pages in self._blocks(1):
            own = self._of(pages, known)
            found[own.items] = own.factors[RELEVANCE][0].T
            if satisfied is not None:
                found[self.items + own.items] = own.factors[SATISFIED][0].T
            for name in self.worth:
                found[self._first(name) + own.items] = own.factors[name][0].T
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

    def parts(self, moments: Moments, rng: np.random.Generator | None = None) -> Iterator[Part]:
        """All items, in blocks of whole queries."""
        mean, variance = _together(moments)
        context, satisfied = self._going_on(len(mean))
        spread = None
        if satisfied is not None:
            assert self.going_on is not None
            assert self.going_on.satisfaction is not None
            satisfied, spread = _together(self.going_on.satisfaction)
        worth = {name: _together(each) for name, each in self.worth.items()}
        counts = {name: each for name, (each, _) in worth.items()}
        known = _Known(self.emission, mean, context, satisfied, counts)
        usual = known._replace(
            relevance=_at_mean(mean),
            satisfied=None if satisfied is None else _at_mean(satisfied),
            worth={name: _at_mean(each) for name, each in counts.items()},
        )
        some, drawn = np.arange(0), known
        if rng is not None:
            some = np.unique(np.linspace(0, len(mean) - 1, PRODUCT_DRAWS).astype(int))
            spreads = (
                variance[some],
                None if spread is None else spread[some],
                {name: each[some] for name, (_, each) in worth.items()},
            )
            drawn = known.at(some).drawn(*spreads, rng)
        for pages in self._blocks(len(mean)):
            found = self._of(pages, known)
            fixed = self._of(pages, usual, slopes=False)
            products = None
            if len(some):
                products = self._products(pages, found.at(some), known.at(some), drawn)
            items = found.items
            own_mean, own_variance = (
                each[:, items].astype(np.float64) for each in (mean, variance)
            )
            yield Part(
                items,
                found.factors[RELEVANCE],
                own_mean,
                own_variance,
                found.expected,
                fixed.expected,
                products,
            )
            if satisfied is not None:
                assert spread is not None
                own = (each[:, items].astype(np.float64) for each in (satisfied, spread))
                yield _further(self.items + items, found.factors[SATISFIED], *own)
            for name in self.worth:
                first = self._first(name) + items
                its, apart = (each[:, items].astype(np.float64) for each in worth[name])
                yield _further(first, found.factors[name], its, apart)
                nothing, both = np.zeros_like(own_mean), found.factors[name + TIMES_RELEVANCE]
                yield _further(first + self.items, both, nothing, own_variance * apart)

    def _products(
        self, pages: np.ndarray, found: "_PagesOf", mean: "_Known", drawn: "_Known"
    ) -> np.ndarray:
        """(outputs, outputs) covariance of what is left of the values of pages without factors.

        Args:
            pages: numbers of the lists.
            found: of these pages.
            mean: of all items under some draws of the parameters, which `found` is of, too.
            drawn: one draw of all items under each.
        """
        centre = mean.kinds()
        away = {kind: values - centre[kind] for kind, values in drawn.kinds().items()}
        left = self._of(pages, drawn, slopes=False).by_page - found.by_page
        for kind, number, slope in found.slopes:
            name, is_product = kind.removesuffix(TIMES_RELEVANCE), kind.endswith(TIMES_RELEVANCE)
            moved = away[name] * away[RELEVANCE] if is_product else away[name]
            left[:, number] -= (slope * moved[:, found.items][:, found.places]).sum(axis=2)
        # relevance is independent between queries: their covariances add up
        queries, query = np.unique(self._query[pages], return_inverse=True)
        rankers = _rankers(self.slots)
        cell = query * rankers + self.slots.ranker[self._slot[pages, 0]]
        where = (np.arange(len(pages)), cell)
        total = sparse.csr_array((np.ones(len(pages)), where), (len(pages), len(queries) * rankers))
        draws, measures, _ = left.shape
        by_query = (left.reshape(-1, len(pages)) @ total).reshape(draws, measures, -1, rankers)
        by_query = by_query.swapaxes(1, 2).reshape(-1, self.outputs)
        return by_query.T @ by_query / draws

    def _of(self, pages: np.ndarray, known: "_Known", *, slopes: bool = True) -> "_PagesOf":
        """Items of some pages, their factors (if `slopes`), and the expected values of the pages.

        Args:
            pages: numbers of the lists.
            known: of all items.
            slopes: whether factors are wanted.
        """
        emission, relevance, by_context, satisfied, worth = known
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
        expected = np.zeros((draws, self.outputs))
        by_page = np.zeros((draws, len(self.measures), len(pages)))
        kinds = [RELEVANCE, *([] if satisfied is None else [SATISFIED])]
        kinds += [name + suffix for name in worth for suffix in ("", TIMES_RELEVANCE)]
        shape = (draws, self.outputs, len(items)) if slopes else (0, 0, 0)
        into = {kind: np.zeros(shape) for kind in kinds}
        local: list[tuple[str, int, np.ndarray]] = []
        for number, measure in enumerate(self.measures):
            alone = np.where(shown, measure.weight(self.slots)[at], 0)
            weight = alone
            own_slopes: dict[str, np.ndarray] = {}  # by kind of item
            if measure.worth:
                weight = alone * worth[measure.worth][:, items][:, index].astype(np.float64)
            if measure.biased and slopes:
                value, slope, chances, by_stay = value_and_slope(
                    self.states, emission, given, zeta, weight, stay
                )
                own_slopes[RELEVANCE] = slope
                if measure.worth:
                    rise = np.divide(chances, zeta, out=np.zeros(zeta.shape), where=zeta > 0)
                    own_slopes[measure.worth] = alone * chances
                    own_slopes[measure.worth + TIMES_RELEVANCE] = alone * rise
                if by_stay is not None and satisfied is not None:
                    own_slopes[SATISFIED] = -by_stay
            elif measure.biased:
                chances = click_chances(self.states, emission, given, zeta, stay)
                value = (chances * weight).sum(axis=2)
            else:
                own_slopes[RELEVANCE] = np.broadcast_to(weight, zeta.shape)
                value = (weight * zeta).sum(axis=2)
            by_page[:, number] = value
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
                for kind, by_place in own_slopes.items():
                    into[kind][:, output] = by_place[:, page, place_on] @ by_slot
            local += [(kind, number, by_place) for kind, by_place in own_slopes.items()]
        return _PagesOf(items, index, expected, by_page, into, local)

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


class _Known(NamedTuple):
    """Probabilities that determine the clicks on all pages, under every draw of the parameters.

    Attributes:
        emission: (draws, contexts) each.
        relevance: (draws, items).
        by_context: (draws, given contexts) probability of going on after a click, or None.
        satisfied: (draws, items) probability that a click satisfies, or None.
        worth: (draws, items) what clicks count, by name.
    """

    emission: Emission
    relevance: np.ndarray
    by_context: np.ndarray | None
    satisfied: np.ndarray | None
    worth: Mapping[str, np.ndarray]

    def at(self, draws: np.ndarray) -> "_Known":
        """The same under some of the draws."""
        emission = Emission(*(None if part is None else part[draws] for part in self.emission))
        relevance, by_context, satisfied = (
            None if each is None else each[draws] for each in self[1:4]
        )
        assert relevance is not None
        worth = {name: each[draws] for name, each in self.worth.items()}
        return _Known(emission, relevance, by_context, satisfied, worth)

    def kinds(self) -> dict[str, np.ndarray]:
        """(draws, items) of each kind."""
        satisfied = {} if self.satisfied is None else {SATISFIED: self.satisfied}
        return {RELEVANCE: self.relevance, **satisfied, **self.worth}

    def drawn(
        self,
        variance: np.ndarray,
        spread: np.ndarray | None,
        away: Mapping[str, np.ndarray],
        rng: np.random.Generator,
    ) -> "_Known":
        """All items drawn once under each draw, given the variances of what is known of them."""

        def draw(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
            return matched_beta(mean, variance).sample(rng)

        satisfied = self.satisfied
        if satisfied is not None and spread is not None:
            satisfied = draw(satisfied, spread)
        return self._replace(
            relevance=draw(self.relevance, variance),
            satisfied=satisfied,
            worth={name: draw(each, away[name]) for name, each in self.worth.items()},
        )


class _PagesOf(NamedTuple):
    """What some pages add.

    Attributes:
        items: (items,) their numbers.
        places: (pages, depth) which of them is at each place; 0 past a list's end.
        expected: (draws, outputs) values.
        by_page: (draws, measures, pages) values of each page.
        factors: by kind of item, (draws, outputs, items) derivatives of values.
        slopes: kind, number of the measure, and (draws, pages, depth) derivatives of each page.
    """

    items: np.ndarray
    places: np.ndarray
    expected: np.ndarray
    by_page: np.ndarray
    factors: Mapping[str, np.ndarray]
    slopes: Sequence[tuple[str, int, np.ndarray]]

    def at(self, draws: np.ndarray) -> "_PagesOf":
        """The same under some of the draws."""
        return self._replace(
            expected=self.expected[draws],
            by_page=self.by_page[draws],
            factors={kind: each[draws] for kind, each in self.factors.items()},
            slopes=[(kind, number, slope[draws]) for kind, number, slope in self.slopes],
        )


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
