"""One network, or an ensemble of several that are trained side by side in one program."""

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

    Pairs of a query differ less than pairs of different queries, so a query counts as a whole.
    Queries are taken in the order of their ids: rows of the log in any order give the same weights.
    """
    own = np.ones((1, counts.num_queries), np.uint8)
    each = [_draw(np.random.default_rng([seed, BOOTSTRAP, i]), own.shape) for i in range(members)]
    return np.concatenate([own, *each])[:, counts.query]


def _draw(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Weights of one member, which must have something to learn from."""
    while not (weight := rng.poisson(1.0, shape)).any():
        pass
    return weight.astype(np.uint8)


MOST_NATS = 300.0  # of a factor on the gradient, whose square float64 can hold

SIDE_BY_SIDE = 1_000
"""Up to so many pairs in a batch networks are computed side by side, larger batches one network
after the other, whose arrays stay in the cache. (7 networks on 2 cores, against 7 programs: 1.7
times as fast with 350 pairs; side by side with 2,800 pairs it would be slower than those.)"""

Drawn = TypeVar("Drawn")
Draw: TypeAlias = Callable[[np.random.Generator, Parameters, Any], Drawn]
Step: TypeAlias = tuple[Parameters, Any, jax.Array, jax.Array]
"""Parameters and memory of AdamW after a step, likelihood of the batch before it, and its largest
partial derivative."""


