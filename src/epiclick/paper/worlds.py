"""The simulated world of each run, and the rankers that models evaluate in it.

All runs share items and relevance, and so the truth; each has a new logging policy and new clicks.
Rankers order the documents of the test queries by a single feature: those features whose rankers
have the highest, the median and the lowest true value. The paper draws every relevance and every
position bias independently, 2,500 times; `evaluate_rankers` compares this with joint draws, which
include the uncertainty that items share.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from epiclick.api import BaseModel, EpistemicPBM, PointwisePBM
from epiclick.batching.batches import Batches, Shapes
from epiclick.batching.pairset import Inputs, PairSet, fit_scaler
from epiclick.comparison.compare_rankers import compare
from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureScaler, FeatureTable
from epiclick.errors import InputError
from epiclick.evaluation.log_scores import CHUNK
from epiclick.fitted.parameters import without_uncertainty
from epiclick.paper.settings import Settings
from epiclick.simulate.world import World, random_streams, simulate
from epiclick.simulate.world_items import splits, synthetic_rankings

SEEDS = 1_000
"""Seeds reserved for one reproduction: its runs, and the run in which rates are chosen."""

SAMPLES = 2_500  # of a ranker's value
SAMPLED_ROWS = 1_000  # whose features go into a digest
DIGESTED_ROWS = 1_000_000  # at once


@dataclass(frozen=True, eq=False)
class RankerValues:
    """Values of single-feature rankers as estimated in several runs.

    Attributes:
        features: names of the features, by decreasing true value.
        truth: (rankers,) expected clicks per page.
        epistemic: (runs, rankers, samples) as in the paper: an epistemic model, relevance and
            position bias drawn independently, the network without uncertainty.
        joint: (runs, rankers, samples) our variant: the same kind of model with the uncertainty
            of its network.
        pointwise: (runs, rankers) by a model of point estimates.
    """

    features: tuple[str, ...]
    truth: np.ndarray
    epistemic: np.ndarray
    joint: np.ndarray
    pointwise: np.ndarray


@dataclass(frozen=True, eq=False)
class Rankers:
    """Rankers by single features.

    Attributes:
        names: of the features, by decreasing true value.
        truth: (rankers,) expected clicks per page.
        rankings: the ranking of each, by the name of its feature.
        features: of the test queries' documents.
    """

    names: tuple[str, ...]
    truth: np.ndarray
    rankings: Mapping[str, pa.Table]
    features: FeatureTable

    def values_by(self, model: BaseModel, samples: int, seed: int) -> np.ndarray:
        """(rankers, samples) of expected clicks per page by a model, all queries weighted alike."""
        drawn = compare(
            model,
            self.rankings,
            self.features,
            samples=samples,
            weights="uniform",
            measures=("clicks",),
            seed=seed,
        )
        return drawn.values.samples[0]


def evaluate_rankers(
    make_world: Callable[[int], World],
    runs: int,
    *,
    epistemic: EpistemicPBM | None = None,
    joint: EpistemicPBM | None = None,
    pointwise: PointwisePBM | None = None,
    samples: int = SAMPLES,
) -> RankerValues:
    """Run the experiment.

    Args:
        make_world: the world of a run, by its number; all have the same items and relevance.
        runs: number of runs.
        epistemic: the paper's model; default `exact` with baselines.
        joint: ours.
        pointwise: the model of point estimates.
        samples: samples of each value.
    """
    epistemic = epistemic or EpistemicPBM(estimator="exact", baseline=True)
    joint, pointwise = joint or EpistemicPBM(), pointwise or PointwisePBM()
    first = make_world(0)
    rankers = choose_rankers(first)
    found: list[tuple[np.ndarray, ...]] = []
    for run in range(runs):
        world = first if run == 0 else make_world(run)
        counts = world.counts()
        learned = counts.subset(~_is_test(world)[counts.feature_row])
        values = []
        for model in (epistemic, joint, pointwise):
            fitted = type(model)(**model.get_params()).set_params(seed=run)
            fitted.fit(learned, progress=False)
            if model is epistemic:
                fitted.fitted_ = without_uncertainty(fitted.fitted_)
            values.append(rankers.values_by(fitted, samples, run))
        found.append((values[0], values[1], values[2].mean(axis=1)))
    parts = (np.stack(part) for part in zip(*found, strict=True))
    return RankerValues(rankers.names, rankers.truth, *parts)


def choose_rankers(world: World) -> Rankers:
    """The rankers of the experiment, the same in all worlds with the same items."""
    chosen, truth = choose_features(world)
    names = tuple(world.features.names[i] for i in chosen)
    rankings = [single_feature_ranking(world, i) for i in chosen]
    return Rankers(names, truth, dict(zip(names, rankings, strict=True)), _test_features(world))


def choose_features(world: World) -> tuple[Sequence[int], np.ndarray]:
    """Features whose rankers have the highest, the median and the lowest value, and the values."""
    rows, query = _test_rows(world)
    table = world.features.rows(rows)  # (test pairs, features)
    bias, queries = world.position_bias, len(np.unique(query))
    values = np.empty(table.shape[1])
    for feature, column in enumerate(table.T):
        order, position = _ranked(query, column)
        shown = position <= len(bias)
        zeta = world.relevance[rows[order[shown]]]
        values[feature] = bias[position[shown] - 1] @ zeta / queries
    order = np.argsort(-values, kind="stable")
    chosen = [int(order[0]), int(order[len(order) // 2]), int(order[-1])]
    return chosen, values[chosen]


def single_feature_ranking(world: World, feature: int) -> pa.Table:
    """The test queries' documents by decreasing feature value, down to the last position."""
    rows, query = _test_rows(world)
    order, position = _ranked(query, world.features.rows(rows)[:, feature])
    kept = position <= len(world.position_bias)
    chosen = pa.array(rows[order[kept]])
    keys = world.features.keys.select(["query_id", "doc_id"]).take(chosen)
    return keys.append_column("position", pa.array(position[kept]))


