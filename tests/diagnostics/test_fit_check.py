"""Chi-squared over its degrees of freedom is 1 for a correct model, and larger otherwise."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit, logit, xlog1py, xlogy
from scipy.stats import hypergeom

from epiclick.data.counts import ClickCounts
from epiclick.data.readers import read_log
from epiclick.diagnostics import checks
from epiclick.diagnostics.checks import FitCheck, best_relevance, chi2_per_df
from epiclick.simulate.world import simulate

from ..raising import raises_code

THETA = 1 / np.arange(1, 7)


def counts_of(displays: np.ndarray, clicks: np.ndarray) -> ClickCounts:
    """Counts from (pairs, contexts) or (pairs, contexts, days) matrices, each pair a query."""
    where = np.nonzero(displays)
    columns = {"query_id": where[0], "doc_id": where[0], "position": where[1] + 1}
    if displays.ndim == 3:
        columns["part"] = where[2]
    return ClickCounts.from_table(
        pa.table({**columns, "displays": displays[where], "clicks": clicks[where]})
    )


def shown(rng: np.random.Generator, pairs: int, displays: float) -> np.ndarray:
    """(pairs, contexts) displays: items of unequal popularity, each mostly at a few positions."""
    often = rng.dirichlet(np.full(len(THETA), 0.6), pairs) * rng.gamma(1, displays, (pairs, 1))
    return rng.poisson(often)


def random_entries(seed: int) -> tuple[np.ndarray, ...]:
    """pair, bias, displays, clicks of pairs with one to six entries, extremes among them."""
    rng = np.random.default_rng(seed)
    displays = shown(rng, 60, 40)
    clicks = rng.binomial(displays, rng.beta(1, 2, (60, 1)) * THETA)
    clicks[:5] = 0
    clicks[5:10] = displays[5:10]
    pair, context = np.nonzero(displays)
    return pair, THETA[context], displays[pair, context] * 1.0, clicks[pair, context] * 1.0


def relevance_by_hand(bias: np.ndarray, displays: np.ndarray, clicks: np.ndarray) -> float:
    """The oracle: scipy's root of the score function, or the end of the range."""
    high = 1 / bias.max()
    if not clicks.any():
        return 0.0

    def score(zeta: float) -> float:
        return float(np.sum(clicks / zeta - (displays - clicks) * bias / (1 - bias * zeta)))

    inside = high * (1 - 1e-13)
    if score(inside) >= 0:
        return high
    return brentq(score, 1e-12, inside, xtol=1e-15, rtol=1e-14)


def test_relevance_is_the_maximum_of_the_likelihood() -> None:
    pair, bias, displays, clicks = random_entries(0)
    relevance = best_relevance(pair, bias, displays, clicks)
    assert np.all(bias * relevance <= 1 + 1e-15)
    for j in np.unique(pair):
        own = pair == j
        b, n, m = bias[own], displays[own], clicks[own]
        assert relevance[own] == pytest.approx(relevance_by_hand(b, n, m), rel=1e-9, abs=1e-12)

        def loss(zeta: float, b=b, n=n, m=m) -> float:
            return -float(np.sum(xlogy(m, b * zeta) + xlog1py(n - m, -b * zeta)))

        found = minimize_scalar(loss, bounds=(0, 1 / b.max()), options={"xatol": 1e-10})
        assert loss(relevance[own][0]) <= found.fun + 1e-9


def check_by_hand(counts: ClickCounts, theta: np.ndarray, least: float) -> tuple[float, int]:
    """chi2 and df by a loop over pairs."""
    chi2, df, used = 0.0, 0, set()
    for j in range(len(counts)):
        own = np.flatnonzero(counts.pair == j)
        n, m, b = counts.displays[own], counts.clicks[own], theta[counts.context[own]]
        expected = n * b * relevance_by_hand(b, n, m)
        keep = np.minimum(expected, n - expected) >= least - 1e-8
        if keep.sum() < 2:
            continue
        n, m, b = n[keep], m[keep], b[keep]
        p = b * relevance_by_hand(b, n, m)
        df += int(keep.sum()) - 1
        used |= set(counts.context[own[keep]])
        if 0 < p.max() < 1:
            information = n * p / (1 - p)
            share = information / information.sum()
            chi2 += float(np.sum((m - n * p) ** 2 / (n * p * (1 - p)) * (1 - share / n)))
    return chi2, df - (len(used) - 1)


@pytest.mark.parametrize(("displays", "least"), [(200, 5.0), (12, 1.0)])
def test_chi2_agrees_with_a_loop_over_pairs(displays: float, least: float) -> None:
    rng = np.random.default_rng(1)
    shows = shown(rng, 300, displays)
    counts = counts_of(shows, rng.binomial(shows, rng.beta(1, 2, (300, 1)) * THETA))
    check = chi2_per_df(counts, THETA)
    chi2, df = check_by_hand(counts, THETA, least)
    assert check.least_expected == least
    assert check.df == df > 20
    assert check.chi2 == pytest.approx(chi2, rel=1e-8)
    assert check.ratio == check.chi2 / check.df
    # only ratios of theta can be checked at all
    assert chi2_per_df(counts, 0.3 * THETA).chi2 == pytest.approx(check.chi2, rel=1e-9)


