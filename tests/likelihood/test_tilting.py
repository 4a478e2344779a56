"""Nodes of one set of parameters serve for others near by."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import betaln, xlog1py, xlogy

from epiclick.click_models.click_model import Emission
from epiclick.likelihood import tilting as module
from epiclick.likelihood.quadrature import quadrature_moments
from epiclick.likelihood.tilting import tilted

CONTEXTS, PAIRS, DRAWS = 4, 60, 12


def problem(displays: int, spread: float = 1.0) -> tuple[tuple, tuple]:
    """Pairs with parameters for their nodes, and other parameters; theta_1 is 1 in all of them."""
    rng = np.random.default_rng(displays)
    logit = np.r_[np.inf, 1.0, 0.0, -1.0]
    rest = 1 / (1 + np.exp(logit))
    mean = 1 / (1 + np.exp(1 - rng.standard_normal(PAIRS)))
    confidence = 1 + 4 * rng.random(PAIRS)
    shown = rng.multinomial(displays, np.ones(CONTEXTS) / CONTEXTS, size=PAIRS)
    clicks = rng.binomial(
        shown, (1 - rest) * rng.beta(mean * confidence, (1 - mean) * confidence)[:, None]
    )
    moved = 1 / (1 + np.exp(logit + 0.3 * spread * rng.standard_normal((DRAWS, CONTEXTS))))
    other = np.log(mean / (1 - mean)) + 0.5 * spread * rng.standard_normal((DRAWS, 1))
    other, sure = (
        1 / (1 + np.exp(-other)),
        confidence * np.exp(0.3 * spread * rng.standard_normal((DRAWS, 1))),
    )
    first = (
        Emission(1 - rest, rest),
        mean * confidence,
        (1 - mean) * confidence,
        clicks,
        shown - clicks,
    )
    return first, (Emission(1 - moved, moved), other * sure, (1 - other) * sure)


# three times the spread passes variances that are up to 9 % off (1,000 displays)
@pytest.mark.parametrize("spread", [1, 2])
@pytest.mark.parametrize("displays", [0, 1, 8, 60, 1000, 1_000_000])
def test_moments_are_those_of_the_quadrature(displays: int, spread: int) -> None:
    first, others = problem(displays, spread)
    found = tilted(*first, *others)
    exact = [
        quadrature_moments(
            Emission(*(part[j] for part in others[0][:2])),
            others[1][j],
            others[2][j],
            *first[3:],
        )
        for j in range(DRAWS)
    ]
    mean, variance = np.swapaxes(exact, 0, 1)
    assert np.max(abs(found.mean - mean) / np.sqrt(variance)) < 0.01
    assert np.max(abs(found.variance / variance - 1)) < 0.03


def test_nodes_suffice_for_nearby_parameters_and_are_refused_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    usual = module._by_quadrature
    monkeypatch.setattr(
        module, "_by_quadrature", lambda entries: asked.append(len(entries[1])) or usual(entries)
    )
    for displays in (8, 60, 1_000_000):
        first, others = problem(displays)
        tilted(*first, *others)
    assert sum(asked[:-1]) < 0.1 * 2 * PAIRS * DRAWS
    assert asked[-1] > 0.5 * PAIRS * DRAWS  # so sure of their relevance that it leaves its nodes


def test_the_likelihood_is_that_of_plain_integrals() -> None:
    first, others = problem(6)
    (_, rest, *_), alpha, beta, clicks, unclicked = first

    def log_integral(rest: np.ndarray, a: float, b: float, i: int) -> float:
        def f(zeta: float) -> float:
            log_f = xlogy(a + clicks[i].sum() - 1, zeta) + xlog1py(b - 1, -zeta) - betaln(a, b)
            return np.exp(log_f + xlogy(unclicked[i], 1 - (1 - rest) * zeta).sum())

        return np.log(sum(quad(f, low, low + 0.25, epsabs=0)[0] for low in (0, 0.25, 0.5, 0.75)))

    found = tilted(*first, *others).log_sum
    for j, i in ((0, 0), (3, 7), (5, 20), (11, 59)):
        moved, a, b = others[0].attractive_rest[j], others[1][j, i], others[2][j, i]
        ratio = log_integral(moved, a, b, i) - log_integral(rest, alpha[i], beta[i], i)
        shapes = betaln(a, b) - betaln(alpha[i], beta[i])
        assert found[j, i] - shapes == pytest.approx(ratio, abs=2e-3)


def test_the_same_parameters_change_nothing() -> None:
    first, _ = problem(8)
    emission, alpha, beta = first[:3]
    same = Emission(*(part[None] for part in emission[:2]))
    found = tilted(*first, same, alpha[None], beta[None])
    mean, variance = quadrature_moments(*first)
    np.testing.assert_allclose(found.log_sum, 0, atol=1e-5)
    np.testing.assert_allclose(found.mean[0], mean, atol=1e-4 * np.sqrt(variance).min())
    np.testing.assert_allclose(found.variance[0], variance, rtol=1e-3)
