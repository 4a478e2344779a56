"""AdamW in numpy takes the steps of optax."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from epiclick.fitted.parameters import BetaLookup, Parameters, PointLookup, leaves
from epiclick.training.optimizer import Optimizer

RATE, FACTOR, DECAY = 0.01, 5.0, 0.3


def parameters_of(lookup: Any, dtype: type) -> Parameters:
    rng = np.random.default_rng(0)
    sizes = [(3, 4), (4, 2)]
    layers = tuple(
        (rng.normal(size=size).astype(dtype), rng.normal(size=size[1]).astype(dtype))
        for size in sizes
    )
    return Parameters(layers, lookup)


LOOKUPS = {
    "points": PointLookup(np.array([0.3, -1.0, 2.0])),
    "betas": BetaLookup(np.array([0.3, -1.0, 2.0]), np.array([1.0, 4.0, -2.0])),
}


def by_optax(
    start: list[np.ndarray], gradients: list[list[np.ndarray]], network: bool, steps: int | None
) -> list[np.ndarray]:
    """Leaves after each step: two groups with a rate each, decay on matrices alone."""
    labels = ["layers"] * 4 + ["lookup"] * (len(start) - 4)

    def group(factor: float) -> Any:
        rate: Any = factor * RATE
        if steps is not None:
            rate = optax.cosine_decay_schedule(rate, steps)
        matrices = lambda tree: [leaf.ndim > 1 for leaf in tree]  # noqa: E731
        return optax.adamw(rate, weight_decay=DECAY, mask=matrices)

    groups = {"layers": 1.0 if network else FACTOR, "lookup": FACTOR}
    found = []
    with jax.enable_x64(True):
        parts = {name: [i for i, own in enumerate(labels) if own == name] for name in groups}
        optimizers = {name: group(factor) for name, factor in groups.items()}
        now = [jnp.asarray(leaf) for leaf in start]
        states = {name: optimizers[name].init([now[i] for i in parts[name]]) for name in groups}
        for gradient in gradients:
            for name, rows in parts.items():
                slopes = [jnp.asarray(gradient[i]) for i in rows]
                own = [now[i] for i in rows]
                change, states[name] = optimizers[name].update(slopes, states[name], own)
                for i, moved in zip(rows, optax.apply_updates(own, change), strict=True):
                    now[i] = moved
            found.append([np.asarray(leaf) for leaf in now])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("steps", [None, 12], ids=["constant", "cosine"])
@pytest.mark.parametrize("network", [True, False], ids=["network", "exposure"])
@pytest.mark.parametrize("kind", LOOKUPS)
def test_steps_are_those_of_optax(kind: str, network: bool, steps: int | None) -> None:
    """A few steps beyond the end of the schedule, where the rate is 0."""
    parameters = parameters_of(LOOKUPS[kind], np.float64)
    rng = np.random.default_rng(1)
    gradients = [
        [10 ** rng.uniform(-3, 2) * rng.normal(size=leaf.shape) for leaf in leaves(parameters)]
        for _ in range(15)
    ]
    gradients[4] = [0 * slope for slope in gradients[4]]
    expected = by_optax(leaves(parameters), gradients, network, steps)
    optimizer = Optimizer(RATE, FACTOR, DECAY, steps, network)
    state = optimizer.init(parameters)
    for number, gradient in enumerate(gradients):
        parameters, state = optimizer.update(parameters, gradient, state)
        assert state.steps == number + 1
        for own, other in zip(leaves(parameters), expected[number], strict=True):
            np.testing.assert_allclose(own, other, rtol=1e-12, atol=1e-14)


def test_decay_shrinks_matrices_alone() -> None:
    """The control: without a gradient only they move, and without a decay nothing does."""
    start = parameters_of(LOOKUPS["points"], np.float64)
    nothing = [np.zeros_like(leaf) for leaf in leaves(start)]
    for decay in (DECAY, 0.0):
        optimizer = Optimizer(RATE, FACTOR, decay, None, True)
        moved, _ = optimizer.update(start, nothing, optimizer.init(start))
        for before, after in zip(leaves(start), leaves(moved), strict=True):
            factor = 1 - RATE * decay if before.ndim > 1 else 1.0
            np.testing.assert_allclose(after, factor * before, rtol=1e-15)


def test_layers_stay_in_single_precision_and_their_moments_in_double() -> None:
    parameters = parameters_of(LOOKUPS["points"], np.float32)
    optimizer = Optimizer(RATE, FACTOR, DECAY, None, True)
    gradient = [
        np.full(leaf.shape, 1e30) for leaf in leaves(parameters)
    ]  # squares overflow float32
    moved, state = optimizer.update(parameters, gradient, optimizer.init(parameters))
    assert [leaf.dtype for leaf in leaves(moved)] == [leaf.dtype for leaf in leaves(parameters)]
    assert all(part.dtype == np.float64 for part in (*state.means, *state.squares))
    assert all(np.isfinite(part).all() for part in (*leaves(moved), *state.squares))


def test_the_state_before_is_left_as_it_was() -> None:
    parameters = parameters_of(LOOKUPS["betas"], np.float32)
    optimizer = Optimizer(RATE, FACTOR, DECAY, 10, True)
    state = optimizer.init(parameters)
    before = [leaf.copy() for leaf in leaves(parameters)]
    optimizer.update(parameters, [np.ones(leaf.shape) for leaf in before], state)
    assert state.steps == 0
    assert not any(part.any() for part in (*state.means, *state.squares))
    for own, leaf in zip(leaves(parameters), before, strict=True):
        np.testing.assert_array_equal(own, leaf)
