"""In simulated worlds, interleaving finds what the model predicts, and what clicks per page say."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import epiclick as ec
from epiclick.experiments.planned import Plan
from epiclick.simulate.users import USERS

pytestmark = pytest.mark.slow

DEPTH = 4
MODELS = {"pbm": ec.EpistemicPBM, "ubm": ec.EpistemicUBM}


def ranking(world: ec.World, weight: np.ndarray) -> pd.DataFrame:
    """By a sum of features, so that rankers know no more than the model."""
    frame = world.features.keys.select(["query_id", "doc_id"]).to_pandas()
    frame["score"] = world.features.rows(np.arange(len(frame))) @ weight
    by = frame.groupby("query_id")["score"].rank(method="first", ascending=False)
    frame["position"] = by.astype(int)
    return frame[by <= DEPTH].drop(columns="score")


def rows_in(world: ec.World, pages: pd.DataFrame) -> np.ndarray:
    """(pages, depth) rows of the world's items, of full pages."""
    at = world.features.locate(pa.array(pages["query_id"]), pa.array(pages["doc_id"]))
    return at.reshape(-1, DEPTH)


def true_value(world: ec.World, lists: pd.DataFrame) -> float:
    ordered = lists.sort_values(["query_id", "position"])
    return float(world.chances(rows_in(world, ordered)).sum(axis=1).mean())


@pytest.fixture(scope="module", params=MODELS)
def case(request) -> tuple[ec.World, dict[str, pd.DataFrame], Plan]:
    """A world, two rankings by features, and the plan of a model of its log."""
    world = ec.simulate(
        queries=250,
        docs=8,
        features=4,
        pages=5_000,
        theta=(1.0, 0.7, 0.55, 0.45),
        relevance="beta",
        users=request.param,
        seed=11,
    )
    counts = ec.read_log(world.log, features=world.features, click_model=request.param)
    model = MODELS[request.param](epochs=15, seed=0).fit(counts)
    x, rng = world.features.rows(np.arange(len(world.features))), np.random.default_rng(3)
    best = np.linalg.lstsq(x - x.mean(axis=0), world.relevance, rcond=None)[0]
    new = ranking(world, best)
    live = ranking(world, best + 0.7 * np.abs(best).max() * rng.normal(size=len(best)))
    rankings = {"new": new, "live": live}
    plan = ec.plan(model, rankings, clicks=counts, weights="uniform", level=0.99)
    return world, rankings, plan


def test_interleaving_agrees_with_the_model_and_with_clicks_per_page(case) -> None:
    world, rankings, plan = case
    true = true_value(world, rankings["new"]) - true_value(world, rankings["live"])
    made = ec.interleave(rankings, pages=80, depth=DEPTH, seed=2)
    pages = made.table.to_pandas()
    rows, sign = rows_in(world, pages), pages["team"].map({"new": 1, "live": -1}).to_numpy()
    chances = world.chances(rows)
    expected = float((chances.ravel() * sign).sum() / made.pages)
    clicks = USERS[world.settings.users].draw(
        world.relevance[rows], world.position_bias, np.random.default_rng(4)
    )
    found = ec.analyse_interleaving(pages.assign(click=clicks.ravel().astype(int)), level=0.999)
    # what users do is what the world says, and what the model predicts
    assert found.low <= expected <= found.high
    record = plan.to_dict()["lead"]
    assert record["low"] <= expected <= record["high"]
    assert found.is_decided
    # it has the sign of the difference in clicks per page, as `compare` finds it
    assert true > 0
    assert found.difference > 0
    assert found.difference != pytest.approx(true, rel=0.2)  # but not its size
    assert plan.difference.low <= true <= plan.difference.high
    assert plan.difference.prob_better > 0.95
    assert plan.lead.agreement > 0.95


def test_variances_are_those_of_the_worlds_pages(case) -> None:
    world, rankings, plan = case
    rng = np.random.default_rng(5)
    for name, found in (("new", plan.variance.one), ("live", plan.variance.other)):
        rows = rows_in(world, rankings[name].sort_values(["query_id", "position"]))
        rows = rows[rng.integers(len(rows), size=40_000)]
        draw = USERS[world.settings.users].draw
        clicks = draw(world.relevance[rows], world.position_bias, rng).sum(axis=1)
        assert found == pytest.approx(clicks.var(), rel=0.1)
