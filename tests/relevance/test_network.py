import jax
import jax.numpy as jnp
import numpy as np
import pytest

from epiclick.relevance.network import (
    activations,
    apply_mlp,
    backward,
    given_to_last,
    init_mlp,
    last_layer,
    wide_last,
)


def by_hand(layers, row):
    """One input through the network, a unit at a time, in float64."""
    for depth, (weight, bias) in enumerate(layers):
        row = [
            float(bias[unit]) + sum(float(weight[i, unit]) * x for i, x in enumerate(row))
            for unit in range(weight.shape[1])
        ]
        if depth < len(layers) - 1:
            row = [max(0.0, x) for x in row]
    return row


@pytest.fixture
def layers():
    rng = np.random.default_rng(3)
    random = init_mlp(rng, (4, 5, 3, 2))
    return tuple((w, rng.normal(size=b.shape).astype(np.float32)) for w, b in random)


def test_equals_the_network_computed_unit_by_unit(layers):
    x = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
    expected = np.array([by_hand(layers, row) for row in x])
    assert (expected < 0).any(), "the last layer must not be rectified"
    np.testing.assert_allclose(apply_mlp(layers, x), expected, rtol=1e-5, atol=1e-5)


def test_numpy_and_jax_agree_and_keep_leading_axes(layers):
    x = np.random.default_rng(1).normal(size=(2, 3, 4)).astype(np.float32)
    ours = apply_mlp(layers, x)
    assert isinstance(ours, np.ndarray)
    assert ours.shape == (2, 3, 2)
    assert ours.dtype == np.float32
    theirs = jax.jit(apply_mlp)(jax.tree.map(jnp.asarray, layers), jnp.asarray(x))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_first_weights_are_he_normal():
    (weight, bias), (last, _) = init_mlp(np.random.default_rng(0), (50, 400, 1))
    assert weight.dtype == bias.dtype == np.float32
    assert not bias.any()
    assert last.shape == (400, 1)
    # The standard deviation of n normals has a relative standard error of 1 / sqrt(2 n).
    error = np.sqrt(2 / 50) / np.sqrt(2 * weight.size)
    assert abs(weight.std() - np.sqrt(2 / 50)) < 4 * error
    assert abs(weight.std() - np.sqrt(1 / 50)) > 4 * error


def test_the_generator_decides():
    first, again, other = (init_mlp(np.random.default_rng(s), (3, 2)) for s in (0, 0, 1))
    np.testing.assert_array_equal(first[0][0], again[0][0])
    assert not np.array_equal(first[0][0], other[0][0])


def test_a_network_needs_inputs_and_outputs():
    with pytest.raises(ValueError, match="at least an input and an output"):
        init_mlp(np.random.default_rng(0), (3,))


def test_a_wide_last_layer_is_given_all_units_and_changes_nothing_at_first() -> None:
    rng = np.random.default_rng(3)
    narrow = init_mlp(rng, (3, 5, 4, 2))
    wide = wide_last(narrow)
    x = rng.standard_normal((7, 3)).astype(np.float32)
    assert wide[-1][0].shape == (3 + 5 + 4, 2)
    np.testing.assert_allclose(apply_mlp(wide, x), apply_mlp(narrow, x), rtol=1e-6)

    (first, _), (second, _), _ = narrow
    one = np.maximum(x @ first, 0)
    two = np.maximum(one @ second, 0)
    weight = rng.standard_normal((12, 2)).astype(np.float32)
    expected = np.concatenate([x, one, two], axis=1) @ weight + 0.5
    found = apply_mlp((*narrow[:-1], (weight, np.full(2, 0.5, np.float32))), x)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        np.concatenate(given_to_last(narrow[:-1], x, 12), axis=1),
        np.concatenate([x, one, two], axis=1),
        rtol=1e-6,
    )
    (last,) = given_to_last(narrow[:-1], x, 4)
    np.testing.assert_allclose(last, two, rtol=1e-6)


def problem(sizes: tuple[int, ...], wide: bool, dtype: type):
    """Layers with random weights everywhere, inputs, and derivatives in the outputs."""
    rng = np.random.default_rng(4)
    layers = init_mlp(rng, sizes)
    layers = wide_last(layers) if wide else layers
    layers = tuple(
        tuple(rng.normal(size=part.shape).astype(dtype) for part in own) for own in layers
    )
    x = rng.normal(size=(17, sizes[0])).astype(dtype)
    return layers, x, rng.normal(size=(17, sizes[-1]))


SIZES = [(4, 2), (4, 5, 2), (4, 5, 3, 2), (3, 6, 6, 4, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("wide", [False, True])
def test_derivatives_are_those_of_jax(sizes: tuple[int, ...], wide: bool) -> None:
    layers, x, by_output = problem(sizes, wide, np.float64)
    units = activations(layers[:-1], x)
    with jax.enable_x64(True):
        outputs, pull = jax.vjp(lambda layers: apply_mlp(layers, jnp.asarray(x)), layers)
        (expected,) = pull(jnp.asarray(by_output))
    np.testing.assert_allclose(last_layer(layers, units), outputs, rtol=1e-12, atol=1e-13)
    found = backward(layers, units, by_output)
    assert len(found) == len(layers)
    for own, true in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert own.shape == true.shape
        np.testing.assert_allclose(own, true, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("wide", [False, True])
def test_derivatives_are_differences_of_outputs(wide: bool) -> None:
    layers, x, by_output = problem((4, 5, 3, 2), wide, np.float64)
    found = backward(layers, activations(layers[:-1], x), by_output)
    step = 1e-6
    for depth, which in ((0, 0), (0, 1), (1, 0), (2, 0), (2, 1)):
        for place in ((0, 0), (2, 1)):
            index = place if which == 0 else place[1]
            moved = []
            for sign in (1, -1):
                own = [[part.copy() for part in layer] for layer in layers]
                own[depth][which][index] += sign * step
                moved.append((by_output * apply_mlp(own, x)).sum())
            slope = (moved[0] - moved[1]) / (2 * step)
            assert found[depth][which][index] == pytest.approx(slope, rel=1e-7, abs=1e-7)


def test_derivatives_have_the_precision_of_the_layers() -> None:
    layers, x, by_output = problem((4, 5, 2), True, np.float32)
    units = activations(layers[:-1], x)
    assert all(part.dtype == np.float32 for part in units)
    np.testing.assert_array_equal(last_layer(layers, units), apply_mlp(layers, x))
    found = backward(layers, units, by_output)
    exact = backward(
        tuple(tuple(part.astype(float) for part in layer) for layer in layers),
        activations(layers[:-1], x.astype(float)),
        by_output,
    )
    for own, true in zip(jax.tree.leaves(found), jax.tree.leaves(exact), strict=True):
        assert own.dtype == np.float32
        np.testing.assert_allclose(own, true, rtol=1e-4, atol=1e-4)


def test_units_are_given_to_the_last_layer_and_left_as_they_were() -> None:
    layers, x, by_output = problem((4, 5, 3, 2), True, np.float64)
    before = x.copy()
    units = activations(layers[:-1], x)
    kept = [part.copy() for part in units]
    given = given_to_last(layers[:-1], x, 12)
    for own, other in zip(units, given, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-14)
    backward(layers, units, by_output)
    np.testing.assert_array_equal(x, before)
    for own, other in zip(units, kept, strict=True):
        np.testing.assert_array_equal(own, other)
