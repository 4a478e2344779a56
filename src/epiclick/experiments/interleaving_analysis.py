r"""Which ranker won: clicks on interleaved pages, credited to the ranker that picked the item.

With d_i the credited clicks of the first ranker minus those of the second on page i, the result is
their mean with an interval clustered by query (`evaluation.paired_differences`), which allows for
any correlation between pages of a query.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from epiclick.arguments import check_choice, check_level
from epiclick.comparison.ranking_rows import table_rows
from epiclick.data.arrays import as_array, locate_rows
from epiclick.data.readers import count_log
from epiclick.data.schema import LogOptions, resolve_columns
from epiclick.data.sources import open_source
from epiclick.errors import InputError, did_you_mean
from epiclick.evaluation.paired_differences import PairedDifference, paired_difference
from epiclick.experiments.interleave_rankings import NEITHER

Cluster = Literal["query", "page"]

FEWEST_CLUSTERS = 2.0
"""Effective number of queries below which pages are the clusters."""

KEYS = ("page_id", "query_id", "doc_id", "position")


@dataclass(frozen=True)
class InterleavingResult:
    """What clicks on interleaved pages say about two rankers.

    Attributes:
        name: of the first ranker.
        against: of the second.
        pages: that were analysed.
        queries: that they belong to.
        clicks: credited to the first ranker.
        clicks_against: credited to the second.
        uncredited: clicks on items of neither.
        difference: credited clicks per page of the first minus those of the second.
        low: lower end of its interval.
        high: upper end.
        wins: pages on which the first ranker got more clicks.
        losses: pages on which the second did.
        cluster: what intervals are clustered by.
        level: probability of the interval.
        notes: what was assumed.
    """

    name: str
    against: str
    pages: int
    queries: int
    clicks: int
    clicks_against: int
    uncredited: int
    difference: float
    low: float
    high: float
    wins: int
    losses: int
    cluster: Cluster
    level: float
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The verdict."""
        return self.verdict

    @property
    def ties(self) -> int:
        """Pages on which both rankers got the same clicks."""
        return self.pages - self.wins - self.losses

    @property
    def win_share(self) -> float | None:
        """Share of the pages with a winner that the first ranker won; None without any."""
        decided = self.wins + self.losses
        return self.wins / decided if decided else None

    @property
    def is_decided(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0

    @property
    def verdict(self) -> str:
        """Which ranker won, in words."""
        better = self.difference >= 0
        names = (self.name, self.against) if better else (self.against, self.name)
        ends = (self.low, self.high) if better else (-self.high, -self.low)
        share = self.win_share
        won = ""
        if share is not None:
            won = (
                f"; {names[0]} won {share if better else 1 - share:.1%} of the pages with a winner"
            )
        lead = f"{abs(self.difference):+.4f} credited clicks per page"
        interval = f"{self.level:.0%} interval {ends[0]:+.4f} to {ends[1]:+.4f}"
        if self.is_decided:
            return f"{names[0]} beats {names[1]}: {lead} ({interval}){won}."
        return f"cannot tell {names[0]} from {names[1]}: {lead} ({interval}){won}."

    def to_dict(self) -> dict[str, Any]:
        """A record for JSON."""
        own = {**vars(self), "notes": list(self.notes)}
        return own | {
            "ties": self.ties,
            "win_share": self.win_share,
            "decided": self.is_decided,
            "verdict": self.verdict,
        }


class _Credits(NamedTuple):
    """Clicks of pages, (pages, 3): credited to both rankers and to neither; and their queries."""

    clicks: np.ndarray
    query: np.ndarray


def analyse_interleaving(
    log: Any,
    pages: Any = None,
    *,
    against: str | None = None,
    cluster: Cluster = "query",
    level: float = 0.95,
    options: LogOptions | None = None,
) -> InterleavingResult:
    """Analyse the clicks on interleaved pages.

    Args:
        log: rows of page_id, query_id, doc_id, position, click and team, in any form that
            `read_log` takes; with `pages`, team is not needed.
        pages: the interleaved pages, as `interleave` made them (its `table`, or a file of it).
        against: the second ranker; default the first in alphabetical order.
        cluster: "query" for an interval that is valid beyond the queries of these pages, "page" for
            these queries alone. A single query is always analysed by page.
        level: probability of the interval.
        options: how to read the log.
    """
    check_level("level", level)
    check_choice("cluster", cluster, ("query", "page"))
    displays = _displays(log, pages, options or LogOptions())
    names = _names(displays["team"], against)
    found = _credits(displays, names)
    lead = found.clicks[:, 0] - found.clicks[:, 1]
    if len(lead) < 2:
        raise InputError("the log has a single page; analyse more", code="too-few-pages")
    interval, by = lead_interval(lead, found.query, cluster, level)
    alone = "pages of hardly more than one query: the interval is clustered by page"
    credited = found.clicks.sum(axis=0)
    return InterleavingResult(
        name=names[0],
        against=names[1],
        pages=len(lead),
        queries=int(found.query.max()) + 1,
        clicks=int(credited[0]),
        clicks_against=int(credited[1]),
        uncredited=int(credited[2]),
        difference=interval.difference,
        low=interval.low,
        high=interval.high,
        wins=int((lead > 0).sum()),
        losses=int((lead < 0).sum()),
        cluster=by,
        level=level,
        notes=(alone,) if by != cluster else (),
    )


def lead_interval(
    lead: np.ndarray, query: np.ndarray, cluster: Cluster, level: float
) -> tuple[PairedDifference, Cluster]:
    """The mean lead with its interval, and what that is clustered by.

    Args:
        lead: (pages,) credited clicks of the first ranker minus those of the second.
        query: (pages,) number of the query, each of 0, 1, ... at least once.
        cluster: "query" or "page"; pages are used where there is hardly more than one query.
        level: probability of the interval.
    """
    size = np.bincount(query)
    if (
        cluster == "query"
        and len(lead) ** 2 >= FEWEST_CLUSTERS * np.square(size, dtype=float).sum()
    ):
        return paired_difference(np.bincount(query, lead), size, level), "query"
    return paired_difference(lead, np.ones(len(lead)), level), "page"


def _displays(log: Any, pages: Any, options: LogOptions) -> pa.Table:
    """page_id, query_id, team and clicks of every display."""
    columns = open_source(log, options.header).table.columns
    if pages is None and "team" not in columns:
        raise InputError(
            f"the log has no column team{did_you_mean('team', columns)}; give the interleaved "
            "pages as well (--pages), or log the team of each item",
            code="team-missing",
        )
    context = ("position",) if pages is not None else ("position", "team")
    wanted = replace(options, context=context, part=None, page_parts=None)
    page = resolve_columns(columns, wanted).found.get("page_id")
    if page is None:
        raise InputError(
            "the log has no column for page_id, without which clicks cannot be credited to pages; "
            "name it with --column page_id=NAME",
            code="page-id-needed",
        )
    own = {**options.columns, "page_id": page}
    counts, _ = count_log(log, replace(wanted, part=page, columns=own))
    table = counts.to_table().rename_columns({"part": "page_id"})
    return table if pages is None else table.append_column("team", _joined(table, pages))


def _joined(table: pa.Table, pages: Any) -> pa.Array:
    """(displays,) team of each display, from the interleaved pages."""
    try:
        rows = table_rows(pages, LogOptions(context=("position", "team")))
    except InputError as error:
        raise error.with_message(f"interleaved pages: {error}") from error
    if "page_id" not in rows.keys.column_names or rows.by != "position":
        raise InputError(
            f"{rows.source} has no page_id or no position; give the pages that "
            "`epiclick interleave` wrote",
            code="not-interleaved-pages",
        )
    position = pa.array(rows.value).cast(pa.int64(), safe=False)
    among = {**{name: rows.keys[name] for name in KEYS[:3]}, "position": position}
    wanted = {name: table[name] for name in KEYS}
    row = locate_rows(wanted, among)
    missing = row < 0
    if missing.any():
        at = int(np.argmax(missing))
        place = ", ".join(f"{name.removesuffix('_id')} {table[name][at]}" for name in KEYS)
        known = locate_rows({"page_id": table["page_id"]}, {"page_id": among["page_id"]}) >= 0
        if not known.all():
            lost = len(pc.unique(as_array(table["page_id"]).filter(pa.array(~known))))
            raise InputError(
                f"{lost:,} of the log's pages are not among the interleaved ones, the first "
                f"{table['page_id'][int(np.argmin(known))]}; select the pages of the experiment "
                "with --where",
                code="unknown-page",
            )
        raise InputError(
            f"{int(missing.sum()):,} of the log's displays are not on the interleaved pages, "
            f"the first: {place}. Were the pages shown as they were written?",
            code="unknown-display",
        )
    return as_array(rows.keys["team"]).take(pa.array(row))


def _names(team: pa.ChunkedArray, against: str | None) -> tuple[str, str]:
    """The two rankers."""
    found = sorted(str(each) for each in pc.unique(team).to_pylist() if str(each) != NEITHER)
    if len(found) != 2:
        raise InputError(
            f"column team must name two rankers, and names {', '.join(found[:5]) or 'none'}",
            code="not-two-teams",
        )
    if against is None:
        return found[1], found[0]
    if against not in found:
        raise InputError(
            f"there is no ranker '{against}'{did_you_mean(against, found)}; the teams are "
            f"{' and '.join(found)}",
            code="unknown-ranker",
        )
    first = found[1 - found.index(against)]
    return first, against


def _credits(displays: pa.Table, names: tuple[str, str]) -> _Credits:
    page = as_array(displays["page_id"]).dictionary_encode().indices.to_numpy()
    query = as_array(displays["query_id"]).dictionary_encode().indices.to_numpy()
    text = as_array(displays["team"].cast(pa.large_string()))
    place: Mapping[str, int] = {names[0]: 0, names[1]: 1, NEITHER: 2}
    encoded = text.dictionary_encode()
    team = np.array([place[each] for each in encoded.dictionary.to_pylist()])
    shape = (page.max() + 1, 3)
    cell = page * 3 + team[encoded.indices.to_numpy()]
    clicks = np.bincount(cell, displays["clicks"].to_numpy(), shape[0] * 3).reshape(shape)
    of_page = np.zeros(shape[0], int)
    of_page[page] = query
    return _Credits(clicks, of_page)
