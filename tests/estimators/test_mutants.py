"""The checks detect mistakes: each is made on purpose, and its check must fail.

A mutant is a wrong version of one function, in place of the right one while its check runs.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from epiclick.estimators import sampling
from epiclick.estimators.conditioned import Conditioned
from epiclick.estimators.estimator import Betas, Draws, Gradient
from epiclick.estimators.exact import Exact
from epiclick.estimators.marginal import Marginal
from epiclick.estimators.naive import Naive
from epiclick.estimators.sampling import (
    Estimate,
    Likelihoods,
    leave_one_out,
    likelihood_shares,
)
from epiclick.estimators.self_normalized import SelfNormalized
from epiclick.likelihood.pairs import Bucket, PairBatch

from . import checks, problems

pytestmark = pytest.mark.slow

Check = Callable[[], None]


def right(owner: Any, name: str) -> Callable[..., Any]:
    """A function as it is, for a wrong version that differs from it in its inputs or output."""
    return getattr(owner, name)


naive_weights = right(Naive, "weigh")
self_normalized_weights = right(SelfNormalized, "weigh")
conditioned_estimate = right(Conditioned, "estimate")
marginal_gradient = right(Marginal, "gradient")
log_density = right(sampling, "_log_density")
score_surrogate = right(sampling, "score_surrogate")
joint_log_likelihoods = right(sampling, "joint_log_likelihoods")
log_unclicked = right(sampling, "log_unclicked")
rest_or_one = right(sampling, "_rest_or_one")
exponentials = right(sampling, "_exponentials")


def no_baseline(self: Any, weights: jax.Array) -> jax.Array:
    return weights


def naive_without_mean(self: Naive, logs: jax.Array) -> tuple[jax.Array, jax.Array]:
    weights, log_scale = naive_weights(self, logs)
    return weights * self.samples, log_scale


def naive_with_offset_added(self: Naive, logs: jax.Array) -> tuple[jax.Array, jax.Array]:
    offset = self.capped_offset(logs)
    return self.centered(jnp.exp(logs + offset)) / self.samples, offset - self.log_offset


def baseline_added(weights: jax.Array) -> jax.Array:
    return 2 * weights - leave_one_out(weights)


def baseline_divided_by_all(weights: jax.Array) -> jax.Array:
    return weights - (weights.sum(axis=-1, keepdims=True) - weights) / weights.shape[-1]


def baseline_with_its_own_sample(weights: jax.Array) -> jax.Array:
    return weights - weights.sum(axis=-1, keepdims=True) / (weights.shape[-1] - 1)


def wrong_sign_of_beta(
    betas: Betas, total: jax.Array, of_x: jax.Array, of_rest: jax.Array
) -> jax.Array:
    return log_density(betas, total, of_x, of_rest) - 2 * (betas.beta - 1) * of_rest


def alpha_and_beta_swapped(betas: Betas, *sums: jax.Array) -> jax.Array:
    return log_density(Betas(betas.beta, betas.alpha), *sums)


def not_normalized(
    betas: Betas, total: jax.Array, of_x: jax.Array, of_rest: jax.Array
) -> jax.Array:
    return log_density(betas, 0 * total, of_x, of_rest)


def always_the_papers_factor(
    self: SelfNormalized, logs: jax.Array
) -> tuple[jax.Array, jax.Array | float]:
    return self_normalized_weights(replace(self, literal=True), logs)


def pairs_unweighted(relevance: Betas, position: Betas, batch: PairBatch, *rest: Any) -> jax.Array:
    ones = replace(batch, weight=np.ones(len(batch.weight)))
    return score_surrogate(relevance, position, ones, *rest)


def clicks_without_biases(batch: PairBatch, draws: Draws) -> jax.Array:
    return joint_log_likelihoods(batch, replace(draws, log_theta=0 * draws.log_theta))


def every_display_examined(zeta: Any, other: Any, rest: jax.Array, *counts: Any) -> jax.Array:
    return log_unclicked(zeta, other, jnp.full_like(rest, -jnp.inf), *counts)


def earlier_biases_not_rescaled(share: jax.Array, weights: Any, factor: jax.Array) -> Any:
    return share * factor, weights


def shares_not_rescaled(share: jax.Array, weights: Any, factor: jax.Array) -> Any:
    return share, tuple(weight * factor.astype(jnp.float32) for weight in weights)


def sum_over_samples(self: Likelihoods) -> jax.Array:
    return (self.log_scale + jnp.log(self.total))[:, 0]


def missing_displays_count(log_rest: jax.Array) -> jax.Array:
    return rest_or_one(log_rest).at[-1].set(0)


def clicks_forgotten(bucket: Bucket, *logs: Any) -> Any:
    return exponentials(replace(bucket, clicks=0 * bucket.clicks), *logs)


def outer_baseline_only(self: Conditioned, weights: jax.Array) -> jax.Array:
    return leave_one_out(weights) if weights.ndim == 1 else weights


def inner_baseline_only(self: Conditioned, weights: jax.Array) -> jax.Array:
    return leave_one_out(weights) if weights.ndim == 2 else weights


def inner_baseline_for_weights(self: Conditioned, weights: jax.Array) -> jax.Array:
    without = leave_one_out(weights)
    return without if weights.ndim == 1 else weights - without


def literal_reversed(self: Conditioned, *inputs: Any) -> Estimate:
    return conditioned_estimate(replace(self, literal=not self.literal), *inputs)


def baseline_on_relevance(
    self: Exact, relevance: Betas, position: Betas, batch: PairBatch, draws: Draws
) -> Estimate:
    each = self.log_likelihoods(relevance, batch, draws)
    outer = self.centered(likelihood_shares(each))
    of_position = sampling.position_surrogate(position, draws, outer)
    return Estimate(outer @ each + of_position, sampling.log_mean(each))


def downhill(self: Marginal, *inputs: Any) -> Gradient:
    found = marginal_gradient(self, *inputs)
    return found._replace(
        by_relevance=Betas(*(-part for part in found.by_relevance)),
        by_position=-found.by_position,
    )


def points_unweighted(
    self: Marginal, relevance: Betas, position: Any, batch: PairBatch, draws: None
) -> Gradient:
    return marginal_gradient(self, relevance, position, replace(batch, weight=batch.weight**0))


def in_probabilities(self: Marginal, relevance: Betas, position: Any, *rest: Any) -> Gradient:
    found = marginal_gradient(self, relevance, position, *rest)
    free = position.attractive_rest > 0
    turn = np.where(free, position.attractive * position.attractive_rest, 1.0)
    return found._replace(by_position=found.by_position / turn)


def logits(
    rng: np.random.Generator,
    shapes: tuple[np.ndarray, np.ndarray],
    terms: tuple[np.ndarray, np.ndarray],
    samples: int,
) -> np.ndarray:
    """Logits of Gamma(shapes + 1) variables, plus exponentials with these factors."""
    size = (len(shapes[0]), samples)
    a, b = (rng.standard_gamma(shape + 1, size) for shape in shapes)
    first, second = (term * rng.standard_exponential(size) for term in terms)
    return (np.log(a / b) + first + second).astype(np.float32)


def relevance_turned_over(
    rng: np.random.Generator, alpha: np.ndarray, beta: np.ndarray, samples: int
) -> np.ndarray:
    return logits(rng, (alpha, beta), (1 / alpha, 1 / beta), samples)


def alpha_for_beta(
    rng: np.random.Generator, alpha: np.ndarray, beta: np.ndarray, samples: int
) -> np.ndarray:
    return logits(rng, (alpha, beta), (-1 / alpha, 1 / alpha), samples)


def right_logits(
    rng: np.random.Generator, alpha: np.ndarray, beta: np.ndarray, samples: int
) -> np.ndarray:
    return logits(rng, (alpha, beta), (-1 / alpha, 1 / beta), samples)


def formula(name: str, baseline: bool = False) -> Check:
    return partial(checks.check_formula, name, baseline)


NAIVE, NAIVE_BASELINE = formula("naive"), formula("naive", baseline=True)
SELF_NORMALIZED = formula("self_normalized")
SELF_NORMALIZED_BASELINE = formula("self_normalized", baseline=True)
CONDITIONED, CONDITIONED_BASELINE = formula("conditioned"), formula("conditioned", baseline=True)
CONDITIONED_MEAN = partial(checks.check_conditioned_expectation, baseline=True)
EXACT = checks.check_exact_given_draws
EXACT_BASELINE = partial(checks.check_exact_given_draws, baseline=True)
EXACT_MEAN = partial(checks.check_exact_expectation, baseline=True)


class Mutant(NamedTuple):
    """A wrong version of an attribute of a module or class, and the check that must detect it."""

    owner: Any
    name: str
    wrong: Any
    check: Check


MUTANTS = {
    "naive: no mean over samples": Mutant(Naive, "weigh", naive_without_mean, NAIVE),
    "naive: no baseline": Mutant(Naive, "centered", no_baseline, NAIVE_BASELINE),
    "naive: offset added": Mutant(Naive, "weigh", naive_with_offset_added, checks.check_offset),
    "naive: no cap": Mutant(
        Naive, "capped_offset", lambda self, logs: self.log_offset, checks.check_offset
    ),
    "naive: literal one moved": Mutant(
        Naive,
        "started",
        lambda self, measure: replace(self, log_offset=measure()),
        checks.check_offset,
    ),
    "baseline: added": Mutant(sampling, "leave_one_out", baseline_added, NAIVE_BASELINE),
    "baseline: divided by all": Mutant(
        sampling, "leave_one_out", baseline_divided_by_all, NAIVE_BASELINE
    ),
    "baseline: includes its own sample": Mutant(
        sampling, "leave_one_out", baseline_with_its_own_sample, checks.check_naive_expectation
    ),
    "score: sign of beta": Mutant(sampling, "_log_density", wrong_sign_of_beta, SELF_NORMALIZED),
    "score: alpha and beta swapped": Mutant(
        sampling, "_log_density", alpha_and_beta_swapped, SELF_NORMALIZED
    ),
    "score: not normalised": Mutant(sampling, "_log_density", not_normalized, SELF_NORMALIZED),
    "self-normalised: no softmax": Mutant(sampling, "likelihood_shares", jnp.exp, SELF_NORMALIZED),
    "self-normalised: no baseline": Mutant(
        SelfNormalized, "centered", no_baseline, SELF_NORMALIZED_BASELINE
    ),
    "self-normalised: always the paper's factor": Mutant(
        SelfNormalized, "weigh", always_the_papers_factor, checks.check_self_normalized_bias
    ),
    "joint: weights of pairs forgotten": Mutant(
        sampling, "score_surrogate", pairs_unweighted, SELF_NORMALIZED
    ),
    "joint: clicks' biases forgotten": Mutant(
        sampling, "joint_log_likelihoods", clicks_without_biases, SELF_NORMALIZED
    ),
    "joint: every display is examined": Mutant(
        sampling, "log_unclicked", every_display_examined, SELF_NORMALIZED
    ),
    "inner: earlier biases not rescaled": Mutant(
        sampling, "_rescale", earlier_biases_not_rescaled, CONDITIONED
    ),
    "inner: shares not rescaled": Mutant(sampling, "_rescale", shares_not_rescaled, CONDITIONED),
    "inner: not normalised": Mutant(
        Likelihoods, "weights", lambda self, share: self.scaled * share, CONDITIONED
    ),
    "inner: sum for mean": Mutant(Likelihoods, "log_mean", sum_over_samples, CONDITIONED),
    "inner: missing displays count": Mutant(
        sampling, "_rest_or_one", missing_displays_count, CONDITIONED
    ),
    "inner: clicks forgotten in heads": Mutant(
        sampling, "_exponentials", clicks_forgotten, checks.check_buckets
    ),
    "inner: products never replaced": Mutant(
        sampling, "SMALLEST_WEIGHT", -1, checks.check_extremes
    ),
    "conditioned: no inner baseline": Mutant(
        Conditioned, "centered", outer_baseline_only, CONDITIONED_BASELINE
    ),
    "conditioned: no outer baseline": Mutant(
        Conditioned, "centered", inner_baseline_only, CONDITIONED_BASELINE
    ),
    "conditioned: baseline for weights": Mutant(
        Conditioned, "centered", inner_baseline_for_weights, CONDITIONED_MEAN
    ),
    "conditioned: literal factor reversed": Mutant(
        Conditioned, "estimate", literal_reversed, CONDITIONED
    ),
    "conditioned: no softmax": Mutant(sampling, "likelihood_shares", jnp.exp, CONDITIONED),
    "exact: weights differentiated": Mutant(sampling, "likelihood_shares", jax.nn.softmax, EXACT),
    "exact: no baseline": Mutant(Exact, "centered", no_baseline, EXACT_BASELINE),
    "exact: baseline on the relevance gradient": Mutant(
        Exact, "estimate", baseline_on_relevance, EXACT_MEAN
    ),
    "marginal: downhill": Mutant(Marginal, "gradient", downhill, checks.check_marginal),
    "marginal: weights forgotten": Mutant(
        Marginal, "gradient", points_unweighted, checks.check_marginal
    ),
    "marginal: in probabilities": Mutant(
        Marginal, "gradient", in_probabilities, checks.check_marginal
    ),
    "draws: relevance turned over": Mutant(
        sampling, "_draw_logits", relevance_turned_over, checks.check_draws
    ),
    "draws: alpha for beta": Mutant(sampling, "_draw_logits", alpha_for_beta, checks.check_draws),
}


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_mistakes_are_detected(mutant: Mutant) -> None:
    with in_place(mutant), pytest.raises(AssertionError):
        mutant.check()


@pytest.mark.parametrize("owner", {each.owner: None for each in MUTANTS.values()})
def test_a_right_version_in_place_passes(owner: Any) -> None:
    """The control: it is the mistake that fails, and not the replacement.

    The other tests of this folder run all checks without a replacement.
    """
    mutant = next(each for each in MUTANTS.values() if each.owner is owner)
    function = right(owner, mutant.name)
    with in_place(mutant._replace(wrong=lambda *inputs: function(*inputs))):
        mutant.check()


def test_a_right_sampler_in_place_passes() -> None:
    """The control of the wrong samplers, which do not call ours."""
    with in_place(Mutant(sampling, "_draw_logits", right_logits, checks.check_draws)) as mutant:
        mutant.check()


@contextmanager
def in_place(mutant: Mutant) -> Iterator[Mutant]:
    """Put a function in place of another, and programs not yet compiled in place of compiled ones.

    A program compiled earlier would hide the replacement.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mutant.owner, mutant.name, mutant.wrong)
        patch.setattr(problems, "compiled", problems.compile_gradient())
        if mutant.owner in (sampling, Likelihoods):
            weights = sampling.sampled_weights.__wrapped__
            patch.setattr(sampling, "sampled_weights", jax.jit(lambda *inputs: weights(*inputs)))
        yield mutant
