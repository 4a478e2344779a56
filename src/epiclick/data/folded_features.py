"""Features of a log whose queries are normalised: rows of the same query become one."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from epiclick.data.arrays import as_array, distinct
from epiclick.data.features import FeatureTable, rows_of
from epiclick.data.ids import folded
from epiclick.data.keyed_tables import IDS, joined, with_pairs
from epiclick.data.schema import LogOptions
from epiclick.errors import InputError, Problem


def like_queries(table: FeatureTable, options: LogOptions) -> FeatureTable:
    """The features with queries as a log read with these options has them.

    Rows of a query and an item that have become the same are one, and must have the same features.
    """
    if not options.normalise_queries:
        return table
    if not table.parts:
        keys, kept = _folded(table.keys, table.matrix)
        if kept is None:
            return table if keys is table.keys else replace(table, keys=keys)
        return replace(table, keys=keys, matrix=rows_of(table.matrix, kept))
    parts = []
    for part in table.parts:
        keys, kept = _folded(part.keys, part.matrix)
        matrix = part.matrix if kept is None else rows_of(part.matrix, kept)
        parts.append(part if keys is part.keys else replace(part, keys=keys, matrix=matrix))
    if all(new is old for new, old in zip(parts, table.parts, strict=True)):
        return table
    found = joined(parts, table.options)
    if table.is_open and len(table):
        own, _ = _folded(table.keys.select(IDS), None)
        found = with_pairs(found, *(as_array(own[name]) for name in IDS))
    return found if table.encoder is None else found.encoded(table.encoder.encoding)


def _folded(keys: pa.Table, matrix: Any) -> tuple[pa.Table, np.ndarray | None]:
    """Keys with normalised queries, the same if nothing changes; the rows to keep, None for all."""
    if "query_id" not in keys.column_names:
        return keys, None
    query = as_array(keys["query_id"])
    if not (pa.types.is_string(query.type) or pa.types.is_large_string(query.type)):
        return keys, None
    normalised = folded(query)
    if normalised.equals(query):
        return keys, None
    ids = [name for name in IDS if name in keys.column_names]
    changed = keys.set_column(keys.column_names.index("query_id"), "query_id", normalised)
    pairs, pair = distinct({name: as_array(changed[name]) for name in ids})
    if len(pairs) == len(keys):
        return changed, None
    first = np.full(len(pairs), len(pair))
    np.minimum.at(first, pair, np.arange(len(pair)))
    again = np.flatnonzero(first[pair] != np.arange(len(pair)))
    if matrix is not None:
        _refuse_different(keys, ids, matrix, again, first[pair[again]])
    kept = np.sort(first)
    return changed.take(kept), kept


def _refuse_different(
    keys: pa.Table, ids: list[str], matrix: Any, again: np.ndarray, before: np.ndarray
) -> None:
    """Refuse features that differ between rows which have become the same."""
    one, other = rows_of(matrix, again), rows_of(matrix, before)
    differs = np.any((one != other) & ~(np.isnan(one) & np.isnan(other)), axis=1)
    if not differs.any():
        return
    row = int(again[np.argmax(differs)])
    place = ", ".join(f"{name.removesuffix('_id')} {keys[name][row]!s}" for name in ids)
    problem = Problem(
        "one item has several vectors for queries that are the same once normalised",
        int(differs.sum()),
        "row",
        [f"({place})"],
        "Give one row for each normalised query and item, or read the log without "
        "--normalise-queries.",
        code="conflicting-features",
    )
    raise InputError.of("features", [problem])
