"""Fits without features: straight to the mode, over distinct vectors of counts."""

from dataclasses import replace

import numpy as np
import pytest

from epiclick.batching.pairset import PairSet
from epiclick.click_models.pbm import PositionBased
from epiclick.data.counts import ClickCounts
from epiclick.fitted.parameters import to_vector
from epiclick.posterior.climbing import Climb
from epiclick.posterior.mode import NEAR, SETTLED, find_mode, inverse
from epiclick.training.loop import Trained
from epiclick.training.optimizer import TrainingSettings

from .small_worlds import density_of, start_of, world

SETTINGS = TrainingSettings(
    epochs=40, batch_size=100, learning_rate=1e-3, position_rate=10.0, weight_decay=0.0,
    patience=None, decay=False, seed=0,
)  # fmt: skip
ANCHOR = 0


def run(
    counts: ClickCounts,
    held_out: ClickCounts | None = None,
    weight: np.ndarray | None = None,
    settings: TrainingSettings = SETTINGS,
) -> Trained:
    networks = 1 if weight is None else len(weight)
    fit = Climb("pbm", ANCHOR, None, settings, progress=False)
    return fit.run(counts, held_out, [start_of(counts)] * networks, weight)


def vectors_of(trained: Trained) -> list[np.ndarray]:
    return [to_vector(each, PositionBased(), ANCHOR) for each in trained.networks]


def test_parameters_are_near_the_mode_given_all_pairs() -> None:
    counts = world(600, (1.0, 0.6, 0.3), most=6)
    (found,) = vectors_of(run(counts))
    density = density_of(counts)
    mode = find_mode(density, np.zeros(10))
    away = found - mode.vector
    assert away @ -mode.curvature.hessian @ away < NEAR**2


def test_members_are_at_the_modes_of_their_own_weights() -> None:
    """Weights of a bootstrap, which differ between pairs with the same counts."""
    counts = world(600, (1.0, 0.6, 0.3))
    weight = np.random.default_rng(1).poisson(1, (3, counts.num_queries))[:, counts.query]
    weight[0] = 1
    _, *members = vectors_of(run(counts, weight=weight.astype(float)))
    whole = density_of(counts)
    distances = []
    for own, vector in zip(weight[1:].astype(float), members, strict=True):
        density = replace(whole, pairs=PairSet.of(counts, None, 1_000, weight=own))
        here = density.curvature(vector)
        step = inverse(-here.hessian) @ here.gradient
        # gradients in steps towards the mode have fewer nodes
        assert step @ here.gradient < (10 * SETTLED) ** 2
        other = whole.curvature(vector)
        distances.append(other.gradient @ inverse(-other.hessian) @ other.gradient)
    assert min(distances) > 0.1  # the control: not the mode of the log itself


def test_the_history_climbs_and_shows_both_likelihoods() -> None:
    counts, held_out = (world(300, (1.0, 0.6, 0.3), seed=seed) for seed in (0, 1))
    trained = run(counts, held_out)
    likelihoods = [epoch.log_likelihood for epoch in trained.history]
    assert len(likelihoods) > 1
    assert likelihoods[-1] > likelihoods[0]
    density = density_of(counts)
    (vector,) = vectors_of(trained)
    expected = density.value(vector[None])[0] - density.prior.log_density(vector)
    assert likelihoods[-1] == pytest.approx(expected / counts.total_displays, rel=1e-10)
    other = density_of(held_out)
    expected = other.value(vector[None])[0] - other.prior.log_density(vector)
    assert trained.history[-1].validation == pytest.approx(
        expected / held_out.total_displays, rel=1e-10
    )


def test_epochs_are_the_most_steps() -> None:
    trained = run(world(300, (1.0, 0.6, 0.3)), settings=replace(SETTINGS, epochs=2))
    assert len(trained.history) == 2
