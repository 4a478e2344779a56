"""How much of the prior's width is left: against draws, and as sentences."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import special

from epiclick.click_models.pbm import PositionBased
from epiclick.click_models.priors import FIXED_SD
from epiclick.diagnostics.contraction import LITTLE, NOTHING, prior_contraction
from epiclick.posterior.laplace import KnownBias

CONTEXTS = pa.table({"position": [1, 2, 3, 4]})

UNIFORM_SD = 12**-0.5  # of a uniform probability


def fit(mode: list[float], sd: list[float], anchor: int | None = 0) -> Any:
    """The attributes of a fitted model that are used."""
    # a last layer follows position bias
    size = [*sd, 0.1, 0.1]
    posterior = SimpleNamespace(mean=np.array([*mode, 0.0, 0.0]), robust=np.diag(np.square(size)))
    return SimpleNamespace(
        contexts=CONTEXTS, anchor=anchor, posterior=posterior, clicks=PositionBased()
    )


def test_standard_deviations_are_those_of_draws() -> None:
    mode, sd = np.array([0.4, -1.0, 2.0]), np.array([0.1, 1.0, 1.5])
    found = prior_contraction(fit(mode.tolist(), sd.tolist()))
    assert found is not None
    draws = special.expit(mode + sd * np.random.default_rng(0).standard_normal((400_000, 3)))
    # the error of a standard deviation of n draws is at most its 1 / sqrt(n), about
    np.testing.assert_allclose(found.after[1:], draws.std(axis=0), rtol=5 / np.sqrt(400_000))
    uniform = np.random.default_rng(1).random(400_000)
    assert uniform.std() == pytest.approx(UNIFORM_SD, rel=5 / np.sqrt(400_000))
    np.testing.assert_allclose(found.left[1:], found.after[1:] / UNIFORM_SD)
    assert np.isnan(found.left[0])
    assert [record["position"] for record in found.to_records()] == [2, 3, 4]


def test_clicks_that_say_nothing_little_and_much_are_distinguished() -> None:
    # the Gaussian that replaces the uniform prior has a standard deviation of sqrt(2) logits
    found = prior_contraction(fit([0.0, 0.0, 0.0], [2**0.5, 0.8, 0.1]))
    assert found is not None
    assert found.left[1] > NOTHING > found.left[2] > LITTLE > found.left[3]
    assert found.warnings == (
        "position 2: the clicks say next to nothing about the bias there, and its interval is "
        "nearly that of the prior",
    )
    text = " ".join(found.sentences())
    assert "probability of a click if shown at position 1" in text
    assert "narrowed the prior of position bias to 9% to 91% of its width" in text
    assert f"position 3: the clicks say little about the bias there ({found.left[2]:.0%}" in text
    assert "Warning: position 2" in text


def test_a_certain_fit_has_no_warnings() -> None:
    found = prior_contraction(fit([0.0, 0.0, 0.0], [0.1, 0.1, 0.1]))
    assert found is not None
    assert found.warnings == ()
    assert "say" not in " ".join(found.sentences())


def test_a_free_scale_has_no_anchor_to_mention() -> None:
    found = prior_contraction(fit([0.0] * 4, [0.1] * 4, anchor=None))
    assert found is not None
    assert "shown at" not in " ".join(found.sentences())
    assert np.isfinite(found.left).all()


def test_a_given_bias_is_compared_with_its_own_prior() -> None:
    known = KnownBias(
        np.array([np.nan, 0.0, 0.0, np.nan]), np.array([np.nan, FIXED_SD, 0.2, np.nan])
    )
    found = prior_contraction(fit([0.0, 0.0, 0.0], [FIXED_SD, 0.19, 0.1]), known)
    assert found is not None
    assert np.isnan(found.left).tolist() == [True, True, False, False]
    assert found.left[2] == pytest.approx(0.19 / 0.2, rel=0.01)
    assert found.warnings == ()
    assert "position 3: the clicks add next to nothing to the position bias that was given" in (
        " ".join(found.sentences())
    )


def test_models_without_a_posterior_have_nothing_to_compare() -> None:
    assert prior_contraction(SimpleNamespace(posterior=None)) is None
