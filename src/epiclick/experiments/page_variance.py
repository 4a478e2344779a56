r"""Variances per page of clicks and of credited clicks, by simulating pages under the model.

Worlds are drawn from the posterior: parameters, then the relevance of every item. In each, pages
are drawn by traffic and clicked by the model's own users, so that variances include those between
queries. Within a page, clicks may depend on each other as the click model says.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from epiclick.click_models.click_model import Emission, PageStates
from epiclick.click_models.recursion import click_chances, draw_clicks
from epiclick.comparison.prepared import Prepared
from epiclick.comparison.shown_items import Moments
from epiclick.experiments.paired_lists import PairedLists
from epiclick.relevance.average import matched_beta

PAGES = 32_000
WORLDS = 16


@dataclass(frozen=True)
class PageVariance:
    """Variances per page.

    Attributes:
        one: of clicks on the first ranker's pages.
        other: of clicks on the second's.
        credit: of the first ranker's lead on interleaved pages.
        between: what clustering by query adds to the squared standard error of a difference in
            clicks: the sum over queries of their squared share of pages times the squared deviation
            of their difference.
        credit_between: the same of the lead.
    """

    one: float
    other: float
    credit: float
    between: float
    credit_between: float


@dataclass(frozen=True, eq=False)
class World:
    """One draw of the posterior.

    Attributes:
        states: how a page's history evolves.
        emission: (contexts,) each.
        relevance: (items,).
        stay: (given contexts,) probability of going on after a click, or None.
        satisfaction: (items,) otherwise, probability that a click satisfies, or None.
    """

    states: PageStates
    emission: Emission
    relevance: np.ndarray
    stay: np.ndarray | None
    satisfaction: np.ndarray | None

    def going_on(self, item: np.ndarray, given: np.ndarray) -> np.ndarray | None:
        """(pages, depth) probability of going on after a click in each slot."""
        if self.stay is not None:
            return self.stay[np.maximum(given, 0)]
        return None if self.satisfaction is None else 1 - self.satisfaction[item]

    def clicks(self, item: np.ndarray, given: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Drawn clicks on pages, (pages, depth)."""
        stay, zeta = self.going_on(item, given), self.relevance[item]
        return draw_clicks(self.states, self.emission, given, zeta, rng, stay)

    def chances(self, item: np.ndarray, given: np.ndarray) -> np.ndarray:
        """Probability of each click on pages, (pages, depth)."""
        stay = self.going_on(item, given)
        one = Emission(*(None if part is None else part[None] for part in self.emission))
        zeta = self.relevance[item][None]
        return click_chances(self.states, one, given, zeta, None if stay is None else stay[None])[0]


def posterior_worlds(prepared: Prepared, count: int, rng: np.random.Generator) -> Iterator[World]:
    """Draws of the posterior; the items of one are independent given its parameters."""
    draws = len(prepared.draws)
    rows = np.unique(np.linspace(0, draws - 1, min(count, draws)).round().astype(int))
    emission, going_on = prepared.emission(), prepared.going_on(rng)
    relevance = _drawn(prepared.moments(rng), rows, rng)
    satisfaction = None
    if going_on is not None and going_on.satisfaction is not None:
        satisfaction = _drawn(going_on.satisfaction, rows, rng)
    states = prepared.fitted.clicks.states(prepared.fitted.contexts)
    for at, row in enumerate(rows):
        by_context = None if going_on is None else going_on.by_context
        yield World(
            states,
            Emission(*(None if part is None else part[row] for part in emission)),
            relevance[at],
            None if by_context is None else by_context[row],
            None if satisfaction is None else satisfaction[at],
        )


def _drawn(moments: Iterable[Moments], rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(rows, items) one draw of every item under each of some draws of the parameters."""
    parts = [
        matched_beta(mean[rows], variance[rows]).sample(rng, 1)[0].astype(np.float32)
        for mean, variance in moments
    ]
    return np.concatenate(parts, axis=1)


def page_variance(prepared: Prepared, pairs: PairedLists, pages: int = PAGES) -> PageVariance:
    """Variances of pages of two rankers, alone and interleaved."""
    rng = np.random.default_rng([prepared.seed, 22])
    of_query = np.bincount(pairs.query, pairs.weight)[pairs.query]
    found, worlds = [], list(posterior_worlds(prepared, WORLDS, rng))
    for world in worlds:
        pair = rng.choice(len(pairs.weight), pages // len(worlds), p=pairs.weight)
        given, reach = pairs.given[pair], pairs.reach[pair]
        displayed = rng.random((len(pair), 1)) < reach
        drafts = [pairs.drafted(pair, pairs.coins(len(pair), rng)) for _ in range(2)]
        pages_of = [
            (_as_deep(pairs.one[pair], given), np.ones(1)),
            (_as_deep(pairs.other[pair], given), np.ones(1)),
            *((each.item, each.sign) for each in drafts),
        ]
        expected, variance = [], []
        for item, sign in pages_of:
            shown = np.where(item >= 0, given, -1)
            clicked = world.clicks(item, shown, rng) & displayed
            variance.append((clicked * sign).sum(axis=1).var(ddof=1))
            expected.append((world.chances(item, shown) * sign * reach).sum(axis=1))
        by_clicks, (lead, again) = expected[0] - expected[1], expected[2:]
        mean = (lead.mean() + again.mean()) / 2
        # the product over two independent tosses is free of the variance of the tosses
        squares = (by_clicks - by_clicks.mean()) ** 2, (lead - mean) * (again - mean)
        found.append([*variance[:3], *(np.mean(of_query[pair] * each) for each in squares)])
    numbers = np.maximum(np.mean(found, axis=0), 0.0)
    return PageVariance(*(float(number) for number in numbers))


def _as_deep(item: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Lists padded to the depth of their pages."""
    more = given.shape[1] - item.shape[1]
    return np.pad(item, ((0, 0), (0, more)), constant_values=-1)
