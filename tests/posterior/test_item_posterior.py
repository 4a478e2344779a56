"""The posterior of items against reference values, brute force, known truths and its symmetries."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats
from scipy.integrate import cumulative_simpson
from scipy.special import expit, log_expit, logit

from epiclick.click_models.click_model import Emission
from epiclick.data.counts import ClickCounts
from epiclick.likelihood.pairs import SWITCH_OVER
from epiclick.posterior.item_posterior import ItemPosterior, item_posterior

from ..raising import raises_code

pytestmark = pytest.mark.slow

ORACLE = Path(__file__).resolve().parents[3] / "shared" / "oracle" / "likelihood.json"
HEAD_MEAN, HEAD_VARIANCE = 1e-8, 1e-7  # relative accuracy of the quadrature
CONTEXTS = 10  # in all tests, so that each program compiles once
THETA = np.r_[1.0, 0.6, 0.35, 0.2, 0.1, 0.05, 0.02, 0.999, 0.9, 0.5]


def counts_of(displays: np.ndarray, clicks: np.ndarray) -> ClickCounts:
    """Counts with one pair per row of (pairs, contexts); each pair is shown somewhere."""
    assert np.all(displays.sum(axis=1) > 0)
    pair, context = np.nonzero(displays)
    return ClickCounts(
        query_id=pa.array(np.zeros(len(displays), int)),
        doc_id=pa.array(np.arange(len(displays))),
        contexts=pa.table({"position": np.arange(1, CONTEXTS + 1)}),
        pair=pair,
        context=context,
        displays=displays[pair, context],
        clicks=clicks[pair, context],
    )


def simulated(seed: int, pairs: int, most: int) -> tuple[ClickCounts, np.ndarray, np.ndarray]:
    """Counts of pairs with 1 to `most` displays, and their priors, wide and narrow."""
    rng = np.random.default_rng(seed)
    alpha, beta = 10 ** rng.uniform(-3, 1.5, (2, pairs))
    total = np.exp(rng.uniform(0, np.log(most), pairs)).astype(int)
    displays = rng.multinomial(total, rng.dirichlet(np.full(CONTEXTS, 0.3), pairs))
    zeta = rng.choice([0.0, 0.05, 0.5, 1.0], (pairs, 1))
    return counts_of(displays, rng.binomial(displays, THETA * zeta)), alpha, beta


def posterior(counts: ClickCounts, alpha, beta, theta=THETA, level=0.9, **options) -> ItemPosterior:
    alpha, beta = (np.broadcast_to(v, len(counts)) for v in (alpha, beta))
    return item_posterior(counts, Emission(theta, 1 - theta), alpha, beta, level, **options)


def arrays(found: ItemPosterior) -> np.ndarray:
    return np.stack([found.mean, found.variance, found.low, found.high])


def probability_below(zeta, alpha, beta, clicks, unclicked, nodes=40_001) -> float:
    """P(relevance <= zeta) by Simpson's rule on a logit grid that is dense at the mode."""
    p = alpha + clicks

    def log_density(u: np.ndarray) -> np.ndarray:
        unseen = np.exp(log_expit(-u))[:, None] + (1 - THETA) * np.exp(log_expit(u))[:, None]
        log_unseen = np.log(np.maximum(unseen, np.finfo(float).tiny))
        return p * log_expit(u) + beta * log_expit(-u) + log_unseen @ unclicked

    coarse = np.linspace(-60, 60, 2001)
    for _ in range(5):
        i = np.clip(log_density(coarse).argmax(), 1, 1999)
        mode = coarse[i]
        coarse = np.linspace(coarse[i - 1], coarse[i + 1], 2001)
    width = (p + beta + unclicked.sum()) ** -0.5
    t = np.linspace(-np.arcsinh((60 + 40 / p) / width), np.arcsinh((60 + 40 / beta) / width), nodes)
    u = mode + width * np.sinh(t)
    log_g = log_density(u)
    cdf = cumulative_simpson(np.exp(log_g - log_g.max()) * np.cosh(t), x=t, initial=0)
    return float(np.interp(np.log(zeta) - np.log1p(-zeta), u, cdf / cdf[-1]))


def test_moments_agree_with_the_oracle() -> None:
    if not ORACLE.exists():
        pytest.skip("oracle/likelihood.json is not here")
    # counts have no pairs without displays
    cases = [case for case in json.loads(ORACLE.read_text()) if sum(case["displays"])]
    assert len(cases) >= 300
    for case in cases:
        missing = CONTEXTS - len(case["theta"])
        theta = np.r_[case["theta"], np.full(missing, 0.5)]
        displays, clicks = (
            np.r_[case[name], np.zeros(missing, int)][None] for name in ("displays", "clicks")
        )
        found = posterior(counts_of(displays, clicks), case["alpha"], case["beta"], theta)
        few = (displays - clicks).sum() <= SWITCH_OVER
        mean, variance = case["posterior_mean"], case["posterior_variance"]
        assert found.mean[0] == pytest.approx(mean, rel=1e-13 if few else HEAD_MEAN)
        assert found.variance[0] == pytest.approx(variance, rel=1e-13 if few else HEAD_VARIANCE)
        assert 0 <= found.low[0] <= found.high[0] <= 1
        assert found.betas.mean[0] == pytest.approx(found.mean[0], rel=1e-12)


