"""A posterior that is curved along one parameter, against densities whose curve is known."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Self, cast

import numpy as np
import pytest
from scipy import special, stats

from epiclick.click_models.registry import click_model
from epiclick.fitted.parameters import ParameterPosterior, bent, floor_parameter
from epiclick.posterior.ridge import LOWEST, Corrected, bend, follow

from .small_worlds import differences

TRUST = click_model("trust")


@dataclass(frozen=True)
class Banana:
    r"""psi has a skewed density, and two others are Gaussian around a curve.

    .. math:: \psi = \log g, \quad g \sim \Gamma(k), \qquad x_1 \sim N(a \psi^2, \tau^2), \quad
              x_2 \sim N(b \psi, \tau^2)
    """

    shape: float = 40.0
    a: float = 1.5
    b: float = -0.7
    tau: float = 0.05

    prior = SimpleNamespace(free=3)

    @property
    def mode(self) -> np.ndarray:
        top = np.log(self.shape)
        return np.array([self.a * top**2, top, self.b * top])

    def sample(self, most: int, seed: int) -> Self:
        return self

    def slope(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        x, psi, y = vector
        gap, other = x - self.a * psi**2, y - self.b * psi
        value = self.shape * psi - np.exp(psi) - (gap**2 + other**2) / (2 * self.tau**2)
        by_psi = self.shape - np.exp(psi)
        by_psi += (2 * self.a * psi * gap + self.b * other) / self.tau**2
        return float(value), np.array([-gap, 0.0, -other]) / self.tau**2 + [0.0, by_psi, 0.0]

    @property
    def covariance(self) -> np.ndarray:
        step = 1e-4 * np.eye(3)
        ends = [[self.slope(self.mode + s * m)[1] for s in (1, -1)] for m in step]
        hessian = np.array([(up - down) / 2e-4 for up, down in ends])
        return np.linalg.inv(-(hessian + hessian.T) / 2)


def test_the_curve_consists_of_modes_given_its_parameter() -> None:
    density = Banana()
    curve = follow(density, density.mode, density.covariance, 1)
    assert len(curve.psi) > 7
    np.testing.assert_allclose(curve.vectors[:, 0], density.a * curve.psi**2, atol=1e-3)
    np.testing.assert_allclose(curve.vectors[:, 2], density.b * curve.psi, atol=1e-3)
    assert np.all(np.diff(curve.psi) > 0)


def test_the_curve_covers_long_tails() -> None:
    density = Banana(shape=1.0)  # psi falls by 8 below its mode over 9 standard deviations
    curve = follow(density, density.mode, density.covariance, 1)
    assert np.all(curve.values[[0, -1]] < curve.values.max() - LOWEST)


def test_bent_draws_have_the_moments_of_the_density_and_straight_ones_do_not() -> None:
    density = Banana()
    found = bend(cast(Any, density), density.mode, density.covariance, 1, 0)
    assert found is not None
    rng = np.random.default_rng(0)
    count = 20_000
    psi = np.log(rng.gamma(density.shape, size=count))
    truth = density.a * psi**2 + density.tau * rng.standard_normal(count)
    factor = np.linalg.cholesky(density.covariance)
    delta = rng.standard_normal((count, 3)) @ factor.T
    sd = np.sqrt(density.covariance[1, 1])
    z = np.clip(delta[:, 1] / sd, -3, 3)
    drawn = found.centre + delta + z[:, None] ** np.array([1, 2, 3]) @ found.ridge
    # the skewed marginal, and the residual around the curve
    assert stats.ks_2samp(drawn[:2_000, 1], psi[:2_000]).pvalue > 0.01
    error = truth.std() / np.sqrt(count)
    assert abs(drawn[:, 0].mean() - truth.mean()) < 5 * error
    np.testing.assert_allclose(drawn[:, 0].std(), truth.std(), rtol=0.03)
    residual = drawn[:, 0] - density.a * drawn[:, 1] ** 2
    np.testing.assert_allclose(residual.std(), density.tau, rtol=0.1)
    straight = density.mode + delta
    off = straight[:, 0] - density.a * straight[:, 1] ** 2
    assert off.std() > 1.2 * density.tau


@dataclass(frozen=True)
class Skewed(Banana):
    r"""Given psi, a third parameter is skewed: :math:`y = b \psi + \log g, g \sim \Gamma(k)`."""

    k: float = 6.0

    @property
    def mode(self) -> np.ndarray:
        top = np.log(self.shape)
        return np.array([self.a * top**2, top, self.b * top + np.log(self.k)])

    def slope(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        x, psi, y = vector
        gap, log_g = x - self.a * psi**2, y - self.b * psi
        value = self.shape * psi - np.exp(psi) - gap**2 / (2 * self.tau**2)
        by_g = self.k - np.exp(log_g)
        by_psi = self.shape - np.exp(psi) + 2 * self.a * psi * gap / self.tau**2 - self.b * by_g
        return (
            float(value + self.k * log_g - np.exp(log_g)),
            np.array([-gap / self.tau**2, by_psi, by_g]),
        )


def test_draws_have_the_mean_of_what_is_skewed_around_the_curve() -> None:
    density = Skewed()
    np.testing.assert_allclose(density.slope(density.mode)[1], 0, atol=1e-9)
    found = bend(cast(Any, density), density.mode, density.covariance, 1, 0)
    assert found is not None
    psi = found.centre[1]
    around = found.centre[2] - density.b * psi
    mean, mode = special.digamma(density.k), np.log(density.k)
    assert abs(mean - mode) > 0.08  # a control: what the mode would be off by
    assert abs(around - mean) < 0.005
    assert abs(found.centre[0] - density.a * psi**2) < 0.1 * density.tau  # not skewed: not moved
    np.testing.assert_allclose(psi, np.log(stats.gamma(density.shape).median()), atol=0.01)


def posterior(contexts: int) -> ParameterPosterior:
    """Of trust parameters, A and B of a context being strongly negatively correlated."""
    size = 2 * contexts - 1
    mean = np.r_[np.linspace(1.0, -0.5, contexts - 1), np.linspace(-0.8, -2.5, contexts)]
    spread = np.diag(np.r_[np.full(contexts - 1, 0.2), np.full(contexts, 0.5)] ** 2)
    for k in range(contexts - 1):
        spread[k, contexts + k] = spread[contexts + k, k] = -0.09
    ridge = np.zeros((3, size))
    return ParameterPosterior(mean, spread, spread, None, 0.0, ridge=ridge)


def emission(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A and B at the contexts after the anchor."""
    contexts = (vectors.shape[1] + 1) // 2
    a = special.expit(vectors[:, : contexts - 1])
    return a, a * special.expit(vectors[:, contexts:])


