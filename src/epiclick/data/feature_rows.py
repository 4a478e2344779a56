"""Rows of features from any source: find the columns, stream float32 values, count flaws.

A table is keyed by query, by item, or by both. A text column is streamed as the numbers of its
values, which are listed first.
"""

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
from epiclick.data.feature_encoding import Category, Number
from epiclick.data.feature_options import FeatureOptions
from epiclick.data.ids import as_integers, missing_in_files, settle_types, type_problems
from epiclick.data.schema import ALIASES, LogColumns, LogOptions
from epiclick.data.snapshots import Snapshot, day_column, days_of, select_as_of
from epiclick.errors import InputError, Problem

if TYPE_CHECKING:
    import ibis.expr.types as ir

IDS = ("query_id", "doc_id")
FURTHER_KEYS = ("split", "label", "new_item")
BATCH = 32_768  # rows in float64 at once
MAX_FLOAT = float(np.finfo(np.float32).max)
SHOWN = 10
REFUSED = "Fill these values, or leave out the rows or the column."
MISSING = (
    "Fill these values, leave out the rows or the column (--ignore-feature), or impute them with "
    'their mean: --missing-values impute (in Python: missing_values="impute").'
)
REMEDIES = dict.fromkeys(("missing", "missing or not a number", "NaN"), MISSING)


@dataclass(frozen=True)
class FeatureRows:
    """Where the keys and the features are in an opened source.

    Attributes:
        opened: the source, without rows of other snapshots.
        keys: query_id, doc_id (or one of them), and those of `FURTHER_KEYS` that it has -> the
            source's own name.
        names: the feature columns, in the source's order.
        categories: those that are text -> their values -> rows that have them.
        ignored: columns that are neither.
        ids: the requested type of ids.
        options: how features are read.
        snapshot: which days are used, if the source has several.
    """

    opened: Source
    keys: Mapping[str, str]
    names: tuple[str, ...]
    categories: Mapping[str, Mapping[str, int]]
    ignored: tuple[str, ...]
    ids: Literal["auto", "string", "integer"]
    options: FeatureOptions = field(default_factory=FeatureOptions)
    snapshot: Snapshot | None = None

    @classmethod
    def find(
        cls,
        opened: Source,
        columns: Mapping[str, str],
        ids: Literal["auto", "string", "integer"],
        options: FeatureOptions | None = None,
        *,
        needs_features: bool = True,
    ) -> Self:
        """Find the columns; every ambiguity is an error, never a guess."""
        options = FeatureOptions() if options is None else options
        keys = key_columns(opened.table.columns, columns, opened.name)
        found = LogColumns({name: keys[name] for name in IDS if name in keys}, {}, counted=False)
        problems = type_problems(opened, opened.table, found, LogOptions(ids=ids))
        left_out = {name for name in options.ignore if name not in keys.values()}
        free = [n for n in opened.table.columns if n not in keys.values() and n not in left_out]
        snapshot = None
        with engine_errors(opened.name):
            day = day_column(opened, options.as_of, free)
            if day is not None:
                own = [keys[name] for name in IDS if name in keys]
                if options.as_of is None:
                    problems += _several_days(opened, day, own)
                else:
                    opened, snapshot = select_as_of(opened, day, own, options.as_of)
                    free.remove(day)
        # an index column written by pandas is not a feature
        named = [name for name in free if not name.startswith("Unnamed: ") and name != day]
        with engine_errors(opened.name):
            numeric = _numeric(opened, named, options)
            texts = _texts(opened, [name for name in named if name not in numeric], options)
            categories, too_many = _categories(opened, texts, options)
        problems += [
            missing_in_files(f"feature {name}", opened.partial[name])
            for name in (*numeric, *texts)
            if name in opened.partial
        ]
        problems += too_many
        if not (numeric or texts) and needs_features:
            has = f"besides the keys there is {', '.join(free) or 'nothing'}"
            what = f"no feature column: no column contains numbers or categories, {has}"
            problems.append(Problem(what, code="no-features"))
        if problems:
            raise InputError.of(opened.name, problems)
        names = tuple(name for name in named if name in numeric or name in categories)
        ignored = tuple(name for name in free if name not in names)
        return cls(opened, keys, names, categories, ignored, ids, options, snapshot)

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
        values = {
            f"x{i}": table[name].cast("string") if name in self.categories else _float(table[name])
            for i, name in enumerate(self.names)
        }
        lists = {name: pa.array(list(own), pa.string()) for name, own in self.categories.items()}
        tally = _Tally(self.names, lists, imputes=self.options.missing_values == "impute")
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
            "categories": {name: list(rows.items()) for name, rows in self.categories.items()},
            "missing": tally.missing,
            "snapshot": None if self.snapshot is None else vars(self.snapshot),
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


