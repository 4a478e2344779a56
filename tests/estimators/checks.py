"""Checks of the estimators: plain functions that raise AssertionError where one is wrong.

The tests run them on the estimators as they are, `test_mutants.py` on wrong versions.
"""

from dataclasses import replace

import numpy as np
from scipy import special

from epiclick.estimators import sampling
from epiclick.estimators.estimator import Betas, Draws
from epiclick.estimators.names import make_estimator
from epiclick.estimators.sampling import SMALLEST_WEIGHT

from .problems import (
    FOUR,
    SAMPLES,
    TWO,
    draw_repeats,
    make_batch,
    replicate,
    run,
    run_eagerly,
    run_repeats,
)
from .reference import (
    by_loops,
    given_position,
    likelihoods_by_loops,
    numeric_gradient,
    position_scores,
    true_gradient,
    true_log_likelihood,
    without_others,
)

SIGMAS = 4.0
"""Standard errors that a mean may be off: one of 8 parameters is, once in 2,000 checks."""

WEIGHTED = replace(FOUR, weight=np.array([1.0, 2.0, 0.0, 1.0]))
RELEVANCE = slice(0, 4)  # of the gradients of TWO
POSITION = slice(4, 8)


def check_formula(name: str, baseline: bool = False, literal: bool = False) -> None:
    """A sampling estimator is the paper's formula, written as loops, on the same samples."""
    estimator = make_estimator(name, SAMPLES, baseline, literal)
    draws = estimator.draw(np.random.default_rng(3), *WEIGHTED.betas())
    value, slope = run_eagerly(estimator, WEIGHTED, draws)
    expected_value, expected = by_loops(name, WEIGHTED, draws, baseline, literal)
    # samples are float32, and sums of a dozen of their logarithms are off by as many roundings
    np.testing.assert_allclose(value, expected_value, rtol=1e-6)
    np.testing.assert_allclose(slope, expected, rtol=0, atol=2e-6 * abs(expected).max())


def check_offset() -> None:
    """The naive gradient of a started run is a constant times the literal one, up to its cap."""
    draws = make_estimator("naive", SAMPLES).draw(np.random.default_rng(3), *FOUR.betas())
    literal_estimator = make_estimator("naive", SAMPLES, literal=True)
    assert literal_estimator.started(lambda: -7.0) == literal_estimator
    _, literal = run_eagerly(literal_estimator, FOUR, draws)
    for log_likelihood, nats in ((-7.0, 7.0), (5.0, -5.0), (-300.0, None)):
        started = make_estimator("naive", SAMPLES).started(lambda value=log_likelihood: value)
        value, slope = run_eagerly(started, FOUR, draws)
        if nats is None:  # the largest likelihood counts as exp(20)
            joint = likelihoods_by_loops(FOUR, draws).sum(axis=1)  # (biases, relevance samples)
            nats = 20.0 - joint.diagonal().max()
        np.testing.assert_allclose(slope, literal * np.exp(nats), rtol=1e-6)
        assert value == run_eagerly(started.started(lambda: -1.0), FOUR, draws)[0]


def check_naive_expectation() -> None:
    """The naive gradient is unbiased, and a baseline reduces its variance."""
    truth = true_gradient(TWO) * np.exp(true_log_likelihood(TWO))
    plain, reduced = (
        replicate(make_estimator("naive", 4, baseline, True), TWO, 20_000, 1)[1]
        for baseline in (False, True)
    )
    assert_mean(plain, truth)
    assert_mean(reduced, truth)
    # variances of 20,000 repeats are known to 1 %, a few for the tails of these products
    assert reduced.var(axis=0).sum() < 0.9 * plain.var(axis=0).sum()


