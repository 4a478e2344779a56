"""Counts by groups of clusters as columns of a file of counts: a list of groups in every row."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from epiclick.data.checksums import get, texts
from epiclick.data.clusters import ClusterCounts

if TYPE_CHECKING:
    from epiclick.data.counts import ClickCounts

COLUMNS = ("group", "displays", "clicks", "conversions")
PREFIX = "cluster_"


def cluster_columns(counts: "ClickCounts") -> dict[str, pa.Array]:
    """A list for every entry of the counts: its groups, and displays and clicks of each."""
    clusters = counts.clusters
    if clusters is None:
        return {}
    entry = np.searchsorted(_keys(counts, counts), _keys(counts, clusters))
    order = np.lexsort((clusters.group, entry))
    ends = np.searchsorted(entry[order], np.arange(len(counts.pair) + 1))
    offsets = pa.array(ends, pa.int64())
    return {
        f"{PREFIX}{name}": pa.LargeListArray.from_arrays(offsets, pa.array(amount[order]))
        for name in COLUMNS
        if (amount := getattr(clusters, name)) is not None
    }


def _keys(counts: "ClickCounts", entries: "ClickCounts | ClusterCounts") -> np.ndarray:
    """(entries,) a number for pair, context and part, ascending as the counts are."""
    part = 0 if entries.part is None else entries.part
    parts = 1 if counts.parts is None else len(counts.parts)
    found: np.ndarray = (entries.pair * len(counts.contexts) + entries.context) * parts + part
    return found


def describe_clusters(clusters: ClusterCounts | None) -> dict[str, Any] | None:
    """What a file's metadata say about its clusters."""
    if clusters is None:
        return None
    return {"by": clusters.by, "clusters": clusters.clusters, "labels": list(clusters.labels)}


def read_cluster_columns(
    rows: pa.Table, counts: "ClickCounts", described: dict[str, Any] | None
) -> ClusterCounts | None:
    """The clusters in the rows of a file, which are the entries of the counts in their order."""
    if described is None:
        return None
    lists = {
        name: rows[f"{PREFIX}{name}"].combine_chunks()
        for name in COLUMNS
        if f"{PREFIX}{name}" in rows.column_names
    }
    sizes = np.diff(lists["group"].offsets.to_numpy())
    entry = np.repeat(np.arange(len(counts.pair)), sizes)
    amounts = {name: each.flatten().to_numpy() for name, each in lists.items()}
    return ClusterCounts(
        get(described, "by", str),
        get(described, "clusters", int),
        texts(described, "labels"),
        pair=counts.pair[entry],
        context=counts.context[entry],
        part=None if counts.part is None else counts.part[entry],
        **amounts,
    )
