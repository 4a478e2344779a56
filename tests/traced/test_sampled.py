"""The Monte Carlo likelihood converges to the closed form, at the rate that samples allow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from epiclick.beta import Beta
from epiclick.click_models.click_model import Emission
from epiclick.likelihood.batch_gradient import pair_log_likelihoods
from epiclick.likelihood.pairs import Bucket, PairBatch
from epiclick.traced.sampled import log_likelihood_of_samples, sampled_log_likelihood

from ..likelihood.affine_pairs import EMISSION as AFFINE
from ..likelihood.affine_pairs import FEW, A, B, columns

pytestmark = pytest.mark.slow

compiled = jax.jit(sampled_log_likelihood)

THETA = np.array([1.0, 0.5, 0.2])
EMISSION = Emission(THETA, 1 - THETA)
RELEVANCE = Beta(np.array([0.8, 2.0, 5.0, 0.3]), np.array([3.0, 1.5, 9.0, 0.9]))
CLICKS = np.array([[0, 1, 0], [2, 0, 1], [0, 0, 0], [1, 0, 0]])
UNCLICKED = np.array([[2, 0, 1], [1, 2, 0], [3, 1, 1], [0, 0, 2]])


def exact() -> np.ndarray:
    width = UNCLICKED.sum(axis=1).max()
    order = [np.repeat(np.arange(3), row) for row in UNCLICKED]
    padded = np.array([np.r_[row, np.full(width - len(row), -1)] for row in order])
    batch = PairBatch((Bucket(CLICKS, UNCLICKED, padded),), np.ones(len(CLICKS)))
    one = Emission(EMISSION.attractive[None], EMISSION.attractive_rest[None])
    return pair_log_likelihoods(one, RELEVANCE.alpha, RELEVANCE.beta, batch)[0]


def sampled(samples: int, seed: int, clicks: np.ndarray = CLICKS) -> np.ndarray:
    logs = [
        np.moveaxis(v, 0, -1) for v in RELEVANCE.sample_logs(np.random.default_rng(seed), samples)
    ]
    parts = (*logs, clicks.astype(float), UNCLICKED.astype(float))
    return np.asarray(compiled(EMISSION, *map(jnp.asarray, parts)))


def test_each_sample_is_the_product_of_its_probabilities() -> None:
    zeta = np.array([[0.3, 0.7], [0.5, 0.01], [0.9, 0.2], [0.4, 0.6]])
    parts = (
        np.log(zeta),
        np.log1p(-zeta),
        CLICKS.astype(float),
        UNCLICKED.astype(float),
    )
    got = log_likelihood_of_samples(EMISSION, *map(jnp.asarray, parts))
    seen = THETA * zeta[:, :, None]
    expected = (seen ** CLICKS[:, None] * (1 - seen) ** UNCLICKED[:, None]).prod(axis=-1)
    np.testing.assert_allclose(got, np.log(expected), rtol=1e-12)


def test_samples_of_unattractive_items_that_are_clicked_too() -> None:
    *_, clicks, unclicked = columns(FEW)
    zeta = np.random.default_rng(0).uniform(0.05, 0.95, (len(FEW), 3))
    p = A * zeta[:, :, None] + B * (1 - zeta[:, :, None])
    expected = np.log(p ** clicks[:, None] * (1 - p) ** unclicked[:, None]).sum(axis=-1)
    got = log_likelihood_of_samples(AFFINE, np.log(zeta), np.log1p(-zeta), clicks, unclicked)
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_the_mean_over_samples_is_unbiased() -> None:
    truth = exact()
    ratio = np.exp([sampled(60, seed) - truth for seed in range(1000)])  # (repeats, pairs)
    error = ratio.std(axis=0, ddof=1) / np.sqrt(len(ratio))
    assert np.all(abs(ratio.mean(axis=0) - 1) < 5 * error)
    # the control: one more click is another likelihood
    other = np.exp([sampled(60, seed, CLICKS + 1) - truth for seed in range(200)])
    assert np.all(abs(other.mean(axis=0) - 1) > 5 * other.std(axis=0, ddof=1) / np.sqrt(len(other)))


def test_errors_shrink_with_the_root_of_the_samples() -> None:
    sizes = np.array([50, 200, 800, 3200])
    truth = exact()
    spread = [
        np.sqrt(np.mean([(sampled(s, seed) - truth) ** 2 for seed in range(150)])) for s in sizes
    ]
    slope = np.polyfit(np.log(sizes), np.log(spread), 1)[0]
    # each spread is known to 1 / sqrt(2 x 150 x 4 pairs) = 3 %, so the slope to about 0.01
    assert slope == pytest.approx(-0.5, abs=0.06)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_samples_that_round_to_an_end_give_finite_values(dtype: type) -> None:
    ends = np.array([[0.0, -1e5]]), np.array([[-1e5, 0.0]])
    for shown in (0, 1):
        unclicked = np.full((1, 3), shown)
        parts = (*ends, np.zeros((1, 3)), unclicked)
        emission = Emission(jnp.asarray(THETA, dtype), jnp.asarray(1 - THETA, dtype))
        values = log_likelihood_of_samples(emission, *(jnp.asarray(part, dtype) for part in parts))
        assert np.all(np.isfinite(values))
        assert shown or np.all(values == 0)
