"""Ranker evaluation (paper, section 7.5, figure 7): clicks of rankers that were never shown.

Rankers order the documents of the test queries by a single feature. Of all features those with the
highest, the median and the lowest true value are taken. Each run is a world of its own: a new
logging policy, new clicks, new first weights; the items, their relevance and so the truth are the
same in all of them. The paper draws every relevance and every position bias by itself, 2,500 times;
beside it stands our own way, which draws what the items have in common, too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from epiclick.api import BaseModel, EpistemicPBM, PointwisePBM
from epiclick.comparison.compare import compare
from epiclick.data.features import FeatureTable
from epiclick.models.uncertainty import without_uncertainty
from epiclick.simulate.items import splits
from epiclick.simulate.world import World

SAMPLES = 2_500


@dataclass(frozen=True, eq=False)
class RankerValues:
    """What runs say of single-feature rankers.

    Attributes:
        features: names of the features, by falling true value.
        truth: (rankers,) expected clicks a page.
        epistemic: (runs, rankers, samples) the paper's way: an epistemic model, relevance and
            position bias drawn independently, the network as it is.
        joint: (runs, rankers, samples) our own way: the same kind of model with the uncertainty of
            its network.
        pointwise: (runs, rankers) by a model of single numbers.
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
        names: of the features, by falling true value.
        truth: (rankers,) expected clicks a page.
        rankings: what each shows, by the name of its feature.
        features: of the test queries' documents.
    """

    names: tuple[str, ...]
    truth: np.ndarray
    rankings: Mapping[str, pa.Table]
    features: FeatureTable

    def judged_by(self, model: BaseModel, samples: int, seed: int) -> np.ndarray:
        """(rankers, samples) of expected clicks a page by a fitted model, all queries alike."""
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
        runs: how many.
        epistemic: the paper's model; `exact` unless told.
        joint: ours.
        pointwise: the model of single numbers.
        samples: of every value.
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
            values.append(rankers.judged_by(fitted, samples, run))
        found.append((values[0], values[1], values[2].mean(axis=1)))
    parts = (np.stack(part) for part in zip(*found, strict=True))
    return RankerValues(rankers.names, rankers.truth, *parts)


def choose_rankers(world: World) -> Rankers:
    """The rankers of the experiment, which are the same in all worlds with the same items."""
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
    """The test queries' documents by one feature, the highest first, down to the last position."""
    rows, query = _test_rows(world)
    order, position = _ranked(query, world.features.rows(rows)[:, feature])
    kept = position <= len(world.position_bias)
    chosen = pa.array(rows[order[kept]])
    keys = world.features.keys.select(["query_id", "doc_id"]).take(chosen)
    return keys.append_column("position", pa.array(position[kept]))


def _test_rows(world: World) -> tuple[np.ndarray, np.ndarray]:
    """(test pairs,) row of each pair of a test query, and the query's id."""
    rows = np.flatnonzero(_is_test(world))
    query = world.features.keys["query_id"].combine_chunks().take(pa.array(rows))
    return rows, query.to_numpy(zero_copy_only=False)


def _ranked(query: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(pairs,) order by query and falling value, and the position of each pair in that order."""
    order = np.lexsort((-value, query))
    own = query[order]
    start = np.flatnonzero(np.r_[True, own[1:] != own[:-1]])
    return order, np.arange(len(own)) - np.repeat(start, np.diff(np.r_[start, len(own)])) + 1


def true_value(world: World, ranking: pa.Table) -> float:
    """Expected clicks a page, all queries alike."""
    keys = {name: ranking[name].combine_chunks() for name in ("query_id", "doc_id")}
    row = world.features.locate(keys["query_id"], keys["doc_id"])
    bias = world.position_bias[ranking["position"].to_numpy() - 1]
    return float((bias * world.relevance[row]).sum() / len(keys["query_id"].unique()))


def _is_test(world: World) -> np.ndarray:
    """(pairs,) whether a pair is of a test query."""
    return splits(world.features) == "test"


def _test_features(world: World) -> FeatureTable:
    """Features of the test queries' documents."""
    rows, table = np.flatnonzero(_is_test(world)), world.features
    return FeatureTable(table.keys.take(pa.array(rows)), table.names, table.rows(rows))
