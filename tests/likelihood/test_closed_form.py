"""The closed form against reference values, numerical integration and its own symmetries."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import betaln

from epiclick.click_models.click_model import Emission
from epiclick.likelihood import closed_form as module
from epiclick.likelihood.closed_form import (
    attracted,
    expand,
    forms,
    log_expanded,
    mixture_weights,
)
from epiclick.likelihood.pairs import SWITCH_OVER


def listed(unclicked: np.ndarray, width: int = SWITCH_OVER) -> np.ndarray:
    """Context of each unclicked display, (1, width)."""
    order = np.repeat(np.arange(len(unclicked)), unclicked)
    return np.r_[order, np.full(width - len(order), -1)][None]


def value_and_gradient(
    theta: np.ndarray, alpha: np.ndarray, beta: np.ndarray, clicks: np.ndarray, order: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Log-likelihood of each pair, and its gradient (pairs, theta, alpha, beta)."""
    u, v = forms(Emission(theta, 1 - theta))
    total = clicks.sum(axis=1)
    first = attracted(alpha, beta, total)
    found = expand(u, v, alpha + total, beta, order)
    by_theta = clicks / theta
    for pair, row in enumerate(order):
        np.subtract.at(by_theta[pair], row[row >= 0], found.by_u[row >= 0, pair])
    value = first[0] + clicks @ np.log(theta) + found.value
    shapes = np.stack([first[1] + found.by_a, first[2] + found.by_b], axis=1)
    return value, np.concatenate([by_theta, shapes], axis=1)


def evaluate(case) -> tuple[float, np.ndarray]:
    value, gradient = value_and_gradient(
        case.theta,
        np.array([case.alpha]),
        np.array([case.beta]),
        case.clicks[None],
        listed(case.unclicked),
    )
    return value[0], gradient[0]


def few(oracle) -> list:
    """Cases that the closed form is for, tiny parameters and theta of exactly 1 among them."""
    cases = [case for case in oracle if case.unclicked.sum() <= SWITCH_OVER]
    assert len(cases) >= 200
    assert any(np.any((case.theta == 1) & (case.unclicked > 0)) for case in cases)
    assert min(min(case.alpha, case.beta) for case in cases) <= 1e-2
    return cases


def test_values_and_gradients_agree_with_the_oracle(oracle) -> None:
    for case in few(oracle):
        value, gradient = evaluate(case)
        assert abs(value - case.value) <= 1e-12 * (1 + abs(case.log_likelihood))
        assert np.all(abs(gradient - case.gradient) <= 1e-9 * (1 + abs(case.gradient)))


def test_taking_every_position_as_examined_would_be_noticed(oracle) -> None:
    """The control: without the chance that a display was not examined the oracle disagrees."""
    wrong = 0
    cases = [case for case in few(oracle) if case.unclicked.sum()]
    for case in cases[:100]:
        a, b = np.array([case.alpha + case.clicks.sum()]), np.array([case.beta])
        u, v = forms(Emission(case.theta, np.zeros_like(case.theta)))
        clicked = attracted(np.array([case.alpha]), b, case.clicks[None].sum(axis=1))[0]
        value = clicked + case.clicks @ np.log(case.theta)
        value += log_expanded(u, v, a, b, listed(case.unclicked))
        wrong += abs(float(value[0]) - case.value) > 1e-6
    assert wrong > 50


