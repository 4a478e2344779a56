"""Small problems for estimators: counts, Betas, and the programs that differentiate them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from epiclick.click_models.click_model import Emission
from epiclick.estimators.estimator import Betas, Draws
from epiclick.estimators.sampling import draw_position, draw_relevance
from epiclick.likelihood.pairs import Bucket, PairBatch

LEAST_WIDTH = 4
"""Of buckets, so that problems of one size share a compiled program whatever their counts."""

SAMPLES = 6
"""Few, and the same in most tests, so that they share compiled programs."""


def make_batch(
    displays: np.ndarray,
    clicks: np.ndarray,
    weight: np.ndarray | None = None,
    cuts: Sequence[int] = (),
    heads: bool = False,
) -> PairBatch:
    """Counts (pairs, contexts) as a batch in the same order.

    Args:
        displays: (pairs, contexts).
        clicks: (pairs, contexts).
        weight: (pairs,), default ones.
        cuts: pairs at which a new bucket begins; default one bucket.
        heads: whether the last bucket has counts only, like that of pairs with many displays.
    """
    unclicked = np.asarray(displays) - clicks
    edges = [0, *cuts, len(unclicked)]
    buckets = []
    for start, stop in pairwise(edges):
        rows = [np.repeat(np.arange(len(row)), row) for row in unclicked[start:stop]]
        width = max(LEAST_WIDTH, *map(len, rows))
        order = np.array([np.r_[row, np.full(width - len(row), -1)] for row in rows], np.int32)
        last = heads and stop == len(unclicked)
        part = slice(start, stop)
        buckets.append(Bucket(clicks[part], unclicked[part], None if last else order))
    weight = np.ones(len(unclicked)) if weight is None else np.asarray(weight, float)
    return PairBatch(tuple(buckets), weight)


@dataclass(frozen=True)
class Problem:
    """Pairs, their counts, and Betas of relevance and position bias."""

    alpha: np.ndarray  # (pairs,)
    beta: np.ndarray
    alpha_position: np.ndarray  # (contexts,)
    beta_position: np.ndarray
    displays: np.ndarray  # (pairs, contexts)
    clicks: np.ndarray
    weight: np.ndarray | None = None

    @property
    def batch(self) -> PairBatch:
        return make_batch(self.displays, self.clicks, self.weight)

    @property
    def unclicked(self) -> np.ndarray:
        return self.displays - self.clicks

    @property
    def weights(self) -> np.ndarray:
        return np.ones(len(self.alpha)) if self.weight is None else self.weight

    @property
    def parameters(self) -> np.ndarray:
        """Parameters in the order of all gradients: relevance alpha, beta, position alpha, beta."""
        return np.concatenate([self.alpha, self.beta, self.alpha_position, self.beta_position])

    def with_parameters(self, values: np.ndarray) -> "Problem":
        pairs, contexts = self.displays.shape
        parts = np.split(values, np.cumsum([pairs, pairs, contexts]))
        return replace(self, **dict(zip(PARAMETERS, parts, strict=True)))

    def take(self, pairs: Sequence[int]) -> "Problem":
        """Some of the pairs, in the given order; a pair may come twice."""
        rows = {name: getattr(self, name)[list(pairs)] for name in PAIR_FIELDS}
        weight = None if self.weight is None else self.weight[list(pairs)]
        return replace(self, **rows, weight=weight)

    def contexts(self, chosen: Sequence[int]) -> "Problem":
        """Some of the contexts."""
        index = list(chosen)
        return replace(
            self,
            alpha_position=self.alpha_position[index],
            beta_position=self.beta_position[index],
            displays=self.displays[:, index],
            clicks=self.clicks[:, index],
        )

    def betas(self) -> tuple[Betas, Betas]:
        """Relevance and position bias."""
        position = Betas(self.alpha_position, self.beta_position)
        return Betas(self.alpha, self.beta), position

    def points(self) -> tuple[Betas, Emission]:
        """The same with position bias at its mean, except for an anchor at 1."""
        rest = self.beta_position / (self.alpha_position + self.beta_position)
        rest[0] = 0.0
        return Betas(self.alpha, self.beta), Emission(1 - rest, rest)

    def inputs(self, estimator: Any) -> tuple[Any, Any]:
        return self.points() if estimator.is_point else self.betas()


PARAMETERS = ("alpha", "beta", "alpha_position", "beta_position")
PAIR_FIELDS = ("alpha", "beta", "displays", "clicks")

FOUR = Problem(
    alpha=np.array([1.5, 0.7, 3.0, 0.4]),
    beta=np.array([2.0, 0.9, 1.0, 2.5]),
    alpha_position=np.array([5.0, 2.0, 0.8]),
    beta_position=np.array([0.6, 1.5, 1.2]),
    displays=np.array([[2, 0, 1], [1, 2, 1], [3, 1, 0], [0, 1, 2]]),
    clicks=np.array([[1, 0, 0], [0, 1, 0], [2, 1, 0], [0, 0, 1]]),
)
"""Four pairs, three contexts."""

TWO = Problem(
    alpha=np.array([1.5, 2.0]),
    beta=np.array([2.5, 1.2]),
    alpha_position=np.array([2.0, 1.2]),
    beta_position=np.array([1.5, 2.5]),
    displays=np.array([[2, 1], [1, 2]]),
    clicks=np.array([[1, 0], [0, 1]]),
)
"""Small enough that its likelihood is a sum over few nodes."""


def gradient(
    estimator: Any, relevance: Any, position: Any, batch: PairBatch, draws: Any
) -> tuple[jax.Array, jax.Array]:
    """Log-likelihood, and the gradient of the surrogate for all parameters, flat."""

    def surrogate(inputs: Any) -> tuple[jax.Array, jax.Array]:
        estimate = estimator.estimate(*inputs, batch, draws)
        return estimate.surrogate, estimate.log_likelihood

    inputs = jax.tree.map(jnp.asarray, (relevance, position))
    gradients, log_likelihood = jax.grad(surrogate, has_aux=True)(inputs)
    return log_likelihood, jnp.concatenate(jax.tree.leaves(gradients))


def compile_gradient() -> Callable[..., tuple[jax.Array, jax.Array]]:
    """A program that shares nothing with others; optimising it would take longer than it saves."""
    options = {"xla_backend_optimization_level": 0}
    return jax.jit(lambda *inputs: gradient(*inputs), static_argnums=0, compiler_options=options)


compiled = compile_gradient()


def run(
    estimator: Any, problem: Problem, draws: Draws | None, batch: PairBatch | None = None
) -> tuple[float, np.ndarray]:
    """Log-likelihood and gradient of a problem under given samples.

    Of points, the gradient is in alpha and beta of relevance and in the logits of the emission.
    """
    if estimator.is_point:
        found = estimator.gradient(*problem.points(), batch or problem.batch, draws)
        return found.log_likelihood, np.concatenate([*found.by_relevance, found.by_position])
    value, slope = compiled(estimator, *problem.inputs(estimator), batch or problem.batch, draws)
    return float(value), np.asarray(slope)


def run_eagerly(estimator: Any, problem: Problem, draws: Draws) -> tuple[float, np.ndarray]:
    """The same without compiling the whole: operations compiled once serve all estimators."""
    value, slope = gradient(estimator, *problem.inputs(estimator), problem.batch, draws)
    return float(value), np.asarray(slope)


def draw_repeats(problem: Problem, repeats: int, samples: int, seed: int) -> Draws:
    """Independent sets of samples, `repeats` the first axis of all arrays."""
    rng = np.random.default_rng(seed)
    relevance, position = problem.betas()
    pairs, contexts = problem.displays.shape
    of_position = draw_position(rng, position, repeats * samples)
    of_relevance = draw_relevance(rng, relevance, repeats * samples)
    return Draws(
        *(each.reshape(repeats, samples, contexts) for each in of_position),
        *(np.moveaxis(each.reshape(pairs, repeats, samples), 0, 1) for each in of_relevance),
    )


def replicate(
    estimator: Any, problem: Problem, repeats: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Log-likelihoods (repeats,) and gradients (repeats, parameters) of independent samples."""
    return run_repeats(estimator, problem, draw_repeats(problem, repeats, estimator.samples, seed))


def run_repeats(estimator: Any, problem: Problem, draws: Draws) -> tuple[np.ndarray, np.ndarray]:
    """The same for given samples, `repeats` the first axis of all arrays."""
    inputs = problem.betas()
    each = jax.vmap(lambda one: gradient(estimator, *inputs, problem.batch, one))
    values, slopes = jax.jit(each)(draws)
    return np.asarray(values), np.asarray(slopes)
