"""The expansion for many biases against the closed form that counts display after display."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from epiclick.click_models.click_model import Emission
from epiclick.likelihood.closed_form import expanded_log_unclicked, log_unclicked

pytestmark = pytest.mark.slow


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


def affine(rest) -> Emission:
    """Unattractive items are clicked a third as often."""
    return Emission(1 - rest, rest, (1 - rest) / 3, (2 + rest) / 3)


# written out for one sample, found by automatic differentiation for more
@pytest.mark.parametrize(("width", "samples"), [(1, 1), (16, 1), (3, 3)])
@pytest.mark.parametrize("emission", [skipped, affine])
def test_gradients_agree_with_those_of_the_closed_form(width: int, emission, samples: int) -> None:
    rest, attractive, beta, unclicked = problem(7, width, samples=samples)

    def value(rest, *others):
        return expanded_log_unclicked(emission(rest), *others, unclicked).sum()

    def expected(rest, *others):
        each = [log_unclicked(emission(one), *others, unclicked).sum() for one in rest]
        return sum(each)

    given = (rest, attractive, beta)
    own, other = (jax.jit(jax.grad(f, argnums=(0, 1, 2)))(*given) for f in (value, expected))
    for one, another in zip(own, other, strict=True):
        np.testing.assert_allclose(one, another, rtol=1e-8, atol=1e-10)


def test_second_derivatives_agree_with_those_of_the_closed_form() -> None:
    rest, attractive, beta, unclicked = problem(5, 4, pairs=5, samples=1)

    def curvature(likelihood):
        return jax.jit(jax.hessian(lambda rest: likelihood(rest).sum()))(rest)

    own = curvature(lambda rest: expanded_log_unclicked(skipped(rest), attractive, beta, unclicked))
    other = curvature(lambda rest: log_unclicked(skipped(rest[0]), attractive, beta, unclicked))
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
