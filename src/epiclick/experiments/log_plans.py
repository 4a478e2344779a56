"""Experiments that add to the log what it lacks: shuffled positions, new items, more pages.

They settle a comparison if the variance of the difference falls far enough. Which part of it each
can reduce is known from `Spread`: shuffled positions that of position bias, chosen items on display
that of items, and more pages all but that of items never shown.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from epiclick.comparison.prepared import Prepared
from epiclick.comparison.result import Comparison
from epiclick.comparison.value_samples import ValueSamples
from epiclick.comparison.verdict import Difference
from epiclick.experiments.click_positions import ClickPositions, click_positions
from epiclick.experiments.item_parts import ItemParts, item_parts
from epiclick.experiments.paired_lists import PairedLists
from epiclick.experiments.planned import Experiment, Name
from epiclick.experiments.sample_size import variance_to_reach
from epiclick.experiments.show_plan import displays_to_reach
from epiclick.experiments.swap_plan import best_shuffle

FEWEST_DRAWS = 30
"""Draws of the parameters below which chance dominates what shuffled positions seem to explain."""

MOST_CHANCE = 0.99  # of a click on an item of above-average relevance


@dataclass(frozen=True, eq=False)
class LogPlans:
    """Experiments that add to a log, and the pages they need.

    Attributes:
        prepared: what the comparison rests on.
        pairs: lists of the rankers.
        comparison: of the rankers.
        sure: probability of being better at which a ranker is preferred.
        power: probability with which it is to be reached.
    """

    prepared: Prepared
    pairs: PairedLists
    comparison: Comparison
    sure: float
    power: float

    @cached_property
    def difference(self) -> Difference:
        """The first ranker against the second."""
        return self.comparison.difference(*self.comparison.names)

    @cached_property
    def target(self) -> float:
        """Variance of the difference that is small enough."""
        expected, total = expected_difference(self.comparison.values), self.difference.spread.total
        return variance_to_reach(expected, total, self.sure, self.power)

    @cached_property
    def items(self) -> ItemParts:
        """What items add to the variance."""
        return item_parts(self.prepared)

    @cached_property
    def positions(self) -> ClickPositions:
        """Clicks on an average item at each position."""
        return click_positions(self.prepared, self.pairs, self.items.relevance)

    @cached_property
    def _query(self) -> np.ndarray:
        """(slots,) number of the query."""
        return np.asarray(self.prepared.slots.query_id.dictionary_encode().indices)

    @cached_property
    def query_share(self) -> np.ndarray:
        """(queries,) share of the pages."""
        return np.bincount(self.pairs.query, self.pairs.weight)

    def _too_much(self, left: float) -> str:
        """Why an experiment is no use: the variance that it cannot reduce."""
        shares = [each / self.difference.spread.total for each in (left, self.target)]
        return (
            f"it would leave {shares[0]:.0%} of the variance, and only {shares[1]:.1%} may remain"
        )

    def more_pages(self) -> Experiment:
        """More pages like those of the log."""
        spread, pages = self.difference.spread, self.prepared.pages
        if pages is None:
            return Experiment("more_pages", None, "no log was given")
        left = self.target - spread.unseen
        if left <= 0:
            return Experiment("more_pages", None, self._too_much(spread.unseen))
        more = max((spread.total - spread.unseen) / left - 1, 0.0)
        return Experiment("more_pages", _whole(more * pages))

    def show_items(self) -> tuple[Experiment, list[pa.Table]]:
        """Items to show, each in the slot where a ranker has it.

        Those that were never shown, if that is enough; else any.
        """
        spread, was_seen = self.difference.spread, self.prepared.items.was_seen
        never, all_items = np.flatnonzero(~was_seen), np.arange(len(was_seen))
        by_parameters = spread.position_bias + spread.network
        items, rest = never, by_parameters + spread.seen
        if self.target <= rest:
            items, rest = all_items, by_parameters
        if self.target <= rest:
            return Experiment("show_items", None, self._too_much(rest)), []
        slot = first_of(self.prepared.items.index)[items]  # where a ranker shows it
        displays = displays_to_reach(
            self.items.part[items],
            self.items.variance[items],
            self._information(items, slot),
            self.target - rest,
        )
        if displays is None:
            obstacle = "some items would hardly be seen in their slots"
            return Experiment("show_items", None, obstacle), []
        needed = np.ceil(displays).astype(int)
        new = int((~was_seen[items[needed > 0]]).sum())
        slot, needed = slot[needed > 0], needed[needed > 0]
        slots = self.prepared.slots
        # a page can show items of several slots, but only one in each
        query, position = self._query[slot], slots.position[slot]
        in_slot = np.zeros((len(self.query_share), position.max(initial=0) + 1), int)
        np.add.at(in_slot, (query, position), needed)
        by_query = in_slot.max(axis=1)
        ids = pa.array(slot)
        table = pages_table(
            "show_items",
            slots.query_id.take(ids),
            slots.doc_id.take(ids),
            [[int(each)] for each in position],
            needed,
        )
        how = f"show {len(table):,} items, {new:,} of them new, on a slice of the pages"
        pages, traffic = _whole(by_query.sum()), self._traffic(by_query)
        return Experiment("show_items", pages, how=how, traffic=traffic), [table]

    def _information(self, items: np.ndarray, slot: np.ndarray) -> np.ndarray:
        """(items,) information of a display about relevance, in the slot where it would be."""
        chance = self.positions.chance.mean(axis=0)
        place = np.minimum(self.prepared.slots.position[slot] - 1, len(chance) - 1)
        slope = chance[place] / self.positions.relevance
        click = np.clip(slope * self.items.relevance[items], 1e-9, MOST_CHANCE)
        return self.prepared.slots.reach[slot] * slope**2 / (click * (1 - click))

    def swap_positions(self) -> tuple[Experiment, list[pa.Table]]:
        """Two positions, or all, whose items change places at random on some queries' pages."""
        spread, values = self.difference.spread, self.comparison.values
        draws = values.expected[0, 0] - values.expected[0, 1]
        if values.members or len(draws) < FEWEST_DRAWS:
            obstacle = "the model has too few draws of position bias to plan with"
            return Experiment("swap_positions", None, obstacle), []
        clicks = np.log(np.maximum(self.positions.chance, np.finfo(float).tiny))
        needed = spread.total - self.target
        best = best_shuffle(draws, clicks, self.positions.noise, needed)
        if best is None:
            return Experiment("swap_positions", None, "position bias is known"), []
        if best.pages is None:
            left = max(spread.total - best.removed, 0.0)
            return Experiment("swap_positions", None, self._too_much(left)), []
        by_query = self._pages_by_query(best.positions, best.pages)
        chosen = np.flatnonzero(by_query > 0)
        listed = [position + 1 for position in best.positions]
        slots = self.prepared.slots
        table = pages_table(
            "swap_positions",
            slots.query_id.take(pa.array(first_of(self._query)[chosen])),
            pa.nulls(len(chosen), slots.doc_id.type),
            [listed] * len(chosen),
            by_query[chosen],
        )
        what = f"swap the items at positions {listed[0]} and {listed[-1]} at random"
        if len(listed) > 2:
            what = f"shuffle the first {len(listed)} positions"
        how = f"{what} on pages of {len(chosen):,} queries"
        pages, traffic = int(by_query.sum()), self._traffic(by_query)
        return Experiment("swap_positions", pages, how=how, traffic=traffic), [table]

    def _pages_by_query(self, positions: tuple[int, ...], pages: float) -> np.ndarray:
        """(queries,) pages with the information of so many average ones, the best queries first.

        A query gets as many pages as it had in the log; if all queries together have too few, all
        get the same multiple of theirs.
        """
        at, pairs = list(positions), self.pairs
        chance, noise = self.positions.chance.mean(axis=0)[at], self.positions.noise[at]
        usable = np.all(pairs.other[:, : max(at) + 1] >= 0, axis=1)
        own = np.where(usable[:, None], pairs.other[:, at], 0)
        relative = self.items.relevance[own].mean(axis=1) / self.positions.relevance
        click = np.clip(chance * relative[:, None], 1e-9, MOST_CHANCE)
        noise_of = (1 - click) / (click * self.positions.reach[at])
        of_pair = noise.sum() / noise_of.sum(axis=1)
        share = self.query_share
        efficiency = np.bincount(
            pairs.query, np.where(usable, of_pair, 0.0) * pairs.weight, len(share)
        ) / np.where(share > 0, share, 1.0)
        logged = self.prepared.pages or pages / float(share @ efficiency)
        available = share * logged
        order = np.argsort(-efficiency, kind="stable")
        gathered = np.cumsum((available * efficiency)[order])
        if gathered[-1] < pages:
            multiple = pages / gathered[-1]
            return np.ceil(np.where(efficiency > 0, multiple * available, 0.0)).astype(int)
        last = int(np.searchsorted(gathered, pages))
        found = np.zeros(len(share), int)
        found[order[: last + 1]] = np.ceil(available[order[: last + 1]])
        return found

    def _traffic(self, by_query: np.ndarray) -> float:
        """Pages of all queries until each query has had its own."""
        share = self.query_share
        return float(np.max(by_query / np.where(share > 0, share, np.inf), initial=0.0))

    def all(self) -> Iterator[tuple[Experiment, list[pa.Table]]]:
        """Every experiment, with the pages it needs."""
        yield self.swap_positions()
        yield self.show_items()
        yield self.more_pages(), []


def expected_difference(values: ValueSamples) -> float:
    """Expected clicks per page of ranker 0 minus those of ranker 1; samples vary by chance."""
    return float((values.expected[0, 0] - values.expected[0, 1]).mean())


def _whole(pages: float) -> int:
    return max(int(np.ceil(pages)), 1)


def first_of(numbers: np.ndarray) -> np.ndarray:
    """Where each number 0, 1, ... occurs first."""
    found = np.zeros(numbers.max() + 1, int)
    found[numbers[::-1]] = np.arange(len(numbers))[::-1]
    return found


def pages_table(
    name: Name, query: pa.Array, doc: pa.Array, positions: list[list[int]], pages: np.ndarray
) -> pa.Table:
    """Pages that an experiment needs: of which queries, with which item or positions."""
    return pa.table(
        {
            "experiment": pa.array([name] * len(query), pa.string()),
            "query_id": query,
            "doc_id": doc,
            "positions": pa.array(positions, pa.list_(pa.int32())),
            "pages": pa.array(pages, pa.int64()),
        }
    )
