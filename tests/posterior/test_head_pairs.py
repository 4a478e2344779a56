"""Quantiles by integration against the closed form, which is slow for heads but exact."""

import numpy as np
import pytest
from scipy.special import betainc

from epiclick.likelihood.closed_form import mixture_weights
from epiclick.posterior import pair_posterior
from epiclick.posterior.pair_posterior import HeadPosterior

THETA = np.array([1.0, 0.5, 0.2, 0.05, 1e-6])
ENDS = np.array([0.001, 0.05, 0.5, 0.95, 0.999])
DISPLAYS = 200


@pytest.fixture(scope="module")
def cases() -> tuple[np.ndarray, ...]:
    """alpha, beta, clicks and unclicked of pairs, half of them without a click."""
    rng = np.random.default_rng(1)
    pairs = 300
    alpha, beta = 10 ** rng.uniform(-3, 1, (2, pairs))
    unclicked = rng.multinomial(DISPLAYS, rng.dirichlet(np.full(5, 0.3), pairs))
    clicks = np.where(rng.random(pairs) < 0.5, 0, rng.integers(0, 100, pairs))
    return alpha, beta, clicks.astype(float), unclicked


def exact_cdf(alpha, beta, clicks, unclicked, zeta: np.ndarray) -> np.ndarray:
    """P(relevance <= zeta) from the mixture of 201 Betas; zeta is (ends, pairs)."""
    order = np.array([np.repeat(np.arange(5), row) for row in unclicked])
    weights = mixture(1 - THETA[order], alpha + clicks, beta)
    n = np.arange(DISPLAYS + 1)
    alphas, betas = (alpha + clicks)[:, None] + n, beta[:, None] + DISPLAYS - n
    return np.stack([(weights * betainc(alphas, betas, z[:, None])).sum(axis=1) for z in zeta])


def mixture(rest: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Weights of Beta(a + n, b + W - n), (pairs, W + 1), one display (pairs, W) after the other.

    The product of the numbers of 200 displays would underflow: weights add up to 1 at every step.
    """
    weights = np.zeros((len(rest), rest.shape[1] + 1))
    weights[:, 0] = 1
    n = np.arange(rest.shape[1] + 1)
    for j, own in enumerate(rest.T):
        moved = weights * own[:, None] * (a[:, None] + n)
        weights = weights * (b[:, None] + j - n)
        weights[:, 1:] += moved[:, :-1]
        weights /= weights.sum(axis=1, keepdims=True)
    return weights


def test_the_mixture_is_that_of_the_closed_form(cases) -> None:
    alpha, beta, clicks, unclicked = (part[:50] for part in cases)
    few = np.array([np.repeat(np.arange(5), row)[:: DISPLAYS // 16][:16] for row in unclicked])
    table = np.r_[1 - THETA, 1.0]
    expected = mixture_weights(table, None, alpha + clicks, beta, few)
    found = mixture(1 - THETA[few], alpha + clicks, beta)
    np.testing.assert_allclose(found, expected.T, rtol=1e-11, atol=1e-300)


def worst_error(cases: tuple[np.ndarray, ...]) -> float:
    alpha, beta, clicks, unclicked = cases
    zeta = HeadPosterior(1 - THETA, alpha + clicks, beta, unclicked).quantiles(ENDS)
    assert np.all((zeta >= 0) & (zeta <= 1))
    assert np.all(np.diff(zeta, axis=0) >= 0)
    inside = (zeta > 1e-290) & (zeta < 1 - 1e-6)  # representable in float64
    assert inside.sum() > 1000
    return float(abs(exact_cdf(*cases, zeta) - ENDS[:, None])[inside].max())


def test_quantiles_have_their_probability(cases) -> None:
    assert worst_error(cases) < 1e-6


def test_the_distribution_function_is_that_of_the_closed_form(cases) -> None:
    alpha, beta, clicks, unclicked = cases
    known = HeadPosterior(1 - THETA, alpha + clicks, beta, unclicked)
    rng = np.random.default_rng(2)
    zeta = np.stack([np.full(300, 0.3), rng.random(300), 10 ** rng.uniform(-12, -1, 300)])
    found = np.stack([known.cdf(each) for each in zeta])
    assert ((found > 0.01) & (found < 0.99)).sum() > 150
    np.testing.assert_allclose(found, exact_cdf(*cases, zeta), atol=1e-6)
    ends = known.quantiles(ENDS)
    inside = (ends > 1e-290) & (ends < 1 - 1e-6)  # representable in float64
    below = np.stack([known.cdf(end) for end in ends])
    np.testing.assert_allclose(
        below[inside], np.broadcast_to(ENDS[:, None], ends.shape)[inside], atol=1e-6
    )
    assert np.all(known.cdf(np.ones(300)) == 1)
    assert np.all(known.cdf(np.zeros(300)) < 1)


def test_fewer_nodes_would_be_noticed(cases, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""
    monkeypatch.setattr(pair_posterior, "NODES", 32)
    assert worst_error(cases) > 1e-6


@pytest.mark.parametrize(
    ("alpha", "displays"), [(0.004, 100), (0.01, 10_000), (0.1, 1_000_000), (0.5, 50)]
)
def test_the_long_tail_of_items_never_clicked(alpha: float, displays: int) -> None:
    """If every display was seen it is Beta(a, 1 + w): z^a (a + 1) ... (a + w) / w! for small z."""
    posterior = HeadPosterior(np.zeros(1), np.array([alpha]), np.ones(1), np.array([[displays]]))
    low, high = posterior.quantiles(np.array([0.02, 0.98]))[:, 0]
    assert betainc(alpha, 1.0 + displays, high) == pytest.approx(0.98, abs=1e-6)
    log_rising = np.log1p(alpha / np.arange(1, displays + 1)).sum()
    log_low = (np.log(0.02) - log_rising) / alpha
    if log_low < -745:  # beyond float64
        assert low == 0
    elif log_low < -30:
        assert np.log(low) == pytest.approx(log_low, rel=1e-8)
    else:
        assert betainc(alpha, 1.0 + displays, low) == pytest.approx(0.02, abs=1e-6)


def test_an_item_certain_to_be_clicked_ends_at_one() -> None:
    """With b = 0.001 most of the probability is closer to 1 than float64 resolves."""
    posterior = HeadPosterior(
        np.array([0.9]), np.array([30.0]), np.array([1e-3]), np.array([[200]])
    )
    low, high = posterior.quantiles(np.array([0.05, 0.95]))[:, 0]
    assert high == 1
    assert 0.9 < low <= 1
