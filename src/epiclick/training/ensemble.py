"""Training one network, or an ensemble of several at once in one compiled program."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import optax

from epiclick.data.counts import ClickCounts
from epiclick.fitted.parameters import Parameters
from epiclick.likelihood.pairs import PairBatch
from epiclick.training.objective import Objective
from epiclick.training.optimizer import Optimizer

BOOTSTRAP = 5  # the stream of random numbers


def bootstrap_weights(counts: ClickCounts, members: int, seed: int) -> np.ndarray:
    """(1 + members, pairs) uint8: 1 for the model's own network, then Poisson(1) per query.

    Pairs of one query resemble each other, so whole queries are resampled. Queries are numbered in
    the order of their ids, so that weights do not depend on the order of the log's rows.
    """
    own = np.ones((1, counts.num_queries), np.uint8)
    each = [_draw(np.random.default_rng([seed, BOOTSTRAP, i]), own.shape) for i in range(members)]
    return np.concatenate([own, *each])[:, counts.query]


def _draw(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Weights of one member, not all 0."""
    while not (weight := rng.poisson(1.0, shape)).any():
        pass
    return weight.astype(np.uint8)


MOST_NATS = 300.0  # log of the largest factor on a gradient: its square still fits in float64

VMAP_UP_TO = 1_000
"""Pairs in a batch up to which networks are vectorised. In larger batches they run one after the
other, whose arrays stay in the cache. (7 networks on 2 cores, against 7 programs: 1.7 times as fast
with 350 pairs; vectorised, 2,800 pairs would be slower than 7 programs.)"""

Drawn = TypeVar("Drawn")
Draw: TypeAlias = Callable[[np.random.Generator, Parameters, Any], Drawn]
Rngs: TypeAlias = Sequence[np.random.Generator]
Step: TypeAlias = tuple[Parameters, Any, jax.Array, jax.Array]
"""Parameters and AdamW's state after a step, log-likelihood of the batch before it, and its largest
partial derivative."""


class Networks(Protocol):
    """Operations of the training loop that depend on the number of networks."""

    @property
    def count(self) -> int:
        """Number of networks; results come as arrays of this length."""
        ...

    def init_optimizer(self, optimizer: Optimizer, parameters: Parameters) -> Any:
        """AdamW's state before the first step, in float64."""
        ...

    def draw(self, draw: Draw[Drawn], rngs: Rngs, parameters: Parameters, inputs: Any) -> Drawn:
        """Samples for each network, from its own generator."""
        ...

    def step(
        self,
        objective: Objective,
        optimizer: Optimizer,
        parameters: Parameters,
        optimizer_state: Any,
        inputs: Any,
        batch: PairBatch,
        draws: Any,
    ) -> Step:
        """One step of AdamW."""
        ...

    def score(
        self, objective: Objective, parameters: Parameters, inputs: Any, batch: PairBatch, bias: Any
    ) -> np.ndarray:
        """Log-likelihood of held-out pairs under each network, (count,)."""
        ...

    def select(self, better: np.ndarray, new: Parameters, old: Parameters) -> Parameters:
        """The new parameters of networks where `better`, (count,), is true; else the old ones."""
        ...

    def unstack(self, parameters: Parameters) -> list[Parameters]:
        """Parameters of each network, as numpy arrays."""
        ...


@dataclass(frozen=True)
class Single:
    """One network."""

    count: int = 1

    def init_optimizer(self, optimizer: Optimizer, parameters: Parameters) -> Any:
        """AdamW's state before the first step, in float64."""
        return optimizer.make().init(_as_float64(parameters))

    def draw(self, draw: Draw[Drawn], rngs: Rngs, parameters: Parameters, inputs: Any) -> Drawn:
        """Samples from the only generator."""
        return draw(rngs[0], parameters, inputs)

    def step(self, objective: Objective, optimizer: Optimizer, *state: Any) -> Step:
        """One step of AdamW."""
        return _step(objective, optimizer, *state)

    def score(self, objective: Objective, *data: Any) -> np.ndarray:
        """Log-likelihood of held-out pairs, (1,)."""
        return np.atleast_1d(_score(objective, *data))

    def select(self, better: np.ndarray, new: Parameters, old: Parameters) -> Parameters:
        """Either the new or the old parameters."""
        return new if better[0] else old

    def unstack(self, parameters: Parameters) -> list[Parameters]:
        """A list of one."""
        return [jax.tree.map(np.asarray, parameters)]


