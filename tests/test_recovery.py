"""Fits to simulated worlds find their truth, and better estimators fit better."""

from dataclasses import replace

import numpy as np
import pytest

import epiclick as ec
from epiclick.evaluating import evaluate

CURVES = {
    "1/k": tuple(1 / k for k in range(1, 6)),
    "slow": (1.0, 0.8, 0.7, 0.55, 0.5, 0.42, 0.36, 0.3, 0.28, 0.25),
}


@pytest.fixture(scope="module", params=sorted(CURVES))
def world(request: pytest.FixtureRequest) -> ec.World:
    curve = CURVES[request.param]
    return ec.simulate(
        queries=1000,
        docs=20,
        features=10,
        pages=30_000,
        positions=len(curve),
        theta=curve,
        seed=2,
    )


@pytest.mark.parametrize("features", [True, False], ids=["features", "ids"])
def test_relative_position_bias_is_recovered(world: ec.World, features: bool) -> None:
    counts = world.counts()
    if not features:
        counts = replace(counts, features=None, feature_row=None)
    bias = ec.EpistemicPBM().fit(counts).position_bias()
    truth = world.position_bias / world.position_bias[0]
    assert np.max(abs(bias["relative"].to_numpy() - truth)) < 0.05


def test_one_beta_for_all_items_would_be_deceived_by_the_ranker(world: ec.World) -> None:
    """The control for exposure: rankers show better items higher up."""
    from epiclick.models import relevance
    from epiclick.training import pairset

    counts = replace(world.counts(), features=None, feature_row=None)
    truth = world.position_bias / world.position_bias[0]

    def error(blind: bool) -> float:
        with pytest.MonkeyPatch.context() as patch:
            if blind:
                patch.setattr(
                    pairset, "exposure", lambda shown: np.zeros_like(relevance.exposure(shown))
                )
            bias = ec.EpistemicPBM().fit(counts).position_bias()
        return float(np.mean(bias["relative"].to_numpy() - truth))

    assert error(blind=True) < -0.01
    assert error(blind=True) < error(blind=False) - 0.005


@pytest.fixture(scope="module")
def scores() -> dict[str, tuple[float, float]]:
    """Held-out log-likelihood a display and a pair of each estimator, on one small world."""
    world = ec.simulate(queries=300, docs=10, features=6, pages=10_000, positions=5, seed=2)
    train, test = world.counts().split(0.7, 0.3, seed=0)
    paper = {"batch_size": 300, "epochs": 40, "patience": None}
    models = {
        "marginal": ec.EpistemicPBM(),
        "pointwise": ec.PointwisePBM(),
        **{
            name: ec.EpistemicPBM(estimator=name, **paper)
            for name in ("exact", "self_normalized", "naive")
        },
    }
    found = {}
    for name, model in models.items():
        clicks = evaluate(model.fit(train).fitted_, test).clicks
        found[name] = (clicks.display_log_likelihood, clicks.pair_log_likelihood)
    return found


def test_exact_beats_self_normalised_beats_naive(scores: dict[str, tuple[float, float]]) -> None:
    pair = {name: score[1] for name, score in scores.items()}
    assert pair["exact"] > pair["self_normalized"] > pair["naive"]


def test_uncertainty_costs_nothing_in_likelihood(scores: dict[str, tuple[float, float]]) -> None:
    """A pair's clicks together are far likelier; single displays about as likely as pointwise."""
    assert scores["marginal"][1] > scores["pointwise"][1]
    assert scores["marginal"][0] > scores["pointwise"][0] - 0.002
