"""The world of each run: the same items and labels, a new logging policy and new clicks."""

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureTable
from epiclick.data.scaler import FeatureScaler
from epiclick.errors import InputError
from epiclick.evaluation.joint import CHUNK
from epiclick.paper.ranker_values import Rankers, choose_rankers
from epiclick.paper.settings import Settings
from epiclick.simulate.items import splits
from epiclick.simulate.rankings import synthetic_rankings
from epiclick.simulate.world import World, random_streams, simulate
from epiclick.training.batches import Batches, Shapes
from epiclick.training.inputs import Inputs, fit_scaler
from epiclick.training.pairset import PairSet

SEEDS = 1_000
"""Seeds of one reproduction: those of its runs, and of the run in which rates are chosen."""

SAMPLED_ROWS = 1_000
DIGESTED_ROWS = 1_000_000


@dataclass(frozen=True, eq=False)
class RunData:
    """Clicks of one run.

    Attributes:
        counts: all displayed pairs.
        train: pairs of the training queries.
        scored: pairs of the queries that models are scored on.
        where: (scored pairs,) their index among all.
        scaler: of the features, by the training pairs.
    """

    counts: ClickCounts
    train: ClickCounts
    scored: ClickCounts
    where: np.ndarray
    scaler: FeatureScaler

    @classmethod
    def of(cls, world: World, scored: str) -> "RunData":
        """The clicks of a world, by the splits of its queries."""
        counts = world.counts()
        assert counts.feature_row is not None
        split = splits(world.features)[counts.feature_row]
        train, test = counts.subset(split == "train"), counts.subset(split == scored)
        scaler = fit_scaler(train)
        assert scaler is not None
        return cls(counts, train, test, np.flatnonzero(split == scored), scaler)

    @cached_property
    def inputs(self) -> np.ndarray:
        """(pairs, features) float32, of all displayed pairs."""
        return Inputs(self.counts, self.scaler).take(np.arange(len(self.counts)))

    @cached_property
    def train_inputs(self) -> Inputs:
        """Inputs of the training pairs, which all methods share."""
        return Inputs(self.train, self.scaler)


@dataclass(eq=False)
class Bench:
    """What all cells of a reproduction share; holds the run that was asked for last.

    Attributes:
        settings: of the reproduction.
        items: all pairs, with labels and splits.
    """

    settings: Settings
    items: FeatureTable
    _last: tuple[int, RunData] | None = field(default=None, init=False)
    _shapes: dict[tuple[str, int], Shapes] = field(default_factory=dict, init=False)
    _truth: World | None = field(default=None, init=False)

    def seed(self, run: int) -> int:
        """The seed of a run."""
        return self.settings.seed * SEEDS + run

    def data(self, run: int) -> RunData:
        """The clicks of a run."""
        if self._last is None or self._last[0] != run:
            self._last = None  # its memory is needed
            self._last = run, RunData.of(self.world(run), self.settings.scored)
        return self._last[1]

    def world(self, run: int) -> World:
        """The world of a run."""
        settings = self.settings
        world = simulate(
            dataset=self.items, pages=settings.pages, theta=settings.theta, seed=self.seed(run)
        )
        self._truth = replace(world, log=world.log.slice(0, 0))
        return world

    @cached_property
    def rankers(self) -> Rankers:
        """Rankers by single features, the same in every run."""
        return choose_rankers(self._truth or self.world(0))

    def pairs(self, run: int, batch_size: int) -> PairSet:
        """Training pairs of a run in batches of about so many."""
        data = self.data(run)
        shapes = self._common(run, "train", batch_size)
        return PairSet(Batches(data.train, batch_size, None, shapes), data.train_inputs)

    def scored(self, run: int) -> Batches:
        """How the pairs that models are scored on are dealt to batches."""
        return Batches(self.data(run).scored, CHUNK, None, self._common(run, "scored", CHUNK))

    def _common(self, run: int, part: str, batch_size: int) -> Shapes | None:
        """Shapes of the first run with some room, or more where a run needs more.

        They depend on nothing but the settings and the run, so that cells come out the same in
        whatever order and place they are done.
        """
        room = self.settings.room
        if not room:
            return None
        if (part, batch_size) not in self._shapes:
            first = RunData.of(self.world(0), self.settings.scored) if run else self.data(0)
            for name, counts in (("train", first.train), ("scored", first.scored)):
                batches = -(-len(counts) // batch_size)
                least = Shapes.common([counts], batches)
                self._shapes[name, batch_size] = Shapes(
                    batches, tuple(_with_room(size, room) for size in least.capacity)
                )
        first_shapes = self._shapes[part, batch_size]
        own = Shapes.common([getattr(self.data(run), part)], first_shapes.batches)
        pairs = zip(first_shapes.capacity, own.capacity, strict=True)
        return Shapes(first_shapes.batches, tuple(max(pair) for pair in pairs))


def _with_room(size: int, room: float) -> int:
    """A number of pairs and some more; buckets that are empty in one run may not be in another."""
    return size + max(2, int(np.ceil(room * size)))


def make_bench(settings: Settings, path: str | Path | None = None) -> Bench:
    """The bench of a reproduction, whose data are read or made.

    Args:
        settings: of the reproduction.
        path: LETOR data, unless they are synthetic.
    """
    if settings.dataset == "synthetic":
        sizes = settings.queries, settings.docs, settings.features
        queries, docs, features = (size or 0 for size in sizes)
        rng = random_streams(settings.seed)["rankings"]
        return Bench(settings, synthetic_rankings(queries, docs, features, rng))
    assert path is not None
    return Bench(settings, read_items(path))


def read_items(path: str | Path) -> FeatureTable:
    """LETOR data that have queries to train on, to choose rates on and to test on."""
    from epiclick.data.letor import read_letor

    items = read_letor(path)
    missing = sorted({"train", "vali", "test"} - set(np.unique(splits(items)).tolist()))
    if missing:
        raise InputError(
            f"{path} has no split {' and no '.join(missing)}; give a folder with train.txt, "
            "vali.txt and test.txt"
        )
    return items


def digest_items(items: FeatureTable) -> str:
    """A digest of ids, splits and labels, and of the features of some rows."""
    digest = hashlib.blake2b(digest_size=16)
    keys = items.keys.select(["query_id", "doc_id", "split", "label"]).combine_chunks()
    for rows in keys.to_batches(max_chunksize=DIGESTED_ROWS):
        digest.update(rows.serialize())
    digest.update(repr(items.names).encode())
    some = np.arange(0, len(items), -(-len(items) // SAMPLED_ROWS))
    digest.update(items.rows(some).tobytes())
    return digest.hexdigest()
