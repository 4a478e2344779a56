"""The quadrature for head pairs against reference values and the closed form."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from epiclick.likelihood.exact import exact_log_likelihood
from epiclick.likelihood.quadrature import quadrature_log_likelihood, quadrature_moments
from epiclick.likelihood.rising import log_binomial


@jax.jit
def value_and_gradient(theta, alpha, beta, clicks, unclicked):
    def total(theta, alpha, beta):
        return quadrature_log_likelihood(theta, 1 - theta, alpha, beta, clicks, unclicked)[0]

    return jax.value_and_grad(total, (0, 1, 2))(theta, alpha, beta)


def arguments(case) -> list[jax.Array]:
    parts = (case.theta, [case.alpha], [case.beta], case.clicks[None], case.unclicked[None])
    return [jnp.asarray(part, float) for part in parts]


def test_head_pairs_agree_with_the_oracle(oracle) -> None:
    heads = [case for case in oracle if case.unclicked.sum() > 64]
    assert len(heads) >= 50
    assert any(case.clicks.sum() == 0 and case.unclicked.sum() > 10_000 for case in heads)
    for case in heads:
        value, gradient = value_and_gradient(*arguments(case))
        constant = log_binomial(
            jnp.asarray(case.displays, float), jnp.asarray(case.clicks, float)
        ).sum()
        assert abs(float(value + constant) - case.log_likelihood) <= 1e-9 * (
            1 + abs(case.log_likelihood)
        )
        own = np.concatenate([np.asarray(g) for g in gradient])
        assert np.all(abs(own - case.gradient) <= 1e-6 * (1 + abs(case.gradient)))


def test_moments_of_head_pairs_agree_with_the_oracle(oracle) -> None:
    for case in [case for case in oracle if case.unclicked.sum() > 64]:
        theta, *rest = arguments(case)
        mean, variance = jax.jit(quadrature_moments)(1 - theta, *rest)
        assert float(mean[0]) == pytest.approx(case.mean, rel=1e-8)
        assert float(variance[0]) == pytest.approx(case.variance, rel=1e-6)


@pytest.mark.parametrize("displays", [256, 1000])
def test_both_ways_agree_where_either_may_be_used(displays: int) -> None:
    rng = np.random.default_rng(displays)
    pairs, contexts = 60, 4
    theta = jnp.asarray([1.0, 0.5, 0.2, 0.05])
    alpha, beta = jnp.asarray(10 ** rng.uniform(-1, 1.5, (2, pairs)))
    clicks = np.zeros((pairs, contexts))
    clicks[:, 0] = np.where(rng.random(pairs) < 0.3, 0, rng.integers(0, 200, pairs))
    unclicked = rng.multinomial(displays, [0.4, 0.3, 0.2, 0.1], size=pairs)
    order = np.array([np.repeat(np.arange(contexts), row) for row in unclicked])
    exact = exact_log_likelihood(
        theta, 1 - theta, alpha, beta, jnp.asarray(clicks), jnp.asarray(order)
    )
    quadrature = quadrature_log_likelihood(
        theta, 1 - theta, alpha, beta, jnp.asarray(clicks), jnp.asarray(unclicked, float)
    )
    np.testing.assert_allclose(quadrature, exact, rtol=1e-9)


def test_fewer_nodes_would_be_noticed(oracle) -> None:
    """The control: with four nodes the test against the oracle fails."""
    worst = 0.0
    coarse = jax.jit(partial(quadrature_log_likelihood, nodes=4))
    for case in [case for case in oracle if case.unclicked.sum() > 64]:
        theta, *rest = arguments(case)
        value = coarse(theta, 1 - theta, *rest)[0]
        constant = log_binomial(
            jnp.asarray(case.displays, float), jnp.asarray(case.clicks, float)
        ).sum()
        worst = max(worst, abs(float(value + constant) - case.log_likelihood))
    assert worst > 1e-6
