"""Robots in a log make verdicts wrong; the warning's remedy makes them right."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest

import epiclick as ec
from epiclick.errors import InputWarning
from epiclick.simulate.world import World

pytestmark = pytest.mark.slow

ROBOTS = 780
QUERIES, DOCS, PAGES = 40, 10, 12_000


@pytest.fixture(scope="module")
def world() -> World:
    """Pages ranked at random, so that all items have clicks of their own."""
    settings = {"queries": QUERIES, "docs": DOCS, "features": 4, "pages": PAGES, "positions": 10}
    return ec.simulate(**settings, relevance="beta", policy_strength=0.0, seed=3)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def log(world: World) -> pd.DataFrame:
    """The world's log with 6.5 % of its pages clicked by robots, 6 to 10 results each."""
    rng = np.random.default_rng(0)
    log = world.log.to_pandas()
    clicks = log.click.to_numpy(copy=True).reshape(PAGES, 10)
    for page in rng.permutation(PAGES)[:ROBOTS]:
        clicks[page] = rng.permutation(10) < rng.integers(6, 11)
    return log.assign(click=clicks.ravel())


def rankings(world: World) -> tuple[dict[str, pd.DataFrame], float]:
    """A good ranker and a poor one, and by how much the first gets more clicks in truth."""
    rng = np.random.default_rng(1)
    items = world.features.keys.select(["query_id", "doc_id"]).to_pandas()
    scores = {
        "new": world.relevance + rng.normal(0, 0.05, len(items)),
        "old": world.relevance / 2 + rng.normal(0, 0.25, len(items)),
    }
    ranked, value = {}, {}
    for name, score in scores.items():
        rank = pd.Series(-score).groupby(items.query_id).rank().astype(int)
        ranked[name] = items.assign(position=rank)
        value[name] = np.sum(world.position_bias[rank - 1] * world.relevance)
    return ranked, value["new"] / value["old"] - 1


def results(world: World, counts: ec.ClickCounts) -> tuple[pd.DataFrame, Mapping, list[str]]:
    model = ec.EpistemicPBM().fit(counts, progress=False)
    compared = ec.compare(model, rankings(world)[0], clicks=counts)
    return (
        model.position_bias(),
        compared.differences.iloc[0],
        list(model.fitted_.training.warnings),
    )


def test_following_the_remedy_makes_the_result_right(world: World, log: pd.DataFrame) -> None:
    truth, lift = world.position_bias, rankings(world)[1]
    with pytest.warns(InputWarning, match="max_clicks_per_page=4 "):
        counts = ec.read_log(log)
    bias, difference, warned = results(world, counts)
    # the control: with robots the log gives wrong results, and the fit warns as well
    assert any("max_clicks_per_page=4" in message for message in warned)
    assert bias["low"].iloc[9] > 2 * truth[9]
    assert difference["relative_high"] < lift / 2

    with pytest.warns(InputWarning, match="pages with more than 4 clicks left out"):
        cleaned = ec.read_log(log, max_clicks_per_page=4)
    bias, difference, warned = results(world, cleaned)
    assert not any("max_clicks_per_page" in message for message in warned)
    inside = (bias["low"] <= truth) & (truth <= bias["high"])
    assert inside.sum() >= 8  # of ten 90 % intervals: fewer have a probability below 7 %
    assert difference["relative_low"] < lift < difference["relative_high"]
