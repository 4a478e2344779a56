"""The expansion for many biases against a product over display after display."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from epiclick.click_models.click_model import Emission
from epiclick.likelihood.closed_form import expand, forms
from epiclick.traced.expansion import expanded_log_unclicked

from ..likelihood import recursion
from ..posterior.small_worlds import differences

pytestmark = pytest.mark.slow


def problem(seed: int, width: int, pairs: int = 40, samples: int = 3):
    rng = np.random.default_rng(seed)
    theta = rng.uniform(0.01, 1, (samples, 4))
    theta[0, 0], theta[-1, 1] = 1, 1e-6
    attractive, beta = 10 ** rng.uniform(-3, 4, (2, pairs))
    return 1 - theta, attractive, beta, rng.integers(-1, 4, (pairs, width))


def skipped(rest) -> Emission:
    return Emission(1 - rest, rest)


def affine(rest) -> Emission:
    """Unattractive items are clicked a third as often."""
    return Emission(1 - rest, rest, (1 - rest) / 3, (2 + rest) / 3)


def one_by_one(emission, rest, attractive, beta, unclicked) -> np.ndarray:
    """Under one bias, (contexts,); numbers may be complex."""
    own = emission(rest)
    us = np.append(own.attractive_rest, 1.0)[unclicked.T]
    vs = 1.0 if own.unattractive is None else np.append(own.unattractive_rest, 1.0)[unclicked.T]
    # a missing display is none: displays are counted pair by pair
    found = []
    for pair in range(len(unclicked)):
        shown = unclicked[pair] >= 0
        part = (
            us[shown, pair : pair + 1],
            vs if own.unattractive is None else vs[shown, pair, None],
        )
        found.append(recursion.log_displays(*part, attractive[pair], beta[pair])[0])
    return np.array(found)


@pytest.mark.parametrize("width", [1, 2, 5, 16])
@pytest.mark.parametrize("emission", [skipped, affine])
def test_agrees_with_the_product_under_each_bias(width: int, emission) -> None:
    rest, *others = problem(width, width)
    many = jax.jit(expanded_log_unclicked)(emission(rest), *others)
    for i, bias in enumerate(rest):
        expected = one_by_one(emission, bias, *others)
        np.testing.assert_allclose(many[i], expected, rtol=1e-11, atol=1e-12)


# written out for one sample, found by automatic differentiation for more
@pytest.mark.parametrize(("width", "samples"), [(1, 1), (16, 1), (3, 3)])
@pytest.mark.parametrize("emission", [skipped, affine])
def test_gradients_agree_with_those_of_the_product(width: int, emission, samples: int) -> None:
    rest, attractive, beta, unclicked = problem(7, width, samples=samples)

    def value(rest, *others):
        return expanded_log_unclicked(emission(rest), *others, unclicked).sum()

    def expected(*parts):
        return one_by_one(emission, *parts, unclicked)

    own = jax.jit(jax.grad(value, argnums=(0, 1, 2)))(rest, attractive, beta)
    at = [[one, attractive, beta] for one in rest]
    by_rest = [[recursion.slope(expected, each, 0, k).sum() for k in range(4)] for each in at]
    by_shape = [sum(recursion.slope(expected, each, i) for each in at) for i in (1, 2)]
    for one, another in zip(own, (by_rest, *by_shape), strict=True):
        np.testing.assert_allclose(one, another, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("emission", [skipped, affine])
def test_gradients_are_those_of_numpy(emission) -> None:
    rest, attractive, beta, unclicked = problem(9, 16, samples=1)

    def value(u, v, *shapes):
        own = emission(u) if v is None else Emission(1 - u, u, 1 - v, v)
        return expanded_log_unclicked(own, *shapes, unclicked).sum()

    v = emission(rest).unattractive_rest
    which = (0, 2, 3) if v is None else (0, 1, 2, 3)
    own = jax.jit(jax.grad(value, argnums=which))(rest, v, attractive, beta)
    table = forms(Emission(*(None if part is None else part[0] for part in emission(rest))))
    found = expand(*table, attractive, beta, unclicked)
    by_forms = [
        [(values.T * (unclicked == k)).sum() for k in range(4)]
        for values in (found.by_u, found.by_v)
        if values is not None
    ]
    for one, another in zip(own, (*by_forms, found.by_a, found.by_b), strict=True):
        np.testing.assert_allclose(np.ravel(one), another, rtol=1e-9, atol=1e-10)


def test_second_derivatives_agree_with_differences_of_those_of_the_product() -> None:
    rest, attractive, beta, unclicked = problem(5, 4, pairs=5, samples=1)

    def total(rest):
        return expanded_log_unclicked(skipped(rest[None]), attractive, beta, unclicked).sum()

    def slopes(rest):
        at = [rest, attractive, beta]
        program = lambda *parts: one_by_one(skipped, *parts, unclicked)  # noqa: E731
        return np.array([recursion.slope(program, at, 0, k).sum() for k in range(4)])

    expected = differences(slopes, rest[0])
    np.testing.assert_allclose(jax.jit(jax.hessian(total))(rest[0]), expected, rtol=1e-8, atol=1e-9)


def test_a_billion_clicks_stay_in_the_range_of_float64() -> None:
    rest = np.array([[0.0, 0.5]])
    unclicked = np.array([[0] * 16, [1] * 16])
    args = (np.array([1e9, 1e9]), np.array([1e-3, 1e-3]), unclicked)
    np.testing.assert_allclose(
        expanded_log_unclicked(skipped(jnp.asarray(rest)), *map(jnp.asarray, args))[0],
        one_by_one(skipped, rest[0], *args),
        rtol=1e-12,
    )


def test_displays_that_are_missing_change_nothing() -> None:
    rest, attractive, beta, unclicked = map(jnp.asarray, problem(3, 5))
    padded = jnp.concatenate([unclicked, jnp.full((40, 4), -1)], axis=1)
    np.testing.assert_allclose(
        expanded_log_unclicked(skipped(rest), attractive, beta, padded),
        expanded_log_unclicked(skipped(rest), attractive, beta, unclicked),
        rtol=1e-12,
        atol=1e-13,
    )
