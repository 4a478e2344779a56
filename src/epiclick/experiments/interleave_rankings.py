"""Interleaved pages of two rankers, to be shown to users."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from epiclick.arguments import is_whole, shown
from epiclick.comparison.compare_rankers import check_logs, ids_like
from epiclick.comparison.rankings import Ranking, read_ranking
from epiclick.data.arrays import distinct, locate_rows
from epiclick.data.counts import ClickCounts
from epiclick.data.placement import pages_by_kind
from epiclick.errors import InputError
from epiclick.experiments.team_draft import NOBODY, as_lists, rounds, team_draft

NEITHER = "-"
"""Name, in the column `team`, of the team of items that are credited to no ranker."""


@dataclass(frozen=True, eq=False)
class Interleaving:
    """Pages on which two rankers take turns.

    Attributes:
        names: of the rankers.
        table: page_id, query_id, doc_id, position and team, a row for each slot.
        pages: number of pages.
        queries: number of queries.
        differing: share of the pages on which the two rankers' lists differ.
        notes: what was left out.
    """

    names: tuple[str, str]
    table: pa.Table = field(repr=False)
    pages: int
    queries: int
    differing: float
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """All but the table, as a record for JSON."""
        return {
            "names": list(self.names),
            "pages": self.pages,
            "queries": self.queries,
            "slots": len(self.table),
            "differing": self.differing,
            "notes": list(self.notes),
        }


def interleave(
    rankings: Mapping[str, Any],
    *,
    pages: int = 1,
    traffic: ClickCounts | None = None,
    depth: int | None = None,
    ids: Literal["auto", "string", "integer"] = "auto",
    seed: int = 0,
) -> Interleaving:
    """Interleave two rankings by team draft.

    Every page has tosses of its own. Analyse its clicks with `analyse_interleaving`.

    Args:
        rankings: name -> query_id, doc_id and position (or score), in any form that `compare`
            takes except functions; one list for each query.
        pages: per query.
        traffic: a log; queries get as many pages as they have in it, in place of `pages`.
        depth: slots per page; default as many as the longer list has.
        ids: type of query and document ids; those of the log, if one is given, decide.
        seed: of the coins.
    """
    _check(rankings, pages, depth, seed)
    check_logs(traffic)
    like = ids if traffic is None else ids_like(traffic.query_id, traffic.doc_id)
    one, other = (
        read_ranking(source, name, ids=like, depth=depth) for name, source in rankings.items()
    )
    queries, lists, items = _common_lists(one, other)
    number, notes = np.full(len(queries), pages), _left_out(one, other, len(queries))
    if traffic is not None:
        number, more = _traffic(queries, traffic)
        notes += more
    deepest = depth or max(each.shape[1] for each in lists)
    query = np.repeat(np.arange(len(queries)), number)
    coins = np.random.default_rng([seed, 24]).random((len(query), rounds(deepest))) < 0.5
    # no page is longer than the longer of the two lists
    length = np.maximum(*((each >= 0).sum(axis=1) for each in lists))[query]
    item, team = team_draft(lists[0][query], lists[1][query], coins, deepest)
    page, place = np.nonzero((item >= 0) & (np.arange(deepest) < length[:, None]))
    named = pa.array([*rankings, NEITHER])
    table = pa.table(
        {
            "page_id": page + 1,
            "query_id": queries.take(pa.array(query[page])),
            "doc_id": items["doc_id"].combine_chunks().take(pa.array(item[page, place])),
            "position": (place + 1).astype(np.int32),
            "team": named.take(pa.array(team[page, place] % 3)),
        }
    )
    assert NOBODY % 3 == 2
    width = max(each.shape[1] for each in lists)
    padded = [_padded(each, width)[query] for each in lists]
    first, second = rankings
    return Interleaving(
        names=(first, second),
        table=table,
        pages=len(query),
        queries=int((number > 0).sum()),
        differing=float(np.any(padded[0] != padded[1], axis=1).mean()),
        notes=(*(f"'{r.name}': {note}" for r in (one, other) for note in r.notes), *notes),
    )


def _common_lists(
    one: Ranking, other: Ranking
) -> tuple[pa.Array, tuple[np.ndarray, np.ndarray], pa.Table]:
    """The queries that both have, lists of item numbers for each of them, and the items."""
    for kind in ("query", "doc"):
        if getattr(one, f"{kind}_id").type != getattr(other, f"{kind}_id").type:
            raise InputError(
                f"{kind} ids differ in type between the rankings (1 is not '1'); read both with "
                "--ids string or --ids integer (in Python: ids=...)",
                code="id-types-differ",
            )
    columns = {
        name: pa.concat_arrays([getattr(each, name) for each in (one, other)])
        for name in ("query_id", "doc_id")
    }
    items, item = distinct(columns)
    queries = []
    for each in (one, other):
        heads = each.query_id.take(pa.array(np.flatnonzero(np.diff(each.page, prepend=-1))))
        if len(heads.unique()) < len(heads):
            raise InputError(
                f"ranking '{each.name}' has several lists for a query; interleave one list per "
                "query, such as those of one device at a time",
                code="several-lists",
            )
        queries.append(heads)
    row = locate_rows({"query_id": queries[0]}, {"query_id": queries[1]})
    if not (row >= 0).any():
        raise InputError(
            "the rankings have no query in common: do their ids match?", code="no-common-query"
        )
    lists = [as_lists(one.page, item[: len(one)]), as_lists(other.page, item[len(one) :])]
    kept = np.flatnonzero(row >= 0)
    return queries[0].take(pa.array(kept)), (lists[0][kept], lists[1][row[kept]]), items


def _left_out(one: Ranking, other: Ranking, common: int) -> list[str]:
    """A note on queries that only one ranker has."""
    alone = one.lists + other.lists - 2 * common
    return [f"{alone:,} queries that only one ranker has were left out"] if alone else []


def _traffic(queries: pa.Array, log: ClickCounts) -> tuple[np.ndarray, list[str]]:
    """(queries,) pages of each query in a log."""
    counts = log.by_given()
    first = np.flatnonzero(np.diff(counts.query, prepend=-1))
    known = {"query_id": counts.query_id.take(pa.array(first))}
    row = locate_rows({"query_id": queries}, known)
    total = pages_by_kind(counts).sum(axis=1).astype(int)
    number = np.where(row >= 0, total[row], 0)
    if not number.any():
        raise InputError(
            "the log has none of the queries that both rankings have: do their ids match?",
            code="no-common-query",
        )
    missing = int((number == 0).sum())
    return number, [f"{missing:,} queries are not in the log and got no pages"] * (missing > 0)


def _padded(lists: np.ndarray, width: int) -> np.ndarray:
    return np.pad(lists, ((0, 0), (0, width - lists.shape[1])), constant_values=-1)


def _check(rankings: Any, pages: int, depth: int | None, seed: int) -> None:
    if not isinstance(rankings, Mapping) or len(rankings) != 2:
        found = f"{len(rankings)} were given" if isinstance(rankings, Mapping) else "name them"
        raise InputError(
            f"two rankings are interleaved, as in {{'new': new, 'live': live}}; {found}",
            code="not-two-rankings",
        )
    for name, source in rankings.items():
        if not (isinstance(name, str) and name.strip() and name != NEITHER):
            raise InputError(
                f"the name of a ranker must be a non-empty string other than '{NEITHER}', not "
                f"{name!r}",
                code="invalid-ranker-name",
            )
        if callable(source):
            raise InputError(
                f"ranking '{name}' is a function, which needs features; give its ranking as a "
                "table",
                code="features-needed",
            )
    if not (is_whole(pages) and pages >= 1):
        raise InputError(f"pages must be 1 or more, not {shown(pages)}", code="pages-out-of-range")
    if not (depth is None or (is_whole(depth) and depth >= 1)):
        raise InputError(f"depth must be 1 or more, not {shown(depth)}", code="depth-out-of-range")
    if not (is_whole(seed) and seed >= 0):
        raise InputError(f"seed must be 0 or more, not {shown(seed)}", code="seed-out-of-range")
