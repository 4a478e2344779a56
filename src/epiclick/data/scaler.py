"""Raw ranking features to the scale a network likes, with the statistics of the training data."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from epiclick.arguments import as_numbers
from epiclick.errors import InputError, Problem

FURTHEST = 10.0
"""Scaled features are held within so many standard deviations: one value that was never seen in
training must not decide all by itself."""

CHUNK = 65_536  # rows held in float64 at once


def signed_log1p(x: np.ndarray) -> np.ndarray:
    """sign(x) log(1 + |x|) in float64: tames features that span many orders of magnitude."""
    x = np.asarray(x, dtype=np.float64)
    return np.copysign(np.log1p(np.abs(x)), x)


@dataclass(frozen=True, eq=False)
class FeatureScaler:
    r"""Signed logarithm, then standardised: z = (sign(x) log(1 + |x|) - mean) / scale, |z| <= 10.

    Attributes:
        mean: (features,) float64, mean of the signed logarithm over the training rows.
        scale: (features,) float64, its standard deviation (divided by n); 1 for constant features.
    """

    mean: np.ndarray  # (features,) float64
    scale: np.ndarray  # (features,) float64

    @classmethod
    def fit(cls, matrix: np.ndarray, *, chunk: int = CHUNK) -> Self:
        """Statistics of a (rows, features) matrix, which may be a memory map larger than memory.

        The chunks' means and sums of squares are merged pairwise (Chan, Golub and LeVeque 1983),
        which keeps its digits where E[x^2] - E[x]^2 would cancel.
        """
        matrix = _matrix(matrix)
        rows, features = matrix.shape
        if not rows:
            raise InputError("a feature scaler needs at least one row of features, and got none")
        count = 0
        mean, squares = np.zeros(features), np.zeros(features)
        low, high = np.full(features, np.inf), np.full(features, -np.inf)
        not_finite = np.zeros(features, dtype=np.int64)
        for part in _chunks(matrix, chunk):
            x = signed_log1p(part)
            not_finite += np.sum(~np.isfinite(x), axis=0)
            if not_finite.any():
                continue
            part_mean = x.mean(axis=0)
            shift, total = part_mean - mean, count + len(x)
            squares += ((x - part_mean) ** 2).sum(axis=0) + shift**2 * (count * len(x) / total)
            mean += shift * (len(x) / total)
            count = total
            low, high = np.minimum(low, x.min(axis=0)), np.maximum(high, x.max(axis=0))
        if not_finite.any():
            raise _not_finite(not_finite)
        # Rounding gives a constant column a tiny, meaningless deviation; its range is exactly zero.
        constant = low == high
        mean = np.where(constant, low, mean)
        return cls(mean=mean, scale=np.where(constant, 1.0, np.sqrt(squares / count)))

    def transform(self, matrix: np.ndarray) -> np.ndarray:
        """Scaled features: (rows, features) float32."""
        matrix = _numbers(matrix)
        if matrix.ndim != 2 or matrix.shape[1] != len(self.mean):
            raise InputError(
                f"the scaler was fitted to {len(self.mean)} features, but got an array of shape "
                f"{matrix.shape}. Give the features the model was trained on, in the same order."
            )
        scaled = np.empty(matrix.shape, dtype=np.float32)
        for start in range(0, len(matrix), CHUNK):
            part = slice(start, start + CHUNK)
            standard = (signed_log1p(matrix[part]) - self.mean) / self.scale
            scaled[part] = np.clip(standard, -FURTHEST, FURTHEST)
        return scaled

    def to_dict(self) -> dict[str, list[float]]:
        """The statistics as JSON can hold them, exactly."""
        return {"mean": self.mean.tolist(), "scale": self.scale.tolist()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """The scaler that `to_dict` described."""
        if missing := [key for key in ("mean", "scale") if key not in stored]:
            raise InputError(f"a stored feature scaler needs {' and '.join(missing)}")
        mean, scale = (as_numbers(key, stored[key]) for key in ("mean", "scale"))
        if mean.ndim != 1 or mean.shape != scale.shape or not np.all(scale > 0):
            raise InputError(
                "a stored feature scaler needs as many positive scales as means, but has shapes "
                f"{mean.shape} and {scale.shape}. The model file is damaged: save the model again."
            )
        return cls(mean=mean, scale=scale)


def _matrix(values: Any) -> np.ndarray:
    """The values if they are a matrix of numbers."""
    matrix = _numbers(values)
    if matrix.ndim != 2:
        raise InputError(
            f"a feature scaler needs a matrix of (rows, features), not an array of {matrix.shape}"
        )
    return matrix


def _numbers(values: Any) -> np.ndarray:
    """The values as they are, if they are an array of numbers: it may be a map of a large file."""
    if isinstance(values, np.ndarray) and np.issubdtype(values.dtype, np.number):
        return values
    return as_numbers("the matrix of features", values)


def _chunks(matrix: np.ndarray, chunk: int) -> Iterator[np.ndarray]:
    """Consecutive blocks of at most `chunk` rows."""
    return (matrix[start : start + chunk] for start in range(0, len(matrix), chunk))


def _not_finite(count: np.ndarray) -> InputError:
    """The error that names the features (by column number) which hold NaN or infinity."""
    columns = np.flatnonzero(count)
    problem = Problem(
        what="features must be finite numbers",
        count=int(count.sum()),
        unit="value",
        examples=[f"column {column}: {count[column]:,}" for column in columns[:5]],
        remedy="Fill or drop them before the scaler is fitted.",
    )
    return InputError.of("the feature matrix", [problem])
