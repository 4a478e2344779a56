"""Tables of features keyed by query, by item or by both, joined without copying.

The rows of tables keyed by both are the candidates of their queries, and all of them are kept.
Without such a table the pairs that logs and rankings show are the only ones known. A joined row is
read from all tables at once: the features of an item are stored once, however many queries it has.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from epiclick.data.arrays import distinct
from epiclick.data.feature_encoding import Categories
from epiclick.data.feature_options import FeatureOptions
from epiclick.data.features import FeatureTable, locate_keys, plain_ids, rows_of
from epiclick.errors import InputError, Problem

IDS = ("query_id", "doc_id")
KEYED_BY = {("query_id", "doc_id"): "query and item", ("query_id",): "query", ("doc_id",): "item"}


@dataclass(frozen=True, eq=False)
class KeyedTable:
    """One table of features as it was read.

    Attributes:
        keys: Arrow table with one or both ids, and `split`, `label`, `new_item` if it has them.
        names: one name per feature; none of a table that only lists candidates.
        matrix: (rows, features) float32, see `FeatureTable`.
        categories: features that are text -> their values, in order -> rows that have them.
        missing: features with missing values -> how many.
        source: what to call it.
        as_of: the latest day of a snapshot in use.
        notes: how it was read.
    """

    keys: pa.Table
    names: tuple[str, ...]
    matrix: np.ndarray
    categories: Categories
    missing: Mapping[str, int]
    source: str
    as_of: str | None
    notes: tuple[str, ...]

    @classmethod
    def of(cls, keys: pa.Table, matrix: np.ndarray, meta: Mapping[str, Any]) -> Self:
        """From the rows and the metadata of `FeatureRows`."""
        from epiclick.data.snapshots import Snapshot

        source, missing = str(meta["source"]), dict(meta["missing"])
        notes, as_of = [], None
        if meta["snapshot"] is not None:
            snapshot = Snapshot(**meta["snapshot"])
            notes.append(snapshot.note(source))
            as_of = snapshot.last
        if missing:
            named = ", ".join(f"{name} {count:,}" for name, count in missing.items())
            notes.append(
                f"{source}: missing values of {len(keys):,} rows ({named}) are imputed with the "
                "mean of the training pairs, and marked"
            )
        return cls(
            keys=keys,
            names=tuple(meta["names"]),
            matrix=matrix,
            categories={name: dict(rows) for name, rows in meta["categories"].items()},
            missing=missing,
            source=source,
            as_of=as_of,
            notes=tuple(notes),
        )

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids that it is keyed by."""
        return tuple(name for name in IDS if name in self.keys.column_names)

    @property
    def has_pairs(self) -> bool:
        """Whether its rows are pairs of a query and an item."""
        return self.ids == IDS

    @property
    def keyed_by(self) -> str:
        """The same in words."""
        return KEYED_BY[self.ids]

    def locate(self, pairs: Mapping[str, pa.Array]) -> np.ndarray:
        """(pairs,) row of each pair; -1 where there is none."""
        return locate_keys(self.keys, {name: pairs[name] for name in self.ids})


@dataclass(frozen=True, eq=False)
class JoinedMatrix:
    """The features of pairs in several tables, read together.

    Attributes:
        parts: of the tables, (rows, features) float32 each.
        row: for each table, (pairs,) the row of a pair; -1 where it has none.
    """

    parts: tuple[np.ndarray, ...]
    row: tuple[np.ndarray, ...]
    dtype = np.dtype(np.float32)
    ndim = 2

    @property
    def shape(self) -> tuple[int, int]:
        """Pairs and features."""
        return len(self.row[0]), sum(part.shape[1] for part in self.parts)

    def rows(self, index: Sequence[int] | np.ndarray) -> np.ndarray:
        """The vectors of some pairs: (len(index), features) float32, NaN where there are none."""
        index = np.asarray(index, np.int64)
        found = np.full((len(index), self.shape[1]), np.nan, np.float32)
        at = 0
        for part, row in zip(self.parts, self.row, strict=True):
            own = row[index]
            # an item is read once, however many of the pairs it is in
            needed, place = np.unique(own, return_inverse=True)
            first = int(len(needed) > 0 and needed[0] < 0)
            values = np.full((len(needed), part.shape[1]), np.nan, np.float32)
            values[first:] = rows_of(part, needed[first:])
            found[:, at : at + part.shape[1]] = values[place]
            at += part.shape[1]
        return found


