"""Contrasts of position bias: silent where the ranker knew nothing more, and loud where it did."""

import json
from dataclasses import replace

import numpy as np
import pytest

import epiclick as ec
from epiclick.calibration.hidden_signals import with_hidden_signal
from epiclick.diagnostics.confounding import LEVEL, Outcome, contrast_of_days, groups_of
from epiclick.identification.unbounded import unbounded_bias

from ..day_logs import day_log


def by_day(counts: ec.ClickCounts) -> Outcome:
    moved = unbounded_bias(counts).estimate(0, groups_of(counts))
    return contrast_of_days(counts, moved, 0)


def test_days_agree_where_rankings_are_not_personal() -> None:
    """Whether or not the ranker and relevance change, if one does not know of the other."""
    found = [
        by_day(day_log(update=update, drift=drift, seed=seed)).contrast
        for seed in range(12)
        for update, drift in ((0.0, 0.0), (1.5, 0.0), (1.5, 0.7))
    ]
    p_values = np.array([each.p_value for each in found if each is not None])
    assert len(p_values) == 36
    # the chance of more than 6 of 36 below 0.05 is 0.002
    assert np.sum(p_values < 0.05) <= 6
    assert p_values.min() > LEVEL


@pytest.mark.parametrize(
    ("taste", "drift", "sign"), [(1.0, 0.0, -1), (0.0, 1.0, 1)], ids=["personal", "followed"]
)
def test_days_differ_where_rankers_know_users_or_the_day(
    taste: float, drift: float, sign: int
) -> None:
    outcome = by_day(day_log(taste=taste, drift=drift, followed=True))
    assert outcome.is_finding
    assert outcome.contrast is not None
    assert np.sign(outcome.contrast.effect) == sign
    about = outcome.about.lower if sign < 0 else outcome.about.higher
    assert about[0] in outcome.sentence(day_log(queries=5).contexts)


def test_days_are_blind_to_taste_if_the_ranker_never_changes() -> None:
    """Moves then have the same causes within days and between them."""
    assert not by_day(day_log(taste=1.0, update=0.0)).is_finding


def test_without_days_nothing_is_compared() -> None:
    counts = day_log(queries=30)
    for other, reason in (
        (replace(counts, part=None, parts=None), "without days"),
        (replace(counts, options=replace(counts.options, page_parts=3)), "without days"),
        (day_log(queries=30, days=1), "a single day"),
        (replace(counts, clicks=np.zeros_like(counts.clicks)), "no clicked items moved"),
    ):
        outcome = by_day(other)
        assert outcome.contrast is None
        assert not outcome.is_finding
        assert reason in outcome.reason


@pytest.fixture(scope="module")
def fits() -> dict[str, ec.EpistemicPBM]:
    """Fits to worlds whose ranker knows the features, more than these, or its users."""
    settings = {"queries": 250, "docs": 8, "features": 3, "pages": 8_000, "relevance": "beta"}
    theta = (1.0, 0.6, 0.4)
    known = ec.simulate(theta=theta, seed=5, **settings)
    worlds = {
        "known": known,
        "hidden": with_hidden_signal(known, 2.0, 0.0, np.random.default_rng(1)),
        "personal": ec.simulate(theta=theta, users="personal", seed=5, **settings),
    }
    return {
        name: ec.EpistemicPBM(epochs=15).fit(world.counts(), progress=False)
        for name, world in worlds.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize(("name", "sign"), [("known", 0), ("hidden", 1), ("personal", -1)])
def test_fits_compare_items_that_moved_with_the_model(fits, name: str, sign: int) -> None:
    model = fits[name]
    record = model.fitted_.training.checks["confounding"]
    found = record["moved_items"]
    assert found["found"] == (sign != 0)
    assert (len(record["warnings"]) > 0) == (sign != 0)
    assert set(record["warnings"]) <= set(model.fitted_.training.warnings)
    if sign:
        assert np.sign(found["effect"]) == sign
        assert found["p_value"] < LEVEL
    else:
        assert any("nothing about items never shown" in each for each in words(model))
    assert [row["position"] for row in found["by_position"]] == [2, 3]
    assert record["days"] == {
        "available": False,
        "reason": "the log was read without days (--part day)",
    }
    assert json.loads(json.dumps(record, allow_nan=False)) == record


@pytest.mark.slow
def test_items_that_moved_have_the_true_bias_where_the_ranker_knew_more(fits) -> None:
    rows = fits["hidden"].fitted_.training.checks["confounding"]["moved_items"]["by_position"]
    for row, truth in zip(rows, (0.6, 0.4), strict=True):
        assert abs(np.log(row["moved"] / truth)) < 4 * row["error"] + 0.05
    # the model's falls too fast
    assert np.log(rows[-1]["model"] / 0.4) < -4 * rows[-1]["error"]


def words(model: ec.EpistemicPBM) -> list[str]:
    return model.fitted_.training.checks["words"]