@pytest.mark.parametrize(("most", "heads"), [(16, False), (100_000, True)])
def test_interval_ends_have_their_probability_by_brute_force(most: int, heads: bool) -> None:
    counts, alpha, beta = simulated(1, 60, most)
    displays, clicks = counts.dense()
    unclicked = displays - clicks
    assert (unclicked.sum(axis=1).max() > 1000) == heads
    found = posterior(counts, alpha, beta)
    checked = 0
    for i in range(len(counts)):
        for end, expected in ((found.low[i], 0.05), (found.high[i], 0.95)):
            if 1e-290 < end < 1 - 1e-6:  # else float64 rounds relevance
                below = probability_below(end, alpha[i], beta[i], clicks[i].sum(), unclicked[i])
                assert below == pytest.approx(expected, abs=1e-6)
                checked += 1
    assert checked >= 80  # of 120


def test_the_beta_of_the_same_moments_has_other_ends() -> None:
    """The control: the brute-force test would detect them."""
    unclicked = np.zeros((1, CONTEXTS), int)
    unclicked[0, 4] = 60  # theta = 0.1
    found = posterior(counts_of(unclicked, 0 * unclicked), 1, 1)
    low, high = found.betas.interval(0.9)
    errors = [
        abs(probability_below(end[0], 1, 1, 0, unclicked[0]) - expected)
        for end, expected in ((low, 0.05), (high, 0.95))
    ]
    assert max(errors) > 0.005


@pytest.mark.parametrize("most", [16, 3000])
def test_with_every_display_examined_it_is_the_conjugate_beta(most: int) -> None:
    counts, alpha, beta = simulated(2, 200, most)
    displays, clicks = counts.dense()
    found = posterior(counts, alpha, beta, np.ones(CONTEXTS))
    expected = stats.beta(alpha + clicks.sum(axis=1), beta + (displays - clicks).sum(axis=1))
    few = most <= SWITCH_OVER
    np.testing.assert_allclose(found.mean, expected.mean(), rtol=1e-12 if few else HEAD_MEAN)
    np.testing.assert_allclose(found.variance, expected.var(), rtol=1e-12 if few else HEAD_VARIANCE)
    for end, probability in ((found.low, 0.05), (found.high, 0.95)):
        quantile = expected.ppf(probability)
        inside = (quantile > 1e-290) & (quantile < 1 - 1e-6)  # representable in float64
        assert inside.sum() > 100
        np.testing.assert_allclose(expected.cdf(end)[inside], probability, atol=1e-6)
        np.testing.assert_allclose(end[~inside], quantile[~inside], atol=1e-6)
        if few:
            np.testing.assert_allclose(end[inside], quantile[inside], rtol=1e-12)


