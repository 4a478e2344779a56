"""The traced likelihood of a batch against reference values and that of numpy."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from epiclick.batching.batches import Batches
from epiclick.click_models.click_model import Emission
from epiclick.likelihood import batch_gradient as written_out
from epiclick.likelihood.pairs import WIDTHS, bucket_of
from epiclick.traced.batch_likelihood import (
    all_clicks,
    all_unclicked,
    by_bucket,
    clicks_by_context,
    log_likelihoods,
    pair_log_likelihoods,
    total_clicks,
)

from ..likelihood.test_compact import PAIRS, emission, one_of, random_counts

pytestmark = pytest.mark.slow


def differentiated(bias: Emission, alpha, beta, batch):
    """Values of pairs, and derivatives in logits of the emission, alpha and beta."""

    # a program that runs once: optimising it takes longer than it saves
    @jax.jit(compiler_options={"xla_backend_optimization_level": 0})
    def both(logit, alpha, beta, batch):
        def own(logit):
            fixed = jnp.isinf(logit)
            safe = jnp.where(fixed, 0.0, logit)
            value = jnp.where(fixed, logit > 0, jax.nn.sigmoid(safe))[None]
            rest = jnp.where(fixed, logit < 0, jax.nn.sigmoid(-safe))[None]
            parts = [value, rest] if len(logit) == bias.attractive.shape[-1] else [
                value[:, : len(logit) // 2],
                rest[:, : len(logit) // 2],
                value[:, len(logit) // 2 :],
                rest[:, len(logit) // 2 :],
            ]  # fmt: skip
            return Emission(*parts)

        def total(logit, alpha, beta):
            return log_likelihoods(own(logit), alpha, beta, batch)[0]

        each = pair_log_likelihoods(own(logit), alpha, beta, batch)[0]
        return each, *jax.value_and_grad(total, (0, 1, 2))(logit, alpha, beta)

    with np.errstate(divide="ignore"):
        parts = [np.log(bias.attractive) - np.log(bias.attractive_rest)]
        if bias.is_affine:
            parts.append(np.log(bias.unattractive) - np.log(bias.unattractive_rest))
    return both(np.concatenate(parts), alpha, beta, batch)


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("affine", [False, True])
def test_values_and_derivatives_are_those_of_numpy(affine: bool, compact: bool) -> None:
    """Few displays and many, an anchor at 1, tiny parameters, weights, and counts by slots."""
    counts, bias = random_counts(), one_of(emission(affine), 0)
    assert bias.attractive[0] == 1
    rng = np.random.default_rng(4)
    alpha, beta = 10 ** rng.uniform(-3, 1, (2, PAIRS))
    weight = rng.integers(0, 3, PAIRS).astype(float)
    batches = Batches(counts, PAIRS, weight, affine=affine, compact=compact)
    pairs = next(batches.epoch())
    batch = batches.assemble(pairs)
    assert {bucket.order is None for bucket in batch.buckets} == {False, True}
    alpha, beta = alpha[pairs], beta[pairs]
    each, total, (by_logit, by_alpha, by_beta) = differentiated(bias, alpha, beta, batch)
    found = written_out.batch_gradient(bias, alpha, beta, batch)
    np.testing.assert_allclose(found.value, each, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(found.value @ batch.weight, total, rtol=1e-11)
    np.testing.assert_allclose(found.by_logit, by_logit, rtol=1e-8, atol=1e-8)
    for own, true in ((found.by_alpha, by_alpha), (found.by_beta, by_beta)):
        np.testing.assert_allclose(batch.weight * own, true, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("affine", [False, True])
def test_heads_with_a_million_displays_are_those_of_numpy(make_batch, affine: bool) -> None:
    displays = np.array([[1_000_000, 300, 0], [3, 2_000_000, 5], [40, 0, 1_500_000], [2, 1, 0]])
    clicks = np.array([[0, 0, 0], [1, 900_000, 2], [7, 0, 20], [1, 0, 0]])
    batch = make_batch(displays, clicks, affine=affine)
    alpha, beta = np.array([[1e-3, 2.0, 0.05, 0.4], [1e-3, 0.7, 3.0, 1e-3]])
    bias = Emission(np.array([1.0, 0.6, 1e-4]), np.array([0.0, 0.4, 1 - 1e-4]))
    if affine:
        trust = np.array([0.02, 0.3, 0.0])
        bias = Emission(*bias[:2], trust, 1 - trust)
    each, _, (by_logit, by_alpha, by_beta) = differentiated(bias, alpha, beta, batch)
    found = written_out.batch_gradient(bias, alpha, beta, batch)
    np.testing.assert_allclose(found.value, each, rtol=1e-9)
    # terms as large as the clicks cancel
    np.testing.assert_allclose(found.by_logit, by_logit, rtol=1e-7, atol=1e-10 * clicks.sum())
    np.testing.assert_allclose(found.by_alpha, by_alpha, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(found.by_beta, by_beta, rtol=1e-7, atol=1e-8)


@jax.jit
def value_and_gradient(theta, alpha, beta, batch):
    def total(theta, alpha, beta):
        return log_likelihoods(Emission(theta[None], 1 - theta[None]), alpha, beta, batch)[0]

    return jax.value_and_grad(total, (0, 1, 2))(theta, alpha, beta)


def test_pairs_of_the_oracle_at_any_number_of_displays(oracle, make_batch) -> None:
    """A program for each of three buckets; the others differ from them in their width alone."""
    buckets = (0, WIDTHS.index(8), len(WIDTHS))
    shown = [case for case in oracle if bucket_of(case.unclicked.sum()) in buckets]
    shown = [case for case in shown if case.displays.sum()]
    assert len(shown) > 100
    for case in shown:
        batch = make_batch(case.displays[None], case.clicks[None])
        value, gradient = value_and_gradient(
            jnp.asarray(case.theta), jnp.asarray([case.alpha]), jnp.asarray([case.beta]), batch
        )
        assert abs(float(value) - case.value) <= 1e-9 * (1 + abs(case.log_likelihood))
        own = np.concatenate([np.asarray(part) for part in gradient])
        assert np.all(abs(own - case.gradient) <= 1e-6 * (1 + abs(case.gradient)))


def test_several_biases_have_the_values_of_each_and_weights_count(make_batch) -> None:
    rng = np.random.default_rng(1)
    displays = rng.integers(0, 12, (20, 3))
    displays[:, 0] += 1
    batch = make_batch(displays, rng.binomial(displays, 0.3))
    theta = np.array([[1.0, 0.5, 0.3], [0.8, 0.7, 0.1]])
    alpha, beta = rng.uniform(0.3, 3, (2, 20))
    bias = Emission(theta, 1 - theta)
    each = jax.jit(pair_log_likelihoods)(bias, alpha, beta, batch)
    expected = written_out.pair_log_likelihoods(bias, alpha, beta, batch)
    np.testing.assert_allclose(each, expected, rtol=1e-12)
    weight = rng.integers(0, 3, 20).astype(float)
    weighted = replace(batch, weight=weight)
    whole = jax.jit(log_likelihoods)(bias, alpha, beta, weighted)
    np.testing.assert_allclose(whole, expected @ weight, rtol=1e-12)


def test_counts_of_all_buckets_are_in_the_order_of_the_batch() -> None:
    counts = random_counts()
    weight = np.random.default_rng(3).integers(0, 3, PAIRS).astype(float)
    displays, clicks = counts.dense()
    for compact in (False, True):
        batches = Batches(counts, PAIRS, weight, compact=compact)
        pairs = next(batches.epoch())
        batch = batches.assemble(pairs)
        if not compact:
            np.testing.assert_array_equal(all_clicks(batch), clicks[pairs])
            np.testing.assert_array_equal(all_unclicked(batch), (displays - clicks)[pairs])
        np.testing.assert_array_equal(total_clicks(batch), clicks[pairs].sum(axis=1))
        by_context = clicks_by_context(batch, displays.shape[1])
        np.testing.assert_array_equal(by_context, weight @ clicks)
        parts = by_bucket(batch, jnp.asarray(pairs))
        assert [len(part) for part in parts] == [len(bucket.clicks) for bucket in batch.buckets]
        np.testing.assert_array_equal(np.concatenate(parts), pairs)