def _test_rows(world: World) -> tuple[np.ndarray, np.ndarray]:
    """(test pairs,) row of each pair of a test query, and its query's id."""
    rows = np.flatnonzero(_is_test(world))
    query = world.features.keys["query_id"].combine_chunks().take(pa.array(rows))
    return rows, query.to_numpy(zero_copy_only=False)


def _ranked(query: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(pairs,) order by query and decreasing value, and the position of each pair in that order."""
    order = np.lexsort((-value, query))
    own = query[order]
    start = np.flatnonzero(np.r_[True, own[1:] != own[:-1]])
    return order, np.arange(len(own)) - np.repeat(start, np.diff(np.r_[start, len(own)])) + 1


def _is_test(world: World) -> np.ndarray:
    """(pairs,) whether a pair is of a test query."""
    return splits(world.features) == "test"


def _test_features(world: World) -> FeatureTable:
    """Features of the test queries' documents."""
    rows, table = np.flatnonzero(_is_test(world)), world.features
    return FeatureTable(table.keys.take(pa.array(rows)), table.names, table.rows(rows))


@dataclass(frozen=True, eq=False)
class RunData:
    """Clicks of one run.

    Attributes:
        counts: all displayed pairs.
        train: pairs of the training queries.
        scored: pairs of the queries that models are scored on.
        where: (scored pairs,) their indices among all pairs.
        scaler: of the features, fitted to the training pairs.
    """

    counts: ClickCounts
    train: ClickCounts
    scored: ClickCounts
    where: np.ndarray
    scaler: FeatureScaler

    @classmethod
    def of(cls, world: World, scored: str) -> "RunData":
        """The clicks of a world, split by its queries."""
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
        """Inputs of the training pairs, shared by all methods."""
        return Inputs(self.train, self.scaler)


@dataclass(eq=False)
class Bench:
    """Data shared by all cells of a reproduction; caches the run requested last.

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
            self._last = None  # free its memory first
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
        """Training pairs of a run in batches of about `batch_size`."""
        data = self.data(run)
        shapes = self._common(run, "train", batch_size)
        return PairSet(Batches(data.train, batch_size, None, shapes), data.train_inputs)

    def scored(self, run: int) -> Batches:
        """The pairs that models are scored on, in batches."""
        return Batches(self.data(run).scored, CHUNK, None, self._common(run, "scored", CHUNK))

    def _common(self, run: int, part: str, batch_size: int) -> Shapes | None:
        """Shapes of the first run with spare room, larger where a run needs more.

        They depend only on the settings and the run, so that a cell's numbers do not depend on
        when and where it is run.
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
    """A number of pairs with spare room; a bucket empty in one run may not be in another."""
    return size + max(2, int(np.ceil(room * size)))


def make_bench(settings: Settings, path: str | Path | None = None) -> Bench:
    """The bench of a reproduction, with its data read or simulated.

    Args:
        settings: of the reproduction.
        path: LETOR data; None for synthetic data.
    """
    if settings.dataset == "synthetic":
        sizes = settings.queries, settings.docs, settings.features
        queries, docs, features = (size or 0 for size in sizes)
        rng = random_streams(settings.seed)["rankings"]
        return Bench(settings, synthetic_rankings(queries, docs, features, rng))
    assert path is not None
    return Bench(settings, read_items(path))


def read_items(path: str | Path) -> FeatureTable:
    """LETOR data with training, validation and test queries."""
    from epiclick.data.letor import read_letor

    items = read_letor(path)
    missing = sorted({"train", "vali", "test"} - set(np.unique(splits(items)).tolist()))
    if missing:
        raise InputError(
            f"{path} has no split {' and no '.join(missing)}; give a folder with train.txt, "
            "vali.txt and test.txt",
            code="missing-split",
        )
    return items


def digest_items(items: FeatureTable) -> str:
    """A digest of ids, splits and labels, and of the features of a sample of rows."""
    digest = hashlib.blake2b(digest_size=16)
    keys = items.keys.select(["query_id", "doc_id", "split", "label"]).combine_chunks()
    for rows in keys.to_batches(max_chunksize=DIGESTED_ROWS):
        digest.update(rows.serialize())
    digest.update(repr(items.names).encode())
    some = np.arange(0, len(items), -(-len(items) // SAMPLED_ROWS))
    digest.update(items.rows(some).tobytes())
    return digest.hexdigest()
