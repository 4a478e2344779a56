"""Fits to simulated worlds find their truth, and better estimators fit better."""

from dataclasses import replace

import numpy as np
import pytest

import epiclick as ec
from epiclick.batching import pairset
from epiclick.evaluation.click_scores import ClickScores
from epiclick.evaluation.log_scores import evaluate
from epiclick.relevance.heads import exposure

pytestmark = pytest.mark.slow

CURVES = {
    "1/k": tuple(1 / k for k in range(1, 6)),
    "slow": (1.0, 0.8, 0.7, 0.55, 0.5, 0.42, 0.36, 0.3, 0.28, 0.25),
}


def make_world(curve: tuple[float, ...]) -> ec.World:
    sizes = {"queries": 300, "docs": 20, "features": 10, "pages": 10_000}
    return ec.simulate(**sizes, positions=len(curve), theta=curve, seed=2)


def without_features(world: ec.World) -> ec.ClickCounts:
    return replace(world.counts(), features=None, feature_row=None)


def errors(world: ec.World, counts: ec.ClickCounts) -> np.ndarray:
    """The error of a fit, in relative position bias."""
    bias = ec.EpistemicPBM(epochs=50).fit(counts).position_bias()
    return bias["relative"].to_numpy() - world.position_bias / world.position_bias[0]


@pytest.mark.parametrize("curve", sorted(CURVES))
def test_relative_position_bias_is_recovered_from_features(curve: str) -> None:
    world = make_world(CURVES[curve])
    assert np.max(abs(errors(world, world.counts()))) < 0.05


def test_relative_position_bias_is_recovered_from_ids_alone() -> None:
    world = make_world(CURVES["slow"])
    assert np.max(abs(errors(world, without_features(world)))) < 0.05


def test_one_beta_for_all_items_would_be_deceived_by_the_ranker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The control for exposure: rankers show better items higher up."""
    world = make_world(CURVES["1/k"])
    counts = without_features(world)
    informed = errors(world, counts)
    assert np.max(abs(informed)) < 0.05
    blind = np.zeros_like
    monkeypatch.setattr(pairset, "exposure", lambda shown: blind(exposure(shown)))
    assert np.mean(errors(world, counts)) < np.mean(informed) - 0.005


PAPER = {
    "batch_size": 300,
    "epochs": 25,
    "patience": None,
    "samples": 40,
    "weight_decay": 0.01,
}


def score(model: ec.EpistemicPBM | ec.PointwisePBM, seed: int) -> ClickScores:
    """Held-out scores on a small world."""
    world = ec.simulate(queries=200, docs=10, features=6, pages=5_000, positions=5, seed=seed)
    train, test = world.counts().split(0.7, 0.3, seed=0)
    return evaluate(model.fit(train).fitted_, test).clicks


def test_exact_beats_self_normalised_beats_naive() -> None:
    """As published: the naive weights underflow, so that its model stays where it began."""
    pair = {
        name: score(
            ec.EpistemicPBM(estimator=name, literal=literal, **PAPER), 1
        ).pair_log_likelihood
        for name, literal in (("exact", False), ("self_normalized", False), ("naive", True))
    }
    assert pair["exact"] > pair["self_normalized"] + 0.1
    assert pair["self_normalized"] > pair["naive"] + 0.1


def test_uncertainty_costs_nothing_in_likelihood() -> None:
    """A pair's clicks together are far likelier; single displays about as likely as pointwise."""
    epistemic, pointwise = (score(model, 1) for model in (ec.EpistemicPBM(), ec.PointwisePBM()))
    assert epistemic.pair_log_likelihood > pointwise.pair_log_likelihood + 0.1
    assert epistemic.display_log_likelihood > pointwise.display_log_likelihood - 0.002
