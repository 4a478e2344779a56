"""The quadrature for head pairs against reference values, the closed form and formulas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import betaln

from epiclick.click_models.click_model import Emission
from epiclick.likelihood.closed_form import exact_log_likelihood, log_binomial
from epiclick.likelihood.quadrature import (
    NODES,
    quadrature_log_likelihood,
    quadrature_moments,
)

pytestmark = pytest.mark.slow

VALUE = 1e-9  # relative to 1 + the value; the largest error found is 6e-11
GRADIENT = 1e-6  # the same; largest 2e-7, where 1e5 clicks and as many displays cancel
PAIRS = 300  # the same in all random tests, so that few programs compile


def gradients(log_likelihood, **options):
    """Value and gradient (theta, alpha, beta) of pairs, each with its own theta."""

    def single(theta, alpha, beta, clicks, unclicked):
        return log_likelihood(
            Emission(theta, 1 - theta),
            alpha[None],
            beta[None],
            clicks[None],
            unclicked[None],
            **options,
        )[0]

    def joined(*pair):
        value, (theta, alpha, beta) = jax.value_and_grad(single, (0, 1, 2))(*pair)
        return value, jnp.r_[theta, alpha, beta]

    return jax.jit(jax.vmap(joined))


by_quadrature = gradients(quadrature_log_likelihood)
with_more_nodes = gradients(quadrature_log_likelihood, nodes=3 * NODES)
in_closed_form = gradients(exact_log_likelihood)


def error(own, reference) -> float:
    return float(np.max(abs(own - reference) / (1 + abs(reference))))


def columns(oracle) -> list[jax.Array]:
    """theta, alpha, beta, clicks, unclicked of all cases."""
    names = ("theta", "alpha", "beta", "clicks", "unclicked")
    return [jnp.asarray([getattr(case, name) for case in oracle], float) for name in names]


def reference_values(oracle) -> np.ndarray:
    """The oracle's log-likelihoods without binomial coefficients."""
    _, _, _, clicks, unclicked = columns(oracle)
    constants = log_binomial(clicks + unclicked, clicks).sum(axis=1)
    return np.array([case.log_likelihood for case in oracle]) - np.asarray(constants)


def random_pairs(displays: int, pairs: int = PAIRS) -> list[np.ndarray]:
    """Pairs in all corners: tiny and large parameters, theta tiny, near 1 and 1, few contexts."""
    rng = np.random.default_rng(displays)
    size = (pairs, 4)
    kind = rng.integers(4, size=size)
    theta = np.choose(
        kind,
        [np.ones(size), 1 - 10 ** rng.uniform(-9, 0, size), 10 ** rng.uniform(-6, 0, size), 0.3],
    )
    theta = np.maximum(theta, 1e-6)
    alpha, beta = 10 ** rng.uniform(-3, 4, (2, pairs))
    spread = 10 ** rng.uniform(-1.5, 1, pairs)
    unclicked = np.array([rng.multinomial(displays, rng.dirichlet(np.full(4, s))) for s in spread])
    clicks = np.where(rng.random(size) < 0.5, 0, np.floor(10 ** rng.uniform(0, 4, size)))
    clicks[rng.random(pairs) < 0.4] = 0
    return [theta, alpha, beta, clicks, unclicked.astype(float)]


def test_all_pairs_of_the_oracle_agree_however_few_their_displays(oracle) -> None:
    assert len(oracle) >= 300
    assert any(case.clicks.sum() == 0 and case.unclicked.sum() > 1_000_000 for case in oracle)
    value, gradient = by_quadrature(*columns(oracle))
    assert error(value, reference_values(oracle)) <= VALUE
    assert error(gradient, np.array([case.gradient for case in oracle])) <= GRADIENT


def test_a_coarse_rule_would_be_noticed(oracle) -> None:
    """The control: with a third of the nodes the test above fails."""

    def single(theta, alpha, beta, *counts):
        shape, counts = (alpha[None], beta[None]), [count[None] for count in counts]
        return quadrature_log_likelihood(
            Emission(theta, 1 - theta), *shape, *counts, nodes=NODES // 3
        )[0]

    value = jax.jit(jax.vmap(single))(*columns(oracle))
    assert error(value, reference_values(oracle)) > 100 * VALUE


