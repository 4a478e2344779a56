"""The closed form against reference values, numerical integration and its own symmetries."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import betaln

from epiclick.click_models.click_model import Emission
from epiclick.likelihood.closed_form import exact_log_likelihood, exact_posterior, log_binomial

pytestmark = pytest.mark.slow

LONGEST = 1000
WIDTHS = (0, 2, 8, 64, 256, LONGEST)


def expanded(unclicked: np.ndarray) -> np.ndarray:
    """Context of each unclicked display, padded to a common width so that few programs compile."""
    order = np.repeat(np.arange(len(unclicked)), unclicked)
    width = next(w for w in WIDTHS if w >= len(order))
    return np.r_[order, np.full(width - len(order), -1)][None]


compiled = jax.jit(exact_log_likelihood)


@jax.jit
def value_and_gradient(theta, alpha, beta, clicks, unclicked):
    def total(theta, alpha, beta):
        return exact_log_likelihood(Emission(theta, 1 - theta), alpha, beta, clicks, unclicked)[0]

    return jax.value_and_grad(total, (0, 1, 2))(theta, alpha, beta)


def evaluate(case, dtype) -> tuple[float, np.ndarray]:
    numbers = [
        jnp.asarray(v, dtype) for v in (case.theta, [case.alpha], [case.beta], case.clicks[None])
    ]
    value, gradient = value_and_gradient(*numbers, jnp.asarray(expanded(case.unclicked)))
    constant = log_binomial(
        jnp.asarray(case.displays, float), jnp.asarray(case.clicks, float)
    ).sum()
    return float(value) + float(constant), np.concatenate([np.asarray(g, float) for g in gradient])


def test_values_and_gradients_agree_with_the_oracle(oracle) -> None:
    cases = [case for case in oracle if case.unclicked.sum() <= LONGEST]
    assert len(cases) >= 300
    for case in cases:
        value, gradient = evaluate(case, np.float64)
        assert abs(value - case.log_likelihood) <= 1e-12 * (1 + abs(case.log_likelihood))
        assert np.all(abs(gradient - case.gradient) <= 1e-9 * (1 + abs(case.gradient)))


def test_float32_is_good_to_five_digits(oracle) -> None:
    cases = [c for c in oracle if c.unclicked.sum() <= 64 and max(c.alpha, c.beta) <= 1e3]
    assert len(cases) >= 200
    for case in cases:
        value, _ = evaluate(case, np.float32)
        assert abs(value - case.log_likelihood) <= 1e-5 * (1 + abs(case.log_likelihood))


def test_taking_every_position_as_examined_would_be_noticed(oracle) -> None:
    """The control: without the chance that a display was not examined the oracle disagrees."""
    wrong = 0
    for case in oracle[:100]:
        numbers = [
            jnp.asarray(v, float)
            for v in (case.theta, [case.alpha], [case.beta], case.clicks[None])
        ]
        theta, alpha, beta, clicks = numbers
        unclicked = jnp.asarray(expanded(case.unclicked))
        value = compiled(Emission(theta, jnp.zeros_like(theta)), alpha, beta, clicks, unclicked)[0]
        constant = log_binomial(jnp.asarray(case.displays, float), clicks[0]).sum()
        wrong += abs(float(value + constant) - case.log_likelihood) > 1e-6
    assert wrong > 50


def test_posterior_moments_agree_with_the_oracle(oracle) -> None:
    for case in [c for c in oracle if c.unclicked.sum() <= 64]:
        weights, first, second = jax.jit(exact_posterior)(
            Emission(jnp.asarray(case.theta), jnp.asarray(1 - case.theta)),
            jnp.asarray([case.alpha]),
            jnp.asarray([case.beta]),
            jnp.asarray(case.clicks[None], float),
            jnp.asarray(expanded(case.unclicked)),
        )
        mean = first / (first + second)
        spread = first * second / ((first + second) ** 2 * (first + second + 1))
        overall = (weights * mean).sum()
        assert float(weights.sum()) == pytest.approx(1, abs=1e-12)
        assert float(overall) == pytest.approx(case.mean, rel=1e-9)
        variance = (weights * (spread + (mean - overall) ** 2)).sum()
        assert float(variance) == pytest.approx(case.variance, rel=1e-8)


@settings(max_examples=30, deadline=None)
@given(
    theta=st.lists(st.floats(0.01, 1), min_size=1, max_size=3),
    alpha=st.floats(0.5, 20),
    beta=st.floats(0.5, 20),
    data=st.data(),
)
def test_values_agree_with_numerical_integration(theta, alpha, beta, data) -> None:
    counts = st.lists(st.integers(0, 4), min_size=len(theta), max_size=len(theta))
    clicks, unclicked = np.array(data.draw(counts)), np.array(data.draw(counts))

    def integrand(zeta: float) -> float:
        log = (alpha - 1) * np.log(zeta) + (beta - 1) * np.log1p(-zeta) - betaln(alpha, beta)
        seen = np.array(theta) * zeta
        return np.exp(log + (clicks * np.log(seen)).sum() + (unclicked * np.log1p(-seen)).sum())

    expected, error = quad(integrand, 0, 1, epsabs=0, epsrel=1e-10, limit=200)
    with jax.enable_x64(True):
        value = exact_log_likelihood(
            Emission(jnp.array(theta), 1 - jnp.array(theta)), jnp.array([alpha]), jnp.array([beta]),
            jnp.array(clicks[None], float), jnp.array(expanded(unclicked)),
        )  # fmt: skip
        assert float(value[0]) == pytest.approx(np.log(expected), abs=1e-7 + error / expected)


def batch(seed: int, pairs: int, width: int, contexts: int = 4) -> tuple[jax.Array, ...]:
    rng = np.random.default_rng(seed)
    theta = np.r_[1.0, rng.uniform(0.1, 0.9, contexts - 1)]
    parameters = 10 ** rng.uniform(-1, 1, (2, pairs))
    clicks = rng.integers(0, 3, (pairs, contexts)).astype(float)
    unclicked = rng.integers(-1, contexts, (pairs, width))
    return tuple(map(jnp.asarray, (theta, *parameters, clicks, unclicked)))


def likelihood(theta, alpha, beta, clicks, unclicked):
    return exact_log_likelihood(Emission(theta, 1 - theta), alpha, beta, clicks, unclicked)


def test_order_of_pairs_and_of_displays_and_padding_change_nothing() -> None:
    theta, alpha, beta, clicks, unclicked = batch(1, 50, 6)
    whole = likelihood(theta, alpha, beta, clicks, unclicked)
    order = np.random.default_rng(2).permutation(50)
    moved = likelihood(theta, alpha[order], beta[order], clicks[order], unclicked[order])
    np.testing.assert_allclose(moved, whole[order], rtol=1e-13)
    turned = likelihood(theta, alpha, beta, clicks, unclicked[:, ::-1])
    np.testing.assert_allclose(turned, whole, rtol=1e-12)
    padded = jnp.concatenate([unclicked, jnp.full((50, 3), -1)], axis=1)
    np.testing.assert_allclose(likelihood(theta, alpha, beta, clicks, padded), whole, rtol=1e-13)
    one = likelihood(theta, alpha[:1], beta[:1], clicks[:1], unclicked[:1])
    np.testing.assert_allclose(one, whole[:1], rtol=1e-13)


def test_a_pair_never_shown_has_probability_one_and_no_gradient() -> None:
    theta, alpha, beta, _, _ = batch(3, 1, 0)
    nothing = (jnp.zeros((1, 4)), jnp.full((1, 5), -1))
    value, gradient = jax.value_and_grad(lambda *p: likelihood(*p, *nothing)[0], (0, 1, 2))(
        theta, alpha, beta
    )
    assert float(value) == 0
    rounding = np.finfo(float).eps / float(alpha.min())
    assert all(np.all(abs(np.asarray(g)) <= rounding) for g in gradient)


@pytest.mark.parametrize("width", [2, 7])
def test_gradients_are_those_of_finite_differences_at_theta_one(width: int) -> None:
    theta, alpha, beta, clicks, unclicked = batch(4, 3, width)

    def total(theta, alpha, beta):
        return likelihood(theta, alpha, beta, clicks, unclicked).sum()

    gradient = jax.grad(total, (0, 1, 2))(theta, alpha, beta)
    parameters, step = [theta, alpha, beta], 1e-6
    for which, own in enumerate(gradient):
        for i in range(len(own)):
            up, down = (
                [p.at[i].add(sign * step) if j == which else p for j, p in enumerate(parameters)]
                for sign in (1, -1)
            )
            slope = (total(*up) - total(*down)) / (2 * step)
            assert float(own[i]) == pytest.approx(float(slope), rel=1e-6, abs=1e-7)
