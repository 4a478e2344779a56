"""Quantiles of attraction and relevance under affine emissions, against numerical integration."""

from itertools import pairwise

import mpmath
import numpy as np
import pyarrow as pa
import pytest
from scipy import special

from epiclick.click_models.click_model import Emission
from epiclick.data.counts import ClickCounts
from epiclick.likelihood.pairs import SWITCH_OVER
from epiclick.posterior.affine_head import AffineHead
from epiclick.posterior.item_posterior import ItemPosterior, item_posterior
from epiclick.posterior.pair_posterior import HeadPosterior
from epiclick.relevance.average import BetaAverage

A = np.array([1.0, 0.7, 0.4])
B = np.array([0.3, 0.1, 0.02])
EMISSION = Emission(A, 1 - A, B, 1 - B)
ENDS = np.array([0.05, 0.5, 0.95])

# alpha, beta, displays and clicks at three positions; the prior of some is extreme
CASES = [
    (1.5, 4.0, (40, 20, 10), (15, 4, 1)),
    (0.05, 2.0, (300, 0, 50), (90, 0, 1)),
    (0.01, 0.5, (30, 30, 30), (9, 3, 0)),
    (20.0, 0.3, (25, 5, 0), (25, 4, 0)),
    (0.7, 0.7, (20_000, 9_000, 5_000), (9_800, 2_600, 700)),
    (2.0, 3.0, (12, 8, 4), (0, 0, 0)),
]


def counts_of(displays: np.ndarray, clicks: np.ndarray) -> ClickCounts:
    displays, clicks = np.atleast_2d(displays), np.atleast_2d(clicks)
    pair, context = np.nonzero(displays)
    return ClickCounts(
        query_id=pa.array(np.arange(len(displays))),
        doc_id=pa.array(np.zeros(len(displays), int)),
        contexts=pa.table({"position": np.arange(1, displays.shape[1] + 1)}),
        pair=pair,
        context=context,
        displays=displays[pair, context],
        clicks=clicks[pair, context],
    )


def integrated_cdf(alpha: float, beta: float, displays, clicks, zeta: float) -> float:
    """P(attraction <= zeta), by Gauss-Legendre over the logit, with tails in closed form."""

    def log_density(x: np.ndarray) -> np.ndarray:
        z, rest = special.expit(x), special.expit(-x)
        value = alpha * special.log_expit(x) + beta * special.log_expit(-x)
        for a, b, n, m in zip(A, B, displays, clicks, strict=True):
            value += special.xlogy(m, a * z + b * rest)
            value += special.xlogy(n - m, (1 - a) * z + (1 - b) * rest)
        return value

    far, at = 80.0, float(special.logit(zeta))
    top = log_density(np.linspace(-far, far, 20_001)).max()

    def density(x: np.ndarray) -> np.ndarray:
        return np.exp(log_density(np.asarray(x)) - top)

    # beyond these all factors but one are constant
    left, right = density(-far) / alpha, density(far) / (beta + displays[0] - clicks[0])
    ends = np.unique([-far, far, max(at, -far), *range(-70, 80, 2), *np.arange(-8, 4, 0.02)])
    nodes, weights = np.polynomial.legendre.leggauss(30)
    half, middle = np.diff(ends) / 2, (ends[1:] + ends[:-1]) / 2
    parts = (density(middle[:, None] + half[:, None] * nodes) @ weights) * half
    below = density(at) / alpha if at < -far else left + parts[middle < at].sum()
    return float(below / (left + parts.sum() + right))


def test_the_integral_is_that_of_mpmath() -> None:
    case, zeta = CASES[0], 0.3
    alpha, beta, displays, clicks = case

    def density(z: float):
        value = mpmath.power(z, alpha - 1) * mpmath.power(1 - z, beta - 1)
        for a, b, n, m in zip(A.tolist(), B.tolist(), displays, clicks, strict=True):
            p = a * z + b * (1 - z)
            value *= mpmath.power(p, m) * mpmath.power(1 - p, n - m)
        return value

    ends = [0, 0.1, 0.2, zeta, 0.4, 0.6, 1]
    parts = [mpmath.quad(density, each) for each in pairwise(ends)]
    expected = float(sum(parts[:3]) / sum(parts))
    assert integrated_cdf(*case, zeta) == pytest.approx(expected, rel=1e-9)


