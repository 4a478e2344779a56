"""Displays and clicks per (query, doc, context): sufficient statistics of a log."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from epiclick.arguments import check_path, is_whole, shown
from epiclick.click_models.click_model import given_contexts
from epiclick.click_models.registry import click_model
from epiclick.data.arrays import as_array, changes, distinct, locate_rows, strictly_ascending
from epiclick.data.cluster_columns import (
    cluster_columns,
    describe_clusters,
    read_cluster_columns,
)
from epiclick.data.clusters import ClusterCounts, concat_clusters, still_needed
from epiclick.data.conversions import DECIMALS, NUMBER, VALUE, Conversions, as_decimals
from epiclick.data.counts_arguments import (
    SplitBy,
    check_join,
    check_split,
    check_table,
    chosen_pairs,
    deal_groups,
)
from epiclick.data.counts_metadata import CountsMetadata
from epiclick.data.features import FeatureTable
from epiclick.data.folded_features import like_queries
from epiclick.data.page_clicks import PageClicks, PartPages
from epiclick.data.page_lists import PageLists, concat_lists
from epiclick.data.page_sample import PageSample, concat_samples
from epiclick.data.placement import Placement, placement_in, placement_of
from epiclick.data.schema import LogOptions, either
from epiclick.data.writing import written_aside
from epiclick.errors import InputError, Problem

PARTS = {"page": "page_parts=10", "time": 'part="day"'}
"""Way to split -> the setting of `read_log` that it needs."""


@dataclass(frozen=True, eq=False)
class ClickCounts:
    """A counted click log: one entry per displayed (pair, context, part).

    Pairs are sorted by (query_id, doc_id), entries by (pair, context, part), so that two logs with
    the same rows in any order give the same counts.

    Attributes:
        query_id: (pairs,) query of each pair, int64 or string as in the log.
        doc_id: (pairs,) document of each pair, int64 or string as in the log.
        contexts: (contexts, columns) table of the contexts, in order; `position` alone by default.
            Given columns come first, then those of the click model's history.
        pair: (entries,) index of the entry's pair, ascending.
        context: (entries,) index into `contexts`.
        displays: (entries,) how often the pair was shown in that context; at least 1.
        clicks: (entries,) how often it was clicked there.
        part: (entries,) index into `parts`, or None.
        parts: the days or folds by which counts are kept separate, in order, or None.
        pages: number of pages counted, None where unknown.
        page_clicks: distribution of clicks per page, None where unknown.
        features: feature vectors; `feature_row` (pairs,) is the row of each pair.
        options: how the log was read.
        lists: distinct pages, for click models that need them; None for others.
        conversions: a second outcome of the clicks, if `options.conversion` names one; else None.
        sample: displays of some pages in their order, where pages are known and `lists` is None.
        placement: how often and how high each pair was shown, if not by these displays alone; see
            `placed`.
        clusters: the same counts by groups of users, pages or days; None where queries measure
            the uncertainty of a fit.
        part_pages: pages and their clicks for each of `parts`, None where unknown.
    """

    query_id: pa.Array
    doc_id: pa.Array
    contexts: pa.Table
    pair: np.ndarray
    context: np.ndarray
    displays: np.ndarray
    clicks: np.ndarray
    part: np.ndarray | None = None
    parts: pa.Array | None = None
    pages: int | None = None
    page_clicks: PageClicks | None = None
    features: FeatureTable | None = None
    feature_row: np.ndarray | None = None
    options: LogOptions = field(default_factory=LogOptions)
    lists: PageLists | None = None
    conversions: Conversions | None = None
    sample: PageSample | None = None
    placement: Placement | None = None
    clusters: ClusterCounts | None = None
    part_pages: PartPages | None = None

    def __post_init__(self) -> None:
        """Check the counts once; everything downstream relies on them."""
        for name in ("displays", "clicks"):
            if not np.issubdtype(getattr(self, name).dtype, np.integer):
                raise InputError(
                    f"{name} must be whole numbers; round or recount them", code="not-whole-number"
                )
        if invalid := int(np.sum((self.displays < 1) | (self.clicks < 0))):
            raise InputError(
                "displays must be at least 1 and clicks at least 0 in every entry; "
                f"{invalid:,} of {len(self.displays):,} entries have fewer",
                code="negative-count",
            )
        if exceeding := int(np.sum(self.clicks > self.displays)):
            raise InputError(
                f"clicks must not exceed displays; they do in {exceeding:,} of "
                f"{len(self.displays):,} entries. Use clip_clicks=True to cap them",
                code="clicks-exceed-displays",
            )
        if self.displays.sum(dtype=np.float64) >= 2**63:
            raise InputError(
                "the total number of displays exceeds the range of a 64-bit integer; "
                "were displays counted more than once?",
                code="too-many-displays",
            )
        if self.conversions is not None:
            self.conversions.check(self.clicks)
        assert len(self.pair) == len(self.context) == len(self.displays) == len(self.clicks)
        assert len(self.query_id) == len(self.doc_id)
        assert set(self.history) <= set(self.contexts.column_names), "counts without their history"

    # Sizes

    def __len__(self) -> int:
        """Number of (query, doc) pairs."""
        return len(self.query_id)

    def __repr__(self) -> str:
        """The size in one line."""
        known = self.conversions
        more = "" if known is None else f", {known.total:,} conversions"
        return (
            f"ClickCounts({len(self):,} pairs of {self.num_queries:,} queries, "
            f"{len(self.contexts):,} contexts ({', '.join(self.contexts.column_names)}), "
            f"{self.total_displays:,} displays, {self.total_clicks:,} clicks{more})"
        )

    def _repr_html_(self) -> str:
        """The size, for notebooks."""
        return f"<code>{escape(repr(self))}</code>"

    @cached_property
    def query(self) -> np.ndarray:
        """(pairs,) index of each pair's query: 0, 1, ... in the order of query_id."""
        return np.cumsum(changes(self.query_id)) - 1

    @property
    def num_queries(self) -> int:
        """Number of different queries."""
        return int(self.query[-1]) + 1 if len(self) else 0

    @property
    def total_displays(self) -> int:
        """Displays of all pairs in all contexts."""
        return int(self.displays.sum())

    @property
    def total_clicks(self) -> int:
        """Clicks on all pairs in all contexts."""
        return int(self.clicks.sum())

    @cached_property
    def placed(self) -> Placement:
        """How often and how high each pair was shown, in the log that these counts are of."""
        return placement_of(self) if self.placement is None else self.placement

    @property
    def _kept_placement(self) -> Placement | None:
        """Placement that parts of these counts keep; None where nothing depends on it."""
        return self.placement if self.features is None else self.placed

    def placed_by(self, earlier: "ClickCounts") -> "ClickCounts":
        """The same clicks, with the placement of the pairs in another log.

        A ranker that learns from clicks places items higher because they were clicked; exposure
        must not be an effect of the clicks that relevance is learned from. Give the log of an
        earlier time, as in

            earlier, later = counts.split(0.3, 0.7, by="time")
            model.fit(later.placed_by(earlier))

        Nothing is assumed about where pairs were shown whose query is not in the earlier log.
        """
        if not isinstance(earlier, ClickCounts):
            raise InputError(
                "placed_by takes counts of an earlier log; read_log(...) returns them",
                code="invalid-type",
            )
        found = placement_in(earlier, self.query_id, self.doc_id)
        if not np.isfinite(found.pages).any():
            raise InputError(
                "the earlier log has no query of this one: do their ids match?",
                code="no-common-query",
            )
        return replace(self, placement=found)

    # Contexts

    @property
    def history(self) -> tuple[str, ...]:
        """The context columns that are outcomes of the page, such as the last click."""
        return click_model(self.options.click_model).history

    @cached_property
    def given(self) -> tuple[pa.Table, np.ndarray]:
        """The given contexts, in order, and (contexts,) the given context of each context."""
        return given_contexts(self.contexts, self.history)

    def by_given(self) -> "ClickCounts":
        """The same counts by given contexts only, which describe where items were shown.

        Entries of one pair that differ only in history are summed; counts without history are
        returned unchanged.
        """
        if not self.history:
            return self
        contexts, index = self.given
        part = np.zeros_like(self.pair) if self.part is None else self.part
        parts = 1 if self.parts is None else len(self.parts)
        key = (self.pair * len(contexts) + index[self.context]) * parts + part
        order = np.argsort(key, kind="stable")
        first = np.flatnonzero(np.diff(key[order], prepend=-1))
        entry = order[first]
        return replace(
            self,
            contexts=contexts,
            pair=self.pair[entry],
            context=index[self.context[entry]],
            displays=np.add.reduceat(self.displays[order], first),
            clicks=np.add.reduceat(self.clicks[order], first),
            conversions=(
                None if self.conversions is None else self.conversions.summed(order, first)
            ),
            part=None if self.part is None else part[entry],
            options=replace(self.options, click_model="pbm"),
            sample=None if self.sample is None else self.sample.with_contexts(index),
            clusters=None if self.clusters is None else self.clusters.with_contexts(index),
        )

    def completed(self) -> "ClickCounts":
        """The same counts with all contexts that the click model defines for such pages."""
        contexts = click_model(self.options.click_model).complete(self.contexts)
        if contexts is self.contexts or contexts.equals(self.contexts):
            return self
        names = contexts.column_names
        index = locate_rows(*({name: t[name] for name in names} for t in (self.contexts, contexts)))
        assert np.all(index >= 0), "a complete table of contexts lacks one"
        context = index[self.context]
        # entries are in the order of (pair, context, part)
        part = np.zeros_like(self.pair) if self.part is None else self.part
        order = np.lexsort((part, context, self.pair))
        return replace(
            self,
            contexts=contexts,
            pair=self.pair[order],
            context=context[order],
            **self.amounts(order),
            sample=None if self.sample is None else self.sample.with_contexts(index),
            clusters=None if self.clusters is None else self.clusters.with_contexts(index),
        )

    def of_contexts(self, keep: np.ndarray) -> "ClickCounts":
        """The entries in some contexts, (contexts,) bool; all pairs keep their numbers."""
        entries, index = keep[self.context], np.cumsum(keep) - 1
        return replace(
            self,
            contexts=self.contexts.filter(pa.array(keep)),
            pair=self.pair[entries],
            context=index[self.context[entries]],
            **self.amounts(entries),
            pages=None,
            page_clicks=None,
            lists=None,
            sample=None,
            placement=self._kept_placement,
            clusters=None,
            part_pages=None,
        )

    def over_given(self, amounts: np.ndarray) -> np.ndarray:
        """(pairs, contexts) amounts summed to (pairs, given contexts)."""
        if not self.history:
            return amounts
        contexts, index = self.given
        total = np.zeros((len(amounts), len(contexts)), amounts.dtype)
        for context, given in enumerate(index):
            total[:, given] += amounts[:, context]
        return total

    # Views

    def by_context(self) -> pd.DataFrame:
        """Displays, clicks, conversions if counted, and click rate of each context."""
        size = len(self.contexts)
        table = self.contexts.to_pandas()
        # bincount sums in float64, exact up to 2^53 displays
        table["displays"] = np.bincount(self.context, self.displays, size).astype(np.int64)
        table["clicks"] = np.bincount(self.context, self.clicks, size).astype(np.int64)
        if self.conversions is not None:
            converted = np.bincount(self.context, self.conversions.number, size)
            table["conversions"] = converted.astype(np.int64)
        table["click_rate"] = table["clicks"] / table["displays"]
        return table

    def dense(self, pairs: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Displays and clicks of some pairs as (pairs, contexts) matrices, summed over parts."""
        wanted = np.arange(len(self)) if pairs is None else np.asarray(pairs)
        start = np.searchsorted(self.pair, wanted, side="left")
        stop = np.searchsorted(self.pair, wanted, side="right")
        row = np.repeat(np.arange(len(wanted)), stop - start)
        entry = np.arange(len(row)) + np.repeat(
            start - np.r_[0, np.cumsum(stop - start)[:-1]], stop - start
        )
        shape = (len(wanted), len(self.contexts))
        displays, clicks = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        np.add.at(displays, (row, self.context[entry]), self.displays[entry])
        np.add.at(clicks, (row, self.context[entry]), self.clicks[entry])
        return displays, clicks

    def amounts(self, entries: Any) -> dict[str, Any]:
        """Displays, clicks, conversions and parts of some entries, by index, mask or slice."""
        return {
            "displays": self.displays[entries],
            "clicks": self.clicks[entries],
            "conversions": None if self.conversions is None else self.conversions.at(entries),
            "part": None if self.part is None else self.part[entries],
        }

    def keys(self) -> pa.Table:
        """What the entries are about: query_id, doc_id, contexts, part if any."""
        columns = {"query_id": self.query_id.take(self.pair), "doc_id": self.doc_id.take(self.pair)}
        for name in self.contexts.column_names:
            columns[name] = self.contexts[name].combine_chunks().take(self.context)
        if self.part is not None and self.parts is not None:
            columns["part"] = self.parts.take(self.part)
        return pa.table(columns)

    def to_table(self) -> pa.Table:
        """The counts as rows: query_id, doc_id, contexts, part if any, displays, clicks.

        Conversions and their value follow, where they were counted.
        """
        table, more = self.keys(), {} if self.conversions is None else self.conversions.columns()
        for name, amount in {"displays": self.displays, "clicks": self.clicks, **more}.items():
            table = table.append_column(name, pa.array(amount))
        return table

    # Construction

    @classmethod
    def from_table(
        cls,
        table: pa.Table,
        *,
        context: Sequence[str] = ("position",),
        pages: int | None = None,
        page_clicks: PageClicks | None = None,
        options: LogOptions | None = None,
    ) -> "ClickCounts":
        """Counts from rows as returned by `to_table`, in any order; equal keys are summed.

        Contexts are those of `context`, then the history of the options' click model. Conversions
        and their value are read if the options name them.
        """
        history = click_model("pbm" if options is None else options.click_model).history
        if history:
            context = (*(name for name in context if name not in history), *history)
        asked = options or LogOptions()
        more = [NUMBER] * (asked.conversion is not None) + [VALUE] * (asked.value is not None)
        check_table(table, context, more)
        keys = ["query_id", "doc_id", *context, *(["part"] if "part" in table.column_names else [])]
        for name in ("displays", "clicks", *more[:1]):
            if not pa.types.is_integer(table.schema.field(name).type):
                raise InputError(
                    f"{name} must be whole numbers, not {table.schema.field(name).type}; round or "
                    "recount them",
                    code="not-whole-number",
                )
        summands = ["displays", "clicks", *more]
        table = table.select([*keys, *summands])
        if pc.any(pc.equal(table["displays"], 0)).as_py():
            table = table.filter(pc.field("displays") != 0)
        columns = {name: as_array(table[name]) for name in table.column_names}
        if not strictly_ascending([columns[key] for key in keys]):
            units = as_decimals(columns[VALUE].to_numpy()) if VALUE in columns else None
            if units is not None:
                place = table.column_names.index(VALUE)
                table = table.set_column(place, VALUE, pa.array(units))
            summed = table.group_by(keys).aggregate([(name, "sum") for name in summands])
            summed = summed.rename_columns([*keys, *summands])
            summed = summed.sort_by([(key, "ascending") for key in keys])
            columns = {name: as_array(summed[name]) for name in summed.column_names}
            if units is not None:
                columns[VALUE] = pa.array(columns[VALUE].to_numpy() / DECIMALS)

        new_pair = changes(columns["query_id"]) | changes(columns["doc_id"])
        first = np.flatnonzero(new_pair)
        contexts, context_index = distinct({name: columns[name] for name in context})
        parts, part = None, None
        if "part" in columns:
            part_table, part = distinct({"part": columns["part"]})
            parts = part_table["part"].combine_chunks()
        return cls(
            query_id=columns["query_id"].take(first),
            doc_id=columns["doc_id"].take(first),
            contexts=contexts,
            pair=np.cumsum(new_pair) - 1,
            context=context_index,
            displays=columns["displays"].to_numpy(),
            clicks=columns["clicks"].to_numpy(),
            part=part,
            parts=parts,
            pages=pages,
            page_clicks=page_clicks,
            options=options or LogOptions(context=tuple(context)),
            conversions=Conversions.of_columns(columns),
        )

    @classmethod
    def concat(cls, counts: Sequence["ClickCounts"]) -> "ClickCounts":
        """Sum counts, such as those of several days; equal keys become one entry."""
        if not isinstance(counts, Sequence) or not all(isinstance(c, cls) for c in counts):
            raise InputError(
                "concat takes a list of ClickCounts; read_log(...) returns them",
                code="invalid-type",
            )
        if not counts:
            raise InputError("concat needs at least one ClickCounts", code="nothing-to-add")
        head = counts[0]
        names = head.contexts.column_names
        if any(c.options.click_model != head.options.click_model for c in counts):
            raise InputError(
                "counts to be added must be for one click model; count the logs with the same "
                "click_model",
                code="click-models-differ",
            )
        if any(
            c.contexts.column_names != names or (c.part is None) != (head.part is None)
            for c in counts
        ):
            raise InputError(
                "counts to be added must have the same context columns and parts; count the logs "
                "with the same options",
                code="contexts-differ",
            )
        if len({(c.options.conversion, c.options.value) for c in counts}) > 1:
            raise InputError(
                "counts to be added must have the same conversions; count the logs with the same "
                "conversion and value",
                code="conversions-differ",
            )
        if any(c.features is not head.features for c in counts):
            raise InputError(
                "counts to be added must share one feature table; join it afterwards",
                code="features-differ",
            )
        if len({(c.query_id.type, c.doc_id.type) for c in counts}) > 1:
            raise InputError(
                "ids have different types in the counts (1 is not '1'); "
                "read the logs with ids='string' or ids='integer'",
                code="id-types-differ",
            )
        kinds = {(*c.contexts.schema.types, c.parts.type if c.parts else None) for c in counts}
        ways = {(c.options.part, c.options.page_parts) for c in counts}
        if len(kinds) > 1 or len(ways) > 1:
            raise InputError(
                "contexts or parts differ between the counts (in types, columns or folds); "
                "count the logs with the same options",
                code="contexts-differ",
            )
        known = [c.pages for c in counts if c.pages is not None]
        pages = sum(known) if len(known) == len(counts) else None
        total = cls.from_table(
            pa.concat_tables([c.to_table() for c in counts], promote_options="permissive"),
            context=names,
            pages=pages,
            page_clicks=PageClicks.sum([c.page_clicks for c in counts], pages or 0),
            options=replace(head.options, where=either([c.options.where for c in counts])),
        )
        if all(c.lists is not None for c in counts):
            total = replace(total, lists=_all_lists(total, counts))
        samples = [_renumbered(total, c, c.sample) for c in counts if c.sample is not None]
        if len(samples) == len(counts):
            sample = concat_samples(samples, parts=total.parts is not None)
            total = replace(total, sample=sample)
        clusters = [_renumbered(total, c, c.clusters) for c in counts if c.clusters is not None]
        if len(clusters) == len(counts):
            added = concat_clusters(clusters, total.pages)
            total = replace(total, clusters=still_needed(added, total.options, total.num_queries))
        total = total._with_part_pages(counts)
        return total if head.features is None else total.with_features(head.features)

    def _with_part_pages(self, counts: Sequence["ClickCounts"]) -> "ClickCounts":
        """With the pages of each part, given the counts that these are the sum of."""
        known = [
            (c.part_pages, locate_rows({"part": c.parts}, {"part": self.parts}))
            for c in counts
            if c.part_pages is not None and c.parts is not None and self.parts is not None
        ]
        if len(known) < len(counts) or self.parts is None:
            return self
        if any(np.any(numbers < 0) for _, numbers in known):
            return self  # parts without displays
        return self.paged_by_part(PartPages.sum(known, len(self.parts)))

    def paged_by_part(self, found: PartPages | None) -> "ClickCounts":
        """With the pages of each part, and with their clicks as those of all pages."""
        if found is None or self.pages is None:
            return self
        return replace(self, part_pages=found, page_clicks=found.summed())

    def with_features(
        self, features: FeatureTable, *, missing: Literal["error", "drop"] = "error"
    ) -> "ClickCounts":
        """Join features by (query_id, doc_id); pairs without them are an error or dropped."""
        check_join(features, missing)
        features = like_queries(features, self.options)
        features = features.including(self.query_id, self.doc_id)
        row = features.locate(self.query_id, self.doc_id)
        without = np.flatnonzero(row < 0)
        kept = self
        if len(without) and missing == "error":
            examples = [f"(query {self.query_id[i]}, doc {self.doc_id[i]})" for i in without[:3]]
            problem = Problem(
                "pairs of the log without features",
                len(without),
                "pair",
                examples,
                "Add their features, or leave these pairs out with --missing-features drop "
                '(in Python: missing_features="drop").',
                code="missing-features",
            )
            raise InputError.of("features", [problem])
        if len(without):
            kept = self.subset(np.flatnonzero(row >= 0))
            row = row[row >= 0]
            if not len(kept):
                raise InputError(
                    "no pair of the log has features: do the ids of both files agree?",
                    code="no-pair-with-features",
                )
        return replace(kept, features=features, feature_row=row)

    # Parts of counts

    def subset(self, pairs: np.ndarray | Sequence[int] | Sequence[bool]) -> "ClickCounts":
        """Only the given pairs, by index or boolean mask; in the order of the whole."""
        chosen = chosen_pairs(pairs, len(self))
        return self._of_entries(chosen[self.pair], placed=True)

    def split(
        self, *shares: float, by: SplitBy = "query", seed: int = 0
    ) -> tuple["ClickCounts", ...]:
        """Split the counts into the given shares, which must sum to 1.

        `query`: whole queries, at random. `page`: folds of pages, at random (read the log with
        `page_parts`). `time`: the earliest parts first (read it with `part`). Queries and parts are
        never divided, so the shares are met only approximately.
        """
        check_split(shares, by, seed)
        if by == "query":
            group, weight = self.query[self.pair], np.ones(self.num_queries)
        elif self.part is not None and self.parts is not None:
            if (by == "page") != (self.options.page_parts is not None):
                has = "folds of pages" if by == "time" else "parts in time"
                raise InputError(
                    f"split(by='{by}') needs other parts; these counts have {has}. Read the log "
                    f"with {PARTS[by]}",
                    code="wrong-parts",
                )
            group = self.part
            weight = np.bincount(self.part, self.displays, len(self.parts)).astype(np.float64)
        else:
            raise InputError(
                f"split(by='{by}') needs parts; read the log with {PARTS[by]}", code="no-parts"
            )
        share = deal_groups(weight, shares, by, seed)
        own = by == "query"
        found = (self._of_entries(share[group] == i, placed=own) for i in range(len(shares)))
        if by == "query":
            return tuple(found)
        return tuple(self._rest_of(share == i, each) for i, each in enumerate(found))

    def last(self, parts: int) -> "ClickCounts":
        """The last parts, such as the last 28 days, of a log that was read with `part`.

        Pages are those of these parts: a page that is in two parts counts in both.
        """
        if not is_whole(parts) or parts < 1:
            raise InputError(
                f"last takes a number of parts of 1 or more, not {shown(parts)}",
                code="invalid-last",
            )
        if self.part is None or self.parts is None or self.options.page_parts is not None:
            raise InputError(
                "the last parts can be kept only if the log has parts in time; count it with "
                '--part day (in Python: part="day")',
                code="no-parts",
            )
        shown_parts = np.unique(self.part)
        if len(shown_parts) <= parts:
            return self
        kept = np.zeros(len(self.parts), bool)
        kept[shown_parts[-parts:]] = True
        window = self._rest_of(kept, self._of_entries(kept[self.part], placed=False))
        own = None if self.part_pages is None else self.part_pages.at(np.flatnonzero(kept))
        if own is not None:
            window = replace(window, pages=int(own.pages.sum()), page_clicks=own.summed())
        # adding up drops contexts and parts without displays
        return ClickCounts.concat([window]).paged_by_part(own)

    def _rest_of(self, chosen: np.ndarray, counts: "ClickCounts") -> "ClickCounts":
        """The counts of some parts, a mask, with the pages and clusters of these parts."""
        if self.lists is None and self.sample is None and self.clusters is None:
            return counts
        number = self.numbers_in(counts)
        return replace(
            counts,
            lists=None if self.lists is None else self.lists.of_parts(chosen, number),
            sample=None if self.sample is None else self.sample.of_parts(chosen, number),
            clusters=None if self.clusters is None else self.clusters.of_parts(chosen, number),
        )

    def numbers_in(self, other: "ClickCounts") -> np.ndarray:
        """(pairs,) number of each pair in other counts; -1 for pairs that they lack."""
        names = ("query_id", "doc_id")
        return locate_rows(*({name: getattr(c, name) for name in names} for c in (self, other)))

    def _of_entries(self, keep: np.ndarray, *, placed: bool) -> "ClickCounts":
        """The entries of a mask with the pairs they need; contexts and parts keep their indices.

        Pairs stay `placed` as in the whole, or else as in these entries alone.
        """
        pairs, pair = np.unique(self.pair[keep], return_inverse=True)
        kept = self._kept_placement if placed else self.placement
        number = np.full(len(self), -1)
        number[pairs] = np.arange(len(pairs))
        return replace(
            self,
            lists=None if self.lists is None else self.lists.of_pairs(number),
            sample=None if self.sample is None else self.sample.of_pairs(number),
            clusters=None if self.clusters is None else self.clusters.of_pairs(number),
            query_id=self.query_id.take(pairs),
            doc_id=self.doc_id.take(pairs),
            pair=pair,
            context=self.context[keep],
            **self.amounts(keep),
            pages=self.pages if bool(np.all(keep)) else None,
            page_clicks=self.page_clicks if bool(np.all(keep)) else None,
            part_pages=self.part_pages if bool(np.all(keep)) else None,
            feature_row=None if self.feature_row is None else self.feature_row[pairs],
            placement=None if kept is None else kept.at(pairs),
        )

    # Files

    def to_parquet(self, path: str | Path) -> None:
        """Write the counts (not the features) as one Parquet file, read back by `from_parquet`."""
        if self.lists is not None:
            raise InputError(
                f"a {click_model(self.options.click_model).title} needs whole pages, which a file "
                "of counts does not have; fit it to the log itself",
                code="counts-without-pages",
            )
        metadata = CountsMetadata(
            tuple(self.contexts.column_names),
            self.pages,
            self.page_clicks,
            self.options,
            clusters=describe_clusters(self.clusters),
            part_pages=self.part_pages,
        )
        table = self.to_table()
        for name, lists in cluster_columns(self).items():
            table = table.append_column(name, lists)
        table = table.combine_chunks()  # how rows came to be must not show in the file
        with written_aside(check_path("path", path)) as aside:
            pq.write_table(metadata.attach(table), aside, compression="zstd")

    @classmethod
    def from_parquet(cls, path: str | Path) -> "ClickCounts":
        """Read counts written by `to_parquet`; InputError if the file is damaged or foreign."""
        if not check_path("path", path).is_file():
            raise InputError(
                f"no file at {path}; give one that to_parquet wrote", code="file-missing"
            )
        metadata = CountsMetadata.of(path)
        if metadata is None:
            raise InputError(
                f"{path} was not written by epiclick; read it with read_log", code="foreign-files"
            )
        rows = metadata.read_rows(path)
        counts = cls.from_table(
            rows,
            context=metadata.context,
            pages=metadata.pages,
            page_clicks=metadata.page_clicks,
            options=metadata.options,
        )
        clusters = read_cluster_columns(rows, counts, metadata.clusters)
        return replace(counts, clusters=clusters, part_pages=metadata.part_pages)


def _all_lists(total: ClickCounts, counts: Sequence[ClickCounts]) -> PageLists:
    """The lists of all counts, numbered as in their total."""
    found = []
    for each in counts:
        assert each.lists is not None
        given, names = total.given[0], total.given[0].column_names
        context = locate_rows(*({name: t[name] for name in names} for t in (each.given[0], given)))
        part = each.lists.part
        if part is not None and each.parts is not None and total.parts is not None:
            part = locate_rows({"part": each.parts}, {"part": total.parts})[part]
        own = each.lists.of_pairs(each.numbers_in(total))
        assert own is not None
        found.append(replace(own, given=context[own.given], part=part))
    return concat_lists(found, parts=total.parts is not None)


Numbered = TypeVar("Numbered", PageSample, ClusterCounts)


def _renumbered(total: ClickCounts, each: ClickCounts, own: Numbered) -> Numbered:
    """What belongs to some counts, numbered as in their total."""
    names = total.contexts.column_names
    tables = (each.contexts, total.contexts)
    context = locate_rows(*({name: t[name] for name in names} for t in tables))
    found = own.of_pairs(each.numbers_in(total)).with_contexts(context)
    if found.part is None or each.parts is None or total.parts is None:
        return found
    part = locate_rows({"part": each.parts}, {"part": total.parts})
    return replace(found, part=part[found.part])


def check_counts(name: str, given: Any) -> ClickCounts:
    """The counts; refuses anything else, such as a log that was not counted."""
    if isinstance(given, ClickCounts):
        return given
    raise InputError(
        f"{name} must be counts, not {shown(given)}; count the log first, as in "
        "read_log('clicks.parquet', features='features.parquet')",
        code="not-counts",
    )


def counts_of(given: Any, *, click_model: str = "pbm", name: str = "counts") -> ClickCounts:
    """The counts, or those of anything that `read_log` reads, with its default options."""
    if isinstance(given, ClickCounts):
        return given
    if given is None or isinstance(given, FeatureTable):
        return check_counts(name, given)
    try:
        from epiclick.data.readers import read_log  # which loads the engine

        return read_log(given, click_model=click_model)
    except InputError as error:
        raise error.with_message(
            f"{error}\nOptions for reading the log are those of read_log: "
            "fit(read_log(source, ...))."
        ) from error
