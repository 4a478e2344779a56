"""Rows of features from any source: find the columns, stream float32 values, count flaws."""

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from epiclick.data.cache import MatrixWriter, write_entry
from epiclick.data.counting import number
from epiclick.data.engine import Source, connect_without_ibis, engine_errors, stoppable
from epiclick.data.ids import as_integers, missing_in_files, settle_types, type_problems
from epiclick.data.schema import ALIASES, LogColumns, LogOptions
from epiclick.errors import InputError, Problem

if TYPE_CHECKING:
    import ibis.expr.types as ir

IDS = ("query_id", "doc_id")
FURTHER_KEYS = ("split", "label", "new_item")
BATCH = 32_768  # rows in float64 at once
MAX_FLOAT = float(np.finfo(np.float32).max)
SHOWN = 10


@dataclass(frozen=True)
class FeatureRows:
    """Where the keys and the features are in an opened source.

    Attributes:
        opened: the source.
        keys: query_id, doc_id, and those of `FURTHER_KEYS` that it has -> the source's own name.
        names: the feature columns, in the source's order.
        ignored: columns that are neither.
        ids: the requested type of ids.
    """

    opened: Source
    keys: Mapping[str, str]
    names: tuple[str, ...]
    ignored: tuple[str, ...]
    ids: Literal["auto", "string", "integer"]

    @classmethod
    def find(
        cls, opened: Source, columns: Mapping[str, str], ids: Literal["auto", "string", "integer"]
    ) -> Self:
        """Find the columns; every ambiguity is an error, never a guess."""
        table = opened.table
        keys = _key_columns(table.columns, columns, opened.name)
        found = LogColumns({name: keys[name] for name in IDS}, {}, counted=False)
        problems = type_problems(opened, table, found, LogOptions(ids=ids))
        others = [name for name in table.columns if name not in keys.values()]
        # an index column written by pandas is not a feature
        named = [name for name in others if not name.startswith("Unnamed: ")]
        with engine_errors(opened.name):
            numeric = _numeric(opened, named)
        problems += [
            missing_in_files(f"feature {name}", opened.partial[name])
            for name in numeric
            if name in opened.partial
        ]
        if not numeric:
            has = f"besides the keys there is {', '.join(others) or 'nothing'}"
            what = f"no feature column: no column contains numbers, {has}"
            problems.append(Problem(what, code="no-features"))
        if problems:
            raise InputError.of(opened.name, problems)
        ignored = tuple(name for name in others if name not in numeric)
        return cls(opened, keys, tuple(numeric), ignored, ids)

    def store(self, folder: Path) -> None:
        """Write the rows as a cache entry."""
        with MatrixWriter(folder / "matrix.npy", len(self.names)) as writer:
            keys, meta = self._stream(writer.append)
        write_entry(folder, keys, meta)

    def load(self) -> tuple[np.ndarray, pa.Table, dict[str, Any]]:
        """The rows in memory: matrix, keys, and the metadata that `store` would write."""
        parts: list[np.ndarray] = []
        keys, meta = self._stream(parts.append)
        return np.concatenate(parts), keys, meta

    def _stream(self, append: Callable[[np.ndarray], Any]) -> tuple[pa.Table, dict[str, Any]]:
        """Pass on the values in (rows, features) float32 batches; at the end refuse all flaws."""
        table = self.opened.table
        chosen = {name: table[own] for name, own in self.keys.items()}
        if "split" in chosen:
            chosen["split"] = chosen["split"].cast("string")
        if "new_item" in chosen:
            chosen["new_item"] = chosen["new_item"].cast("boolean")
        values = {f"x{i}": _float(table[name]) for i, name in enumerate(self.names)}
        tally = _Tally(self.names)
        keys = []
        with stoppable(table), engine_errors(self.opened.name), warnings.catch_warnings():
            # Ibis calls a method that DuckDB has since renamed
            warnings.filterwarnings("ignore", "fetch_record_batch", DeprecationWarning)
            for batch in table.select(**chosen, **values).to_pyarrow_batches(chunk_size=BATCH):
                # a copy, since the columns of a DuckDB batch keep each other in memory
                keys.append(batch.select(list(chosen)).take(np.arange(len(batch))))
                append(tally.check(batch, len(chosen)))
            unreadable = self.opened.unreadable()
        problems = [*unreadable, *tally.problems()]
        if not any(len(batch) for batch in keys):
            empty = Problem("there are no rows", code="no-rows")
            raise InputError.of(self.opened.name, [*problems, empty])
        joined = pa.Table.from_batches(keys)
        problems += [*_missing_ids(joined), *_repeated(joined)]
        if problems:
            raise InputError.of(self.opened.name, problems)
        meta = {
            "source": self.opened.name,
            "names": self.names,
            "ignored": self.ignored,
            "clipped": tally.clipped,
        }
        return self._settle(joined), meta

    def _settle(self, keys: pa.Table) -> pa.Table:
        """Convert the keys to their final types; ids as in a log."""
        columns = LogColumns(self.keys, {}, counted=False)
        keys = settle_types(keys, columns, LogOptions(ids=self.ids), text=self.opened.text)
        if self.opened.text and "label" in keys.column_names:
            at = keys.column_names.index("label")
            keys = keys.set_column(at, "label", _as_numbers(keys["label"]))
        return keys


