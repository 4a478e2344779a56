"""Feature vectors of items: keys in memory, a float32 matrix that may be on disk, a scaler."""

import mmap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pyarrow as pa

from epiclick.arguments import as_numbers, check_choice, shown
from epiclick.data.arrays import as_array, locate_rows
from epiclick.data.cache import find_stored, stored
from epiclick.data.feature_encoding import (
    Categories,
    Category,
    FeatureEncoding,
    RowEncoder,
)
from epiclick.data.feature_options import FeatureOptions, MissingValues
from epiclick.errors import InputError, InputWarning, Problem

if TYPE_CHECKING:
    from epiclick.data.feature_rows import FeatureRows
    from epiclick.data.keyed_tables import KeyedTable

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
            that it need not fit in memory. NaN where a value is missing; of a category, the number
            of its value.
        categories: features that are text -> their values, in order -> rows that have them.
        missing: features with missing values -> how many.
        options: how the table was read.
        encoder: turns rows into numbers without missing values, where `names` are its inputs; None
            for rows as they were read.
        parts: the tables that were joined, keyed by query, item or both; none if there is only one.
        as_of: the latest day of a snapshot in use, as text.
        notes: how it was read, for the user.
    """

    keys: pa.Table
    names: tuple[str, ...]
    matrix: Any  # (rows, features) float32: an array, or a `JoinedMatrix`
    categories: Categories = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)
    options: FeatureOptions = field(default_factory=FeatureOptions)
    encoder: RowEncoder | None = None
    parts: "tuple[KeyedTable, ...]" = ()
    as_of: str | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the shapes once; everything downstream relies on them."""
        if not isinstance(self.keys, pa.Table):
            raise InputError(
                f"keys must be an Arrow table with query_id and doc_id, not {shown(self.keys)}; "
                "read features of any kind with read_features(...)",
                code="invalid-type",
            )
        matrix = self.matrix
        if not self.parts and not isinstance(matrix, np.ndarray):
            raise _not_a_matrix()
        if matrix.dtype != np.float32 or matrix.ndim != 2:
            raise _not_a_matrix()
        width = len(self.names) if self.encoder is None else len(self.encoder.columns)
        if self.matrix.shape != (self.keys.num_rows, width):
            raise InputError(
                f"the feature matrix has shape {self.matrix.shape}, "
                f"but there are {self.keys.num_rows} keys and {width} names",
                code="shape-mismatch",
            )

    def __len__(self) -> int:
        """Number of (query, doc) pairs."""
        return self.keys.num_rows

    def rows(self, index: Sequence[int] | np.ndarray) -> np.ndarray:
        """The vectors of the given rows, read into memory: (len(index), features) float32."""
        raw = self._raw(index)
        return raw if self.encoder is None else self.encoder(raw)

    def _raw(self, index: Sequence[int] | np.ndarray) -> np.ndarray:
        """Rows as they were read."""
        if isinstance(self.matrix, np.ndarray):
            return rows_of(self.matrix, index)
        return self.matrix.rows(index)

    @property
    def is_plain(self) -> bool:
        """Whether all features are numbers, and none may be missing."""
        return not self.categories and self.options.missing_values == "error"

    @property
    def is_open(self) -> bool:
        """Whether no table says which items are candidates of a query: logs and rankings do."""
        return bool(self.parts) and not any(part.has_pairs for part in self.parts)

    def including(self, query_id: pa.Array, doc_id: pa.Array) -> "FeatureTable":
        """The table with further pairs, if it is open; those without features are left out."""
        if not self.is_open:
            return self
        from epiclick.data.keyed_tables import with_pairs

        return with_pairs(self, query_id, doc_id)

    def refuse_open(self) -> None:
        """Refuse a table without pairs, where all its items are wanted."""
        if self.is_open and not len(self):
            raise InputError(
                "the features are keyed by item or query alone, so which items belong to which "
                "query is not known. Add a table of query_id and doc_id to the features (it needs "
                "no other column), or give a log",
                code="candidates-needed",
            )

    def learn_encoding(self, rows: np.ndarray) -> FeatureEncoding | None:
        """How a model trained on some rows encodes its features; None if they are plain numbers."""
        if self.encoder is not None:
            return self.encoder.encoding
        if self.is_plain:
            return None
        options = self.options
        raw = self._raw(rows)
        return FeatureEncoding.learn(
            self.names, self.categories, raw, options.missing_values, options.ignore
        )

    def encoded(self, encoding: FeatureEncoding) -> "FeatureTable":
        """The same table with a model's encoding: rows are read, encoded and passed on."""
        if self.encoder is not None and self.encoder.encoding is encoding:
            return self
        if encoding not in self._views:
            columns = self.names if self.encoder is None else self.encoder.columns
            encoder = RowEncoder.of(encoding, columns, self.categories, self.missing)
            self._views[encoding] = replace(self, names=encoding.inputs, encoder=encoder)
        return self._views[encoding]

    @cached_property
    def _views(self) -> "dict[FeatureEncoding, FeatureTable]":
        """Encoded versions of this table, so that each warns once."""
        return {}

    @cached_property
    def is_new(self) -> np.ndarray:
        """(rows,) whether the log could not show an item."""
        if "new_item" not in self.keys.column_names:
            return np.zeros(len(self), bool)
        return np.asarray(self.keys["new_item"].combine_chunks().fill_null(False))

    def locate(self, query_id: pa.Array, doc_id: pa.Array) -> np.ndarray:
        """Row of each (query, doc) pair: (pairs,) int64, -1 where the pair has no features."""
        return locate_keys(self.keys, {"query_id": query_id, "doc_id": doc_id})


