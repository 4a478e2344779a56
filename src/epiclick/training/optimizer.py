"""AdamW with a rate for the network and a higher one for the lookups."""

from dataclasses import dataclass
from typing import Any

import jax
import optax

from epiclick.models.parameters import Parameters


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