class Networks(Protocol):
    """What the training loop needs to know of how many networks there are."""

    @property
    def count(self) -> int:
        """Number of networks; what is told of each comes as an array of so many."""
        ...

    def remember(self, optimizer: Optimizer, parameters: Parameters) -> Any:
        """What AdamW remembers before the first step."""
        ...

    def draw(
        self,
        draw: Draw[Drawn],
        rngs: Sequence[np.random.Generator],
        parameters: Parameters,
        inputs: Any,
    ) -> Drawn:
        """Samples of each network, by a generator of its own."""
        ...

    def step(
        self,
        objective: Objective,
        optimizer: Optimizer,
        parameters: Parameters,
        memory: Any,
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

    def choose(self, better: np.ndarray, new: Parameters, old: Parameters) -> Parameters:
        """The new parameters of the networks that are better (count,), else the old ones."""
        ...

    def each(self, parameters: Parameters) -> list[Parameters]:
        """Parameters of each network, numpy arrays."""
        ...


@dataclass(frozen=True)
class Single:
    """One network."""

    count: int = 1

    def remember(self, optimizer: Optimizer, parameters: Parameters) -> Any:
        """Nothing yet, in float64."""
        return optimizer.make().init(_wide(parameters))

    def draw(
        self,
        draw: Draw[Drawn],
        rngs: Sequence[np.random.Generator],
        parameters: Parameters,
        inputs: Any,
    ) -> Drawn:
        """Its samples."""
        return draw(rngs[0], parameters, inputs)

    def step(self, objective: Objective, optimizer: Optimizer, *state: Any) -> Step:
        """One step of AdamW."""
        return _step(objective, optimizer, *state)

    def score(self, objective: Objective, *given: Any) -> np.ndarray:
        """Log-likelihood of held-out pairs, (1,)."""
        return np.atleast_1d(_score(objective, *given))

    def choose(self, better: np.ndarray, new: Parameters, old: Parameters) -> Parameters:
        """Either the new or the old parameters."""
        return new if better[0] else old

    def each(self, parameters: Parameters) -> list[Parameters]:
        """The parameters alone."""
        return [jax.tree.map(np.asarray, parameters)]


@dataclass(frozen=True)
class Ensemble:
    """Several networks that learn from the same batches, each with weights of its own.

    All arrays of parameters, memory and samples have a leading axis, one network after the other,
    and so may the weights of a batch: (count, pairs).

    Attributes:
        count: number of networks.
    """

    count: int

    def remember(self, optimizer: Optimizer, parameters: Parameters) -> Any:
        """Nothing yet, in float64."""
        return jax.vmap(optimizer.make().init)(_wide(parameters))

    def draw(
        self,
        draw: Draw[Drawn],
        rngs: Sequence[np.random.Generator],
        parameters: Parameters,
        inputs: Any,
    ) -> Drawn:
        """Samples of all networks, each drawn as if it were alone."""
        drawn = [
            draw(rng, own, inputs) for rng, own in zip(rngs, self.each(parameters), strict=True)
        ]
        return jax.tree.map(lambda *parts: np.stack(parts), *drawn)

    def step(self, objective: Objective, optimizer: Optimizer, *state: Any) -> Step:
        """One step of AdamW for every network."""
        return _steps(objective, optimizer, *state)

    def score(self, objective: Objective, *given: Any) -> np.ndarray:
        """Log-likelihood of held-out pairs under each network."""
        return np.asarray(_scores(objective, *given))

    def choose(self, better: np.ndarray, new: Parameters, old: Parameters) -> Parameters:
        """Network by network."""
        return jax.tree.map(
            lambda a, b: jnp.where(better.reshape(-1, *[1] * (a.ndim - 1)), a, b), new, old
        )

    def each(self, parameters: Parameters) -> list[Parameters]:
        """One network's arrays after the other's."""
        whole = jax.tree.map(np.asarray, parameters)
        return [jax.tree.map(lambda leaf, i=i: leaf[i], whole) for i in range(self.count)]


def stack(each: Sequence[Parameters]) -> Parameters:
    """Parameters of several networks with a leading axis."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *each)


def _one_step(
    objective: Objective,
    optimizer: Optimizer,
    parameters: Parameters,
    memory: Any,
    inputs: jax.Array,
    batch: PairBatch,
    draws: Any,
) -> Step:
    (_, told), gradient = jax.value_and_grad(objective.loss, has_aux=True)(
        parameters, inputs, batch, draws
    )
    scale = jnp.exp(jnp.minimum(told.log_scale, MOST_NATS))
    gradient = jax.tree.map(lambda leaf: leaf * scale, _wide(gradient))
    largest = jnp.stack(
        [jnp.max(jnp.abs(leaf), initial=0.0) for leaf in jax.tree.leaves(gradient)]
    ).max()
    updates, memory = optimizer.make().update(gradient, memory, _wide(parameters))
    return optax.apply_updates(parameters, updates), memory, told.log_likelihood, largest


@jax.jit(static_argnums=(0, 1))
def _steps(
    objective: Objective,
    optimizer: Optimizer,
    parameters: Parameters,
    memory: Any,
    inputs: jax.Array,
    batch: PairBatch,
    draws: Any,
) -> Step:
    def own(parameters: Parameters, memory: Any, weight: jax.Array, draws: Any) -> Step:
        weighted = replace(batch, weight=weight)
        return _one_step(objective, optimizer, parameters, memory, inputs, weighted, draws)

    count = len(jax.tree.leaves(parameters)[0])
    weight = jnp.broadcast_to(batch.weight, (count, batch.weight.shape[-1]))
    return _for_each(own, len(inputs), parameters, memory, weight, draws)


@jax.jit(static_argnums=0)
def _scores(
    objective: Objective, parameters: Parameters, inputs: jax.Array, batch: PairBatch, bias: Any
) -> jax.Array:
    def own(parameters: Parameters, bias: Any) -> jax.Array:
        return objective.score(parameters, inputs, batch, bias)

    return _for_each(own, len(inputs), parameters, bias)


def _for_each(own: Callable[..., Any], pairs: int, *of_networks: Any) -> Any:
    """What a function says of each network, within one program."""
    if pairs <= SIDE_BY_SIDE:
        return jax.vmap(own)(*of_networks)
    return jax.lax.map(lambda one: own(*one), of_networks)


_step = jax.jit(_one_step, static_argnums=(0, 1))


@jax.jit(static_argnums=0)
def _score(
    objective: Objective, parameters: Parameters, inputs: jax.Array, batch: PairBatch, bias: Any
) -> jax.Array:
    return objective.score(parameters, inputs, batch, bias)


def _wide(tree: Any) -> Any:
    """The same in float64, in which AdamW remembers: gradients may differ by hundreds of nats."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), tree)
