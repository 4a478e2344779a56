"""Counts by groups of users, pages or days, whose differences measure the uncertainty of a fit.

Displays of one user, page or day may depend on each other in ways that no click model describes.
The differences between such *clusters* show how much estimates vary nevertheless. Queries are
clusters that every log has, but recommendation logs have one query or few. Clusters are then
hashed into groups, and displays and clicks are also counted by group.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from epiclick.data.arrays import as_array, distinct
from epiclick.data.conversions import NUMBER
from epiclick.data.counted_rows import counted_rows
from epiclick.data.results import fetch
from epiclick.data.schema import CLUSTER_WORDS, LogColumns, LogOptions

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from epiclick.data.counts import ClickCounts

MOST_GROUPS = 100
"""Clusters are hashed into this many groups; fewer clusters, such as days, are groups each.

In 100 logs of 120 users coverage of 90 % intervals was 87 % with 50 groups, 89 % with 100, 90 %
with every user on its own, differences within the noise of 100 logs; costs grow with the groups.
"""

FEW_CLUSTERS = 30
"""Below this, clusters are too few for their differences to give the uncertainty of a fit."""

AUTOMATIC = {"user_id": FEW_CLUSTERS, "page_id": 5}
"""Columns whose clusters are used in place of fewer queries than this, by preference. What all
pages of a query share is no difference between pages, so that these are the last resort."""


@dataclass(frozen=True, eq=False)
class ClusterCounts:
    """Displays and clicks by groups of clusters; arrays are (entries,) each.

    Attributes:
        by: what the clusters are: `user`, `page`, or a column of the log.
        clusters: number of clusters.
        labels: of the groups: the clusters themselves, or values of a hash of them.
        pair: index of the entry's pair in the counts.
        context: index of its context there.
        group: index of its group.
        displays: how often the pair was shown in that context to that group.
        clicks: how often it was clicked there.
        part: index of its part, or None.
        conversions: how many of the clicks led to a conversion, or None.
    """

    by: str
    clusters: int
    labels: tuple[str, ...]
    pair: np.ndarray
    context: np.ndarray
    group: np.ndarray
    displays: np.ndarray
    clicks: np.ndarray
    part: np.ndarray | None = None
    conversions: np.ndarray | None = None

    def __len__(self) -> int:
        """Number of entries."""
        return len(self.pair)

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self.labels)

    @property
    def is_hashed(self) -> bool:
        """Whether groups are of several clusters."""
        return self.clusters > MOST_GROUPS and self.groups <= MOST_GROUPS

    def of_pairs(self, number: np.ndarray) -> Self:
        """With its pairs renumbered, (old pairs,), -1 for pairs that are left out."""
        return self._kept(number[self.pair] >= 0, number)

    def of_parts(self, chosen: np.ndarray, number: np.ndarray) -> Self:
        """The parts in a mask, (parts,), with their pairs renumbered, (old pairs,)."""
        assert self.part is not None
        return self._kept(chosen[self.part], number)

    def with_contexts(self, index: np.ndarray) -> Self:
        """With its contexts renumbered, (old contexts,)."""
        return replace(self, context=index[self.context])

    def without_clicks(self, contexts: np.ndarray) -> Self:
        """Without the clicks in the contexts of a mask, (contexts,)."""
        return replace(self, clicks=np.where(contexts[self.context], 0, self.clicks))

    def of_conversions(self) -> Self | None:
        """Clicks as displays in one context, and those that led to a conversion as clicks."""
        if self.conversions is None:
            return None
        outcome = replace(
            self,
            context=np.zeros_like(self.context),
            displays=self.clicks,
            clicks=self.conversions,
            part=None,
            conversions=None,
        )
        return outcome._kept(self.clicks > 0, np.arange(self.pair.max(initial=-1) + 1))

    def merged(self) -> Self:
        """With one entry per pair, context, part and group."""
        part = np.zeros_like(self.pair) if self.part is None else self.part
        order = np.lexsort((self.group, part, self.context, self.pair))
        keys = [values[order] for values in (self.pair, self.context, part, self.group)]
        new = np.ones(len(order), bool)
        new[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
        first = np.flatnonzero(new)
        if len(first) == len(order):
            return self
        entry = order[first]

        def summed(amounts: np.ndarray) -> np.ndarray:
            found: np.ndarray = np.add.reduceat(amounts[order], first)
            return found

        return replace(
            self,
            pair=self.pair[entry],
            context=self.context[entry],
            group=self.group[entry],
            displays=summed(self.displays),
            clicks=summed(self.clicks),
            part=None if self.part is None else self.part[entry],
            conversions=None if self.conversions is None else summed(self.conversions),
        )

    def _kept(self, kept: np.ndarray, number: np.ndarray) -> Self:
        """The entries of a mask, with the groups that they have left."""
        present, group = np.unique(self.group[kept], return_inverse=True)
        return replace(
            self,
            # of hashed clusters it is not known how many are left
            clusters=self.clusters if self.is_hashed else len(present),
            labels=tuple(self.labels[each] for each in present),
            pair=number[self.pair[kept]],
            context=self.context[kept],
            group=group,
            displays=self.displays[kept],
            clicks=self.clicks[kept],
            part=None if self.part is None else self.part[kept],
            conversions=None if self.conversions is None else self.conversions[kept],
        )


def read_clusters(
    rows: "ir.Table",
    columns: LogColumns,
    options: LogOptions,
    counts: "ClickCounts",
    *,
    text: bool,
) -> ClusterCounts | None:
    """Counts by groups of the clusters that the options name; None for queries.

    By default users, if queries are few, the log has the column, and its clusters are not as few;
    pages only if there are next to no queries.
    """
    for by, cluster in _candidates(rows, columns, options, counts.num_queries):
        values, size, missing = _described(rows, cluster)
        if options.cluster == "auto" and (missing or size < FEW_CLUSTERS):
            continue
        return _counted(rows, columns, options, counts, (by, values, size), text=text)
    return None


def _candidates(
    rows: "ir.Table", columns: LogColumns, options: LogOptions, queries: int
) -> "Iterator[tuple[str, ir.Value]]":
    """What clusters may be, by preference, with their columns."""
    if options.cluster == "auto":
        names = {own: word for word, own in CLUSTER_WORDS.items()}
        for own, few in AUTOMATIC.items():
            if own in columns.found and queries < few:
                yield names[own], rows[own]
    elif options.cluster_column is not None:
        yield options.cluster, rows[options.cluster_column]


def _described(rows: "ir.Table", cluster: "ir.Value") -> "tuple[ir.Value, int, int]":
    """Clusters, timestamps as their days; their number; the number of rows without one."""
    from epiclick.data.ids import TIMESTAMP

    if cluster.type().is_timestamp():
        cluster = cluster.cast("date")
    elif cluster.type().is_string():
        dated = rows.aggregate(all=cluster.re_search(TIMESTAMP).all()).to_pyarrow()["all"]
        if dated[0].as_py():
            cluster = cluster.substr(0, len("2026-01-01"))
    found = rows.aggregate(size=cluster.nunique(), missing=cluster.isnull().sum()).to_pyarrow()
    return cluster, found["size"][0].as_py(), found["missing"][0].as_py() or 0


def _counted(
    rows: "ir.Table",
    columns: LogColumns,
    options: LogOptions,
    counts: "ClickCounts",
    clusters: "tuple[str, ir.Value, int]",
    *,
    text: bool,
) -> ClusterCounts | None:
    """Counts by groups of clusters: what they are, their values, and their number."""
    from epiclick.data.counting import count_expression, page_fold, row_rules
    from epiclick.data.ids import settle_types

    by, values, size = clusters
    group = values.cast("string") if size <= MOST_GROUPS else page_fold(values, MOST_GROUPS)
    grouped = rows.mutate(cluster_group=group)
    rules = row_rules(rows, columns, options)
    table = fetch(count_expression(grouped, columns, options, rules, also=("cluster_group",)))
    # rows of a counted log may have no displays
    table = settle_types(table, columns, options, text=text).filter(pc.field("displays") > 0)
    found = counted_rows(table, counts)
    if found is None:
        return None
    labels, number = distinct({"group": as_array(table["cluster_group"])})
    return ClusterCounts(
        by,
        size,
        tuple(map(str, labels["group"].to_pylist())),
        found.pair,
        found.context,
        number,
        table["displays"].to_numpy(),
        table["clicks"].to_numpy(),
        found.part,
        table[NUMBER].to_numpy() if NUMBER in table.column_names else None,
    ).merged()  # days that were times of their own


def concat_clusters(
    several: Sequence[ClusterCounts], pages: int | None = None
) -> ClusterCounts | None:
    """All of them, pairs, contexts and parts numbered alike; None if they differ in kind.

    Groups with the same label are one: a user may be in several logs. Clusters that are too many
    together for groups of their own are hashed, as if they had been counted together. How many of
    hashed clusters are the same is not known: their number is then the largest of all; except that
    pages, of which there are `pages`, are in one log each.
    """
    if len({each.by for each in several}) > 1:
        return None
    distinct_labels = {label for each in several for label in each.labels}
    clusters = len(distinct_labels)
    if any(each.is_hashed for each in several):
        clusters = max(each.clusters for each in several)
        several = [each if each.is_hashed else _hashed(each) for each in several]
    elif clusters > MOST_GROUPS:
        several = [_hashed(each) for each in several]
    hashed = clusters > MOST_GROUPS
    if hashed and pages is not None and several[0].by == "page":
        clusters = pages
    labels = sorted(
        {label for each in several for label in each.labels}, key=int if hashed else str
    )
    place = {label: i for i, label in enumerate(labels)}
    numbers = [np.array([place[label] for label in each.labels]) for each in several]
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(each, name) for each in several])
        for name in ("pair", "context", "displays", "clicks")
    }
    parts, converted = (
        [getattr(each, name) for each in several if getattr(each, name) is not None]
        for name in ("part", "conversions")
    )
    return ClusterCounts(
        several[0].by,
        clusters,
        tuple(labels),
        group=np.concatenate([own[each.group] for own, each in zip(numbers, several, strict=True)]),
        part=np.concatenate(parts) if len(parts) == len(several) else None,
        conversions=np.concatenate(converted) if len(converted) == len(several) else None,
        **arrays,
    ).merged()


def _hashed(clusters: ClusterCounts) -> ClusterCounts:
    """Clusters that are groups each, hashed into groups as many clusters are."""
    from epiclick.data.counting import page_fold
    from epiclick.data.engine import connect

    connection = connect()
    labels = pa.table({"label": pa.array(clusters.labels, pa.string())})
    connection.con.register("epiclick_labels", labels)
    table = connection.table("epiclick_labels")
    folded = table.select("label", fold=page_fold(table.label, MOST_GROUPS)).to_pyarrow()
    fold_of = dict(zip(folded["label"].to_pylist(), folded["fold"].to_pylist(), strict=True))
    folds = sorted(set(fold_of.values()))
    number = np.array([folds.index(fold_of[label]) for label in clusters.labels], np.int64)
    return replace(clusters, labels=tuple(map(str, folds)), group=number[clusters.group])


def still_needed(
    clusters: ClusterCounts | None, options: LogOptions, queries: int
) -> ClusterCounts | None:
    """The clusters, unless queries that were too few are no longer, after counts were added."""
    if clusters is None or options.cluster != "auto":
        return clusters
    return clusters if queries < AUTOMATIC[CLUSTER_WORDS[clusters.by]] else None
