"""The expansion for many biases against the closed form that counts display after display."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from epiclick.click_models.click_model import Emission
from epiclick.likelihood.closed_form import expanded_log_unclicked, log_unclicked


def problem(seed: int, width: int, pairs: int = 40, samples: int = 3):
    rng = np.random.default_rng(seed)
    theta = rng.uniform(0.01, 1, (samples, 4))
    theta[0, 0], theta[-1, 1] = 1, 1e-6
    attractive, beta = 10 ** rng.uniform(-3, 4, (2, pairs))
    unclicked = rng.integers(-1, 4, (pairs, width))
    numbers = map(jnp.asarray, (1 - theta, attractive, beta, unclicked))
    return tuple(numbers)


def skipped(rest) -> Emission:
    return Emission(1 - rest, rest)


@pytest.mark.parametrize("width", [1, 2, 5, 16])
def test_agrees_with_the_closed_form_under_each_bias(width: int) -> None:
    rest, *others = problem(width, width)
    many = jax.jit(expanded_log_unclicked)(skipped(rest), *others)
    one = jax.jit(log_unclicked)
    for i, bias in enumerate(rest):
        np.testing.assert_allclose(many[i], one(skipped(bias), *others), rtol=1e-11, atol=1e-12)


def test_gradients_agree_with_those_of_the_closed_form() -> None:
    rest, attractive, beta, unclicked = problem(7, 6, samples=1)

    @jax.jit
    def gradient(rest, attractive, beta):
        return jax.grad(
            lambda r, *p: expanded_log_unclicked(skipped(r), *p, unclicked).sum(), argnums=(0, 1, 2)
        )(rest, attractive, beta)

    @jax.jit
    def expected(rest, attractive, beta):
        return jax.grad(
            lambda r, *p: log_unclicked(skipped(r[0]), *p, unclicked).sum(), argnums=(0, 1, 2)
        )(rest, attractive, beta)

    for own, other in zip(
        gradient(rest, attractive, beta), expected(rest, attractive, beta), strict=True
    ):
        np.testing.assert_allclose(own, other, rtol=1e-8, atol=1e-10)


def test_a_billion_clicks_stay_in_the_range_of_float64() -> None:
    rest = jnp.asarray([[0.0, 0.5]])
    unclicked = jnp.asarray([[0] * 16, [1] * 16])
    args = (jnp.asarray([1e9, 1e9]), jnp.asarray([1e-3, 1e-3]), unclicked)
    np.testing.assert_allclose(
        expanded_log_unclicked(skipped(rest), *args)[0],
        log_unclicked(skipped(rest[0]), *args),
        rtol=1e-12,
    )


def test_displays_that_are_missing_change_nothing() -> None:
    rest, attractive, beta, unclicked = problem(3, 5)
    padded = jnp.concatenate([unclicked, jnp.full((40, 4), -1)], axis=1)
    np.testing.assert_allclose(
        expanded_log_unclicked(skipped(rest), attractive, beta, padded),
        expanded_log_unclicked(skipped(rest), attractive, beta, unclicked),
        rtol=1e-12,
        atol=1e-13,
    )
