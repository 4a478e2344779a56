"""Features of a log whose queries are normalised: rows of the same query become one."""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from epiclick.data.arrays import as_array, distinct
from epiclick.data.features import FeatureTable
from epiclick.data.ids import folded
from epiclick.data.schema import LogOptions
from epiclick.errors import InputError, Problem


def like_queries(table: FeatureTable, options: LogOptions) -> FeatureTable:
    """The features with queries as a log read with these options has them.

    Rows of a query and an item that have become the same are one, and must have the same features.
    """
    if not options.normalise_queries:
        return table
    query = as_array(table.keys["query_id"])
    if not (pa.types.is_string(query.type) or pa.types.is_large_string(query.type)):
        return table
    normalised = folded(query)
    if normalised.equals(query):
        return table
    at = table.keys.column_names.index("query_id")
    keys = table.keys.set_column(at, "query_id", normalised)
    pairs, pair = distinct({name: as_array(keys[name]) for name in ("query_id", "doc_id")})
    if len(pairs) == len(keys):
        return replace(table, keys=keys)
    first = np.full(len(pairs), len(pair))
    np.minimum.at(first, pair, np.arange(len(pair)))
    again = np.flatnonzero(first[pair] != np.arange(len(pair)))
    differs = np.any(table.rows(again) != table.rows(first[pair[again]]), axis=1)
    if differs.any():
        row = int(again[np.argmax(differs)])
        problem = Problem(
            "one item has several vectors for queries that are the same once normalised",
            int(differs.sum()),
            "row",
            [f"(query {query[row]!s}, doc {keys['doc_id'][row]!s})"],
            "Give one row for each normalised query and item, or read the log without "
            "--normalise-queries.",
            code="conflicting-features",
        )
        raise InputError.of("features", [problem])
    kept = np.sort(first)
    return replace(table, keys=keys.take(kept), matrix=table.rows(kept))
