"""The slope of relevance in placement: found where the ranker knows more, and nowhere else."""

from dataclasses import replace

import numpy as np
import pytest

import epiclick as ec
from epiclick.calibration.families import FAMILIES, make_case
from epiclick.diagnostics.placement_slope import PlacementSlope

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:only .* of pages are without a click"),
]


@pytest.fixture(scope="module", params=[0.0, 1.0], ids=["features tell all", "knows more"])
def fit(request: pytest.FixtureRequest) -> tuple[bool, ec.EpistemicPBM]:
    family = replace(FAMILIES["knows-as-much-more"], queries=300, pages=7_500, hidden=request.param)
    return bool(request.param), ec.EpistemicPBM(seed=1).fit(make_case(family, 5, 0).train)


def test_it_is_found_where_the_ranker_knows_more_and_only_there(fit) -> None:
    knows_more, model = fit
    found = PlacementSlope.of(model.fitted_, 0.9)
    assert found is not None
    assert found.is_finding == knows_more
    assert ("knows more than the features" in found.sentence()) == knows_more
    assert model.fitted_.training.checks["placement"]["found"] == knows_more
    assert found.low < found.slope < found.high


def test_its_interval_is_that_of_the_weight_in_draws_of_the_parameters(fit) -> None:
    from epiclick.fitted.parameters import parameter_draws

    _, model = fit
    found = PlacementSlope.of(model.fitted_, 0.9)
    assert found is not None
    row = len(model.fitted_.features.names)
    drawn = np.array([d.layers[-1][0][row, 0] for d in parameter_draws(model.fitted_, 4_000)])
    error = drawn.std()
    assert abs(drawn.mean() - found.slope) < 4 * error / np.sqrt(4_000)
    assert found.high - found.low == pytest.approx(2 * 1.6449 * error, rel=4 / np.sqrt(8_000))


def test_position_bias_is_right_although_the_ranker_knows_more(fit) -> None:
    """Control: with the weight of exposure set to 0, lower positions look less examined."""
    knows_more, model = fit
    table = model.position_bias()
    truth = np.array(FAMILIES["knows-as-much-more"].theta)
    error = (table["relative_high"] - table["relative_low"]).to_numpy() / (2 * 1.6449)
    away = (table["relative"].to_numpy() - truth)[1:] / error[1:]
    assert np.abs(away).max() < 4
    contrast = model.fitted_.training.checks["confounding"]["moved_items"]
    assert contrast["available"]
    if knows_more:
        assert contrast["effect"] > 0


def test_models_without_exposure_have_none() -> None:
    world = ec.simulate(queries=30, docs=5, features=2, pages=300, positions=2, seed=0)
    counts = replace(world.counts(), features=None, feature_row=None)
    assert PlacementSlope.of(ec.EpistemicPBM().fit(counts).fitted_, 0.9) is None
