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
        rng: source of the random weights.
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

    The last layer takes the last hidden units or, if it is wide, the inputs and the units of all
    hidden layers. Written with operators only, so that it works on numpy and jax arrays, traced
    ones included.
    """
    weight, bias = layers[-1]
    given = given_to_last(layers[:-1], x, len(weight))
    start, total = 0, bias
    for part in given:
        stop = start + part.shape[-1]
        total = total + part @ weight[start:stop]
        start = stop
    return total


def given_to_last(hidden: Layers[Array], x: Array, width: int) -> list[Array]:
    """The inputs of a last layer of this width, one array (..., units) for each layer."""
    outputs = [x]
    for weight, bias in hidden:
        x = x @ weight + bias
        x = x * (x > 0)
        outputs.append(x)
    return outputs[-1:] if x.shape[-1] == width else outputs


def wide_last(layers: Layers[np.ndarray]) -> Layers[np.ndarray]:
    """The same network with a last layer that also takes all other units, with weights of 0."""
    *hidden, (weight, bias) = layers
    more = sum(len(each) for each, _ in hidden)
    return (
        *hidden,
        (np.concatenate([np.zeros((more, weight.shape[1]), weight.dtype), weight]), bias),
    )


START_CONFIDENCE = 1.0
"""Initial raw confidence of relevance: away from 0, where |x| + 1 has a kink."""


def init_relevance(
    rng: np.random.Generator,
    features: int,
    hidden: Sequence[int],
    *,
    outputs: int,
    mean: float,
    wide: bool = False,
) -> Layers[np.ndarray]:
    """Initial layers of a relevance network, whose relevances are around the given mean.

    Args:
        rng: source of the random weights.
        features: number of features.
        hidden: units of the hidden layers.
        outputs: 2 for a Beta, 1 for a point.
        mean: relevance to start from, strictly between 0 and 1.
        wide: whether the last layer takes the features and all hidden units.
    """
    *body, (weight, _) = init_mlp(rng, (features, *hidden, outputs))
    layers = (*body, (weight, _first_bias(mean)[:outputs]))
    return wide_last(layers) if wide else layers


def init_exposure(contexts: int, *, outputs: int, mean: float) -> Layers[np.ndarray]:
    """The initial layer for pairs without features: one Beta for all."""
    return ((np.zeros((contexts, outputs), np.float32), _first_bias(mean)[:outputs]),)


def _first_bias(mean: float) -> np.ndarray:
    return np.array([np.log(mean) - np.log1p(-mean), START_CONFIDENCE], np.float32)
