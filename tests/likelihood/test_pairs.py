"""A batch of pairs, each by its own method, against reference values and brute force."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta as beta_distribution

from epiclick.click_models.click_model import Emission
from epiclick.likelihood.batch_gradient import batch_gradient, pair_log_likelihoods
from epiclick.likelihood.pairs import SWITCH_OVER, WIDTHS, Bucket, PairBatch, bucket_of


@pytest.mark.slow
def test_every_pair_of_the_oracle_at_any_number_of_displays(oracle, make_batch) -> None:
    shown = [case for case in oracle if case.displays.sum()]
    assert any(case.unclicked.sum() > 1_000_000 for case in shown)
    for case in shown:
        batch = make_batch(case.displays[None], case.clicks[None])
        theta, rest = case.theta, 1 - case.theta
        shape = np.array([case.alpha]), np.array([case.beta])
        found = batch_gradient(Emission(theta, rest), *shape, batch)
        alone = pair_log_likelihoods(Emission(theta[None], rest[None]), *shape, batch)[0]
        for value in (found.value, alone):
            assert abs(value[0] - case.value) <= 1e-9 * (1 + abs(case.log_likelihood))
        # in logits of theta, which is fixed where it is 1
        expected = np.r_[case.gradient[:-2] * theta * rest, case.gradient[-2:]]
        own = np.r_[found.by_logit, found.by_alpha, found.by_beta]
        assert np.all(abs(own - expected) <= 1e-6 * (1 + abs(expected)))


def random_counts(seed: int, pairs: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    displays = rng.integers(0, most, (pairs, 3))
    displays[:, 0] += 1
    return displays, rng.binomial(displays, 0.3)


def test_each_pair_against_an_integral(make_batch) -> None:
    displays, clicks = random_counts(0, 12, 9)
    theta, a, b = np.array([1.0, 0.6, 0.2]), 0.7, 1.8
    batch = make_batch(displays, clicks)
    order = np.argsort(bucket_of((displays - clicks).sum(axis=1)), kind="stable")
    alpha, beta = np.full(12, a), np.full(12, b)
    own = pair_log_likelihoods(Emission(theta[None], 1 - theta[None]), alpha, beta, batch)[0]
    for row, pair in enumerate(order):

        def likelihood(zeta, pair=pair):
            p = theta * zeta
            return np.prod(p ** clicks[pair] * (1 - p) ** (displays - clicks)[pair])

        integral, _ = quad(
            lambda z: likelihood(z) * beta_distribution.pdf(z, a, b), 0, 1, limit=200
        )
        assert own[row] == pytest.approx(np.log(integral), abs=1e-6)


def test_no_jump_where_the_closed_form_gives_way_to_quadrature(make_batch) -> None:
    theta = np.array([0.9])
    for unclicked in range(SWITCH_OVER - 1, SWITCH_OVER + 3):
        batch = make_batch(np.array([[unclicked + 3]]), np.array([[3]]))
        own = batch_gradient(Emission(theta, 1 - theta), np.array([0.8]), np.array([2.5]), batch)
        assert abs(own.value[0] - _by_recursion(0.9, 0.8, 2.5, 3, unclicked)) < 1e-11


def _by_recursion(theta: float, a: float, b: float, clicks: int, unclicked: int) -> float:
    """log E[(theta z)^M (1 - theta z)^W] by W applications of E[f (1 - theta z)], in plain Python."""
    mixture = {0: 1.0}  # number of displays at which the item was not examined -> weight
    total = sum(np.log(theta * (a + i) / (a + b + i)) for i in range(clicks))
    for j in range(unclicked):
        grown: dict[int, float] = {}
        whole = a + clicks + b + j
        for n, weight in mixture.items():
            grown[n] = grown.get(n, 0) + weight * (b + j - n) / whole
            grown[n + 1] = weight * (1 - theta) * (a + clicks + n) / whole
        scale = sum(grown.values())
        total += np.log(scale)
        mixture = {n: weight / scale for n, weight in grown.items()}
    return float(total)


def test_weights_count_and_padding_does_not(make_batch) -> None:
    displays, clicks = random_counts(1, 20, 12)
    theta = np.array([1.0, 0.5, 0.3])
    emission = Emission(theta, 1 - theta)
    batch = make_batch(displays, clicks)
    rng = np.random.default_rng(2)
    alpha, beta = rng.uniform(0.3, 3, (2, 20))
    weight = rng.integers(0, 3, 20).astype(float)
    plain = batch_gradient(emission, alpha, beta, batch)
    weighted = batch_gradient(emission, alpha, beta, replace(batch, weight=weight))
    for one, other in zip(plain[:3], weighted[:3], strict=True):
        np.testing.assert_array_equal(one, other)
    alone = [
        batch_gradient(emission, alpha, beta, replace(batch, weight=own)).by_logit
        for own in np.eye(20)
    ]
    np.testing.assert_allclose(weighted.by_logit, weight @ alone, rtol=1e-12)
    padding = [
        Bucket(*(np.concatenate([part, 0 * part[:3] + fill]) for part, fill in parts))
        for bucket in batch.buckets[:1]
        for parts in [((bucket.clicks, 0), (bucket.unclicked, 0), (bucket.order, -1))]
    ]
    size = len(batch.buckets[0].clicks)
    padded = PairBatch((*padding, *batch.buckets[1:]), np.insert(weight, [size] * 3, 0.0))
    more = batch_gradient(emission, *(np.insert(x, [size] * 3, 7.0) for x in (alpha, beta)), padded)
    np.testing.assert_allclose(more.by_logit, weighted.by_logit, rtol=1e-12)
    np.testing.assert_allclose(
        np.delete(more.value, range(size, size + 3)), plain.value, rtol=1e-12
    )


def test_a_bias_that_underflows_gives_finite_numbers(make_batch) -> None:
    """A step of an optimiser may go too far; what was never clicked there is as likely as before."""
    displays = np.array([[2, 1], [1, 1], [30, 2]])
    batch = make_batch(displays, np.array([[1, 0], [0, 0], [3, 0]]))
    emission = Emission(np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    alpha, beta = np.full(3, 0.7), np.full(3, 2.0)
    found = batch_gradient(emission, alpha, beta, batch)
    assert all(np.isfinite(part).all() for part in found)
    without = make_batch(displays * [1, 0], np.array([[1, 0], [0, 0], [3, 0]]))
    expected = batch_gradient(emission, alpha, beta, without)
    np.testing.assert_allclose(found.value, expected.value, rtol=1e-12)
    one = Emission(*(None if part is None else part[None] for part in emission))
    np.testing.assert_allclose(
        pair_log_likelihoods(one, alpha, beta, batch)[0], expected.value, rtol=1e-12
    )


def test_buckets_have_the_stated_widths() -> None:
    for unclicked in range(200):
        bucket = int(bucket_of(np.array(unclicked)))
        assert (bucket == len(WIDTHS)) == (unclicked > SWITCH_OVER)
        if bucket < len(WIDTHS):
            assert unclicked <= WIDTHS[bucket]
            assert bucket == 0 or unclicked > WIDTHS[bucket - 1]
