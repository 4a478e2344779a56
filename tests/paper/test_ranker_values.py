"""Single-feature rankers, chosen and evaluated as in the paper."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import epiclick as ec
from epiclick.paper.figures import draw_ranker_values
from epiclick.paper.worlds import (
    choose_features,
    evaluate_rankers,
    single_feature_ranking,
)

pytestmark = pytest.mark.slow

POSITIONS = 3


def make_world(run: int) -> ec.World:
    items = ec.simulate(queries=40, docs=6, features=5, pages=1, seed=0).features
    return ec.simulate(dataset=items, pages=600, positions=POSITIONS, seed=run)


@pytest.fixture(scope="module")
def world() -> ec.World:
    return make_world(0)


def loop_value(world: ec.World, feature: int) -> float:
    """Expected clicks per page of a ranker by one feature, query by query."""
    keys = world.features.keys.to_pylist()
    values = world.features.rows(np.arange(len(keys)))[:, feature]
    queries = defaultdict(list)
    for row, key in enumerate(keys):
        if key["split"] == "test":
            queries[key["query_id"]].append((-values[row], row))
    total = 0.0
    for docs in queries.values():
        for place, (_, row) in enumerate(sorted(docs)[:POSITIONS]):
            total += world.position_bias[place] * world.relevance[row]
    return total / len(queries)


def value_of(world: ec.World, ranking: pa.Table) -> float:
    """Expected clicks per page of a ranking, row by row."""
    keys = world.features.keys.to_pylist()
    relevance = {
        (key["query_id"], key["doc_id"]): r for key, r in zip(keys, world.relevance, strict=True)
    }
    rows = ranking.to_pylist()
    clicks = [
        world.position_bias[row["position"] - 1] * relevance[row["query_id"], row["doc_id"]]
        for row in rows
    ]
    return sum(clicks) / len({row["query_id"] for row in rows})


def test_rankers_are_the_best_the_median_and_the_worst(world: ec.World) -> None:
    values = [loop_value(world, feature) for feature in range(5)]
    for feature in range(5):
        ranking = single_feature_ranking(world, feature)
        assert value_of(world, ranking) == pytest.approx(values[feature])
    chosen, truth = choose_features(world)
    np.testing.assert_allclose(truth, sorted(values, reverse=True)[::2])
    np.testing.assert_allclose([values[i] for i in chosen], truth)


def test_the_experiment_has_values_for_every_run_and_method(tmp_path: Path) -> None:
    small = {"hidden": (4,), "epochs": 2}
    found = evaluate_rankers(
        make_world,
        2,
        epistemic=ec.EpistemicPBM(estimator="exact", samples=10, **small),
        joint=ec.EpistemicPBM(**small),
        pointwise=ec.PointwisePBM(**small),
        samples=200,
    )
    assert found.epistemic.shape == found.joint.shape == (2, 3, 200)
    assert found.pointwise.shape == (2, 3)
    assert np.all(np.diff(found.truth) <= 0)
    # every run has new clicks and weights
    assert np.all(found.pointwise[0] != found.pointwise[1])
    # uncertainty that items share does not average out
    assert np.all(found.joint.std(axis=2) > 0)
    for samples in (found.epistemic, found.joint):
        assert np.all((samples > 0) & (samples < POSITIONS))
    draw_ranker_values(found, tmp_path / "values.png")
    assert (tmp_path / "values.png").read_bytes().startswith(b"\x89PNG")