def _not_a_matrix() -> InputError:
    return InputError("features must be a two-dimensional float32 matrix", code="not-a-matrix")


def locate_keys(keys: pa.Table, wanted: Mapping[str, pa.Array | pa.ChunkedArray]) -> np.ndarray:
    """Row of each of some ids: (wanted,) int64, -1 where there is none."""
    given = {name: plain_ids(ids) for name, ids in wanted.items()}
    own = {name: plain_ids(keys[name]) for name in given}
    rows = len(next(iter(given.values())))
    if not len(keys):
        return np.full(rows, -1)
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
    if len(keys) + rows <= FEW_ROWS and not _has_missing(own, given):
        return locate_rows(given, own)
    return _joined(own, given)


def _has_missing(*tables: Mapping[str, pa.Array]) -> bool:
    return any(column.null_count for table in tables for column in table.values())


def _joined(own: Mapping[str, pa.Array], given: Mapping[str, pa.Array]) -> np.ndarray:
    """(given,) row of `own` with the same ids, -1 where there is none; by DuckDB, for many rows."""
    from epiclick.data.engine import connect_without_ibis

    rows, pairs = (len(next(iter(each.values()))) for each in (own, given))
    with connect_without_ibis() as connection:
        connection.register("own", pa.table({**own, "own_row": np.arange(rows)}))
        connection.register("given", pa.table({**given, "pair": np.arange(pairs)}))
        found = connection.sql(
            f"SELECT pair, own_row FROM given JOIN own USING ({', '.join(given)})"
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
    missing_values: MissingValues | None = None,
    max_categories: int | None = None,
    ignore: Sequence[str] | str = (),
    as_of: Any = None,
    like: Any = None,
) -> FeatureTable:
    """Read feature vectors: one row per (query, doc) with a column for each feature.

    Args:
        source: a Parquet, CSV or JSON-lines file, a folder or glob of them, a
            pandas DataFrame, an Arrow or Ibis table; a FeatureTable is returned unchanged. Or a
            list of these. Tables of a list may be keyed by query, by item or by both, and are
            joined; those with the same keys and the same features are parts of one table.
        columns: `query_id`, `doc_id` -> the source's own name, where the aliases do not decide.
        ids: `auto` keeps the type of the source (text files: integers if all ids are); or force a
            type.
        cache: cache the parsed values of files on disk, so that later reads map them into memory.
        missing_values: `error` (default) refuses missing values; `impute` keeps them, and a model
            fills them with the mean of its training pairs and marks them in a further column.
        max_categories: most values of a text column (default 50), each of which becomes a column
            of 0 and 1 in a model; 0 leaves text out.
        ignore: columns to leave out.
        as_of: a day. Of a table with a column `day` (or `date`), the latest row of each key on or
            before it is used; `"latest"` for the last.
        like: a fitted model: columns are numbers or categories as in its training, and missing
            values are treated as there.

    `split`, `label` and `new_item` are kept with the ids; every other column of numbers, booleans
    or text is a feature. If no table has both ids, the candidates of a query are the items that
    logs and rankings show.
    """
    if isinstance(source, FeatureTable):
        return source
    check_choice("ids", ids, ("auto", "string", "integer"))
    if not isinstance(columns, Mapping | None):
        raise InputError(
            f"columns must be names, as in {{'doc_id': 'url'}}, not {shown(columns)}",
            code="invalid-type",
        )
    options = FeatureOptions.of(encoding_of(like), missing_values, max_categories, ignore, as_of)
    from epiclick.data.keyed_tables import joined, separate

    groups = separate(source, columns or {}, options)
    needs_features = len(groups) == 1
    read = [
        _read_table(each, columns or {}, ids, options, cache=cache, needs_features=needs_features)
        for each in groups
    ]
    table = joined(read, options)
    if table.is_open:
        warnings.warn(
            f"the features are keyed by {' and '.join(part.keyed_by for part in table.parts)} "
            "alone: the candidates of a query are then the items that the log and the rankings "
            "show. Add a table of query_id and doc_id with all candidates, if there were others",
            InputWarning,
            stacklevel=2,
        )
    return table


