"""A multilayer perceptron as plain arrays: trained with jax, evaluated with numpy alone."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np

if TYPE_CHECKING:
    import jax

Array = TypeVar("Array", np.ndarray, "jax.Array")
Layers: TypeAlias = tuple[tuple[Array, Array], ...]  # (weight (inputs, outputs), bias (outputs,))


def init_mlp(rng: np.random.Generator, sizes: Sequence[int]) -> Layers[np.ndarray]:
    """Random layers, He normal: weights N(0, 2 / inputs), biases 0, float32.

    Args:
        rng: where the weights are drawn from.
        sizes: inputs, hidden units of each layer, outputs; at least two numbers.
    """
    if len(sizes) < 2:
        raise ValueError(f"a network needs at least an input and an output size, got {sizes}")
    return tuple(
        (
            rng.standard_normal((inputs, outputs), dtype=np.float32)
            * np.float32(np.sqrt(2 / inputs)),
            np.zeros(outputs, dtype=np.float32),
        )
        for inputs, outputs in pairwise(sizes)
    )


def apply_mlp(layers: Layers[Array], x: Array) -> Array:
    """ReLU network with a linear last layer: (..., inputs) -> (..., outputs).

    Written with operators only, so that numpy and jax arrays (traced ones too) both work.
    """
    last_weight, last_bias = layers[-1]
    return apply_hidden(layers[:-1], x) @ last_weight + last_bias


def apply_hidden(layers: Layers[Array], x: Array) -> Array:
    """What the last layer is given: (..., inputs) -> (..., units of the last hidden layer)."""
    for weight, bias in layers:
        x = x @ weight + bias
        x = x * (x > 0)
    return x