@pytest.mark.parametrize("shows", [(4, 6), (2, 9), (1, 1), (30, 5)])
def test_the_mean_is_exact_where_biases_are_equal(shows: tuple[int, int]) -> None:
    """Given its total, the split of a pair's clicks is hypergeometric: one degree of freedom."""
    n = np.array(shows, float)
    for total in range(1, sum(shows)):
        split = np.arange(max(0, total - shows[1]), min(shows[0], total) + 1)
        chance = hypergeom(sum(shows), shows[0], total).pmf(split)
        bias = np.ones(2)
        chi2 = [
            checks._pearson(np.zeros(2, int), bias, n, np.array([m, total - m], float), None)
            for m in split
        ]
        assert chance @ chi2 == pytest.approx(1, rel=1e-9)


def pooled(make: Callable[[int], FitCheck], seeds: int = 6) -> tuple[float, float]:
    """The ratio over several seeds, and its standard error."""
    checks = [make(seed) for seed in range(seeds)]
    df = sum(check.df for check in checks)
    return sum(check.chi2 for check in checks) / df, np.sqrt(2 / df)


def well_specified(seed: int, displays: float, a: float, b: float) -> ClickCounts:
    rng = np.random.default_rng(seed)
    shows = shown(rng, 1000, displays)
    return counts_of(shows, rng.binomial(shows, rng.beta(a, b, (1000, 1)) * THETA))


def biases_are_known(seed: int, displays: float, a: float, b: float) -> FitCheck:
    counts = well_specified(seed, displays, a, b)
    check = chi2_per_df(counts, THETA)
    # theta is the true one here, nothing was fitted for it
    return FitCheck(check.chi2, check.df + 5, None, check.entries, check.least_expected)


WELL_SPECIFIED = {"few": (12, 1, 2), "high": (60, 8, 1), "low": (300, 1, 40), "many": (3000, 1, 9)}


@pytest.mark.parametrize("design", WELL_SPECIFIED)
def test_a_correct_model_gives_one(design: str) -> None:
    ratio, error = pooled(lambda seed: biases_are_known(seed, *WELL_SPECIFIED[design]))
    assert abs(ratio - 1) < 3 * error


def test_fitting_to_what_is_left_out_would_give_more_than_one() -> None:
    """The negative control: why relevance is fitted again to the chosen entries."""

    def fitted_once(seed: int) -> FitCheck:
        counts = well_specified(seed, *WELL_SPECIFIED["high"])
        bias, n, m = THETA[counts.context], counts.displays * 1.0, counts.clicks * 1.0
        p = bias * best_relevance(counts.pair, bias, n, m)
        expected = n * p
        keep = checks._of_two_or_more(counts.pair, np.minimum(expected, n - expected) >= 5)
        chi2 = np.sum((m - expected)[keep] ** 2 / (expected * (1 - p))[keep])
        df = int(keep.sum()) - len(np.unique(counts.pair[keep]))
        return FitCheck(float(chi2), df, None, int(keep.sum()), 5.0)

    ratio, error = pooled(fitted_once)
    assert ratio > 1 + 5 * error
    assert ratio == pytest.approx(1.4, abs=0.1)


def fit_theta(counts: ClickCounts, steps: int) -> np.ndarray:
    """Position bias by plain expectation maximisation, the first position set to 1."""
    pair, context = counts.pair, counts.context
    n, m = counts.displays * 1.0, counts.clicks * 1.0
    pairs, contexts = np.bincount(pair, n), np.bincount(context, n)
    theta, zeta = np.full(len(contexts), 0.5), np.full(len(pairs), 0.5)
    for _ in range(steps):
        t, z = theta[context], zeta[pair]
        unclicked = (n - m) / np.maximum(1 - t * z, 1e-15)
        theta = np.bincount(context, m + unclicked * t * (1 - z)) / contexts
        zeta = np.bincount(pair, m + unclicked * z * (1 - t)) / pairs
    return theta / theta[0]


def test_a_simulated_world_gives_one() -> None:
    world = simulate(
        queries=80, docs=8, features=6, pages=60_000, positions=5, relevance="beta", seed=1
    )
    counts = world.counts()
    for theta in (world.position_bias, fit_theta(counts, 2000)):
        check = chi2_per_df(counts, theta)
        assert check.df > 300
        assert abs(check.ratio - 1) < 3 * np.sqrt(2 / check.df)
    # and the wrong position bias does not pass
    assert chi2_per_df(counts, world.position_bias**0.5).ratio > 1.5


def affine_by_hand(
    bias: np.ndarray, displays: np.ndarray, clicks: np.ndarray, floor: np.ndarray
) -> float:
    """The oracle: scipy's minimum of minus the log-likelihood between the ends of the range."""

    def loss(zeta: float) -> float:
        p = np.clip(floor + bias * zeta, 0, 1)
        return -float((xlogy(clicks, p) + xlog1py(displays - clicks, -p)).sum())

    ends = (np.max(-floor / bias), np.min((1 - floor) / bias))
    return float(minimize_scalar(loss, bounds=ends, method="bounded", options={"xatol": 1e-10}).x)


