"""What networks and lookups say, draw by draw of a model's parameters. No jax."""

from collections.abc import Sequence

import numpy as np

from epiclick.models.fitted import FittedModel
from epiclick.models.parameters import Parameters
from epiclick.network import Layers, given_to_last


def networks_of(draws: Sequence[Parameters]) -> list[Layers]:
    """The draws' networks, in their order; only one where all draws have the same."""
    first = draws[0].layers
    if all(draw.layers is first for draw in draws):
        return [first]
    return [draw.layers for draw in draws]


def relevance_by(
    fitted: FittedModel, networks: Sequence[Layers], x: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """alpha and beta by every network, (networks, pairs) each, of inputs (pairs, features).

    A pointwise model gives relevance and 1 - relevance.
    """
    raw = _outputs(networks, x)
    return fitted.relevance_head.of_outputs(raw, np, smooth=fitted.parameters.smooth)


def _outputs(networks: Sequence[Layers], x: np.ndarray) -> np.ndarray:
    """(networks, pairs, outputs) float64; a body that networks share is run once."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for i, layers in enumerate(networks):
        body = tuple(id(array) for layer in layers[:-1] for array in layer)
        groups.setdefault(body, []).append(i)
    outputs = np.empty((len(networks), len(x), len(networks[0][-1][1])))
    for group in groups.values():
        first = networks[group[0]]
        inputs = np.concatenate(given_to_last(first[:-1], x, len(first[-1][0])), axis=-1)
        weight, bias = (
            np.concatenate([networks[i][-1][part] for i in group], axis=-1) for part in (0, 1)
        )
        both = (inputs @ weight + bias).reshape(len(x), len(group), -1)
        outputs[group] = both.swapaxes(0, 1)
    return outputs


def bias_by(
    fitted: FittedModel, draws: Sequence[Parameters], index: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Bias and 1 minus it by every draw, (draws, contexts) each.

    Args:
        fitted: the model.
        draws: of its parameters.
        index: (contexts,) of the model's contexts; -1 takes the mean of those it knows.
    """
    theta, rest = (np.empty((len(draws), len(index))) for _ in range(2))
    for j, draw in enumerate(draws):
        known = draw.position.emission(fitted.clicks, fitted.anchor, np)
        for into, values in zip((theta, rest), known[:2], strict=True):
            into[j] = np.where(index < 0, values.mean(), values[index])
    return theta, rest