def encoding_of(like: Any) -> FeatureEncoding | None:
    """The encoding of a fitted model, of its contents, or itself; None without features."""
    if like is None or isinstance(like, FeatureEncoding):
        return like
    fitted = getattr(like, "fitted_", like)
    if not hasattr(fitted, "features"):
        raise InputError(f"like must be a fitted model, not {shown(like)}", code="invalid-type")
    return None if fitted.features is None else fitted.features.how


def _read_table(
    source: Any,
    columns: Mapping[str, str],
    ids: Literal["auto", "string", "integer"],
    options: FeatureOptions,
    *,
    cache: bool,
    needs_features: bool,
) -> "KeyedTable":
    """Read one table; warns of what was left out or clipped."""
    # slow to import, and not needed to use a FeatureTable
    import pandas as pd

    from epiclick.data.files import find_files, paths_in, refuse_changed, state_of
    from epiclick.data.keyed_tables import KeyedTable

    def find() -> "FeatureRows":
        # not needed for a file whose features are cached
        from epiclick.data.feature_rows import FeatureRows
        from epiclick.data.sources import open_source

        opened = open_source(source)
        return FeatureRows.find(opened, columns, ids, options, needs_features=needs_features)

    matrix: np.ndarray
    if isinstance(source, pd.DataFrame | pa.Table | pa.RecordBatch):
        matrix, keys, meta = find().load()
    else:
        paths = paths_in(source)
        files = find_files(paths)
        before = state_of(files)

        def build(folder: Path) -> None:
            find().store(folder)
            refuse_changed(find_files(paths), before)  # a folder may have gained a file

        name = ", ".join(str(Path(path).absolute()) for path in paths) or "table"
        how: dict[str, Any] = {"reader": "features", "columns": dict(columns), "ids": ids}
        how["needs_features"] = needs_features
        cache = cache and bool(paths)
        entry = None
        if cache and options.like is not None:
            # what was read without a model will do if the model takes the columns for the same
            before_model = replace(options, like=None)
            entry = find_stored(name, files, {**how, **before_model.to_dict()})
            if entry is not None and not _agree(options.like, entry.meta):
                entry = None
        if entry is None:
            entry = stored(name, files, {**how, **options.to_dict()}, build, cache=cache)
        matrix, keys, meta = entry.matrix, entry.keys, dict(entry.meta)
    if meta["ignored"]:
        warnings.warn(
            f"{meta['source']}: columns that are neither numbers nor categories, or have no name, "
            f"were left out: {', '.join(meta['ignored'])}. Encode them as numbers if they are "
            "features, or name them with --ignore-feature (in Python: ignore).",
            InputWarning,
            stacklevel=3,
        )
    warn_clipped(meta["source"], meta["clipped"])
    return KeyedTable.of(keys, matrix, meta)


def _agree(like: FeatureEncoding, meta: Mapping[str, Any]) -> bool:
    """Whether a table has the categories of a model, and no others."""
    own = {name for name, column in like.columns.items() if isinstance(column, Category)}
    return own == set(meta["categories"]) and not set(meta["names"]) & set(like.ignored)


def rows_of(matrix: np.ndarray, index: Sequence[int] | np.ndarray) -> np.ndarray:
    """Rows of a matrix, read into memory."""
    if matrix.shape[1] and isinstance(matrix, np.memmap) and isinstance(matrix.base, mmap.mmap):
        return _read_rows(matrix, np.asarray(index, np.int64))
    return np.asarray(matrix[index], dtype=np.float32)


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
            stacklevel=4,
        )


def plain_ids(ids: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Ids as one array: integers of any width as int64, text as large_string."""
    column = ids if isinstance(ids, pa.ChunkedArray) else pa.chunked_array([ids])
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return as_array(column)


def _kind(ids: pa.Array) -> str:
    """The type of ids for a message."""
    kinds = {pa.int64(): "an integer", pa.large_string(): "text"}
    return kinds.get(ids.type, str(ids.type))