def head_of(alpha, beta, displays, clicks) -> AffineHead:
    u, v = (
        np.concatenate(part)[:, None]
        for part in ((EMISSION.attractive_rest, A), (EMISSION.unattractive_rest, B))
    )
    displays, clicks = np.array(displays), np.array(clicks)
    count = np.concatenate([displays - clicks, clicks])[:, None].astype(float)
    return AffineHead(u, v, count, np.array([alpha]), np.array([beta]))


@pytest.mark.parametrize("case", CASES)
def test_quantiles_have_their_probability(case) -> None:
    known = head_of(*case)
    for probability, (zeta,) in zip(ENDS, known.quantiles(ENDS), strict=True):
        if not 1e-300 < zeta < 1 - 1e-9:
            continue
        assert integrated_cdf(*case, float(zeta)) == pytest.approx(probability, abs=1e-5)
        assert known.cdf(np.array([zeta]))[0] == pytest.approx(probability, abs=1e-5)


def test_clicks_on_unattractive_items_cannot_be_ignored() -> None:
    """The negative control: the posterior without B is another one."""
    alpha, beta, displays, clicks = CASES[0]
    displays, clicks = np.array([displays]), np.array([clicks])
    without = HeadPosterior(
        1 - A, alpha + clicks.sum(axis=1), np.array([beta]), (displays - clicks).astype(float)
    )
    wrong = without.quantiles(ENDS)[1, 0]
    assert abs(integrated_cdf(*CASES[0], float(wrong)) - 0.5) > 0.2


def by_brute_force(
    counts: ClickCounts, emission: Emission, alpha, beta, floor
) -> tuple[np.ndarray, np.ndarray]:
    """Relevance c and its distribution function of a single pair, averaged over draws."""
    c = np.linspace(0, 1, 400_001)[1:-1]
    displays, clicks = counts.dense()
    total = np.zeros(len(c))
    for j in range(len(alpha)):
        zeta = (c - floor[j]) / (1 - floor[j])
        inside = zeta > 0
        z = np.where(inside, zeta, 0.5)[:, None]
        p = emission.attractive[j] * z + emission.unattractive[j] * (1 - z)
        log = (special.xlogy(clicks, p) + special.xlog1py(displays - clicks, -p)).sum(axis=1)
        log += (alpha[j] - 1) * np.log(z[:, 0]) + (beta[j] - 1) * np.log1p(-z[:, 0])
        density = np.where(inside, np.exp(log - log[inside].max()), 0)
        total += density / density.sum()
    return c, np.cumsum(total / len(alpha))


def found(case, emission: Emission = EMISSION, **options) -> ItemPosterior:
    alpha, beta, displays, clicks = case
    counts = counts_of(np.array(displays), np.array(clicks))
    return item_posterior(counts, emission, np.array([alpha]), np.array([beta]), 0.9, **options)


@pytest.mark.parametrize("size", ["few", "many"])
def test_relevance_is_stretched_from_the_floor_to_one(size: str) -> None:
    displays, clicks = (4, 3, 2), (2, 1, 0)
    if size == "many":
        displays, clicks = (40, 30, 20), (20, 8, 3)
    assert (sum(displays) > SWITCH_OVER) == (size == "many")
    counts = counts_of(np.array(displays), np.array(clicks))
    case = (1.5, 2.5, displays, clicks)
    known = found(case, above=0.5, floor=B[:1])
    one = Emission(*(part[None] for part in EMISSION))
    c, cdf = by_brute_force(counts, one, [1.5], [2.5], B[:1])
    density = np.diff(cdf, prepend=0)
    mean = (c * density).sum()
    assert known.mean[0] == pytest.approx(mean, abs=1e-5)
    assert known.variance[0] == pytest.approx((density * (c - mean) ** 2).sum(), rel=1e-4)
    ends = np.interp([known.low[0], known.high[0]], c, cdf)
    np.testing.assert_allclose(ends, [0.05, 0.95], atol=1e-4)
    assert known.above[0] == pytest.approx(1 - np.interp(0.5, c, cdf), abs=1e-4)
    assert known.low[0] > B[0]
    # without a floor, attraction
    plain = found(case)
    assert known.mean[0] == pytest.approx(B[0] + (1 - B[0]) * plain.mean[0], rel=1e-12)


