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


ROWS = 1_536
"""Pairs at a time: their units fit in the processor's cache."""


def activations(hidden: Layers[np.ndarray], x: np.ndarray) -> list[np.ndarray]:
    """The input and the units of each hidden layer, (pairs, units) each."""
    outputs = [x, *(np.empty((len(x), len(bias)), weight.dtype) for weight, bias in hidden)]
    # numpy adds, and takes the larger of, two whole arrays at several times the speed of an array
    # and a row or a number
    size = min(ROWS, len(x))
    biases = [np.tile(bias, (size, 1)) for _, bias in hidden]
    zeros = [np.zeros_like(bias) for bias in biases]
    for rows in _blocks(len(x)):
        for i, (weight, _) in enumerate(hidden):
            units = np.matmul(outputs[i][rows], weight, out=outputs[i + 1][rows])
            units += biases[i][: len(units)]
            np.maximum(units, zeros[i][: len(units)], out=units)
    return outputs


def _blocks(pairs: int) -> list[slice]:
    return [slice(start, start + ROWS) for start in range(0, pairs, ROWS)]


def last_layer(layers: Layers[np.ndarray], units: Sequence[np.ndarray]) -> np.ndarray:
    """The outputs of a network from its `activations`: (pairs, outputs)."""
    weight, bias = layers[-1]
    taken = _taken(units, len(weight))
    outputs = np.empty((len(units[0]), len(bias)), np.result_type(weight, units[-1]))
    for rows in _blocks(len(outputs)):
        outputs[rows] = sum((part[rows] @ weight[own] for part, own in taken), start=bias)
    return outputs


def backward(
    layers: Layers[np.ndarray], units: Sequence[np.ndarray], by_output: np.ndarray
) -> Layers[np.ndarray]:
    """Derivatives in the weights and biases of each layer, from those in the outputs.

    Args:
        layers: of the network.
        units: its `activations`.
        by_output: (pairs, outputs) derivatives, summed over pairs in the precision of the layers.
    """
    whole = by_output.astype(layers[-1][0].dtype, copy=False)
    found = [tuple(np.zeros_like(part) for part in layer) for layer in layers]
    for rows in _blocks(len(whole)):
        _add_backward(found, layers, [part[rows] for part in units], whole[rows])
    return tuple((weight, bias) for weight, bias in found)


def _add_backward(
    found: Sequence[tuple[np.ndarray, ...]],
    layers: Layers[np.ndarray],
    units: Sequence[np.ndarray],
    by_output: np.ndarray,
) -> None:
    """Add the derivatives of some pairs to those found."""
    weight, _ = layers[-1]
    taken = _taken(units, len(weight))
    rows_of = {len(units) - len(taken) + i: rows for i, (_, rows) in enumerate(taken)}
    across = np.ascontiguousarray(weight.T)
    ones = np.ones(len(by_output), by_output.dtype)  # a product with them is the fastest sum
    for part, rows in taken:
        found[-1][0][rows] += part.T @ by_output
    found[-1][1][...] += ones @ by_output
    by_unit: np.ndarray | None = None
    for number in range(len(layers) - 1, 0, -1):
        # the units of this layer act on the outputs directly, if the last layer takes them, and
        # through the layer above
        if number in rows_of:
            direct = by_output @ across[:, rows_of[number]]
            by_unit = direct if by_unit is None else np.add(by_unit, direct, out=by_unit)
        assert by_unit is not None
        by_unit *= units[number] > 0
        by_weight, by_bias = found[number - 1]
        by_weight += units[number - 1].T @ by_unit
        by_bias += ones @ by_unit
        if number > 1:
            by_unit = by_unit @ layers[number - 1][0].T


def _taken(units: Sequence[np.ndarray], width: int) -> list[tuple[np.ndarray, slice]]:
    """What the last layer takes, and the rows of its weight for each: see `given_to_last`."""
    parts = units[-1:] if units[-1].shape[-1] == width else units
    ends = np.cumsum([part.shape[-1] for part in parts]).tolist()
    return [(part, slice(end - part.shape[-1], end)) for part, end in zip(parts, ends, strict=True)]