def test_posterior_moments_agree_with_the_oracle(oracle) -> None:
    for case in few(oracle):
        a, b = case.alpha + case.clicks.sum(), case.beta
        shown = int(case.unclicked.sum())
        given = (*forms(Emission(case.theta, 1 - case.theta)), np.array([a]), np.array([b]))
        weights = mixture_weights(*given, listed(case.unclicked))[:, 0]
        assert np.all(weights[shown + 1 :] == 0)
        n = np.arange(shown + 1)
        weights, first, second = weights[: shown + 1], a + n, b + shown - n
        mean = first / (first + second)
        spread = first * second / ((first + second) ** 2 * (first + second + 1))
        overall = weights @ mean
        assert weights.sum() == pytest.approx(1, abs=1e-12)
        assert overall == pytest.approx(case.mean, rel=1e-9)
        variance = weights @ (spread + (mean - overall) ** 2)
        assert variance == pytest.approx(case.variance, rel=1e-8)


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
    theta = np.array(theta)

    def integrand(zeta: float) -> float:
        log = (alpha - 1) * np.log(zeta) + (beta - 1) * np.log1p(-zeta) - betaln(alpha, beta)
        seen = theta * zeta
        return np.exp(log + (clicks * np.log(seen)).sum() + (unclicked * np.log1p(-seen)).sum())

    expected, error = quad(integrand, 0, 1, epsabs=0, epsrel=1e-10, limit=200)
    parameters = (theta, np.array([alpha]), np.array([beta]))
    value, _ = value_and_gradient(*parameters, clicks[None], listed(unclicked))
    assert value[0] == pytest.approx(np.log(expected), abs=1e-7 + error / expected)


def problem(seed: int, pairs: int, width: int, contexts: int = 4) -> tuple[np.ndarray, ...]:
    """theta, of which the first is 1, alpha, beta, clicks, order with displays missing."""
    rng = np.random.default_rng(seed)
    theta = np.r_[1.0, rng.uniform(0.1, 0.9, contexts - 1)]
    parameters = 10 ** rng.uniform(-1, 1, (2, pairs))
    clicks = rng.integers(0, 3, (pairs, contexts))
    order = np.sort(rng.integers(-1, contexts, (pairs, width)), axis=1)[:, ::-1]
    return theta, *parameters, clicks, order


def test_order_of_pairs_and_of_displays_and_padding_change_nothing() -> None:
    theta, alpha, beta, clicks, order = problem(1, 50, 6)
    whole = value_and_gradient(theta, alpha, beta, clicks, order)
    moved = np.random.default_rng(2).permutation(50)
    per_pair = (alpha, beta, clicks, order)
    shuffled = value_and_gradient(theta, *(part[moved] for part in per_pair))
    padded = np.concatenate([order, np.full((50, 3), -1)], axis=1)
    same = {
        "pairs": (whole[0][moved], whole[1][moved], shuffled),
        "displays": (*whole, value_and_gradient(theta, alpha, beta, clicks, order[:, ::-1])),
        "padding": (*whole, value_and_gradient(theta, alpha, beta, clicks, padded)),
        "one": (
            whole[0][:1],
            whole[1][:1],
            value_and_gradient(theta, *(part[:1] for part in per_pair)),
        ),
    }
    for value, gradient, other in same.values():
        np.testing.assert_allclose(other[0], value, rtol=1e-12)
        np.testing.assert_allclose(other[1], gradient, rtol=1e-11, atol=1e-12)


def test_blocks_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    theta, alpha, beta, _, order = problem(8, 300, 5)
    given = (*forms(Emission(theta, 1 - theta)), alpha, beta, order)
    whole = expand(*given), log_expanded(*given), mixture_weights(*given)
    assert len(module.blocks(300, 5)) == 1
    monkeypatch.setattr(module, "BLOCK", 1)
    assert [len(range(300)[part]) for part in module.blocks(300, 5)] == [64] * 4 + [44]
    again = expand(*given), log_expanded(*given), mixture_weights(*given)
    for one, other in zip(whole[0][:4], again[0][:4], strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-13, atol=1e-15)
    assert whole[0].by_v is again[0].by_v is None
    np.testing.assert_allclose(again[1], whole[1], rtol=1e-13)
    np.testing.assert_allclose(again[2], whole[2], rtol=1e-13)


