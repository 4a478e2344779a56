"""A batch of pairs, each by its own method, against reference values and brute force."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta as beta_distribution

from epiclick.click_models.click_model import Emission
from epiclick.likelihood.closed_form import log_binomial
from epiclick.likelihood.pairs import (
    SWITCH_OVER,
    WIDTHS,
    bucket_of,
    log_likelihoods,
    pair_log_likelihoods,
)

pytestmark = pytest.mark.slow


@jax.jit
def value_and_gradient(theta, alpha, beta, batch):
    def total(theta, alpha, beta):
        return log_likelihoods(Emission(theta[None], 1 - theta[None]), alpha, beta, batch)[0]

    return jax.value_and_grad(total, (0, 1, 2))(theta, alpha, beta)


def test_every_pair_of_the_oracle_at_any_number_of_displays(oracle, make_batch) -> None:
    shown = [case for case in oracle if case.displays.sum()]
    for case in shown:
        batch = make_batch(case.displays[None], case.clicks[None])
        value, gradient = value_and_gradient(
            jnp.asarray(case.theta), jnp.asarray([case.alpha]), jnp.asarray([case.beta]), batch
        )
        constant = log_binomial(*(jnp.asarray(n, float) for n in (case.displays, case.clicks)))
        error = abs(float(value + constant.sum()) - case.log_likelihood)
        assert error <= 1e-9 * (1 + abs(case.log_likelihood))
        own = np.concatenate([np.asarray(part) for part in gradient])
        assert np.all(abs(own - case.gradient) <= 1e-6 * (1 + abs(case.gradient)))


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
    alpha, beta = jnp.full(12, a), jnp.full(12, b)
    own = pair_log_likelihoods(Emission(theta[None], 1 - theta[None]), alpha, beta, batch)[0]
    for row, pair in enumerate(order):

        def likelihood(zeta, pair=pair):
            p = theta * zeta
            return np.prod(p ** clicks[pair] * (1 - p) ** (displays - clicks)[pair])

        integral, _ = quad(
            lambda z: likelihood(z) * beta_distribution.pdf(z, a, b), 0, 1, limit=200
        )
        assert float(own[row]) == pytest.approx(np.log(integral), abs=1e-6)


def test_no_jump_where_the_closed_form_gives_way_to_quadrature(make_batch) -> None:
    theta = jnp.asarray([[0.9]])
    program = jax.jit(log_likelihoods)
    for unclicked in range(SWITCH_OVER - 1, SWITCH_OVER + 3):
        batch = make_batch(np.array([[unclicked + 3]]), np.array([[3]]))
        alpha, beta = jnp.asarray([0.8]), jnp.asarray([2.5])
        own = float(program(Emission(theta, 1 - theta), alpha, beta, batch)[0])
        assert abs(own - _by_recursion(0.9, 0.8, 2.5, 3, unclicked)) < 1e-11


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
    theta = jnp.asarray([[1.0, 0.5, 0.3], [0.8, 0.7, 0.1]])
    batch = make_batch(displays, clicks)
    rng = np.random.default_rng(2)
    alpha, beta = jnp.asarray(rng.uniform(0.3, 3, (2, 20)))
    each = pair_log_likelihoods(Emission(theta, 1 - theta), alpha, beta, batch)
    weight = rng.integers(0, 3, 20).astype(float)
    weighted = type(batch)(batch.buckets, weight)
    np.testing.assert_allclose(
        log_likelihoods(Emission(theta, 1 - theta), alpha, beta, weighted),
        each @ weight,
        rtol=1e-12,
    )


def test_buckets_have_the_stated_widths() -> None:
    for unclicked in range(200):
        bucket = int(bucket_of(np.array(unclicked)))
        assert (bucket == len(WIDTHS)) == (unclicked > SWITCH_OVER)
        if bucket < len(WIDTHS):
            assert unclicked <= WIDTHS[bucket]
            assert bucket == 0 or unclicked > WIDTHS[bucket - 1]
