"""The prior against scipy's distributions, and its derivatives against differences."""

import numpy as np
import pytest
from scipy import integrate, stats

from epiclick.click_models.priors import UniformPrior
from epiclick.posterior.joint_prior import (
    BIAS_WIDENING,
    CONFIDENCE_SPREAD,
    MEAN_SPREAD,
    SLOPE_SCALE,
    Prior,
    layer_spread,
    slopes_in,
)

from .small_worlds import differences

VECTOR = np.array([0.3, -2.0, 30.0, 1.5, -0.5, 0.7, 2.5])


@pytest.fixture
def prior() -> Prior:
    """The second of three positions is known from elsewhere."""
    known = UniformPrior(np.array([np.nan, -1.0, np.nan]), np.array([np.nan, 0.2, np.nan]))
    return Prior(known, np.array([1.0, 2.0, 0.5, 3.0]))


def test_densities_are_those_of_scipy(prior: Prior) -> None:
    def log_density(vector: np.ndarray) -> float:
        return (
            stats.logistic.logpdf(vector[[0, 2]]).sum()  # uniform probabilities have such logits
            + stats.norm.logpdf(vector[1], -1.0, 0.2)
            + stats.norm.logpdf(vector[3:], 0, prior.layer_sd).sum()
        )

    rng = np.random.default_rng(0)
    vectors = [VECTOR, *rng.normal(0, 2, (20, 7))]
    ours, scipys = ([f(v) for v in vectors] for f in (prior.log_density, log_density))
    np.testing.assert_allclose(np.diff(ours), np.diff(scipys), rtol=1e-9)


def test_derivatives_are_those_of_differences(prior: Prior) -> None:
    gradient, hessian = prior.gradient(VECTOR), prior.hessian(VECTOR)
    np.testing.assert_allclose(gradient, differences(prior.log_density, VECTOR, 1e-3), atol=1e-8)
    np.testing.assert_allclose(hessian, differences(prior.gradient, VECTOR, 1e-3), atol=1e-8)


def test_extreme_logits_have_finite_values(prior: Prior) -> None:
    far = np.array([800.0, 0.0, -800.0, 0.0, 0.0, 0.0, 0.0])
    assert np.isfinite(prior.log_density(far))
    np.testing.assert_allclose(prior.gradient(far)[[0, 2]], [-1, 1])


def test_the_spread_of_outputs_does_not_depend_on_the_number_or_scale_of_units() -> None:
    """Weights drawn from the prior give logits of the mean that differ by MEAN_SPREAD."""
    rng = np.random.default_rng(1)
    for units, scale in ((3, 1.0), (40, 0.1), (40, 20.0)):
        hidden = scale * np.maximum(rng.normal(size=(200, units)), 0)
        spread = layer_spread(np.square(hidden).mean(axis=0))
        assert spread.shape == (2 * (units + 1),)
        weights, biases = np.split(spread.reshape(-1, 2), [units])
        np.testing.assert_allclose(
            biases[0], BIAS_WIDENING * np.array([MEAN_SPREAD, CONFIDENCE_SPREAD])
        )
        outputs = hidden @ rng.normal(0, weights[:, :1], (units, 4000))
        np.testing.assert_allclose(np.sqrt(np.square(outputs).mean()), MEAN_SPREAD, rtol=0.05)
        outputs = hidden @ rng.normal(0, weights[:, 1:], (units, 4000))
        np.testing.assert_allclose(np.sqrt(np.square(outputs).mean()), CONFIDENCE_SPREAD, rtol=0.05)
    assert np.all(np.isfinite(layer_spread(np.zeros(2))))  # dead units


def test_slopes_are_the_weights_of_exposure_for_the_mean() -> None:
    """Of two layers of three units, the second of which is exposure, with two outputs each."""
    names = [f"{layer}{unit}{output}" for layer in "rs" for unit in "0x2b" for output in "mc"]
    assert [names[i] for i in slopes_in(slice(1, 2), 3, 2)] == ["rxm", "sxm"]
    assert slopes_in(None, 3, 2) == ()


def learned(estimate: float, error: float) -> tuple[float, float]:
    """Mean and standard deviation of a slope that clicks measure with such an error."""
    prior = Prior(UniformPrior(np.zeros(0), np.zeros(0)), np.array([1.0]), slopes=(0,))
    variance = 1 / (1 / error**2 + 1)
    found = prior.with_slopes(np.array([variance * estimate / error**2]), np.array([[variance]]))
    own = 1 / (1 / error**2 + 1 / found.layer_sd[0] ** 2)
    return own * estimate / error**2, float(np.sqrt(own))


@pytest.mark.parametrize(
    ("estimate", "error"), [(0.0, 0.1), (0.05, 0.1), (0.3, 0.1), (1.0, 0.1), (-0.5, 0.05)]
)
def test_a_slope_has_about_the_posterior_of_a_cauchy_prior(estimate: float, error: float) -> None:
    def density(w: float) -> float:
        return float(stats.norm.pdf(estimate, w, error) * stats.cauchy.pdf(w, 0, SLOPE_SCALE))

    ends = (estimate - 9 * error, estimate + 9 * error)
    total, first, second = (
        integrate.quad(lambda w, n=n: w**n * density(w), *ends, points=[0.0], limit=200)[0]
        for n in range(3)
    )
    mean = first / total
    sd = np.sqrt(second / total - mean**2)
    found = learned(estimate, error)
    assert found[0] == pytest.approx(mean, abs=0.15 * error)
    assert found[1] == pytest.approx(sd, rel=0.15)


@pytest.mark.parametrize("estimate", [0.0, 1.0, 3.0])
def test_clicks_that_say_nothing_leave_the_prior(estimate: float) -> None:
    """However large the estimate is, if its error is larger."""
    mean, sd = learned(estimate, 20.0)
    assert abs(mean) < 0.01
    assert sd == pytest.approx(SLOPE_SCALE, rel=0.05)