@dataclass(frozen=True)
class Ensemble:
    """Several networks that are trained on the same batches, each with its own pair weights.

    Arrays of parameters, optimizer state and samples have a leading axis of networks; so may the
    weights of a batch: (count, pairs).

    Attributes:
        count: number of networks.
    """

    count: int

    def init_optimizer(self, optimizer: Optimizer, parameters: Parameters) -> Any:
        """AdamW's state before the first step, with a leading axis of networks."""
        return jax.vmap(optimizer.make().init)(_as_float64(parameters))

    def draw(self, draw: Draw[Drawn], rngs: Rngs, parameters: Parameters, inputs: Any) -> Drawn:
        """Samples of all networks, the same that each would draw alone."""
        own = zip(rngs, self.unstack(parameters), strict=True)
        drawn = [draw(rng, network, inputs) for rng, network in own]
        return jax.tree.map(lambda *parts: np.stack(parts), *drawn)

    def step(self, objective: Objective, optimizer: Optimizer, *state: Any) -> Step:
        """One step of AdamW for every network."""
        return _steps(objective, optimizer, *state)

    def score(self, objective: Objective, *data: Any) -> np.ndarray:
        """Log-likelihood of held-out pairs under each network."""
        return np.asarray(_scores(objective, *data))

    def select(self, better: np.ndarray, new: Parameters, old: Parameters) -> Parameters:
        """Network by network."""
        return jax.tree.map(
            lambda a, b: jnp.where(better.reshape(-1, *[1] * (a.ndim - 1)), a, b), new, old
        )

    def unstack(self, parameters: Parameters) -> list[Parameters]:
        """The networks' parameters, without the leading axis."""
        whole = jax.tree.map(np.asarray, parameters)
        return [jax.tree.map(lambda leaf, i=i: leaf[i], whole) for i in range(self.count)]


def stack(each: Sequence[Parameters]) -> Parameters:
    """Parameters of several networks with a leading axis."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *each)


def _one_step(
    objective: Objective,
    optimizer: Optimizer,
    parameters: Parameters,
    optimizer_state: Any,
    inputs: jax.Array,
    batch: PairBatch,
    draws: Any,
) -> Step:
    (_, aux), gradient = jax.value_and_grad(objective.loss, has_aux=True)(
        parameters, inputs, batch, draws
    )
    scale = jnp.exp(jnp.minimum(aux.log_scale, MOST_NATS))
    gradient = jax.tree.map(lambda leaf: leaf * scale, _as_float64(gradient))
    largest = jnp.stack(
        [jnp.max(jnp.abs(leaf), initial=0.0) for leaf in jax.tree.leaves(gradient)]
    ).max()
    updates, state = optimizer.make().update(gradient, optimizer_state, _as_float64(parameters))
    return optax.apply_updates(parameters, updates), state, aux.log_likelihood, largest


@jax.jit(static_argnums=(0, 1))
def _steps(objective: Objective, optimizer: Optimizer, *of_networks: Any) -> Step:
    """`_one_step` for every network; the arguments are the same, with a leading axis."""
    parameters, optimizer_state, inputs, batch, draws = of_networks

    def own(parameters: Parameters, state: Any, weight: jax.Array, draws: Any) -> Step:
        weighted = replace(batch, weight=weight)
        return _one_step(objective, optimizer, parameters, state, inputs, weighted, draws)

    count = len(jax.tree.leaves(parameters)[0])
    weight = jnp.broadcast_to(batch.weight, (count, batch.weight.shape[-1]))
    return _for_each(own, len(inputs), parameters, optimizer_state, weight, draws)


@jax.jit(static_argnums=0)
def _scores(
    objective: Objective, parameters: Parameters, inputs: jax.Array, batch: PairBatch, bias: Any
) -> jax.Array:
    def own(parameters: Parameters, bias: Any) -> jax.Array:
        return objective.score(parameters, inputs, batch, bias)

    return _for_each(own, len(inputs), parameters, bias)


def _for_each(own: Callable[..., Any], pairs: int, *of_networks: Any) -> Any:
    """The results of a function for each network, within one program."""
    if pairs <= VMAP_UP_TO:
        return jax.vmap(own)(*of_networks)
    return jax.lax.map(lambda one: own(*one), of_networks)


_step = jax.jit(_one_step, static_argnums=(0, 1))


@jax.jit(static_argnums=0)
def _score(
    objective: Objective, parameters: Parameters, inputs: jax.Array, batch: PairBatch, bias: Any
) -> jax.Array:
    return objective.score(parameters, inputs, batch, bias)


def _as_float64(tree: Any) -> Any:
    """The same in float64, AdamW's precision: gradients may differ by hundreds of nats."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), tree)
