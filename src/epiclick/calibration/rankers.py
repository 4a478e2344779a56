"""Rankers of a world that were never shown, near ties among them, and what they are worth."""

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from epiclick.calibration.worlds import Case
from epiclick.simulate.clicks import USERS

if TYPE_CHECKING:
    from epiclick.api import BaseModel
    from epiclick.comparison.result import Comparison

FEATURES = 3
"""Rankers by a single feature."""

NOISE = (0.1, 0.3)
"""Standard deviations of what is added to another ranker's scores, themselves of one."""


def rankings_of(case: Case) -> dict[str, pa.Table]:
    """Rankings of all queries: by single features, by their sum, and near ties of both."""
    table = case.world.features
    values = table.rows(np.arange(len(table)))[:, :FEATURES].astype(np.float64)
    values = (values - values.mean(axis=0)) / np.maximum(values.std(axis=0), 1e-9)
    scores = {f"feature {i}": values[:, i] for i in range(values.shape[1])}
    scores["sum"] = values.sum(axis=1) / values.sum(axis=1).std()
    rng = np.random.default_rng([case.seed, 9])
    for noise, name in zip(NOISE, ("feature 0", "sum"), strict=True):
        scores[f"near {name}"] = scores[name] + noise * rng.standard_normal(len(table))
    return {name: _ranking(case, score) for name, score in scores.items()}


def _ranking(case: Case, score: np.ndarray) -> pa.Table:
    """The best of each query, as many as there are positions; pairs stand by query, then doc."""
    docs, positions = case.family.docs, len(case.world.position_bias)
    best = np.argsort(-score.reshape(-1, docs), axis=1, kind="stable")[:, :positions]
    query = np.repeat(np.arange(len(best)), positions)
    return pa.table(
        {
            "query_id": query,
            "doc_id": best.ravel(),
            "position": np.tile(np.arange(1, positions + 1), len(best)),
        }
    )


def true_value(case: Case, ranking: pa.Table) -> float:
    """Expected clicks a page, by the world's own users."""
    world = case.world
    row = ranking["query_id"].to_numpy() * case.family.docs + ranking["doc_id"].to_numpy()
    pages = world.relevance[row].reshape(-1, len(world.position_bias))
    chance = USERS[world.settings.users].probability(pages, world.position_bias)
    return float(chance.sum(axis=1).mean())


def compare_rankers(
    model: "BaseModel", case: Case, *, by_clicks: bool
) -> tuple["Comparison", np.ndarray]:
    """What a model says of the rankers, and (rankers,) the truth.

    Args:
        model: fitted in the world.
        case: the world.
        by_clicks: whether items are judged by their own clicks, too.
    """
    from epiclick.comparison.compare import compare

    rankings = rankings_of(case)
    features = case.world.features if case.family.with_features else None
    found = compare(
        model,
        rankings,
        features,
        clicks=case.train if by_clicks else None,
        weights="uniform",
        measures=("clicks",),
        seed=case.seed % 2**31,
    )
    return found, np.array([true_value(case, ranking) for ranking in rankings.values()])
