"""The feature scaler against scikit-learn's StandardScaler, and where that would fail."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.preprocessing import StandardScaler

from epiclick.data.features import FeatureScaler

from ..raising import raises_code

FLOAT_MAX = np.finfo(np.float32).max


def raw_features(rows: int = 5_000, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack(
        [
            rng.normal(size=rows),
            rng.lognormal(5, 4, size=rows),
            -rng.lognormal(0, 3, size=rows),
            rng.integers(0, 2, rows),
            1e6 + rng.normal(size=rows),
        ],
        axis=1,
    ).astype(np.float32)


@pytest.mark.parametrize("chunk", [1, 7, 4_999, 5_000, 10**6])
def test_fit_agrees_with_scikit_learn_in_any_chunks(chunk: int) -> None:
    x = raw_features()
    logs = np.sign(x.astype(float)) * np.log1p(np.abs(x.astype(float)))
    oracle = StandardScaler().fit(logs)
    scaler = FeatureScaler.fit(x, chunk=chunk)
    np.testing.assert_allclose(scaler.mean, oracle.mean_, rtol=1e-12)
    np.testing.assert_allclose(scaler.scale, oracle.scale_, rtol=1e-9)
    np.testing.assert_allclose(scaler.transform(x), oracle.transform(logs), rtol=1e-5, atol=1e-5)


def test_fit_is_accurate_where_squares_would_cancel() -> None:
    # logs near 88.7 that differ by some 1e-7: E[x^2] - E[x]^2 has no digit left
    values = np.array([FLOAT_MAX, np.nextafter(FLOAT_MAX, np.float32(0), dtype=np.float32)])
    x = np.tile(values, 500)[:, None]
    logs = np.log1p(values.astype(np.longdouble))
    scale = float(abs(logs[0] - logs[1]) / 2)
    assert FeatureScaler.fit(x, chunk=10).scale == pytest.approx([scale], rel=1e-4)
    naive = np.log1p(x.astype(float))
    assert abs((naive**2).mean() - naive.mean() ** 2) != pytest.approx(scale**2, rel=1e-4)


@given(
    hnp.arrays(
        np.float32,
        st.tuples(st.integers(1, 30), st.integers(1, 4)),
        elements=st.floats(-FLOAT_MAX, FLOAT_MAX, width=32),
    ),
    st.integers(1, 31),
)
def test_any_finite_float32_gives_finite_scaled_features(x: np.ndarray, chunk: int) -> None:
    scaler = FeatureScaler.fit(x, chunk=chunk)
    scaled = scaler.transform(x)
    assert scaled.dtype == np.float32
    assert np.all(np.isfinite(scaled))
    # no value is farther than sqrt(n - 1) standard deviations from the mean (Samuelson 1968)
    assert np.abs(scaled).max() <= np.sqrt(len(x) - 1) * (1 + 1e-3)


@pytest.mark.parametrize("value", [0.0, -3.3, 0.1, FLOAT_MAX])
@pytest.mark.parametrize("chunk", [3, 100])
def test_constant_features_become_exactly_zero(value: float, chunk: int) -> None:
    x = np.full((1_000, 1), value, np.float32)
    scaler = FeatureScaler.fit(x, chunk=chunk)
    assert scaler.scale == 1
    assert np.all(scaler.transform(x) == 0)


def test_fit_and_transform_read_a_memory_map(tmp_path) -> None:
    x = raw_features()
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    np.testing.assert_array_equal(
        FeatureScaler.fit(mapped, chunk=100).transform(mapped),
        FeatureScaler.fit(x, chunk=100).transform(x),
    )


def test_json_keeps_the_scaler_exactly() -> None:
    x = raw_features()
    scaler = FeatureScaler.fit(x)
    again = FeatureScaler.from_dict(json.loads(json.dumps(scaler.to_dict())))
    np.testing.assert_array_equal(again.mean, scaler.mean)
    np.testing.assert_array_equal(again.scale, scaler.scale)
    np.testing.assert_array_equal(again.transform(x), scaler.transform(x))


def test_not_finite_features_are_counted_by_column() -> None:
    x = raw_features()
    x[[3, 4_999], 1] = np.nan
    x[7, 4] = -np.inf
    with raises_code("feature-not-finite") as caught:
        FeatureScaler.fit(x, chunk=100)
    assert "3 values, first column 1: 2; column 4: 1." in str(caught.value)


def test_no_rows_wrong_width_and_damaged_statistics_are_refused() -> None:
    with raises_code("no-rows"):
        FeatureScaler.fit(np.empty((0, 3), np.float32))
    scaler = FeatureScaler.fit(raw_features())
    with raises_code("wrong-feature-count") as caught:
        scaler.transform(np.zeros((2, 4), np.float32))
    assert "5 features" in str(caught.value)
    assert "(2, 4)" in str(caught.value)
    with raises_code("damaged-file"):
        FeatureScaler.from_dict({"mean": [0.0], "scale": [0.0]})