@pytest.mark.parametrize("size", ["few", "many"])
def test_draws_with_floors_of_their_own_are_averaged(size: str) -> None:
    displays, clicks = (5, 4, 3), (2, 1, 0)
    if size == "many":
        displays, clicks = (30, 30, 30), (13, 9, 3)
    counts = counts_of(np.array(displays), np.array(clicks))
    rng = np.random.default_rng(1)
    draws = 8
    b = B * np.exp(rng.normal(0, 0.3, (draws, 1)))
    a = np.tile(A, (draws, 1))
    emission = Emission(a, 1 - a, b, 1 - b)
    alpha, beta = rng.uniform(1.2, 2, (draws, 1)), rng.uniform(2, 3, (draws, 1))
    known = item_posterior(counts, emission, alpha, beta, 0.9, above=0.45, floor=b[:, 0])
    c, cdf = by_brute_force(counts, emission, alpha[:, 0], beta[:, 0], b[:, 0])
    density = np.diff(cdf, prepend=0)
    mean = (c * density).sum()
    assert known.mean[0] == pytest.approx(mean, abs=1e-5)
    assert known.variance[0] == pytest.approx((density * (c - mean) ** 2).sum(), rel=1e-4)
    # probabilities below quantiles are approximate, as those without floors
    ends = np.interp([known.low[0], known.high[0]], c, cdf)
    np.testing.assert_allclose(ends, [0.05, 0.95], atol=0.01)
    assert known.above[0] == pytest.approx(1 - np.interp(0.45, c, cdf), abs=0.01)
    # the negative control: a single floor for all draws
    single = item_posterior(
        counts, emission, alpha, beta, 0.9, floor=np.full(draws, 0.5 * b[:, 0].mean())
    )
    assert abs(np.interp(single.low[0], c, cdf) - 0.05) > 0.03


def test_a_click_probability_of_zero_for_unattractive_items_is_no_special_case() -> None:
    """Emissions with B of nearly 0 agree with those without B."""
    tiny = np.full(3, 1e-9)
    affine = Emission(A, 1 - A, tiny, 1 - tiny)
    for displays, clicks in (((4, 3, 2), (2, 1, 0)), ((40, 30, 20), (20, 8, 3))):
        case = (1.5, 2.5, displays, clicks)
        one, other = found(case, affine), found(case, Emission(A, 1 - A))
        for name in ("mean", "variance", "low", "high"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-5)


def test_average_of_stretched_betas() -> None:
    rng = np.random.default_rng(2)
    alpha, beta = rng.gamma(1, 2, (6, 50)) + 0.05, rng.gamma(1, 2, (6, 50)) + 0.05
    floor = rng.uniform(0.02, 0.4, 6)
    average = BetaAverage(alpha, beta, floor)
    for probability in (0.05, 0.5, 0.95):
        c = average.quantile(probability)
        zeta = np.clip((c - floor[:, None]) / (1 - floor[:, None]), 0, 1)
        cdf = special.betainc(alpha, beta, zeta).mean(axis=0)
        np.testing.assert_allclose(cdf, probability, atol=1e-4)
        np.testing.assert_allclose(average.cdf(c), cdf, rtol=1e-12)
    drawn = floor[:, None] + (1 - floor[:, None]) * rng.beta(
        alpha[..., None], beta[..., None], (6, 50, 20_000)
    ).transpose(2, 0, 1)
    means = drawn.mean(axis=(0, 1))
    error = drawn.std(axis=(0, 1)) / np.sqrt(20_000 * 6)
    assert np.all(np.abs(average.matched.mean - means) < 4.5 * error)
    # equal floors are a stretched average
    same = BetaAverage(alpha, beta, np.full(6, 0.2)).quantile(0.3)
    np.testing.assert_allclose(same, 0.2 + 0.8 * BetaAverage(alpha, beta).quantile(0.3), rtol=1e-5)
