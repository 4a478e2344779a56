"""All that training learns, as plain arrays."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from epiclick.models.position import LOOKUPS, Lookup
from epiclick.network import Layers


class Parameters(NamedTuple):
    """Relevance network and position lookup; a pytree for jax, numpy arrays when stored."""

    layers: Layers
    position: Lookup

    @property
    def smooth(self) -> bool:
        """Whether the confidence of relevance is smooth; see `relevance.links`."""
        return self.position.is_point


LOOKUP_OF: Mapping[str, type[Lookup]] = {
    f"position.{name}": lookup for lookup in LOOKUPS for name in lookup._fields
}
"""The lookup that an array in a file belongs to."""


def to_arrays(parameters: Parameters) -> dict[str, np.ndarray]:
    """The parameters under names that a file can hold."""
    arrays = {
        f"relevance.{i}.{name}": np.asarray(value)
        for i, layer in enumerate(parameters.layers)
        for name, value in zip(("weight", "bias"), layer, strict=True)
    }
    lookup = parameters.position._asdict()
    return arrays | {f"position.{name}": np.asarray(value) for name, value in lookup.items()}


def from_arrays(arrays: dict[str, np.ndarray]) -> Parameters:
    """The parameters that `to_arrays` named; KeyError where one is missing."""
    depth = sum(name.startswith("relevance.") for name in arrays) // 2
    layers = tuple(
        (arrays[f"relevance.{i}.weight"], arrays[f"relevance.{i}.bias"]) for i in range(depth)
    )
    first = next((name for name in LOOKUP_OF if name in arrays), "position.mean_logit")
    lookup = LOOKUP_OF[first]
    return Parameters(layers, lookup(*(arrays[f"position.{name}"] for name in lookup._fields)))