@pytest.mark.parametrize("affine", [False, True])
def test_many_emissions_have_the_value_of_each(affine: bool) -> None:
    _, alpha, beta, _, order = problem(5, 40, 7, contexts=2)
    rng = np.random.default_rng(6)
    a = rng.uniform(0.01, 1, (3, 2))
    a[0, 0], a[-1, 1] = 1, 1e-6
    b = a / 3
    many = forms(Emission(a, 1 - a, b, 1 - b) if affine else Emission(a, 1 - a))
    order = np.where((order >= 0) & affine, order, np.minimum(order, 1))
    found = log_expanded(*many, alpha, beta, order)
    assert found.shape == (3, 40)
    for i, own in enumerate(found):
        u, v = (None if part is None else part[i] for part in many)
        np.testing.assert_array_equal(own, log_expanded(u, v, alpha, beta, order))
        np.testing.assert_allclose(own, expand(u, v, alpha, beta, order).value, rtol=1e-13)


def test_a_pair_never_shown_has_probability_one_and_no_gradient() -> None:
    theta, alpha, beta, _, _ = problem(3, 1, 1)
    for width in (0, 5):
        nothing = (np.zeros((1, 4), int), np.full((1, width), -1))
        value, gradient = value_and_gradient(theta, alpha, beta, *nothing)
        rounding = 4 * np.finfo(float).eps / float(min(alpha[0], beta[0], 1))
        assert abs(value[0]) <= rounding
        assert np.all(abs(gradient) <= rounding)


@pytest.mark.parametrize("width", [2, 7])
def test_gradients_are_those_of_finite_differences_at_theta_one(width: int) -> None:
    theta, alpha, beta, clicks, order = problem(4, 3, width)
    own = value_and_gradient(theta, alpha, beta, clicks, order)[1]
    step = 1e-6
    parameters = [np.broadcast_to(theta, (3, 4)), alpha[:, None], beta[:, None]]
    at = np.concatenate(parameters, axis=1)  # (pairs, theta, alpha, beta)

    def values(x: np.ndarray) -> np.ndarray:
        each = [
            value_and_gradient(row[:4], row[4:5], row[5:6], clicks[i : i + 1], order[i : i + 1])
            for i, row in enumerate(x)
        ]
        return np.array([value[0] for value, _ in each])

    for i in range(at.shape[1]):
        move = step * np.eye(at.shape[1])[i]
        slope = (values(at + move) - values(at - move)) / (2 * step)
        np.testing.assert_allclose(own[:, i], slope, rtol=1e-6, atol=1e-7)


def by_exact_arithmetic(
    us: list, vs: list, alpha: float, beta: float
) -> tuple[mpmath.mpf, list[mpmath.mpf]]:
    """Logarithm of the sum, and the weights of its terms, by the recursion display by display."""
    a, b = mpmath.mpf(alpha), mpmath.mpf(beta)
    mixture = [mpmath.mpf(1)]
    for j, (u, v) in enumerate(zip(us, vs, strict=True)):
        grown = [mpmath.mpf(0)] * (len(mixture) + 1)
        for n, weight in enumerate(mixture):
            grown[n] += weight * v * (b + j - n) / (a + b + j)
            grown[n + 1] += weight * u * (a + n) / (a + b + j)
        mixture = grown
    total = mpmath.fsum(mixture)
    return mpmath.log(total), [weight / total for weight in mixture]


EXTREMES = {
    "a billion clicks": (1e9, 1e-3, 0.0, 1.0),
    "a billion clicks, half examined": (1e9, 1e-3, 0.5, 1.0),
    "tiny parameters": (1e-3, 1e-3, 0.25, 1.0),
    "tiny parameters, all examined": (1e-3, 1e-3, 0.0, 1.0),
    "theta tiny": (1e-3, 2.0, 1 - 1e-6, 1.0),
    "large parameters": (1e4, 1e4, 0.1, 1.0),
    "hardly any click": (0.7, 30.0, 1e-9, 1e-9),
    "unattractive items clicked": (1e-3, 1e-3, 0.3, 0.05),
}


