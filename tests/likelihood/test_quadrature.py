"""The quadrature for head pairs against reference values, the closed form and formulas."""

import numpy as np
import pytest
from scipy.special import betaln, digamma

from epiclick.click_models.click_model import Emission
from epiclick.likelihood import quadrature as module
from epiclick.likelihood.closed_form import attracted
from epiclick.likelihood.quadrature import (
    NODES,
    log_examined,
    moments_of,
    posterior_nodes,
    quadrature_gradient,
    quadrature_log_likelihood,
    quadrature_moments,
)

from . import recursion
from .hard_pairs import RANDOM, random_pairs

VALUE = 1e-9  # relative to 1 + the value; the largest error found is 6e-11
GRADIENT = 1e-6  # the same; largest 2e-7, where 1e5 clicks and as many displays cancel


def by_quadrature(
    theta: np.ndarray,
    alpha: np.ndarray,
    beta: np.ndarray,
    clicks: np.ndarray,
    unclicked: np.ndarray,
    nodes: int = NODES,
) -> tuple[np.ndarray, np.ndarray]:
    """Values and gradients (theta, alpha, beta) of pairs, each with its own theta."""
    emission = Emission(theta, 1 - theta)
    found = quadrature_gradient(emission, alpha, beta, clicks, unclicked, nodes)
    value = log_examined(emission, clicks) + found.value
    alone = quadrature_log_likelihood(emission, alpha, beta, clicks, unclicked, nodes)
    np.testing.assert_allclose(value, alone, rtol=1e-14, atol=1e-14)
    shapes = np.stack([found.by_alpha, found.by_beta], axis=1)
    return value, np.concatenate([clicks / theta - found.by_u, shapes], axis=1)


def error(own, reference) -> float:
    return float(np.max(abs(own - reference) / (1 + abs(reference))))


def columns(oracle) -> list[np.ndarray]:
    """theta, alpha, beta, clicks, unclicked of all cases."""
    names = ("theta", "alpha", "beta", "clicks", "unclicked")
    return [np.array([getattr(case, name) for case in oracle], float) for name in names]


def reference_values(oracle) -> np.ndarray:
    return np.array([case.value for case in oracle])


def test_all_pairs_of_the_oracle_agree_however_few_their_displays(oracle) -> None:
    assert len(oracle) >= 300
    assert any(case.clicks.sum() == 0 and case.unclicked.sum() > 1_000_000 for case in oracle)
    value, gradient = by_quadrature(*columns(oracle))
    assert error(value, reference_values(oracle)) <= VALUE
    assert error(gradient, np.array([case.gradient for case in oracle])) <= GRADIENT