def test_the_best_known_click_stays_best_known_in_draws() -> None:
    own = posterior(4)
    rng = np.random.default_rng(1)
    draws = rng.multivariate_normal(own.mean, own.bayes, 20_000)
    moved = bent(own, draws, TRUST, 4, 0)
    np.testing.assert_array_equal(moved[:, 3:], draws[:, 3:])  # shares move as they are drawn
    a, b = emission(moved)
    assert np.all((b >= 0) & (b <= a) & (a <= 1))

    def least(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Standard deviation of A m + B (1 - m) where it is smallest, at each context."""
        m = np.linspace(0, 1, 201)[:, None, None]
        return (m * a + (1 - m) * b).std(axis=1).min(axis=0)

    straight = emission(draws)
    assert np.all(least(a, b) <= least(*straight) + 1e-4)
    # first-order agreement: small deviations are moved as they are
    tiny = own.mean + 1e-4 * (draws[:50] - own.mean)
    np.testing.assert_allclose(bent(own, tiny, TRUST, 4, 0), tiny, atol=1e-6)


def test_only_affine_models_with_an_anchor_have_a_floor() -> None:
    assert floor_parameter(TRUST, 4, 0) == 3
    assert floor_parameter(TRUST, 4, 2) == 5
    assert floor_parameter(TRUST, 4, None) is None
    assert floor_parameter(click_model("pbm"), 4, 0) is None


@pytest.mark.parametrize("name", ["pbm", "ubm", "cascade", "dcm", "sdbn"])
def test_other_models_move_straight(name: str) -> None:
    start, moves = np.random.default_rng(0).normal(size=(2, 3, 4))
    found = click_model(name).moved(start, moves, np.eye(4))
    np.testing.assert_array_equal(found, start + moves)


@dataclass(frozen=True)
class Sampled(Banana):
    """A banana of which a sample has another maximum and another Hessian."""

    def sample(self, most: int, seed: int) -> Any:
        return Banana(shape=0.8 * self.shape, a=1.2 * self.a, tau=2 * self.tau)


def test_a_corrected_sample_has_the_maximum_and_the_hessian_of_all_pairs() -> None:
    whole = Sampled()
    some = whole.sample(0, 0)
    gradient = some.slope(whole.mode)[1]
    hessian = differences(lambda v: some.slope(v)[1], whole.mode, 1e-5)
    more = -np.linalg.inv(whole.covariance) - hessian
    found = Corrected(cast(Any, some), whole.mode, gradient, more)
    np.testing.assert_allclose(found.slope(whole.mode)[1], 0, atol=1e-9)
    own = differences(lambda v: found.slope(v)[1], whole.mode, 1e-5)
    np.testing.assert_allclose(np.linalg.inv(-own), whole.covariance, rtol=1e-4, atol=1e-9)
    value = differences(lambda v: found.slope(v)[0], whole.mode + 0.1, 1e-5)
    np.testing.assert_allclose(value, found.slope(whole.mode + 0.1)[1], rtol=1e-5)
    assert np.abs(gradient).max() > 1  # a control: the sample itself has neither
    assert np.abs(more).max() > 1


@dataclass(frozen=True)
class Astray(Banana):
    """Beside the mode the density rises without bound, or is not a number."""

    far: float = np.inf

    def slope(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = super().slope(vector)
        if vector[1] > self.mode[1] + 0.2:
            return self.far, slope
        return value, slope


@pytest.mark.parametrize("far", [1e6, np.nan])
def test_a_curve_that_leads_astray_is_not_followed(far: float) -> None:
    density = Astray(far=far)
    assert bend(cast(Any, density), density.mode, Banana().covariance, 1, 0) is None