def test_relevance_of_pairs_with_clicks_on_unattractive_items() -> None:
    pair, bias, displays, clicks = random_entries(4)
    floor = 0.3 * bias**2
    bias = bias - floor
    found = best_relevance(pair, bias, displays, clicks, floor)
    for number in np.unique(pair):
        own = pair == number
        expected = affine_by_hand(bias[own], displays[own], clicks[own], floor[own])
        assert found[own][0] == pytest.approx(expected, abs=1e-5)
    # no floor is a floor of nothing
    plain = best_relevance(pair, bias, displays, clicks)
    np.testing.assert_allclose(
        best_relevance(pair, bias, displays, clicks, np.zeros(len(bias))), plain, atol=1e-12
    )


def test_a_world_with_trust_bias_gives_one() -> None:
    world = simulate(
        queries=80,
        docs=8,
        features=6,
        pages=60_000,
        positions=5,
        relevance="beta",
        users="trust",
        seed=1,
    )
    counts, truth = world.counts(), world.examination
    slope, floor = truth["theta"].to_numpy(), truth["unattractive"].to_numpy()
    check = chi2_per_df(counts, slope, floor)
    assert check.df > 300
    assert abs(check.ratio - 1) < 3 * np.sqrt(2 / check.df)
    # an affine map of relevance changes nothing, and ignoring the floor does
    assert chi2_per_df(counts, 0.8 * slope, floor + 0.2 * slope).ratio == pytest.approx(
        check.ratio, rel=1e-6
    )
    assert chi2_per_df(counts, slope).ratio > 1.5


@pytest.mark.parametrize("by", ["context", "day"])
def test_relevance_that_changes_gives_more_than_one(by: str) -> None:
    """A pair's relevance that differs by position, or by day at the same position."""
    rng = np.random.default_rng(5)
    shape = (400, 6) if by == "context" else (400, 6, 7)
    shows = rng.poisson(40, shape)
    zeta = rng.beta(2, 4, (400, *[1] * (len(shape) - 1)))
    noise = rng.normal(0, 0.8, shape if by == "context" else (400, 1, 7))
    theta = THETA if by == "context" else THETA[:, None]
    steady = counts_of(shows, rng.binomial(shows, zeta * theta))
    changing = counts_of(shows, rng.binomial(shows, expit(logit(zeta) + noise) * theta))
    for counts, is_steady in ((steady, True), (changing, False)):
        check = chi2_per_df(counts, THETA)
        assert check.least_expected == 5
        if is_steady:
            assert abs(check.ratio - 1) < 3 * np.sqrt(2 / check.df)
        else:
            assert check.ratio > 1.5


def test_the_real_yandex_counts_do_not_fit(shared_data: Callable[[str], Path]) -> None:
    """Known from an independent computation, without the second fit: about 24."""
    path = shared_data("yandex-counts/counts.csv")
    with pytest.warns(UserWarning, match="capped"):
        counts = read_log(path, position_base=0, clip_clicks=True)
    check = chi2_per_df(counts, fit_theta(counts, 5000))
    assert check.least_expected == 5
    assert check.ratio == pytest.approx(24, abs=1)


@pytest.mark.parametrize(
    ("displays", "clicks"),
    [
        ([[90, 0], [0, 90]], [[30, 0], [0, 30]]),  # nothing links the positions
        ([[90, 90]], [[0, 0]]),  # never clicked
        ([[90, 90]], [[30, 30]]),  # one pair, whose two entries the biases fit
        ([[1, 1], [1, 1]], [[1, 0], [0, 1]]),  # too few displays
    ],
)
def test_without_degrees_of_freedom_there_is_no_ratio(displays: list, clicks: list) -> None:
    check = chi2_per_df(counts_of(np.array(displays), np.array(clicks)), np.array([1, 0.5]))
    assert check.df <= 0
    assert check.ratio is None
    assert np.isfinite(check.chi2)


def test_nothing_left_after_the_second_fit_is_no_division_by_zero() -> None:
    """The clicks because of which entries were chosen are in entries that are left out."""
    displays = np.array([[20, 20, 1, 1, 1, 1, 1, 1]] * 3)
    clicks = np.array([[0, 0, 1, 1, 1, 1, 1, 1]] * 3)
    check = chi2_per_df(counts_of(displays, clicks), np.ones(8))
    assert (check.entries, check.chi2) == (6, pytest.approx(0, abs=1e-12))


@pytest.mark.parametrize("theta", [[1.0], [1.0, 0.0], [1.0, np.nan]])
def test_an_invalid_position_bias_is_refused(theta: list[float]) -> None:
    with raises_code("invalid-position-bias") as error:
        chi2_per_df(counts_of(np.array([[9, 9]]), np.array([[1, 1]])), np.array(theta))
    assert "each of 2 contexts" in str(error.value)