def test_a_coarse_rule_would_be_noticed(oracle) -> None:
    """The control: with a third of the nodes the test above fails."""
    value, _ = by_quadrature(*columns(oracle), nodes=NODES // 3)
    assert error(value, reference_values(oracle)) > 100 * VALUE


def test_moments_agree_with_the_oracle(oracle) -> None:
    theta, *others = columns(oracle)
    mean, variance = quadrature_moments(Emission(theta, 1 - theta), *others)
    np.testing.assert_allclose(mean, [case.mean for case in oracle], rtol=1e-8)
    np.testing.assert_allclose(variance, [case.variance for case in oracle], rtol=1e-7)


@pytest.mark.parametrize(
    ("displays", "compared"),
    [(32, RANDOM), (64, RANDOM), pytest.param(1000, 12, marks=pytest.mark.slow)],
)
def test_both_ways_agree_on_random_pairs(displays: int, compared: int) -> None:
    """The quadrature, and the product of the probabilities of display after display."""
    pairs = random_pairs(displays)
    value, gradient = (own[:compared] for own in by_quadrature(*pairs))
    theta, alpha, beta, clicks, unclicked = (column[:compared] for column in pairs)
    order = np.array([np.repeat(np.arange(4), row.astype(int)) for row in unclicked]).T
    total = clicks.sum(axis=1)
    first = attracted(alpha, beta, total)

    def log_skips(rest, a, b):
        return recursion.log_displays(rest[np.arange(compared), order], 1.0, a, b)

    at = [1 - theta, alpha + total, beta]
    exact = first[0] + (clicks * np.log(theta)).sum(axis=1) + log_skips(*at)
    by_rest = [recursion.slope(log_skips, at, 0, (slice(None), k)) for k in range(4)]
    by_shape = [first[i] + recursion.slope(log_skips, at, i) for i in (1, 2)]
    exact_gradient = np.column_stack([clicks / theta - np.transpose(by_rest), *by_shape])
    assert error(value, exact) <= VALUE
    assert error(gradient, exact_gradient) <= GRADIENT


@pytest.mark.parametrize("displays", [100_000, 5_000_000])
def test_more_nodes_change_nothing(displays: int) -> None:
    pairs = random_pairs(displays)
    value, gradient = by_quadrature(*pairs)
    finer, finer_gradient = by_quadrature(*pairs, nodes=3 * NODES)
    assert error(value, finer) <= VALUE
    assert error(gradient, finer_gradient) <= GRADIENT


def test_nothing_shown_has_probability_one() -> None:
    """The rule integrates each Beta density to 1."""
    theta, alpha, beta, clicks, unclicked = random_pairs(1)
    value, _ = by_quadrature(theta, alpha, beta, 0 * clicks, 0 * unclicked)
    assert np.all(abs(value) < 1e-10)


def test_derivative_at_theta_of_one() -> None:
    """One unclicked display: log(1 - theta a / (a + b)) has the derivative -a / b at 1.

    With small b the derivative's integrand reaches far beyond the value's, to relevance that cannot
    be distinguished from 1.
    """
    _, alpha, beta, clicks, unclicked = random_pairs(1)
    theta = np.where(unclicked > 0, 1.0, 0.5)
    value, gradient = by_quadrature(theta, alpha, beta, 0 * clicks, unclicked)
    assert error(value, np.log(beta / (alpha + beta))) <= VALUE
    own = gradient[:, :4][unclicked > 0]
    np.testing.assert_allclose(own, -alpha / beta, rtol=1e-8)


def test_derivatives_are_differences_of_values() -> None:
    """Long tails and 300,000 displays included."""
    clicks = np.array([[0, 0, 0], [3, 0, 1], [0, 0, 0]])
    unclicked = np.array([[20, 3, 5], [40, 0, 8], [1000, 300_000, 0]])

    def parts(x):
        bias = Emission(1 / (1 + np.exp(-x[:3])), 1 / (1 + np.exp(x[:3])))
        return bias, *np.exp(x[3:]).reshape(2, 3)

    x = np.r_[3.0, 0.0, -3.0, np.log([0.3, 5, 1e-3, 2, 0.05, 0.5])]
    along = np.random.default_rng(3).normal(size=len(x))
    step = 1e-4

    def total(move: float) -> float:
        return quadrature_log_likelihood(*parts(x + move * along), clicks, unclicked).sum()

    bias, alpha, beta = parts(x)
    found = quadrature_gradient(bias, alpha, beta, clicks, unclicked)
    turn = bias.attractive * bias.attractive_rest
    by_logit = clicks.sum(axis=0) * bias.attractive_rest - turn * found.by_u.sum(axis=0)
    own = np.concatenate([by_logit, alpha * found.by_alpha, beta * found.by_beta]) @ along
    # central, of fourth order, so that neither the step nor rounding costs more than 1e-9
    near, far = (total(i * step) - total(-i * step) for i in (1, 2))
    assert own == pytest.approx((8 * near - far) / (12 * step), rel=1e-8)


def test_contexts_without_displays_change_nothing() -> None:
    theta, alpha, beta, clicks, unclicked = random_pairs(64)
    never_shown = clicks + unclicked == 0
    assert never_shown.any()
    value, gradient = by_quadrature(theta, alpha, beta, clicks, unclicked)
    changed = np.where(never_shown, 0.123, theta)
    other, other_gradient = by_quadrature(changed, alpha, beta, clicks, unclicked)
    np.testing.assert_array_equal(value, other)
    np.testing.assert_array_equal(gradient, other_gradient)
    assert np.all(gradient[:, :4][never_shown] == 0)


def test_sums_of_counts_are_not_rounded() -> None:
    half = np.full(1, 0.5)
    clicks, unclicked = np.array([[100_000_003]]), np.array([[1]])
    emission = Emission(np.ones(1), np.zeros(1))
    value = quadrature_log_likelihood(emission, half, half, clicks, unclicked)
    # with theta of 1 the pair is beta-binomial
    assert value[0] == pytest.approx(betaln(100_000_003.5, 1.5) - betaln(0.5, 0.5), rel=1e-9)


def test_blocks_and_a_shared_emission_change_nothing() -> None:
    theta, *others = random_pairs(64)
    assert len(module.blocks(RANDOM, module.NODES)) > 1
    same = np.broadcast_to(theta[0], theta.shape)
    emissions = Emission(theta[0], 1 - theta[0]), Emission(same, 1 - same)
    some = slice(250, 270)  # across the end of a block
    for kernel in (quadrature_moments, quadrature_gradient):
        shared, own = (kernel(emission, *others)[:4] for emission in emissions)
        alone = kernel(emissions[0], *(part[some] for part in others))[:4]
        for one, other, few in zip(shared, own, alone, strict=True):
            np.testing.assert_array_equal(one, other)
            np.testing.assert_allclose(few, one[some], rtol=1e-11, atol=1e-11)


def test_nodes_have_the_expectations_of_relevance() -> None:
    """Without displays those of a Beta: moments of zeta, and means of both logarithms."""
    alpha, beta = np.array([1e-2, 0.5, 3.0, 4e3]), np.array([2.0, 1e-2, 3.0, 1e3])
    nothing = np.zeros((4, 1), int)
    emission = Emission(np.full(1, 0.5), np.full(1, 0.5))
    at = posterior_nodes(emission, alpha, beta, nothing, nothing, NODES)
    total = alpha + beta
    mean, variance = moments_of(at)
    np.testing.assert_allclose(at.log_likelihood, 0, atol=1e-10)
    np.testing.assert_allclose(at.weights.sum(axis=0), 1, rtol=1e-13)
    np.testing.assert_allclose(mean, alpha / total, rtol=1e-9)
    np.testing.assert_allclose(variance, alpha * beta / total**2 / (total + 1), rtol=1e-8)
    for logs, own in ((at.log_zeta, alpha), (at.log_other, beta)):
        expected = digamma(own) - digamma(total)
        np.testing.assert_allclose((at.weights * logs).sum(axis=0), expected, rtol=1e-8)