def key_columns(names: Sequence[str], columns: Mapping[str, str], source: str) -> dict[str, str]:
    """The source's own names of query_id and doc_id, one or both, and of `FURTHER_KEYS`."""
    problems = []
    found = {}
    lacking = []
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
            if canonical in columns:
                problems.append(Problem(what, remedy=remedy, code="unknown-column"))
            else:
                lacking.append(Problem(what, remedy=remedy, code="missing-column"))
    if len(lacking) == len(IDS):
        problems += lacking
    if problems:
        raise InputError.of(source, problems)
    return found


def _several_days(opened: Source, day: str, keys: Sequence[str]) -> list[Problem]:
    """The problem that keys have rows of several days, none of which was chosen."""
    table = opened.table
    times = table.group_by(keys).aggregate(times=table.count())
    if not times.filter(times.times > 1).limit(1).count().to_pyarrow().as_py():
        return []
    first, last = days_of(opened, day)
    return [
        Problem(
            f"there are snapshots of several days ({day}: {first} to {last}), and one must be "
            "chosen",
            remedy="Choose the day before the first display of the log, so that no feature is an "
            "effect of its clicks: --features-as-of DAY (in Python: as_of=DAY) uses the latest "
            "row of each key on or before that day, and latest the last of all.",
            code="snapshots-need-a-day",
        )
    ]


def _numeric(opened: Source, names: Sequence[str], options: FeatureOptions) -> list[str]:
    """The numeric columns; a text column is numeric if most of its values are numbers.

    Columns that a model knows are what they were in training.
    """
    table = opened.table
    like = {} if options.like is None else options.like.columns
    known = [name for name in names if isinstance(like.get(name), Number)]
    open_ = [name for name in names if name not in like]
    typed = [n for n in open_ if table[n].type().is_numeric() or table[n].type().is_boolean()]
    texts = [n for n in open_ if n not in typed and (opened.text or n in opened.mixed)]
    if texts:
        shares = {
            f"x{i}": 2 * number(table[name]).count() > table[name].count()
            for i, name in enumerate(texts)
        }
        most = table.aggregate(**shares).to_pyarrow().to_pylist()[0]
        typed += [name for i, name in enumerate(texts) if most[f"x{i}"]]
    return [name for name in names if name in typed or name in known]


def _texts(opened: Source, names: Sequence[str], options: FeatureOptions) -> list[str]:
    """The text columns that are categories: a model's own, or all unless text is left out."""
    if options.like is not None:
        return [name for name in names if isinstance(options.like.columns.get(name), Category)]
    if not options.max_categories:
        return []
    return [name for name in names if opened.table[name].type().is_string()]


def _categories(
    opened: Source, names: Sequence[str], options: FeatureOptions
) -> tuple[dict[str, dict[str, int]], list[Problem]]:
    """Values of text columns and their rows, in order; and columns with too many of them."""
    found, problems = {}, []
    for name in names:
        text = opened.table.select(value=opened.table[name].cast("string"))
        text = text.filter(text.value.notnull())
        counted = text.group_by("value").aggregate(rows=text.count())
        known = None if options.like is None else options.like.columns.get(name)
        if isinstance(known, Category):
            found[name] = _known_values(counted, known.values)
            continue
        distinct = counted.count().to_pyarrow().as_py()
        if distinct > options.max_categories:
            shown = counted.order_by("value").limit(3).to_pyarrow()["value"].to_pylist()
            problems.append(
                Problem(
                    f"{name} is text with {distinct:,} different values, more than the "
                    f"{options.max_categories} that become a column each",
                    examples=[repr(value) for value in shown],
                    remedy=f"Leave it out with --ignore-feature {name} (in Python: "
                    f'ignore=["{name}"]), allow more with --max-categories, or encode it as '
                    "numbers.",
                    code="too-many-categories",
                )
            )
            continue
        rows = counted.order_by("value").to_pyarrow()
        found[name] = dict(zip(*(rows[own].to_pylist() for own in ("value", "rows")), strict=True))
    return found, problems