@pytest.mark.parametrize("name", EXTREMES)
def test_extremes_agree_with_exact_arithmetic(name: str) -> None:
    """Values, weights and derivatives of 16 displays that are not all alike."""
    alpha, beta, u, v = EXTREMES[name]
    us, vs = (np.r_[own, 0.5 + own / 2, 0.9 * own] for own in (u, v))
    if v == 1.0:
        vs = np.ones(3)
    order = np.repeat([0, 1, 2], [8, 3, 5])
    table = (np.r_[us, 1.0], np.r_[vs, 1.0])
    a, b = np.array([alpha]), np.array([beta])
    found = expand(*table, a, b, order[None])
    weights = mixture_weights(*table, a, b, order[None])[:, 0]
    with mpmath.workdps(60):
        exact = [[mpmath.mpf(float(x)) for x in part[order]] for part in (us, vs)]
        value, shares = by_exact_arithmetic(*exact, alpha, beta)
        step = mpmath.mpf(10) ** -25

        def slope(change) -> float:
            up, down = (change(sign * step) for sign in (1, -1))
            return float((up - down) / (2 * step))

        def moved(kind: int, place: int):
            def value_at(move):
                parts = [list(part) for part in exact]
                parts[kind][place] += move
                return by_exact_arithmetic(*parts, alpha, beta)[0]

            return value_at

        a_exact, b_exact = mpmath.mpf(alpha), mpmath.mpf(beta)
        by_a = slope(lambda h: by_exact_arithmetic(*exact, a_exact + h, b_exact)[0])
        by_b = slope(lambda h: by_exact_arithmetic(*exact, a_exact, b_exact + h)[0])
        places = (0, 9, 15)
        by_u, by_v = ([slope(moved(kind, j)) for j in places] for kind in (0, 1))
    assert found.value[0] == pytest.approx(float(value), rel=1e-13, abs=1e-13)
    np.testing.assert_allclose(weights, [float(w) for w in shares], rtol=1e-12, atol=1e-300)
    # terms of about 1 / a and 1 / b cancel
    assert found.by_a[0] == pytest.approx(by_a, rel=1e-11, abs=1e-13 / min(alpha, 1))
    assert found.by_b[0] == pytest.approx(by_b, rel=1e-11, abs=1e-13 / min(beta, 1))
    assert found.by_v is not None
    np.testing.assert_allclose(found.by_u[list(places), 0], by_u, rtol=1e-12)
    np.testing.assert_allclose(found.by_v[list(places), 0], by_v, rtol=1e-12)
    if v == 1.0:  # the shorter way for v = 1 is the same
        alone = expand(table[0], None, a, b, order[None])
        np.testing.assert_allclose(alone.value, found.value, rtol=1e-14)
        np.testing.assert_allclose(alone.by_u, found.by_u, rtol=1e-13)


@pytest.mark.parametrize("clicks", [0, 1, 7, 1_000_000])
@pytest.mark.parametrize("alpha", [1e-3, 0.7, 1e4])
@pytest.mark.parametrize("beta", [1e-3, 2.0, 1e4])
def test_clicks_attract_as_often_as_a_beta_says(alpha: float, beta: float, clicks: int) -> None:
    found = attracted(np.array([alpha]), np.array([beta]), np.array([clicks]))[:, 0]
    with mpmath.workdps(40):
        a, b = mpmath.mpf(alpha), mpmath.mpf(beta)
        value = mpmath.log(mpmath.beta(a + clicks, b) / mpmath.beta(a, b))
        total = mpmath.digamma(a + b + clicks) - mpmath.digamma(a + b)
        by_a = mpmath.digamma(a + clicks) - mpmath.digamma(a) - total
        expected = [float(part) for part in (value, by_a, -total)]
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)
