"""Training settings, and AdamW with a higher learning rate for the lookups than the network."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from epiclick.fitted.parameters import Parameters, leaves, with_leaves
from epiclick.relevance.adam import adam_step


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of the training loop.

    Attributes:
        epochs: passes over the pairs, at most.
        batch_size: most pairs in a batch.
        learning_rate: of AdamW, for the network; falls to 0 along half a cosine if `decay`.
        position_rate: factor on it for the lookup of the click model (and for relevance without
            features), whose few parameters must move further than the network's thousands.
        weight_decay: of AdamW, on the network's weight matrices only.
        patience: epochs without a better validation likelihood before training stops; None trains
            to the last epoch and keeps its parameters.
        decay: whether the learning rate falls.
        seed: of the initial weights, the batches and the samples.
        members: networks of an ensemble, trained besides the model's own; 1 for no ensemble.
        bootstrap: whether each member is trained on a bootstrap of the queries.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    position_rate: float
    weight_decay: float
    patience: int | None
    decay: bool
    seed: int
    members: int = 1
    bootstrap: bool = True

    @property
    def networks(self) -> int:
        """Number of networks to train: the model's own, and the members of an ensemble."""
        return 1 if self.members == 1 else 1 + self.members


class OptimizerState(NamedTuple):
    """What AdamW remembers of one network.

    Attributes:
        steps: number of steps so far.
        means: running mean of the gradient of each array of parameters, float64.
        squares: running mean of its squares.
    """

    steps: int
    means: tuple[np.ndarray, ...]
    squares: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Optimizer:
    r"""AdamW (Loshchilov and Hutter 2019), in float64: gradients may differ by hundreds of nats.

    .. math:: x \leftarrow x - \eta_t (\text{step} + \lambda x)

    with the step of Adam (`relevance.adam`).

    Attributes:
        learning_rate: of the network.
        position_rate: factor on it for the lookups: click model, and relevance by exposure.
        weight_decay: on weight matrices only.
        steps: number of steps in which the rate falls to 0 along half a cosine; None for a constant
            rate.
        network: whether relevance is a network on features.
    """

    learning_rate: float
    position_rate: float
    weight_decay: float
    steps: int | None
    network: bool

    def init(self, parameters: Parameters) -> OptimizerState:
        """The state before the first step."""
        nothing = tuple(np.zeros(np.shape(leaf)) for leaf in leaves(parameters))
        return OptimizerState(0, nothing, nothing)

    def update(
        self, parameters: Parameters, gradient: Sequence[np.ndarray], state: OptimizerState
    ) -> tuple[Parameters, OptimizerState]:
        """Parameters and state after a step against the gradient, one array per leaf."""
        step = state.steps + 1
        own = leaves(parameters)
        of_layers = 2 * len(parameters.layers)
        rate = self._rate(state.steps)
        moved, means, squares = [], [], []
        for i, (leaf, slope) in enumerate(zip(own, gradient, strict=True)):
            change, mean, square = adam_step(slope, state.means[i], state.squares[i], step)
            if self.weight_decay and np.ndim(leaf) > 1:
                change += self.weight_decay * leaf
            factor = 1.0 if self.network and i < of_layers else self.position_rate
            moved.append((leaf - rate * factor * change).astype(leaf.dtype))
            means.append(mean)
            squares.append(square)
        after = OptimizerState(step, tuple(means), tuple(squares))
        return with_leaves(parameters, moved), after

    def _rate(self, step: int) -> float:
        """The network's learning rate at a step, counted from 0."""
        if self.steps is None:
            return self.learning_rate
        return self.learning_rate * 0.5 * (1 + np.cos(np.pi * min(step / self.steps, 1)))