def separate(source: Any, columns: Mapping[str, str], options: FeatureOptions) -> list[Any]:
    """The tables of a source, each of them a source of its own.

    Those of a list with the same keys that share features are parts of one table.
    """
    several = list(source) if isinstance(source, list | tuple) else [source]
    if len(several) < 2:
        return several or [source]
    # slow to import, and not needed for a single table that is cached
    from epiclick.data.feature_rows import FURTHER_KEYS, key_columns
    from epiclick.data.snapshots import NAMES
    from epiclick.data.sources import open_source

    groups: list[tuple[tuple[str, ...], set[str], list[Any]]] = []
    for each in several:
        opened = open_source(each)
        names = opened.table.columns
        own = {name: column for name, column in columns.items() if column in names}
        keys = key_columns(names, own, opened.name)
        ids = tuple(name for name in IDS if name in keys)
        others = {*keys.values(), *options.ignore, *FURTHER_KEYS}
        features = {n for n in names if n not in others and n.lower() not in NAMES}
        for group in groups:
            if group[0] == ids and (group[1] & features or group[1] == features):
                group[1].update(features)
                group[2].append(each)
                break
        else:
            groups.append((ids, features, [each]))
    for _, _, members in groups:
        _check_group(members)
    return [members[0] if len(members) == 1 else members for _, _, members in groups]


def _check_group(members: Sequence[Any]) -> None:
    from epiclick.data.files import paths_in

    if len(members) > 1 and not paths_in(list(members)):
        raise InputError(
            f"{len(members)} tables of features have the same keys and the same columns; "
            "concatenate them first, such as with pandas.concat",
            code="repeated-column",
        )


def joined(parts: Sequence[KeyedTable], options: FeatureOptions) -> FeatureTable:
    """One table of all candidates; refuses features that are in two tables."""
    _check_days(parts, options)
    if len(parts) == 1 and parts[0].has_pairs:
        return _table(parts, options, parts[0].keys, parts[0].matrix, ())
    problems = _same_features(parts)
    if problems:
        raise InputError.of("features", problems)
    pairs = [part for part in parts if part.has_pairs]
    if not pairs:
        none = pa.table({name: pa.array([], pa.null()) for name in IDS})
        empty = tuple(np.zeros(0, np.int64) for _ in parts)
        matrix = JoinedMatrix(tuple(part.matrix for part in parts), empty)
        return _table(parts, options, none, matrix, parts)
    keys = _all_pairs(pairs)
    matrix = _matrix(parts, keys)
    if options.missing_values == "error" and (problems := _unmatched(parts, keys, matrix)):
        raise InputError.of("features", problems)
    return _table(parts, options, _with_further(parts, keys, matrix), matrix, parts)


def with_pairs(table: FeatureTable, query_id: pa.Array, doc_id: pa.Array) -> FeatureTable:
    """A table whose candidates are not listed, with these pairs as further ones."""
    given = {"query_id": plain_ids(query_id), "doc_id": plain_ids(doc_id)}
    known = {name: plain_ids(table.keys[name]) for name in IDS}
    if len(table):
        given = {n: pa.concat_arrays([known[n], ids]) for n, ids in given.items()}
    keys, _ = distinct(given)
    matrix = _matrix(table.parts, keys)
    found = np.stack([row >= 0 for row in matrix.row])
    imputes = table.options.missing_values == "impute"
    (kept,) = np.nonzero(found.any(axis=0) if imputes else found.all(axis=0))
    if len(kept) < len(keys):
        keys = keys.take(pa.array(kept))
        matrix = replace(matrix, row=tuple(row[kept] for row in matrix.row))
    raw = _table(
        table.parts, table.options, _with_further(table.parts, keys, matrix), matrix, table.parts
    )
    return raw if table.encoder is None else raw.encoded(table.encoder.encoding)


def _matrix(parts: Sequence[KeyedTable], keys: pa.Table) -> JoinedMatrix:
    pairs = {name: keys[name] for name in IDS}
    return JoinedMatrix(
        tuple(part.matrix for part in parts), tuple(part.locate(pairs) for part in parts)
    )