def check_self_normalized_bias() -> None:
    """The self-normalised gradient is that of the log-likelihood up to a bias of order 1/S."""
    truth, log_likelihood = true_gradient(TWO), true_log_likelihood(TWO)
    sizes, repeats = np.array([16, 48, 144]), 8_000
    biases, errors = [], []
    for size in sizes:
        estimator = make_estimator("self_normalized", int(size))
        values, slopes = replicate(estimator, TWO, repeats, 2)
        # slope x ratio is the naive gradient over the likelihood, hence unbiased; ratio is 1 on
        # average. The difference of the slope from both is of second order, and so is its noise
        ratio = np.exp(values - log_likelihood)[:, None]
        unbiased = slopes * ratio - (ratio - 1) * truth
        assert_mean(unbiased, truth)
        excess = slopes - unbiased
        biases.append(excess.mean(axis=0))
        errors.append(excess.std(axis=0) / np.sqrt(repeats))
    along = biases[0] / np.linalg.norm(biases[0])
    size_of_bias = np.array(biases) @ along
    relative = np.sqrt(np.array(errors) ** 2 @ along**2) / size_of_bias
    spread = np.log(sizes) - np.log(sizes).mean()
    error_of_slope = np.sqrt((spread * relative) @ (spread * relative)) / (spread @ spread)
    slope = spread @ np.log(size_of_bias) / (spread @ spread)
    assert error_of_slope < 0.05
    # terms of order 1/S^2 bend the line by a few hundredths
    assert abs(slope + 1) < SIGMAS * error_of_slope + 0.05, slope


def check_conditioned_expectation(baseline: bool) -> None:
    """With many samples the conditioned gradient is that of the log-likelihood."""
    estimator = make_estimator("conditioned", 200, baseline)
    _, slopes = replicate(estimator, TWO, 100, 3)
    assert_mean(slopes, true_gradient(TWO))


def check_exact_expectation(baseline: bool) -> None:
    """With many samples the exact estimator's gradient is that of the log-likelihood."""
    estimator = make_estimator("exact", 1_000, baseline)
    _, slopes = replicate(estimator, TWO, 100, 4)
    assert_mean(slopes, true_gradient(TWO))


def check_exact_given_draws(baseline: bool = False) -> None:
    """The exact estimator follows the likelihoods of its biases, summed over nodes."""
    estimator = make_estimator("exact", SAMPLES, baseline)
    draws = estimator.draw(np.random.default_rng(5), *WEIGHTED.betas())
    value, slope = run_eagerly(estimator, WEIGHTED, draws)

    def log_likelihoods(relevance: np.ndarray) -> np.ndarray:
        moved = WEIGHTED.with_parameters(np.r_[relevance, WEIGHTED.parameters[8:]])
        each = [np.log(given_position(moved, theta)) for theta in np.exp(draws.log_theta)]
        return np.array(each) @ WEIGHTED.weights

    def log_mean(relevance: np.ndarray) -> float:
        return float(np.log(np.exp(log_likelihoods(relevance)).mean()))

    at = WEIGHTED.parameters[:8]
    outer = np.exp(log_likelihoods(at) - log_mean(at)) / SAMPLES
    outer = without_others(outer) if baseline else outer
    for_position = [outer @ score for score in position_scores(WEIGHTED, draws)]
    expected = np.concatenate([numeric_gradient(log_mean, at), *for_position])
    np.testing.assert_allclose(value, log_mean(at), rtol=1e-9)
    np.testing.assert_allclose(slope, expected, rtol=0, atol=1e-7)


def check_convergence() -> None:
    """With the same biases, conditioned converges to exact as 1/sqrt(S) in relevance samples."""
    biases, repeats = 5, 60
    sizes = np.array([100, 900])
    exact = make_estimator("exact", biases)
    sampled = make_estimator("conditioned", biases)
    fixed = exact.draw(np.random.default_rng(6), *TWO.betas())
    value, slope = run(exact, TWO, fixed)
    target = np.r_[value, slope]
    errors = []
    for size in sizes:
        draws = draw_repeats(TWO, repeats, int(size), 7)
        same = (
            np.broadcast_to(each, (repeats, *each.shape))
            for each in (fixed.log_theta, fixed.log_rest)
        )
        values, slopes = run_repeats(sampled, TWO, Draws(*same, draws.log_zeta, draws.log_other))
        errors.append((np.c_[values, slopes] - target)[:, :5])
    size_of_error = np.sqrt(np.mean(np.square(errors), axis=(1, 2)))
    slope = np.polyfit(np.log(sizes), np.log(size_of_error), 1)[0]
    # 5 numbers of 60 repeats, if independent, give each size to 1 / sqrt(2 x 300) = 4 %, and the
    # slope over log 9 to 0.026
    assert abs(slope + 0.5) < SIGMAS * 0.026, slope
    assert size_of_error[-1] < 0.06, size_of_error


