"""Simulated worlds of a benchmark, of synthetic items or of those of a LETOR data set."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from epiclick.benchmark.page_data import BenchmarkData, PageLog
from epiclick.click_models.registry import REGISTRY
from epiclick.data.arrays import locate_rows
from epiclick.data.checksums import digest_of
from epiclick.data.features import FeatureTable
from epiclick.data.letor import read_letor
from epiclick.simulate.world import World, simulate

WORLDS = tuple(REGISTRY)
"""Users of the synthetic worlds, by default: one kind for each click model."""

LETOR_USERS = ("pbm", "sdbn")
FEATURES = 4
HELD_OUT = 0.2


@dataclass(frozen=True)
class WorldSize:
    """The size of the worlds.

    Attributes:
        queries: of a synthetic world.
        docs: items per query of a synthetic world.
        positions: of a synthetic page.
        pages: of a synthetic world, of which a fifth is held out.
        letor_pages: pages on the items of a LETOR data set.
        letor_positions: positions of such a page.
        letor_queries: how many of its queries; None for all.
    """

    queries: int
    docs: int
    positions: int
    pages: int
    letor_pages: int
    letor_positions: int
    letor_queries: int | None = None


FULL = WorldSize(200, 10, 5, 20_000, 20_000, 10)
QUICK = WorldSize(40, 6, 4, 2_000, 2_000, 5, letor_queries=20)


@dataclass(frozen=True)
class WorldPlan:
    """A world to simulate.

    Attributes:
        users: how its users click.
        size: how large it is.
        seed: of everything random.
        letor: LETOR data whose items are shown; None for synthetic items.
    """

    users: str
    size: WorldSize
    seed: int
    letor: Path | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """In JSON types, with name and title."""
        items = "synthetic items" if self.letor is None else f"items and labels of {self._source}"
        name = self.users if self.letor is None else f"{self._source}-{self.users}"
        return {
            "name": name,
            "title": f"Simulated {self.users} users, {items}",
            "users": self.users,
            # results are published, so they tell folders apart without naming them
            "letor": None if self.letor is None else digest_of(bytes(self.letor.resolve())),
            "seed": self.seed,
            "held_out": HELD_OUT,
            **asdict(self.size),
        }

    @property
    def _source(self) -> str:
        assert self.letor is not None
        return self.letor.resolve().name

    def make(self) -> BenchmarkData:
        """Simulate it, and hold a fifth of its pages out."""
        return self._synthetic() if self.letor is None else self._of_letor(self.letor)

    def _synthetic(self) -> BenchmarkData:
        size = self.size
        world = simulate(
            size.queries,
            size.docs,
            FEATURES,
            size.pages,
            size.positions,
            relevance="beta",
            users=self.users,
            seed=self.seed,
        )
        return self._data(world, world.relevance, None)

    def _of_letor(self, path: Path) -> BenchmarkData:
        size, table = self.size, read_letor(path)
        if size.letor_queries is not None:
            query = table.keys["query_id"].combine_chunks().dictionary_encode().indices.to_numpy()
            rows = np.flatnonzero(query < size.letor_queries)
            table = FeatureTable(table.keys.take(pa.array(rows)), table.names, table.rows(rows))
        world = simulate(
            pages=size.letor_pages,
            positions=size.letor_positions,
            dataset=table,
            users=self.users,
            seed=self.seed,
        )
        label = world.features.keys["label"].to_numpy()
        return self._data(world, 2.0**label - 1, np.asarray(world.features.matrix, np.float32))

    def _data(self, world: World, gain: np.ndarray, features: np.ndarray | None) -> BenchmarkData:
        pages, query_of = _pages_of(world)
        rng = np.random.default_rng([self.seed, 1])
        held_out = rng.random(len(pages)) < HELD_OUT
        train, test = (
            PageLog(pages.pair[part], pages.clicked[part]) for part in (~held_out, held_out)
        )
        return BenchmarkData(self.settings, query_of, train, test, gain, features)


def _pages_of(world: World) -> tuple[PageLog, np.ndarray]:
    """The log of a world as pages, and the query of each of its items."""
    keys = ("query_id", "doc_id")
    items = {name: world.features.keys[name] for name in keys}
    row = locate_rows({name: world.log[name] for name in keys}, items)
    page, place = world.log["page_id"].to_numpy(), world.log["position"].to_numpy() - 1
    shape = (int(page.max()) + 1, int(place.max()) + 1)
    pair, clicked = np.full(shape, -1, np.int32), np.zeros(shape, bool)
    pair[page, place], clicked[page, place] = row, world.log["click"].to_numpy() > 0
    query = items["query_id"].combine_chunks().dictionary_encode().indices.to_numpy()
    return PageLog(pair, clicked), query.astype(np.int64)
