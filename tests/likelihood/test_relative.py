"""Differences of likelihoods, from nodes at one set of parameters, are those of the likelihoods."""

from collections.abc import Callable

import numpy as np
import pytest

from epiclick.click_models.click_model import Emission
from epiclick.likelihood.batch_gradient import pair_log_likelihoods
from epiclick.likelihood.pairs import PairBatch
from epiclick.likelihood.relative import relative_log_likelihoods

PAIRS, DRAWS = 60, 7


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("most", [4, 200])  # in closed form, and by nodes
def test_differences_are_those_of_the_likelihoods(
    most: int, affine: bool, make_batch: Callable[..., PairBatch]
) -> None:
    rng = np.random.default_rng(most)
    displays = rng.integers(most // 2, most, (PAIRS, 3))
    clicks = rng.binomial(displays, 0.3)
    batch = make_batch(displays, clicks, affine=affine)
    assert {bucket.order is None for bucket in batch.buckets} == {most > 4}
    logits = rng.normal(0, 1, (2, 3))
    moved = logits + rng.normal(0, 0.05, (DRAWS, 2, 3))
    betas = rng.gamma(2.0, 1.0, (2, PAIRS)) + 0.2
    near = betas * np.exp(rng.normal(0, 0.05, (DRAWS, 2, PAIRS)))

    def emission(logit: np.ndarray) -> Emission:
        (a, b), (a_rest, b_rest) = (1 / (1 + np.exp(-sign * logit)) for sign in (1, -1))
        return Emission(a, a_rest, b / 2, (1 + b_rest) / 2) if affine else Emission(a, a_rest)

    def value(logit: np.ndarray, shapes: np.ndarray) -> np.ndarray:
        own = emission(logit)
        one = Emission(*(None if part is None else part[None] for part in own))
        return pair_log_likelihoods(one, *shapes, batch)[0]

    others = emission(moved.transpose(1, 0, 2))
    found = relative_log_likelihoods(
        emission(logits), *betas, others, near[:, 0], near[:, 1], batch
    )
    here = value(logits, betas)
    exact = [value(*each) - here for each in zip(moved, near, strict=True)]
    assert np.std(exact) > 0.01
    np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-7)