def check_marginal() -> None:
    """The marginal gradient is that of the likelihood at a point, a bias of exactly 1 included."""
    estimator = make_estimator("marginal")
    relevance, points = WEIGHTED.points()
    value, slope = run(estimator, WEIGHTED, None)

    def log_likelihood(values: np.ndarray) -> float:
        moved = WEIGHTED.with_parameters(np.r_[values[:8], WEIGHTED.parameters[8:]])
        return float(np.log(given_position(moved, values[8:])) @ WEIGHTED.weights)

    at = np.r_[relevance.alpha, relevance.beta, points.attractive]
    assert at[8] == 1
    expected = numeric_gradient(log_likelihood, at)
    np.testing.assert_allclose(value, log_likelihood(at), rtol=1e-12)
    np.testing.assert_allclose(slope[:8], expected[:8], rtol=0, atol=1e-7)
    # in logits, in which a bias of 1 is fixed
    turn = points.attractive * points.attractive_rest
    np.testing.assert_allclose(slope[8:], turn * expected[8:], rtol=0, atol=1e-7)
    assert slope[8] == 0


def check_buckets() -> None:
    """Buckets of several widths, and one of heads whose J is summed in logarithms."""
    estimator = make_estimator("conditioned", SAMPLES)
    draws = estimator.draw(np.random.default_rng(8), *FOUR.betas())
    batch = make_batch(FOUR.displays, FOUR.clicks, cuts=(1, 3), heads=True)
    value, slope = run(estimator, FOUR, draws, batch)
    expected_value, expected = by_loops("conditioned", FOUR, draws)
    np.testing.assert_allclose(value, expected_value, rtol=1e-6)
    np.testing.assert_allclose(slope, expected, rtol=0, atol=2e-6 * abs(expected).max())


def check_extremes() -> None:
    """Weights of samples whose products leave the range of float32 are still those of the formula."""
    problem = replace(
        FOUR,
        alpha=np.array([1e-3, 2e-3, 1e-3, 5e-3]),
        beta=np.array([1e-3, 1e-3, 2e-3, 1e-3]),
        beta_position=np.array([1e-3, 2e-3, 1e-3]),
    )
    draws = sampling.draw_joint(np.random.default_rng(9), *problem.betas(), SAMPLES)
    *_, smallest = sampling._accumulate(problem.batch, draws, sampling._products)
    assert smallest < SMALLEST_WEIGHT
    value, slope = run(make_estimator("conditioned", SAMPLES), problem, draws)
    expected_value, expected = by_loops("conditioned", problem, draws)
    np.testing.assert_allclose(value, expected_value, rtol=1e-5)
    np.testing.assert_allclose(slope, expected, rtol=0, atol=1e-5 * abs(expected).max())


def check_draws() -> None:
    """Logarithms of relevance have the means that their Betas imply."""
    alpha, beta = np.array([0.3, 1e-3, 40.0]), np.array([2.0, 0.7, 3.0])
    draws = sampling.draw_relevance(np.random.default_rng(10), Betas(alpha, beta), 20_000)
    both = special.digamma(alpha + beta)
    for logs, parameter in zip(draws, (alpha, beta), strict=True):
        assert_mean(logs.T.astype(float), special.digamma(parameter) - both)


def assert_mean(values: np.ndarray, truth: np.ndarray) -> None:
    """The mean over repeats is the truth, to within its standard error."""
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    off = (values.mean(axis=0) - truth) / error
    assert np.all(abs(off) < SIGMAS), f"off by {off.round(1)} standard errors"