def _table(
    parts: Sequence[KeyedTable],
    options: FeatureOptions,
    keys: pa.Table,
    matrix: np.ndarray | JoinedMatrix,
    joined_parts: Sequence[KeyedTable],
) -> FeatureTable:
    missing = {name: count for part in parts for name, count in part.missing.items()}
    if isinstance(matrix, JoinedMatrix):
        for part, row in zip(parts, matrix.row, strict=True):
            if without := int(np.sum(row < 0)):
                missing |= {name: missing.get(name, 0) + without for name in part.names}
    days = [part.as_of for part in parts if part.as_of is not None]
    return FeatureTable(
        keys,
        tuple(name for part in parts for name in part.names),
        matrix,
        categories={name: own for part in parts for name, own in part.categories.items()},
        missing=missing,
        options=options,
        parts=tuple(joined_parts),
        as_of=max(days, default=None),
        notes=tuple(note for part in parts for note in part.notes),
    )


def _check_days(parts: Sequence[KeyedTable], options: FeatureOptions) -> None:
    if options.as_of is not None and all(part.as_of is None for part in parts):
        raise InputError(
            f"--features-as-of {options.as_of} (in Python: as_of): no table of features has a "
            "column of days, called day or date. Leave it out, or add one",
            code="no-snapshots",
        )


def _same_features(parts: Sequence[KeyedTable]) -> list[Problem]:
    """Features that two tables have."""
    problems: list[Problem] = []
    owner: dict[str, KeyedTable] = {}
    for part in parts:
        for name in part.names:
            if name in owner:
                problems.append(
                    Problem(
                        f"feature {name} is in {owner[name].source} (keyed by "
                        f"{owner[name].keyed_by}) and in {part.source} (keyed by {part.keyed_by})",
                        remedy="Rename one of them, or leave it out of one table.",
                        code="repeated-column",
                    )
                )
            owner[name] = part
    if not owner:
        problems.append(Problem("no table has a feature column", code="no-features"))
    return problems


def _all_pairs(pairs: Sequence[KeyedTable]) -> pa.Table:
    """Every pair that some table has, in the order of the tables."""
    first = pairs[0].keys.select(list(IDS))
    keys = pa.table({name: plain_ids(first[name]) for name in IDS})
    for part in pairs[1:]:
        own = {name: plain_ids(part.keys[name]) for name in IDS}
        new = np.flatnonzero(locate_keys(keys, own) < 0)
        if len(new):
            more = pa.table({name: own[name].take(pa.array(new)) for name in IDS})
            keys = pa.concat_tables([keys, more]).combine_chunks()
    return keys


def _unmatched(parts: Sequence[KeyedTable], keys: pa.Table, matrix: JoinedMatrix) -> list[Problem]:
    """Candidates that have no row in some table."""
    problems = []
    for part, row in zip(parts, matrix.row, strict=True):
        (without,) = np.nonzero(row < 0)
        if len(without) and part.names:
            shown = [
                "(" + ", ".join(f"{n.removesuffix('_id')} {keys[n][int(i)]}" for n in IDS) + ")"
                for i in without[:3]
            ]
            problems.append(
                Problem(
                    f"candidates have no row in {part.source}, keyed by {part.keyed_by}",
                    len(without),
                    "pair",
                    shown,
                    "Add the rows, or impute their values with --missing-values impute (in Python: "
                    'missing_values="impute").',
                    code="missing-features",
                )
            )
    return problems


def _with_further(parts: Sequence[KeyedTable], keys: pa.Table, matrix: JoinedMatrix) -> pa.Table:
    """The keys with `split`, `label` and `new_item`: of each, the first that a table has."""
    for part, row in zip(parts, matrix.row, strict=True):
        where = pa.array(row, mask=row < 0)
        for name in part.keys.column_names:
            if name in IDS:
                continue
            values = part.keys[name].combine_chunks().take(where)
            if name in keys.column_names:
                both = pc.coalesce(keys[name].combine_chunks(), values)
                keys = keys.set_column(keys.column_names.index(name), name, both)
            else:
                keys = keys.append_column(name, values)
    return keys