def _key_columns(names: Sequence[str], columns: Mapping[str, str], source: str) -> dict[str, str]:
    """The source's own names of query_id, doc_id and those of `FURTHER_KEYS` that it has."""
    problems = []
    found = {}
    free = [name for name in names if name not in columns.values()]
    for canonical in (*IDS, *FURTHER_KEYS):
        known = ALIASES.get(canonical, (canonical,))
        matches = [name for name in free if name.lower() in known]
        if canonical in columns:
            matches = [name for name in names if name == columns[canonical]]
        if len(matches) == 1:
            found[canonical] = matches[0]
        elif matches:
            remedy = f'Decide with columns={{"{canonical}": "{matches[0]}"}}.'
            what = f"{' and '.join(matches)} could each be {canonical}"
            problems.append(Problem(what, remedy=remedy, code="ambiguous-column"))
        elif canonical in columns or canonical in IDS:
            wanted = columns.get(canonical, " or ".join(known))
            remedy = (
                f"The columns are {', '.join(names)}. Name the right one with "
                f'columns={{"{canonical}": NAME}}; use reset_index() if it is a DataFrame\'s index.'
            )
            what = f"no column for {canonical} ({wanted})"
            code = "unknown-column" if canonical in columns else "missing-column"
            problems.append(Problem(what, remedy=remedy, code=code))
    if problems:
        raise InputError.of(source, problems)
    return found


def _numeric(opened: Source, names: Sequence[str]) -> list[str]:
    """The numeric columns; a text column is numeric if most of its values are numbers."""
    table = opened.table
    typed = [n for n in names if table[n].type().is_numeric() or table[n].type().is_boolean()]
    texts = [n for n in names if n not in typed and (opened.text or n in opened.mixed)]
    if texts:
        shares = {
            f"x{i}": 2 * number(table[name]).count() > table[name].count()
            for i, name in enumerate(texts)
        }
        most = table.aggregate(**shares).to_pyarrow().to_pylist()[0]
        typed += [name for i, name in enumerate(texts) if most[f"x{i}"]]
    return [name for name in names if name in typed]


def _as_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text that is all integers or all numbers converted, other text unchanged."""
    column = as_integers(column)
    try:
        return column if pa.types.is_integer(column.type) else column.cast(pa.float64())
    except pa.ArrowInvalid:
        return column


def _float(column: "ir.Value") -> "ir.Value":
    """A column as float64; NULL where it is missing or not a number."""
    return number(column).cast("float64")


@dataclass
class _Tally:
    """Counts invalid feature values while they are streamed."""

    names: Sequence[str]
    clipped: dict[str, int] = field(default_factory=dict)
    flaws: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    first: dict[tuple[str, str], str] = field(default_factory=dict)

    def check(self, batch: pa.RecordBatch, keys: int) -> np.ndarray:
        """The features of a batch, which follow its keys: (rows, features) float32."""
        rows = np.empty((len(batch), len(self.names)), np.float32)
        for i, name in enumerate(self.names):
            column = batch.column(keys + i)
            values = column.to_numpy(zero_copy_only=False)
            finite = np.isfinite(values)
            if not finite.all():
                null = column.is_null().to_numpy(zero_copy_only=False)
                self._count("missing or not a number", name, null, batch)
                self._count("NaN", name, np.isnan(values) & ~null, batch)
                self._count("infinite", name, np.isinf(values), batch)
            beyond = int(np.sum(finite & (np.abs(values) > MAX_FLOAT)))
            if beyond:
                self.clipped[name] = self.clipped.get(name, 0) + beyond
            rows[:, i] = np.clip(values, -MAX_FLOAT, MAX_FLOAT)
        return rows

    def _count(self, flaw: str, name: str, where: np.ndarray, batch: pa.RecordBatch) -> None:
        if count := int(where.sum()):
            self.flaws[flaw][name] = self.flaws[flaw].get(name, 0) + count
            at = int(np.argmax(where))
            self.first.setdefault((flaw, name), _pair(batch, at))

    def problems(self) -> Iterator[Problem]:
        """One problem per kind of flaw, naming the features that have it."""
        for flaw, counts in self.flaws.items():
            named = [f"{name}: {n:,} ({self.first[flaw, name]})" for name, n in counts.items()]
            more = [f"and {len(named) - SHOWN} more features"] if len(named) > SHOWN else []
            yield Problem(
                f"features must be finite numbers, but are {flaw}",
                sum(counts.values()),
                "value",
                [*named[:SHOWN], *more],
                "Fill these values, or leave out the rows or the column.",
                code="feature-not-finite",
            )


def _missing_ids(keys: pa.Table) -> Iterator[Problem]:
    """Rows without an id."""
    for name in IDS:
        if count := keys[name].null_count:
            at = pc.index(keys[name].is_null(), True).as_py()
            yield Problem(
                f"{name} is missing",
                count,
                examples=[f"row {at + 1}"],
                remedy="Fill or drop them.",
                code="missing-value",
            )


def _repeated(keys: pa.Table) -> Iterator[Problem]:
    """Rows that repeat a pair."""
    rows = keys.select(list(IDS)).append_column("row", [np.arange(len(keys))])
    with connect_without_ibis() as connection:
        connection.register("keys", rows)
        repeated = connection.sql(
            "SELECT query_id, doc_id, count(*) AS times FROM keys "
            "WHERE query_id IS NOT NULL AND doc_id IS NOT NULL "
            "GROUP BY query_id, doc_id HAVING times > 1 ORDER BY min(row)"
        )
        pairs, rows_too_many = repeated.aggregate("count(*), sum(times - 1)").fetchall()[0]
        shown = repeated.limit(3).fetchall()
    if pairs:
        yield Problem(
            f"each (query, doc) pair must have one row of features, but {pairs:,} have more",
            int(rows_too_many),
            "repeated row",
            [f"(query {query}, doc {doc}) {times} times" for query, doc, times in shown],
            "Keep one row per pair.",
            code="repeated-pair",
        )


def _pair(batch: pa.RecordBatch, at: int) -> str:
    """A row's pair for a message."""
    return f"first (query {batch.column(0)[at]}, doc {batch.column(1)[at]})"
