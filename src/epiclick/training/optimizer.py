"""Training settings, and AdamW with a higher learning rate for the lookups than the network."""

from dataclasses import dataclass
from typing import Any

import jax
import optax

from epiclick.fitted.parameters import Parameters


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


@dataclass(frozen=True)
class Optimizer:
    """Settings of AdamW; hashable, so that equal ones share a compiled program.

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

    def make(self) -> optax.GradientTransformation:
        """The gradient transformation."""
        rates = {
            "network": self._adam(self.learning_rate),
            "lookup": self._adam(self.learning_rate * self.position_rate),
        }
        labels: Any = Parameters
        return optax.multi_transform(
            rates, labels("network" if self.network else "lookup", "lookup")
        )

    def _adam(self, rate: float) -> optax.GradientTransformation:
        schedule = rate if self.steps is None else optax.cosine_decay_schedule(rate, self.steps)
        return optax.adamw(schedule, weight_decay=self.weight_decay, mask=_matrices)


def _matrices(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf.ndim > 1, tree)