def _known_values(counted: "ir.Table", known: Sequence[str]) -> dict[str, int]:
    """Rows with each value that a model knows, and last those with any other, under one name."""
    ours = counted.filter(counted.value.isin(list(known))).to_pyarrow()
    rows = dict(zip(*(ours[own].to_pylist() for own in ("value", "rows")), strict=True))
    values = {value: rows.get(value, 0) for value in known}
    others = counted.filter(~counted.value.isin(list(known)))
    more = others.aggregate(rows=others.rows.sum(), values=others.count()).to_pyarrow().to_pylist()
    if more[0]["values"]:
        shown = others.order_by("value").limit(3).to_pyarrow()["value"].to_pylist()
        rest = more[0]["values"] - len(shown)
        name = ", ".join(shown) + (f" and {rest:,} more" if rest else "")
        while name in values:
            name += " "
        values[name] = int(more[0]["rows"])
    return values


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
    categories: Mapping[str, pa.Array] = field(default_factory=dict)
    imputes: bool = False
    missing: dict[str, int] = field(default_factory=dict)
    clipped: dict[str, int] = field(default_factory=dict)
    flaws: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    first: dict[tuple[str, str], str] = field(default_factory=dict)

    def check(self, batch: pa.RecordBatch, keys: int) -> np.ndarray:
        """The features of a batch, which follow its keys: (rows, features) float32."""
        rows = np.empty((len(batch), len(self.names)), np.float32)
        for i, name in enumerate(self.names):
            column = batch.column(keys + i)
            null = column.is_null().to_numpy(zero_copy_only=False)
            if name in self.categories:
                self._count_missing("missing", name, null, batch)
                rows[:, i] = _numbers_of(column, self.categories[name])
                continue
            values = column.to_numpy(zero_copy_only=False)
            finite = np.isfinite(values)
            if not finite.all():
                self._count_missing("missing or not a number", name, null, batch)
                self._count_missing("NaN", name, np.isnan(values) & ~null, batch)
                self._count("infinite", name, np.isinf(values), batch)
            beyond = int(np.sum(finite & (np.abs(values) > MAX_FLOAT)))
            if beyond:
                self.clipped[name] = self.clipped.get(name, 0) + beyond
            rows[:, i] = np.clip(values, -MAX_FLOAT, MAX_FLOAT)
        return rows

    def _count_missing(
        self, flaw: str, name: str, where: np.ndarray, batch: pa.RecordBatch
    ) -> None:
        """Count missing values, which are a flaw unless they are imputed."""
        if not self.imputes:
            self._count(flaw, name, where, batch)
        elif count := int(where.sum()):
            self.missing[name] = self.missing.get(name, 0) + count

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
                f"features must be finite numbers or categories, but are {flaw}",
                sum(counts.values()),
                "value",
                [*named[:SHOWN], *more],
                REMEDIES.get(flaw, REFUSED),
                code="feature-not-finite",
            )


def _numbers_of(column: pa.Array, values: pa.Array) -> np.ndarray:
    """(rows,) number of each value; that of the last if it is not listed, NaN if missing."""
    text = column.cast(pa.string())
    number = pc.index_in(text, value_set=values).fill_null(len(values) - 1)
    found = number.to_numpy(zero_copy_only=False).astype(np.float32)
    found[text.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return found


def _missing_ids(keys: pa.Table) -> Iterator[Problem]:
    """Rows without an id."""
    for name in IDS:
        if name in keys.column_names and (count := keys[name].null_count):
            at = pc.index(keys[name].is_null(), True).as_py()
            yield Problem(
                f"{name} is missing",
                count,
                examples=[f"row {at + 1}"],
                remedy="Fill or drop them.",
                code="missing-value",
            )


WHOSE = {("query_id", "doc_id"): "(query, doc) pair", ("query_id",): "query", ("doc_id",): "item"}


def _repeated(keys: pa.Table) -> Iterator[Problem]:
    """Rows that repeat a key."""
    own = [name for name in IDS if name in keys.column_names]
    rows = keys.select(own).append_column("row", [np.arange(len(keys))])
    listed, present = ", ".join(own), " AND ".join(f"{name} IS NOT NULL" for name in own)
    with connect_without_ibis() as connection:
        connection.register("keys", rows)
        repeated = connection.sql(
            f"SELECT {listed}, count(*) AS times FROM keys WHERE {present} "
            f"GROUP BY {listed} HAVING times > 1 ORDER BY min(row)"
        )
        count, rows_too_many = repeated.aggregate("count(*), sum(times - 1)").fetchall()[0]
        shown = repeated.limit(3).fetchall()
    if count:
        lacking = [name for name in IDS if name not in own]
        known = [f"{name} ({', '.join(ALIASES[name])})" for name in lacking]
        yield Problem(
            f"each {WHOSE[tuple(own)]} must have one row of features, but {count:,} have more",
            int(rows_too_many),
            "repeated row",
            [f"{_place(dict(zip(own, row, strict=False)))} {row[-1]} times" for row in shown],
            f"Keep one row per {WHOSE[tuple(own)]}"
            + (f", or name the column of {known[0]}." if known else ".")
            + " A table of daily snapshots needs a column day and --features-as-of DAY.",
            code="repeated-pair",
        )


def _pair(batch: pa.RecordBatch, at: int) -> str:
    """A row's key for a message."""
    own = [name for name in IDS if name in batch.schema.names]
    return f"first {_place({name: batch.column(name)[at] for name in own})}"


def _place(key: Mapping[str, Any]) -> str:
    """A key for a message, such as (query 1, doc 2)."""
    named = [f"{name.removesuffix('_id')} {value}" for name, value in key.items()]
    return f"({', '.join(named)})"
