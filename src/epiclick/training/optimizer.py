"""AdamW with a rate for the network and a higher one for the lookups; training settings."""

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
        position_rate: factor on it for the position lookup (and for relevance without features),
            which has a handful of parameters to move far where the network has thousands.
        weight_decay: of AdamW, on the network's weights alone.
        patience: epochs without a better validation likelihood before training stops; None trains
            to the last epoch and keeps what it then has.
        decay: whether the learning rate falls.
        seed: of the first weights, the batches and the samples.
        members: networks of an ensemble, trained beside the model's own; 1 for none.
        bootstrap: whether each of them learns from a bootstrap of the queries.
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
        """How many are trained: the model's own, and the members if there are any."""
        return 1 if self.members == 1 else 1 + self.members


@dataclass(frozen=True)
class Optimizer:
    """What a step of AdamW depends on; hashable, so that equal ones share a compiled program.

    Attributes:
        learning_rate: of the network.
        position_rate: factor on it for the lookups: position bias, and relevance by exposure.
        weight_decay: on matrices of weights alone.
        steps: after which the rate has fallen to 0 along half a cosine; None for a constant rate.
        network: whether relevance comes from a network on features.
    """

    learning_rate: float
    position_rate: float
    weight_decay: float
    steps: int | None
    network: bool

    def make(self) -> optax.GradientTransformation:
        """The transformation of gradients."""
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
