"""The integral of head pairs against reference values, numpy and formulas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import betaln

from epiclick.click_models.click_model import Emission
from epiclick.likelihood.quadrature import log_examined, quadrature_gradient
from epiclick.traced.integrals import NODES, integral_log_likelihood

from ..likelihood.affine_pairs import FEW, HEADS, A, B, reference
from ..likelihood.affine_pairs import columns as affine_columns
from ..likelihood.hard_pairs import PAIRS, random_pairs

pytestmark = pytest.mark.slow

VALUE = 1e-9  # relative to 1 + the value; the largest error found is 6e-11
GRADIENT = 1e-6  # the same; largest 2e-7, where 1e5 clicks and as many displays cancel


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


by_quadrature = gradients(integral_log_likelihood)
with_more_nodes = gradients(integral_log_likelihood, nodes=3 * NODES)


def error(own, reference) -> float:
    return float(np.max(abs(own - reference) / (1 + abs(reference))))


def columns(oracle) -> list[jax.Array]:
    """theta, alpha, beta, clicks, unclicked of all cases."""
    names = ("theta", "alpha", "beta", "clicks", "unclicked")
    return [jnp.asarray([getattr(case, name) for case in oracle], float) for name in names]


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

    def single(theta, alpha, beta, *counts):
        shape, counts = (alpha[None], beta[None]), [count[None] for count in counts]
        return integral_log_likelihood(
            Emission(theta, 1 - theta), *shape, *counts, nodes=NODES // 3
        )[0]

    value = jax.jit(jax.vmap(single))(*columns(oracle))
    assert error(value, reference_values(oracle)) > 100 * VALUE


def by_numpy(theta, alpha, beta, clicks, unclicked) -> tuple[np.ndarray, np.ndarray]:
    """The same by the derivatives that are written out."""
    emission = Emission(theta, 1 - theta)
    found = quadrature_gradient(emission, alpha, beta, clicks, unclicked)
    gradient = [clicks / theta - found.by_u, found.by_alpha, found.by_beta]
    return log_examined(emission, clicks) + found.value, np.column_stack(gradient)


@pytest.mark.parametrize("displays", [64, 1000, 5_000_000])
def test_values_and_derivatives_are_those_of_numpy(displays: int) -> None:
    """theta of exactly 1, tiny parameters and millions of displays included."""
    pairs = random_pairs(displays)
    assert (pairs[0] == 1).any()
    (value, gradient), (expected, slopes) = by_quadrature(*pairs), by_numpy(*pairs)
    # their nodes differ, and both are within 6e-11 of the value by three times as many
    assert error(value, expected) <= VALUE / 10
    assert error(gradient, slopes) <= 1e-8


def test_hard_pairs_are_those_of_numpy() -> None:
    def padded(part: tuple, fill: float = 0.0) -> list[float]:
        return [*part, *[fill] * (4 - len(part))]

    theta = 1 - np.array([padded(pair.rest, 0.5) for pair in PAIRS.values()])
    shapes = np.array([(pair.alpha, pair.beta) for pair in PAIRS.values()]).T
    counts = [
        np.array([padded(getattr(pair, name)) for pair in PAIRS.values()])
        for name in ("clicks", "unclicked")
    ]
    pairs = (theta, *shapes, *counts)
    (value, gradient), (expected, slopes) = by_quadrature(*pairs), by_numpy(*pairs)
    # their nodes differ, and both are within 6e-11 of the value by three times as many
    assert error(value, expected) <= VALUE / 10
    assert error(gradient, slopes) <= 1e-8


def affine_gradients():
    """Values and gradients (A, B, alpha, beta) of pairs with clicks on unattractive items."""

    def single(a, b, alpha, beta, *counts):
        emission = Emission(a, 1 - a, b, 1 - b)
        shape = (alpha[None], beta[None])
        return integral_log_likelihood(emission, *shape, *(c[None] for c in counts))[0]

    def both(*pair):
        value, slopes = jax.value_and_grad(single, (0, 1, 2, 3))(A, B, *pair)
        return value, jnp.concatenate([jnp.atleast_1d(each) for each in slopes])

    return jax.jit(jax.vmap(both))


def test_clicks_on_unattractive_items_agree_with_integrals_at_30_digits() -> None:
    pairs = FEW + HEADS
    value, gradient = affine_gradients()(*affine_columns(pairs))
    expected, slopes = zip(*(reference(pair)[:2] for pair in pairs), strict=True)
    assert error(value, np.array(expected)) <= VALUE
    np.testing.assert_allclose(gradient, slopes, rtol=GRADIENT, atol=GRADIENT)


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
        return integral_log_likelihood(Emission(*bias), *shape, clicks, unclicked).sum()

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
    value = jax.jit(integral_log_likelihood)(Emission(theta, rest), half, half, clicks, unclicked)
    # with theta of 1 the pair is beta-binomial
    assert float(value[0]) == pytest.approx(betaln(100_000_003.5, 1.5) - betaln(0.5, 0.5), rel=1e-9)


def test_a_trust_of_zero_changes_nothing() -> None:
    """B of 0 everywhere, given as numbers, is the plain program."""
    alpha, beta, *counts = affine_columns(FEW + HEADS[:3])
    zero = np.zeros(4)

    def total(x, *unattractive):
        emission = Emission(jax.nn.sigmoid(x), jax.nn.sigmoid(-x), *unattractive)
        return integral_log_likelihood(emission, alpha, beta, *counts).sum()

    x = np.array([2.0, 0.5, -1.0, -2.0])
    slopes = jax.jit(jax.value_and_grad(total))
    (plain, by_plain), (affine, by_affine) = slopes(x), slopes(x, zero, 1 - zero)
    np.testing.assert_allclose(affine, plain, rtol=1e-11)
    np.testing.assert_allclose(by_affine, by_plain, rtol=1e-7)
