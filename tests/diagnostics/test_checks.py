"""The checks of a fit, and what they report where clicks say next to nothing."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import epiclick as ec
from epiclick.diagnostics.checks import check_fit

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def counts() -> ec.ClickCounts:
    world = ec.simulate(queries=60, docs=8, features=4, pages=400, positions=3, seed=3)
    return replace(world.counts(), features=None, feature_row=None)


@pytest.fixture(scope="module")
def model(counts: ec.ClickCounts) -> ec.EpistemicPBM:
    return ec.EpistemicPBM(epochs=5).fit(counts, progress=False)


def test_every_fit_keeps_records_and_sentences(model: ec.EpistemicPBM) -> None:
    checks = model.fitted_.training.checks
    assert checks["posterior"]["how"] == "laplace"
    assert checks["posterior"]["pareto_k"] == model.fitted_.posterior.pareto_k
    assert checks["posterior"]["gradient"] < 1e-3
    assert [row["position"] for row in checks["posterior"]["by_position"]] == [2, 3]
    assert all(0 < row["left"] < 1 for row in checks["posterior"]["by_position"])
    words = " ".join(checks["words"])
    for part in (
        "of displays are of items shown in two or more contexts",
        "Comparable: position 1, 2, 3.",
        "reasons unrelated to who sees them",
        "Relevance means the probability of a click if shown at position 1",
        "The clicks have narrowed the prior",
    ):
        assert part in words


@pytest.mark.parametrize(
    ("k", "noted", "warned"), [(0.5, False, False), (0.8, True, False), (1.2, False, True)]
)
def test_a_posterior_that_is_not_gaussian_is_reported_with_the_remedy(
    k: float, noted: bool, warned: bool, model: ec.EpistemicPBM, counts: ec.ClickCounts
) -> None:
    fitted = replace(model.fitted_, posterior=replace(model.fitted_.posterior, pareto_k=k))
    found = check_fit(fitted, counts, 0.9)
    assert any("theta_posterior='nuts'" in words for words in found.records["words"]) == noted
    assert any("theta_posterior='nuts'" in words for words in found.warnings) == warned
    # chains need no Gaussian
    drawn = replace(fitted.posterior, samples=fitted.posterior.mean[None])
    sampled = check_fit(replace(fitted, posterior=drawn), counts, 0.9)
    assert "nuts'" not in " ".join([*sampled.records["words"], *sampled.warnings])
    assert sampled.records["posterior"]["how"] == "nuts"


def test_a_free_scale_rests_on_the_prior(model: ec.EpistemicPBM, counts: ec.ClickCounts) -> None:
    free = replace(model.fitted_, anchor=None, posterior=None)
    found = check_fit(free, counts, 0.9)
    assert any("rests on the prior" in words for words in found.warnings)
    assert "posterior" not in found.records
    assert not any("rests on the prior" in words for words in model.fitted_.training.warnings)


@pytest.mark.filterwarnings("ignore::epiclick.InputWarning")
def test_46_clicks_give_wide_intervals_and_a_note(shared_data: Callable[[str], Path]) -> None:
    log = shared_data("obd/random/men.csv")
    counts = ec.read_log(log, columns={"query_id": "user_feature_0"})
    assert counts.total_clicks == 46
    model = ec.EpistemicPBM(epochs=60).fit(counts, progress=False)
    bias = model.position_bias().iloc[1:]
    assert (bias["relative_high"] - bias["relative_low"] > 0.4).all()
    # second and third result were clicked more than the first: only biases near 1 explain that
    low, high = _intervals_where_items_are_alike(counts)
    assert (bias["relative_high"] - bias["relative_low"] > high - low).all()
    assert (bias["relative_low"] < low).all()
    training = model.fitted_.training
    left = [row["left"] for row in training.checks["posterior"]["by_position"]]
    assert left[0] > 0.4
    assert left[1] > 0.5
    words = " ".join(training.checks["words"])
    assert "position 3: the clicks say little about the bias there" in words
    assert "few clicked items" in words
    assert "there are only 3" in words


def _intervals_where_items_are_alike(counts: ec.ClickCounts) -> tuple[np.ndarray, np.ndarray]:
    """(2,) each, ends of 90 % intervals of two uniform biases, on a grid.

    Clicks are rare enough to be Poisson, all items are equally relevant, and that relevance is
    integrated out under a prior that is flat in its logarithm: the most that clicks could say.
    """
    displays, clicks = (
        np.bincount(counts.context, weights=of) for of in (counts.displays, counts.clicks)
    )
    bias = (np.arange(1000) + 0.5) / 1000
    second, third = np.meshgrid(bias, bias, indexing="ij")
    seen = displays[0] + displays[1] * second + displays[2] * third
    log_density = (
        clicks[1] * np.log(second) + clicks[2] * np.log(third) - clicks.sum() * np.log(seen)
    )
    density = np.exp(log_density - log_density.max())
    below = np.cumsum(np.stack([density.sum(axis=1), density.sum(axis=0)]), axis=1)
    below /= below[:, -1:]
    return bias[(below < 0.05).sum(axis=1)], bias[(below < 0.95).sum(axis=1)]