def drawn(seed: int, pairs: int, most: int, draws: int = 16) -> tuple:
    """Counts, and theta and priors that differ between draws as much as in small logs."""
    rng = np.random.default_rng(seed)
    half = rng.normal(0, 0.3, (draws // 2, CONTEXTS))
    theta = expit(logit(np.minimum(THETA, 0.999)) + np.r_[half, -half])
    theta[:, 0] = 1
    shift = rng.normal(0, 0.4, (draws // 2, pairs))
    mean = expit(rng.normal(-1, 1, pairs) + np.r_[shift, -shift])
    confidence = 1 + 5 * np.exp(rng.normal(0, 0.3, (draws, pairs)))
    total = np.exp(rng.uniform(0, np.log(most), pairs)).astype(int)
    displays = rng.multinomial(total, rng.dirichlet(np.full(CONTEXTS, 0.3), pairs))
    clicks = rng.binomial(displays, theta[0] * mean[0][:, None])
    return counts_of(displays, clicks), theta, mean * confidence, (1 - mean) * confidence


def sampled(counts: ClickCounts, theta, alpha, beta, pair: int) -> tuple[np.ndarray, np.ndarray]:
    """A grid of zeta and its probabilities, averaged over draws, at logits with a long tail."""
    displays, clicks = (each[0] for each in counts.dense(np.array([pair])))
    step = np.linspace(-8, 4.2, 20_001)
    u = np.sinh(step)
    zeta = expit(u)
    weights = np.zeros(len(u))
    for bias, a, b in zip(theta, alpha[:, pair], beta[:, pair], strict=True):
        log_g = (a + clicks.sum()) * log_expit(u) + b * log_expit(-u)
        log_g = log_g + np.log1p(-bias * zeta[:, None] * (1 - 1e-15)) @ (displays - clicks)
        g = np.exp(log_g - log_g.max()) * np.cosh(step)
        weights += g / g.sum() / len(theta)
    return zeta, weights


@pytest.mark.parametrize(("most", "heads"), [(16, False), (400, True)])
def test_draws_are_averaged_as_by_brute_force(most: int, heads: bool) -> None:
    counts, theta, alpha, beta = drawn(20, 150, most)
    displays, clicks = counts.dense()
    assert ((displays - clicks).sum(axis=1).max() > SWITCH_OVER) == heads
    found = item_posterior(counts, Emission(theta, 1 - theta), alpha, beta, 0.9, above=0.3)
    # the controls: the parameters' mean only, and the Beta of the average's moments
    centre = theta.mean(axis=0), alpha.mean(axis=0), beta.mean(axis=0)
    alone = posterior(counts, *centre[1:], centre[0])
    matched = found.betas.interval(0.9)
    errors = np.empty((4, len(counts), 2))
    for i in range(len(counts)):
        zeta, weights = sampled(counts, theta, alpha, beta, i)
        mean = (weights * zeta).sum()
        variance = (weights * (zeta - mean) ** 2).sum()
        assert found.mean[i] == pytest.approx(mean, rel=1e-5)
        assert found.variance[i] == pytest.approx(variance, rel=1e-4)
        cdf = np.cumsum(weights) - weights / 2
        for j, ends in enumerate([(found.low, found.high), (alone.low, alone.high), matched]):
            below = np.interp([ends[0][i], ends[1][i]], zeta, cdf)
            errors[j, i] = abs(below - [0.05, 0.95])
        errors[3, i] = abs(1 - np.interp(0.3, zeta, cdf) - found.above[i])
    own, of_alone, of_matched, above = (np.quantile(each, 0.95) for each in errors)
    assert own < 0.005
    assert above < 0.005
    assert errors[0].max() < 0.02
    assert of_alone > 0.015
    assert of_matched > 0.01


def test_equal_draws_are_one_draw() -> None:
    counts, alpha, beta = simulated(21, 200, 300)
    one = posterior(counts, alpha, beta, above=0.2)
    theta, a, b = (np.tile(v, (4, 1)) for v in (THETA, alpha, beta))
    four = item_posterior(counts, Emission(theta, 1 - theta), a, b, 0.9, above=0.2)
    np.testing.assert_allclose(four.mean, one.mean, rtol=1e-10)
    np.testing.assert_allclose(four.variance, one.variance, rtol=1e-6)
    np.testing.assert_allclose(four.above, one.above, atol=1e-6)
    inside = (one.low > 1e-12) & (one.high < 1 - 1e-6)
    assert inside.sum() > 80
    np.testing.assert_allclose(four.low[inside], one.low[inside], rtol=1e-4)
    np.testing.assert_allclose(four.high[inside], one.high[inside], rtol=1e-4)


def test_one_prior_for_all_draws_of_bias_suffices() -> None:
    counts, theta, alpha, beta = drawn(22, 60, 30)
    one = item_posterior(counts, Emission(theta, 1 - theta), alpha[0], beta[0], 0.9)
    tiled = (np.tile(v[0], (len(theta), 1)) for v in (alpha, beta))
    np.testing.assert_allclose(
        arrays(one),
        arrays(item_posterior(counts, Emission(theta, 1 - theta), *tiled, 0.9)),
        rtol=1e-12,
    )


@pytest.mark.parametrize("most", [16, 3000])
def test_the_probability_above_is_that_of_the_conjugate_beta(most: int) -> None:
    counts, alpha, beta = simulated(23, 200, most)
    displays, clicks = counts.dense()
    found = posterior(counts, alpha, beta, np.ones(CONTEXTS), above=0.1)
    expected = stats.beta.sf(
        0.1, alpha + clicks.sum(axis=1), beta + (displays - clicks).sum(axis=1)
    )
    assert ((expected > 0.01) & (expected < 0.99)).sum() > 40
    np.testing.assert_allclose(found.above, expected, atol=1e-6)
    assert posterior(counts, alpha, beta).above is None


def test_order_and_chunks_and_parts_change_nothing() -> None:
    counts, alpha, beta = simulated(3, 150, 300)
    whole = arrays(posterior(counts, alpha, beta))
    np.testing.assert_allclose(arrays(posterior(counts, alpha, beta, chunk=7)), whole, rtol=1e-12)
    displays, clicks = counts.dense()
    order = np.random.default_rng(4).permutation(150)
    moved = posterior(counts_of(displays[order], clicks[order]), alpha[order], beta[order])
    np.testing.assert_allclose(arrays(moved), whole[:, order], rtol=1e-12)
    some = np.flatnonzero(np.arange(150) % 3 == 0)
    fewer = posterior(counts.subset(some), alpha[some], beta[some])
    np.testing.assert_allclose(arrays(fewer), whole[:, some], rtol=1e-12)

    rows = counts.to_table()
    day, other = (rows.append_column("part", pa.array([i] * len(rows))) for i in (1, 2))
    halved = ClickCounts.from_table(pa.concat_tables([day, other]))
    doubled = counts_of(2 * displays, 2 * clicks)
    assert len(halved.pair) == 2 * len(counts.pair)
    np.testing.assert_allclose(
        arrays(posterior(halved, alpha, beta)), arrays(posterior(doubled, alpha, beta)), rtol=1e-12
    )


def test_intervals_have_nominal_coverage() -> None:
    rng = np.random.default_rng(5)
    pairs = 6000
    alpha, beta = 10 ** rng.uniform(-1, 1, (2, pairs))
    zeta = rng.beta(alpha, beta)
    total = rng.choice([1, 2, 4, 8, 16, 40, 100], pairs)
    displays = rng.multinomial(total, np.full(CONTEXTS, 1 / CONTEXTS))
    counts = counts_of(displays, rng.binomial(displays, THETA * zeta[:, None]))
    found = posterior(counts, alpha, beta)
    median = posterior(counts, alpha, beta, level=1e-9).low

    def standard_errors(outside: np.ndarray, expected: float) -> float:
        return (outside.mean() - expected) / np.sqrt(expected * (1 - expected) / pairs)

    assert abs(standard_errors((zeta < found.low) | (zeta > found.high), 0.1)) < 3.5
    assert abs(standard_errors(zeta < found.low, 0.05)) < 3.5
    assert abs(standard_errors(zeta > found.high, 0.05)) < 3.5
    low, high = (median + 0.7 * (end - median) for end in (found.low, found.high))
    assert standard_errors((zeta < low) | (zeta > high), 0.1) > 10


def test_many_clicks_are_stronger_evidence_than_three_of_three() -> None:
    displays, clicks = np.zeros((2, 2, CONTEXTS), int)
    displays[:, 0], clicks[:, 0] = (1000, 3), (900, 3)
    found = posterior(counts_of(displays, clicks), 1, 1)
    assert found.low[0] > found.low[1] + 0.2
    assert found.mean[0] == pytest.approx(901 / 1002)
    assert found.high[1] > found.high[0]


def test_a_display_that_few_examine_is_weak_evidence() -> None:
    displays = np.zeros((2, CONTEXTS), int)
    displays[0, 0], displays[1, 6] = 10, 10  # theta = 1 and 0.02
    found = posterior(counts_of(displays, 0 * displays), 1, 1)
    assert found.mean[0] == pytest.approx(1 / 12)
    assert 0.45 < found.mean[1] < 0.5


def test_betas_survive_rounding() -> None:
    mean, variance = np.array([0.0, 1.0, 0.5, 0.3, 1e-310]), np.array([0.0, 0.0, 0.25, 0.0, 0.0])
    betas = ItemPosterior(mean, variance, mean, mean).betas
    assert np.all((betas.alpha > 0) & (betas.beta > 0))
    np.testing.assert_allclose(betas.mean, mean, atol=1e-15)
    counts, alpha, beta = simulated(6, 200, 1000)
    found = posterior(counts, alpha, beta)
    np.testing.assert_allclose(found.betas.mean, found.mean, rtol=1e-12)
    np.testing.assert_allclose(found.betas.variance, found.variance, rtol=1e-9)


def test_no_pairs_give_no_answers() -> None:
    counts, _, _ = simulated(7, 3, 5)
    assert len(posterior(counts.subset([]), 1, 1).mean) == 0


def test_bad_arguments_are_named() -> None:
    counts, alpha, beta = simulated(8, 5, 5)
    rest = 1 - THETA
    with raises_code("level-out-of-range") as caught:
        item_posterior(counts, Emission(THETA, rest), alpha, beta, 90)
    assert "got 90" in str(caught.value)
    with raises_code("shape-mismatch") as caught:
        item_posterior(counts, Emission(THETA[:3], rest), alpha, beta, 0.9)
    assert "emission: one value per context is needed, 10; got (3,)" in str(caught.value)
    with raises_code("shape-mismatch") as caught:
        item_posterior(counts, Emission(THETA, rest), alpha, beta[1:], 0.9)
    assert "beta: one value per pair is needed, 5; got (4,)" in str(caught.value)
    alpha[[2, 4]] = 0, np.nan
    with raises_code("invalid-beta-parameter") as caught:
        item_posterior(counts, Emission(THETA, rest), alpha, beta, 0.9)
    assert "2 of 5 are not, first at pair 2: 0.0" in str(caught.value)
