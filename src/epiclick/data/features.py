"""Feature vectors of items: keys in memory, a float32 matrix that may be on disk, a scaler."""

import mmap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pyarrow as pa

from epiclick.arguments import as_numbers, check_choice, shown
from epiclick.data.arrays import as_array, locate_rows
from epiclick.data.cache import stored
from epiclick.errors import InputError, InputWarning, Problem

if TYPE_CHECKING:
    from epiclick.data.feature_rows import FeatureRows

MAX_DEVIATIONS = 10.0
"""Scaled features are clipped to this many standard deviations, so that one value outside the
training range cannot dominate a prediction."""

CHUNK = 1_024  # rows in float64 at once: they fit in the processor's cache

FEW_ROWS = 100_000
"""Rows and pairs together that are matched sooner than DuckDB starts."""


def signed_log1p(x: np.ndarray) -> np.ndarray:
    """sign(x) log(1 + |x|) in float64, for features that span many orders of magnitude."""
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
        which stays accurate where E[x^2] - E[x]^2 would cancel.
        """
        matrix = _matrix(matrix)
        rows, features = matrix.shape
        if not rows:
            raise InputError(
                "a feature scaler needs at least one row of features, and got none", code="no-rows"
            )
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
        # rounding gives a constant column a tiny, meaningless deviation; its range is exactly zero
        constant = low == high
        mean = np.where(constant, low, mean)
        return cls(mean=mean, scale=np.where(constant, 1.0, np.sqrt(squares / count)))

    def transform(self, matrix: np.ndarray) -> np.ndarray:
        """Scaled features: (rows, features) float32."""
        matrix = _numbers(matrix)
        if matrix.ndim != 2 or matrix.shape[1] != len(self.mean):
            raise InputError(
                f"the scaler was fitted to {len(self.mean)} features, but got an array of shape "
                f"{matrix.shape}. Give the features the model was trained on, in the same order.",
                code="wrong-feature-count",
            )
        scaled = np.empty(matrix.shape, dtype=np.float32)
        for start in range(0, len(matrix), CHUNK):
            part = slice(start, start + CHUNK)
            standard = (signed_log1p(matrix[part]) - self.mean) / self.scale
            scaled[part] = np.clip(standard, -MAX_DEVIATIONS, MAX_DEVIATIONS)
        return scaled

    def to_dict(self) -> dict[str, list[float]]:
        """The statistics as a JSON-serialisable record, without loss."""
        return {"mean": self.mean.tolist(), "scale": self.scale.tolist()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """The scaler recorded by `to_dict`."""
        if missing := [key for key in ("mean", "scale") if key not in stored]:
            raise InputError(
                f"a stored feature scaler needs {' and '.join(missing)}. The model file is "
                "damaged: save the model again.",
                code="damaged-file",
            )
        mean, scale = (as_numbers(key, stored[key]) for key in ("mean", "scale"))
        if mean.ndim != 1 or mean.shape != scale.shape or not np.all(scale > 0):
            raise InputError(
                "a stored feature scaler needs as many positive scales as means, but has shapes "
                f"{mean.shape} and {scale.shape}. The model file is damaged: save the model again.",
                code="damaged-file",
            )
        return cls(mean=mean, scale=scale)


def _matrix(values: Any) -> np.ndarray:
    """The values, checked to be a matrix of numbers."""
    matrix = _numbers(values)
    if matrix.ndim != 2:
        raise InputError(
            "a feature scaler needs a matrix of (rows, features), not an array of shape "
            f"{matrix.shape}",
            code="not-a-matrix",
        )
    return matrix


def _numbers(values: Any) -> np.ndarray:
    """The values as an array of numbers; not copied if they are one, possibly a memory map."""
    if isinstance(values, np.ndarray) and np.issubdtype(values.dtype, np.number):
        return values
    return as_numbers("the matrix of features", values)


def _chunks(matrix: np.ndarray, chunk: int) -> Iterator[np.ndarray]:
    """Consecutive blocks of at most `chunk` rows."""
    return (matrix[start : start + chunk] for start in range(0, len(matrix), chunk))


def _not_finite(count: np.ndarray) -> InputError:
    """The error that names the features (by column number) with NaN or infinite values."""
    columns = np.flatnonzero(count)
    problem = Problem(
        what="features must be finite numbers",
        count=int(count.sum()),
        unit="value",
        examples=[f"column {column}: {count[column]:,}" for column in columns[:5]],
        remedy="Fill or drop them before the scaler is fitted.",
        code="feature-not-finite",
    )
    return InputError.of("the feature matrix", [problem])


__all__ = ["FeatureScaler", "FeatureTable", "read_features"]


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """One feature vector per (query, doc) pair.

    Attributes:
        keys: Arrow table with `query_id` and `doc_id` (int64 or string, as in the source), and, if
            the source has them, `split` (string: train, vali, test), `label` (graded relevance) and
            `new_item` (boolean: the log could not show it, as it is new since, or was not indexed).
        names: one name per feature.
        matrix: (rows, features) float32; a read-only memory map when it was read from files, so
            that it need not fit in memory.
    """

    keys: pa.Table
    names: tuple[str, ...]
    matrix: np.ndarray  # (rows, features) float32

    def __post_init__(self) -> None:
        """Check the shapes once; everything downstream relies on them."""
        if not isinstance(self.keys, pa.Table):
            raise InputError(
                f"keys must be an Arrow table with query_id and doc_id, not {shown(self.keys)}; "
                "read features of any kind with read_features(...)",
                code="invalid-type",
            )
        matrix = self.matrix
        if not isinstance(matrix, np.ndarray) or matrix.dtype != np.float32 or matrix.ndim != 2:
            raise InputError(
                "features must be a two-dimensional float32 matrix", code="not-a-matrix"
            )
        if self.matrix.shape != (self.keys.num_rows, len(self.names)):
            raise InputError(
                f"the feature matrix has shape {self.matrix.shape}, "
                f"but there are {self.keys.num_rows} keys and {len(self.names)} names",
                code="shape-mismatch",
            )

    def __len__(self) -> int:
        """Number of (query, doc) pairs."""
        return self.keys.num_rows

    def rows(self, index: Sequence[int] | np.ndarray) -> np.ndarray:
        """The vectors of the given rows, read into memory: (len(index), features) float32."""
        if isinstance(self.matrix, np.memmap) and isinstance(self.matrix.base, mmap.mmap):
            return _read_rows(self.matrix, np.asarray(index, np.int64))
        return np.asarray(self.matrix[index], dtype=np.float32)

    @cached_property
    def is_new(self) -> np.ndarray:
        """(rows,) whether the log could not show an item."""
        if "new_item" not in self.keys.column_names:
            return np.zeros(len(self), bool)
        return np.asarray(self.keys["new_item"].combine_chunks().fill_null(False))

    def locate(self, query_id: pa.Array, doc_id: pa.Array) -> np.ndarray:
        """Row of each (query, doc) pair: (pairs,) int64, -1 where the pair has no features."""
        given = {"query_id": _plain(query_id), "doc_id": _plain(doc_id)}
        own = {name: _plain(self.keys[name]) for name in given}
        differing = [
            Problem(
                f"{name} is {_kind(own[name])} in the features but {_kind(given[name])} in the "
                "pairs to be looked up, and 1 is not '1'",
                remedy="Read both the same way, such as with ids='string'.",
                code="id-types-differ",
            )
            for name in given
            if own[name].type != given[name].type
        ]
        if differing:
            raise InputError.of("features", differing)
        if len(self) + len(query_id) <= FEW_ROWS and not _has_missing(own, given):
            return locate_rows(given, own)
        return _joined(own, given)


def _has_missing(*tables: Mapping[str, pa.Array]) -> bool:
    return any(column.null_count for table in tables for column in table.values())


def _joined(own: Mapping[str, pa.Array], given: Mapping[str, pa.Array]) -> np.ndarray:
    """(given,) row of `own` with the same ids, -1 where there is none; by DuckDB, for many rows."""
    from epiclick.data.engine import connect_without_ibis

    rows, pairs = (len(each["query_id"]) for each in (own, given))
    with connect_without_ibis() as connection:
        connection.register("own", pa.table({**own, "own_row": np.arange(rows)}))
        connection.register("given", pa.table({**given, "pair": np.arange(pairs)}))
        found = connection.sql(
            "SELECT pair, own_row FROM given JOIN own USING (query_id, doc_id)"
        ).fetchnumpy()
    row = np.full(pairs, -1, np.int64)
    row[found["pair"]] = found["own_row"]
    return row


def read_features(
    source: Any,
    *,
    columns: Mapping[str, str] | None = None,
    ids: Literal["auto", "string", "integer"] = "auto",
    cache: bool = True,
) -> FeatureTable:
    """Read feature vectors: one row per (query, doc) with a column for each feature.

    Args:
        source: a Parquet, CSV or JSON-lines file, a folder or glob of them, a list of these, a
            pandas DataFrame, an Arrow or Ibis table; a FeatureTable is returned unchanged.
        columns: `query_id`, `doc_id` -> the source's own name, where the aliases do not decide.
        ids: `auto` keeps the type of the source (text files: integers if all ids are); or force a
            type.
        cache: cache the parsed values of files on disk, so that later reads map them into memory.

    `split`, `label` and `new_item` are kept with the ids; every other numeric or boolean column is
    a feature.
    """
    if isinstance(source, FeatureTable):
        return source
    check_choice("ids", ids, ("auto", "string", "integer"))
    if not isinstance(columns, Mapping | None):
        raise InputError(
            f"columns must be names, as in {{'doc_id': 'url'}}, not {shown(columns)}",
            code="invalid-type",
        )
    # slow to import, and not needed to use a FeatureTable
    import pandas as pd

    from epiclick.data.files import find_files, paths_in, refuse_changed, state_of

    def find() -> "FeatureRows":
        # not needed for a file whose features are cached
        from epiclick.data.feature_rows import FeatureRows
        from epiclick.data.sources import open_source

        return FeatureRows.find(open_source(source), columns or {}, ids)

    if isinstance(source, pd.DataFrame | pa.Table | pa.RecordBatch):
        rows = find()
        matrix, keys, meta = rows.load()
        table = FeatureTable(keys, rows.names, matrix)
    else:
        paths = paths_in(source)
        files = find_files(paths)
        before = state_of(files)

        def build(folder: Path) -> None:
            find().store(folder)
            refuse_changed(find_files(paths), before)  # a folder may have gained a file

        entry = stored(
            ", ".join(str(Path(path).absolute()) for path in paths) or "table",
            files,
            {"reader": "features", "columns": dict(columns or {}), "ids": ids},
            build,
            cache=cache and bool(paths),
        )
        meta = dict(entry.meta)
        table = FeatureTable(entry.keys, tuple(meta["names"]), entry.matrix)
    if meta["ignored"]:
        warnings.warn(
            f"{meta['source']}: columns that are not numbers, or have no name, were left out: "
            f"{', '.join(meta['ignored'])}. Encode them as numbers if they are features.",
            InputWarning,
            stacklevel=2,
        )
    warn_clipped(meta["source"], meta["clipped"])
    return table


def _read_rows(matrix: np.memmap, rows: np.ndarray) -> np.ndarray:
    """Rows of a memory-mapped file, read from the file itself, consecutive rows at once.

    Reading scattered rows through the map would load nearly all of the file: the system maps up to
    2 MB around each, which counts as memory of the process.
    """
    assert matrix.filename is not None
    rows = np.where(rows < 0, rows + len(matrix), rows)
    order = np.argsort(rows, kind="stable")
    wanted = rows[order]
    starts = np.flatnonzero(np.diff(wanted, prepend=-2) != 1)
    found = np.empty((len(rows), matrix.shape[1]), np.float32)
    width = matrix.shape[1] * matrix.itemsize
    with open(matrix.filename, "rb", buffering=0) as file:
        for start, stop in pairwise([*starts, len(rows)]):
            file.seek(matrix.offset + int(wanted[start]) * width)
            file.readinto(found[start:stop].data.cast("B"))
    result = np.empty_like(found)
    result[order] = found
    return result


def warn_clipped(source: str, clipped: Mapping[str, int]) -> None:
    """Warn of values beyond float32's range, which were clipped to it."""
    if clipped:
        named = ", ".join(f"{name}: {count:,}" for name, count in clipped.items())
        warnings.warn(
            f"{source}: {sum(clipped.values()):,} values beyond float32's range (3.4e38) were "
            f"clipped to it ({named}). Are they placeholders for missing values?",
            InputWarning,
            stacklevel=3,
        )


def _plain(ids: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Ids as one array: integers of any width as int64, text as large_string."""
    column = ids if isinstance(ids, pa.ChunkedArray) else pa.chunked_array([ids])
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return as_array(column)


def _kind(ids: pa.Array) -> str:
    """The type of ids for a message."""
    kinds = {pa.int64(): "an integer", pa.large_string(): "text"}
    return kinds.get(ids.type, str(ids.type))
