import jax
import jax.numpy as jnp
import numpy as np
import pytest

from epiclick.relevance.network import apply_mlp, given_to_last, init_mlp, wide_last


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
