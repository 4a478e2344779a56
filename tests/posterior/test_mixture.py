"""Mixtures of Betas against scipy, component by component, and in relative terms near 0."""

import numpy as np
import pytest
from scipy.special import betainc, betaincinv, betaln, expit, logsumexp

from epiclick.posterior.pair_posterior import BetaMixture, matched_beta


def mixture(seed: int, pairs: int, width: int, smallest: float = -3) -> BetaMixture:
    """Mixtures of 1 to width + 1 components, the rest of weight 0."""
    rng = np.random.default_rng(seed)
    p, b = 10 ** rng.uniform(smallest, 1.5, (2, pairs, 1))
    last = rng.integers(0, width + 1, pairs)
    n = np.arange(width + 1)
    weights = (rng.dirichlet(np.full(width + 1, 0.5), pairs) + 1e-9) * (n <= last[:, None])
    weights /= weights.sum(axis=1, keepdims=True)
    return BetaMixture(weights, p + n, b + np.maximum(last[:, None] - n, 0), last)


def log_cdf_near_zero(mixed: BetaMixture, log_z: np.ndarray) -> np.ndarray:
    """log of sum w z^a / (a B(a, b)), which is the cdf as long as z is below 1e-16."""
    a, b = mixed.alphas, mixed.betas
    each = a * log_z[:, None] - np.log(a) - betaln(a, b)
    return logsumexp(each, b=mixed.weights, axis=1)


@pytest.mark.parametrize("width", [1, 5, 16])
def test_distribution_function_and_density_are_those_of_the_components(width: int) -> None:
    mixed = mixture(1, 500, width)
    logit = np.random.default_rng(2).normal(0, 4, 500)
    cdf, density = mixed.at(logit, mixed.log_scale())
    z = expit(logit)[:, None]
    expected = (mixed.weights * betainc(mixed.alphas, mixed.betas, z)).sum(axis=1)
    # from a logit of 0 on it is 1 minus another one, which rounds
    np.testing.assert_allclose(cdf, expected, rtol=1e-10, atol=1e-15)
    step = 1e-4
    up, down = (mixed.at(logit + s, mixed.log_scale())[0] for s in (step, -step))
    np.testing.assert_allclose(density, (up - down) / (2 * step), rtol=1e-5, atol=1e-9)


def test_the_distribution_function_at_relevances() -> None:
    mixed = mixture(11, 300, 16)
    zeta = np.random.default_rng(12).random(300)
    expected = (mixed.weights * betainc(mixed.alphas, mixed.betas, zeta[:, None])).sum(axis=1)
    np.testing.assert_allclose(mixed.cdf(zeta), expected, rtol=1e-9, atol=1e-12)
    assert np.all(mixed.cdf(np.ones(300)) == 1)
    assert np.all((mixed.cdf(np.zeros(300)) >= 0) & (mixed.cdf(np.zeros(300)) < 1))


@pytest.mark.parametrize("probability", [1e-6, 0.05, 0.5, 0.95, 0.9999])
def test_quantiles_have_their_probability(probability: float) -> None:
    mixed = mixture(3, 2000, 16)
    z = mixed.quantile(probability)
    assert np.all((z >= 0) & (z <= 1))
    inside = (z > 1e-300) & (z < 1 - 1e-6)  # representable in float64
    assert inside.sum() > 800
    cdf = (mixed.weights * betainc(mixed.alphas, mixed.betas, z[:, None])).sum(axis=1)[inside]
    np.testing.assert_allclose(cdf, probability, rtol=1e-8)
    np.testing.assert_allclose(1 - cdf, 1 - probability, rtol=1e-6)


def test_tiny_quantiles_are_right_in_relative_terms() -> None:
    mixed = mixture(4, 3000, 8)
    z = mixed.quantile(0.05)
    tiny = (z > 1e-300) & (z < 1e-17) & (mixed.last > 0)
    assert tiny.sum() > 100
    assert z[tiny].min() < 1e-200
    few = mixed[tiny]
    log_z = np.log(z[tiny])
    error = (log_cdf_near_zero(few, log_z) - np.log(0.05)) / few.alphas[:, 0]  # of log z
    assert abs(error).max() < 1e-9
    lost = (z <= 1e-300) & (mixed.last > 0)
    assert lost.sum() > 50
    lowest = np.full(lost.sum(), np.log(1e-300))
    assert np.all(log_cdf_near_zero(mixed[lost], lowest) > np.log(0.05))


def test_the_matched_beta_would_be_noticed() -> None:
    """The control: quantiles of the Beta of the same moments have another probability."""
    mixed = mixture(5, 200, 16, smallest=-1)
    z = matched_beta(*mixed.moments()).quantile(0.05)
    cdf = (mixed.weights * betainc(mixed.alphas, mixed.betas, z[:, None])).sum(axis=1)
    assert np.quantile(abs(cdf - 0.05), 0.9) > 1e-3


def test_one_component_is_a_beta() -> None:
    mixed = mixture(6, 300, 0)
    for q in (0.05, 0.95):
        expected = betaincinv(mixed.alphas[:, 0], mixed.betas[:, 0], q)
        np.testing.assert_array_equal(mixed.quantile(q), expected)


def test_moments_are_those_of_samples() -> None:
    mixed, draws = mixture(7, 8, 5, smallest=-0.5), 200_000
    rng = np.random.default_rng(8)
    mean, variance = mixed.moments()
    for i in range(8):
        n = rng.choice(6, draws, p=mixed.weights[i])
        z = rng.beta(mixed.alphas[i, n], mixed.betas[i, n])
        assert abs(z.mean() - mean[i]) < 4 * np.sqrt(variance[i] / draws)
        square = (z - mean[i]) ** 2
        assert abs(square.mean() - variance[i]) < 4 * square.std() / np.sqrt(draws)


def test_components_of_no_weight_change_nothing() -> None:
    mixed = mixture(9, 100, 4)
    more = np.arange(5, 9)
    wider = BetaMixture(
        np.pad(mixed.weights, ((0, 0), (0, 4))),
        np.concatenate([mixed.alphas, mixed.alphas[:, :1] + more], axis=1),
        np.concatenate([mixed.betas, np.repeat(mixed.betas[:, -1:], 4, axis=1)], axis=1),
        mixed.last,
    )
    np.testing.assert_allclose(wider.quantile(0.3), mixed.quantile(0.3), rtol=1e-12)
    np.testing.assert_allclose(wider.moments(), mixed.moments(), rtol=1e-14)