def test_moments_agree_with_the_oracle(oracle) -> None:
    def single(theta, alpha, beta, clicks, unclicked):
        return quadrature_moments(
            Emission(theta, 1 - theta), alpha[None], beta[None], clicks[None], unclicked[None]
        )

    mean, variance = jax.jit(jax.vmap(single))(*columns(oracle))
    np.testing.assert_allclose(mean[:, 0], [case.mean for case in oracle], rtol=1e-8)
    np.testing.assert_allclose(variance[:, 0], [case.variance for case in oracle], rtol=1e-7)


@pytest.mark.parametrize(
    ("displays", "width", "compared"), [(32, 64, PAIRS), (64, 64, PAIRS), (1000, 1000, 12)]
)
def test_both_ways_agree_on_random_pairs(displays: int, width: int, compared: int) -> None:
    pairs = random_pairs(displays)
    value, gradient = (own[:compared] for own in by_quadrature(*pairs))
    *numbers, unclicked = (column[:compared] for column in pairs)
    order = np.full((compared, width), -1)
    order[:, :displays] = [np.repeat(np.arange(4), row.astype(int)) for row in unclicked]
    exact, exact_gradient = in_closed_form(*numbers, order)
    assert error(value, exact) <= VALUE
    assert error(gradient, exact_gradient) <= GRADIENT


@pytest.mark.parametrize("displays", [100_000, 5_000_000])
def test_more_nodes_change_nothing(displays: int) -> None:
    pairs = random_pairs(displays)
    value, gradient = by_quadrature(*pairs)
    finer, finer_gradient = with_more_nodes(*pairs)
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
    own = np.asarray(gradient[:, :4])[unclicked > 0]
    np.testing.assert_allclose(own, -alpha / beta, rtol=1e-8)


def test_derivatives_agree_with_differences_to_second_order() -> None:
    """The posterior of position bias needs a Hessian."""
    clicks = jnp.asarray([[0, 0, 0], [3, 0, 1], [0, 0, 0]])
    unclicked = jnp.asarray([[20, 3, 5], [40, 0, 8], [1000, 300_000, 0]])

    def total(x):
        bias = jax.nn.sigmoid(x[:3]), jax.nn.sigmoid(-x[:3])
        shape = jnp.exp(x[3:]).reshape(2, 3)
        return quadrature_log_likelihood(Emission(*bias), *shape, clicks, unclicked).sum()

    x = jnp.r_[3.0, 0.0, -3.0, jnp.log(jnp.asarray([0.3, 5, 1e-3, 2, 0.05, 0.5]))]
    along = jnp.asarray(np.random.default_rng(3).normal(size=len(x)))
    step = 1e-4

    @jax.jit
    def derivatives(x):
        """Value and gradient, and how both change along the line."""
        both = jax.jvp(jax.value_and_grad(total), (x,), (along,))
        return [jnp.r_[value, gradient] for value, gradient in both]

    # central, of fourth order, so that neither the step nor rounding costs more than 1e-9
    after, before, far, farther = (
        derivatives(x + i * step * along)[0] for i in (1.0, -1.0, 2.0, -2.0)
    )
    differences = (8 * (after - before) - (far - farther)) / (12 * step)
    own, change = derivatives(x)
    np.testing.assert_allclose(change, differences, rtol=1e-8, atol=1e-9)
    assert float(own[1:] @ along) == pytest.approx(float(differences[0]), rel=1e-8)


def test_contexts_without_displays_change_nothing() -> None:
    theta, alpha, beta, clicks, unclicked = random_pairs(64)
    never_shown = clicks + unclicked == 0
    assert never_shown.any()
    value, gradient = by_quadrature(theta, alpha, beta, clicks, unclicked)
    changed = np.where(never_shown, 0.123, theta)
    other, other_gradient = by_quadrature(changed, alpha, beta, clicks, unclicked)
    np.testing.assert_array_equal(value, other)
    np.testing.assert_array_equal(gradient, other_gradient)
    assert np.all(np.asarray(gradient)[:, :4][never_shown] == 0)


def test_parameters_of_relevance_may_be_single_precision() -> None:
    """A network may give them so; sums of counts must not be rounded to 7 digits with them."""
    theta, rest = jnp.ones(1), jnp.zeros(1)
    half = jnp.full(1, 0.5, jnp.float32)
    clicks, unclicked = jnp.asarray([[100_000_003]]), jnp.asarray([[1]])
    value = jax.jit(quadrature_log_likelihood)(Emission(theta, rest), half, half, clicks, unclicked)
    # with theta of 1 the pair is beta-binomial
    assert float(value[0]) == pytest.approx(betaln(100_000_003.5, 1.5) - betaln(0.5, 0.5), rel=1e-9)
