r"""The slots of all rankers as arrays: ranker, item, context and weight of each.

With w the share of pages that a list stands for, reach_k the share of those that display slot k,
and zeta the relevance of the item there,

.. math:: \text{clicks} = \sum_k w\, \text{reach}_k\, \theta_k\, \zeta_k, \quad
          \text{first} = \sum_{k = 1} w\, \text{reach}_k\, \theta_k\, \zeta_k, \quad
          \text{gain} = \sum_k \frac{w\, \zeta_k}{\log_2(1 + k)}.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from epiclick.comparison.page_layout import PageLayout
from epiclick.comparison.rankings import Ranking
from epiclick.data.arrays import distinct, locate_rows
from epiclick.data.counts import ClickCounts
from epiclick.data.placement import displays_by_query, kinds_of, pages_by_kind
from epiclick.errors import InputError, Problem
from epiclick.fitted.prediction import given_contexts_of
from epiclick.fitted.state import FittedModel, given_of


@dataclass(frozen=True, eq=False)
class Traffic:
    """Pages of a log by kind of list: its query, and its contexts except the position.

    Only given contexts matter: clicks above a slot change neither pages nor reach.

    Attributes:
        keys: query_id and contexts of each kind of list, a row each.
        pages: (kinds,) pages of each kind.
        reach: (model's given contexts,) share of the pages of its kind that displayed each context.
    """

    keys: pa.Table
    pages: np.ndarray
    reach: np.ndarray


def traffic_of(fitted: FittedModel, counts: ClickCounts) -> Traffic:
    """Traffic of a log."""
    contexts, _ = counts.given
    index = given_contexts_of(fitted, contexts)
    kinds, kind = kinds_of(contexts, counts.options.slot)
    displays, pages = displays_by_query(counts), pages_by_kind(counts)
    row, column = np.nonzero(pages)
    first = np.flatnonzero(np.diff(counts.query, prepend=-1))
    keys = {"query_id": counts.query_id.take(pa.array(first[row]))}
    keys |= {
        name: kinds[name].combine_chunks().take(pa.array(column)) for name in kinds.column_names
    }
    share = displays.sum(axis=0) / np.maximum(pages.sum(axis=0)[kind], 1)
    reach = np.zeros(len(given_of(fitted)[0]))
    reach[index[index >= 0]] = share[index >= 0]
    return Traffic(pa.table(keys), pages[row, column], reach)


@dataclass(frozen=True, eq=False)
class Slots:
    """All slots that are compared; (slots,) each unless noted.

    Attributes:
        ranker: number of the ranker.
        page: number of the list; slots of a list are consecutive, from top to bottom.
        query_id: the query.
        doc_id: the item.
        given: index of the given context among the model's (`given_of`).
        position: of the slot.
        weight: share of the pages that the slot's list stands for; those of a ranker's lists add up
            to 1.
        reach: share of those pages that display the slot.
        queries: number of queries compared.
        notes: what was left out or assumed.
    """

    ranker: np.ndarray
    page: np.ndarray
    query_id: pa.Array
    doc_id: pa.Array
    given: np.ndarray
    position: np.ndarray
    weight: np.ndarray
    reach: np.ndarray
    queries: int
    notes: tuple[str, ...]


def slots_of(
    fitted: FittedModel,
    rankings: Sequence[Ranking],
    traffic: Traffic | None,
    *,
    uniform: bool = False,
    extrapolate: bool = False,
) -> Slots:
    """Slots of the lists that all rankers have, weighted.

    Args:
        fitted: the model, which has the contexts.
        rankings: one per ranker.
        traffic: of the log; without it all queries are weighted equally and all slots displayed.
        uniform: weight all queries equally, whatever their traffic.
        extrapolate: give positions deeper than the model's the bias of its deepest one.
    """
    layout = PageLayout.of(fitted)
    contexts, notes = _contexts(layout, rankings, extrapolate=extrapolate)
    weights, kept = _list_weights(layout, rankings, traffic, uniform=uniform)
    notes += kept
    reach = np.ones(len(given_of(fitted)[0])) if traffic is None else traffic.reach
    parts = []
    for number, (ranking, own, weight) in enumerate(zip(rankings, contexts, weights, strict=True)):
        rows = np.flatnonzero(weight[ranking.page] > 0)
        parts.append((number, ranking, rows, own[rows], weight[ranking.page[rows]]))
    ends = np.cumsum([0, *(ranking.lists for ranking in rankings)])
    page = [
        end + ranking.page[rows] for end, (_, ranking, rows, _, _) in zip(ends, parts, strict=False)
    ]
    position = [ranking.position[rows] for _, ranking, rows, _, _ in parts]
    given = np.concatenate([each[3] for each in parts])
    if not reach[given].any():
        raise InputError(
            "the log displays none of the positions that the rankings fill, so nothing they show "
            "would be seen: is it the log of these pages?",
            code="positions-not-displayed",
        )
    query_id = pa.concat_arrays([r.query_id.take(pa.array(rows)) for _, r, rows, _, _ in parts])
    return Slots(
        ranker=np.concatenate([np.full(len(each[2]), each[0]) for each in parts]),
        page=np.concatenate(page),
        query_id=query_id,
        doc_id=pa.concat_arrays([r.doc_id.take(pa.array(rows)) for _, r, rows, _, _ in parts]),
        given=given,
        position=np.concatenate(position),
        weight=np.concatenate([each[4] for each in parts]),
        reach=reach[given],
        queries=len(query_id.unique()),
        notes=tuple(notes),
    )


def _contexts(
    layout: PageLayout, rankings: Sequence[Ranking], *, extrapolate: bool
) -> tuple[list[np.ndarray], list[str]]:
    """Index of each slot's given context among the model's, and what was assumed."""
    names, depth = layout.names, layout.depth
    known = {name: layout.contexts[name] for name in names}
    found, notes, problems = [], [], []
    for ranking in rankings:
        index = locate_rows({name: ranking.contexts[name] for name in names}, known)
        position = layout.position_of(ranking.contexts)
        deep = (index < 0) & (position > depth)
        if extrapolate and deep.any():
            below = ranking.contexts.take(np.flatnonzero(deep))
            last = {name: below[name] for name in layout.others}
            last |= layout.cells(np.full(deep.sum(), depth))
            index[deep] = locate_rows({name: last[name] for name in names}, known)
            notes.append(
                f"'{ranking.name}': {deep.sum():,} slots are deeper than position {depth}, the "
                "last that the model knows; they are assumed to have its position bias"
            )
            deep = (index < 0) & deep
        rows = np.flatnonzero((index < 0) & ~deep)
        if deep.any():
            problems.append(
                Problem(
                    f"ranking '{ranking.name}' has positions deeper than {depth}, the last that "
                    "the model knows",
                    int(deep.sum()),
                    "slot",
                    [f"position {position[np.flatnonzero(deep)[0]]}"],
                    f"Cut them with --depth {depth} (in Python: depth={depth}), or give them the "
                    "bias of the last one with --extrapolate (extrapolate=True).",
                    code="position-too-deep",
                )
            )
        if len(rows):
            first = ranking.contexts.slice(rows[0], 1).to_pylist()[0]
            problems.append(
                Problem(
                    f"ranking '{ranking.name}' has contexts that the model does not know",
                    len(rows),
                    "slot",
                    [", ".join(f"{name} {value}" for name, value in first.items())],
                    "Fit the model to a log that has them, or leave these lists out.",
                    code="unknown-context",
                )
            )
        found.append(index)
    if problems:
        raise InputError.of("rankings", problems)
    return found, notes


def _list_weights(
    layout: PageLayout, rankings: Sequence[Ranking], traffic: Traffic | None, *, uniform: bool
) -> tuple[list[np.ndarray], list[str]]:
    """(lists,) weight of each ranker's lists, 0 for those left out; and what was left out."""
    others = layout.others
    tables = []
    for ranking in rankings:
        first = pa.array(np.flatnonzero(np.diff(ranking.page, prepend=-1)))
        columns = {name: ranking.contexts[name].combine_chunks() for name in others}
        columns["query_id"] = ranking.query_id
        tables.append({name: values.take(first) for name, values in columns.items()})
    for kind in ("query", "doc"):
        if len({getattr(ranking, f"{kind}_id").type for ranking in rankings}) > 1:
            raise InputError(
                f"{kind} ids differ in type between the rankings (1 is not '1'); read all of them "
                "with ids='string' or ids='integer'",
                code="id-types-differ",
            )
    names = [*others, "query_id"]
    all_keys = {name: pa.concat_arrays([table[name] for table in tables]) for name in names}
    keys, code = distinct(all_keys)
    ends = np.cumsum([len(table["query_id"]) for table in tables])
    codes = np.split(code, ends[:-1])
    lists = np.stack([np.bincount(each, minlength=len(keys)) for each in codes])  # (rankers, keys)
    common = (lists > 0).all(axis=0)
    notes = []
    if not common.all():
        notes.append(
            f"compared on the {common.sum():,} {_kind(others)} that all rankers have; "
            f"{(~common).sum():,} others were left out"
        )
    share = common.astype(float)
    repeated = [ranking for ranking in rankings if ranking.repeated]
    notes += _on_repeated(repeated, layout, has_log=traffic is not None)
    if uniform and traffic is not None and repeated:
        share *= _kind_pages(keys, traffic, others)
    elif not uniform and traffic is not None:
        row = locate_rows(
            {name: keys[name] for name in names}, {name: traffic.keys[name] for name in names}
        )
        pages = np.where(row < 0, 0.0, traffic.pages[row])
        unknown, called, total = common & (pages == 0), _kind(others), common.sum()
        share = np.where(common, pages, 0.0)
        if repeated:  # that a query is not in the log on one device is no reason to mention it
            queries, query = distinct({"query_id": keys["query_id"].combine_chunks()})
            elsewhere = np.bincount(query, share, len(queries)) > 0
            unknown &= ~elsewhere[query]
            unknown[unknown] = np.diff(query[unknown], prepend=-1) != 0
            called, total = "queries", np.bincount(query, common, len(queries)).astype(bool).sum()
        if unknown.any() and share.any():
            example = keys.slice(int(np.flatnonzero(unknown)[0]), 1).to_pylist()[0]["query_id"]
            notes.append(
                f"{unknown.sum():,} of {total:,} {called} are not in the log, so "
                f"they have no traffic and were left out (the first: query {example}); "
                "weights='uniform' (--weights uniform) keeps them"
            )
    if not share.any():
        raise InputError(
            "the rankings have no query in common"
            + (" that the log has" if traffic is not None and common.any() else "")
            + ": do their ids match, and those of the log?",
            code="no-common-query",
        )
    share /= share.sum()
    return [(share / np.maximum(n, 1))[own] for n, own in zip(lists, codes, strict=True)], notes


def _on_repeated(
    rankings: Sequence[Ranking], layout: PageLayout, *, has_log: bool
) -> Iterator[str]:
    """How lists that do not differ by a context are weighted."""
    for missing in dict.fromkeys(ranking.repeated for ranking in rankings):
        named = ", ".join(f"'{each.name}'" for each in rankings if each.repeated == missing)
        values = layout.kinds[0].select(missing).to_pylist()
        kinds = "; ".join(dict.fromkeys(", ".join(map(str, each.values())) for each in values))
        weights = (
            "weighted by its pages in the log" if has_log else "weighted equally without a log"
        )
        yield (
            f"{named}: no column {', '.join(missing)}, so each list is shown in all of them "
            f"({kinds}), {weights}"
        )


def _kind_pages(keys: pa.Table, traffic: Traffic, others: Sequence[str]) -> np.ndarray:
    """(keys,) share of the log's pages that are of the kind of each list."""
    kinds, kind = distinct({name: traffic.keys[name].combine_chunks() for name in others})
    pages = np.bincount(kind, traffic.pages) / traffic.pages.sum()
    row = locate_rows({name: keys[name] for name in others}, {name: kinds[name] for name in others})
    return np.where(row < 0, 0.0, pages[row])


def _kind(others: Sequence[str]) -> str:
    return "queries" if not others else f"queries by {', '.join(others)}"


@dataclass(frozen=True)
class Measure:
    """A way to value rankers.

    Attributes:
        weight: slots -> (slots,) factor of relevance, without position bias.
        biased: whether position bias is a factor, too.
        unit: of the values, for sentences.
        column: name in tables, where it is not the measure that decides.
        worth: what every click counts, by the item; "" if each counts 1. See `worth.py`.
    """

    weight: Callable[[Slots], np.ndarray]
    biased: bool
    unit: str
    column: str
    worth: str = ""


def _displayed(slots: Slots) -> np.ndarray:
    return slots.weight * slots.reach


MEASURES: Mapping[str, Measure] = {
    "clicks": Measure(_displayed, True, "clicks", "clicks"),
    "first": Measure(
        lambda s: np.where(s.position == 1, _displayed(s), 0.0),
        True,
        "clicks on the first result",
        "first",
    ),
    "gain": Measure(
        lambda s: s.weight / np.log2(1 + s.position), False, "discounted relevance", "gain"
    ),
}
"""Clicks per page, click rate of the first result, and discounted relevance per page."""

OUTCOME_MEASURES: Mapping[str, Measure] = {
    "conversions": Measure(_displayed, True, "conversions", "conversions", "conversion"),
    "value": Measure(_displayed, True, "value", "conversion_value", "value"),
}
"""Of models that know conversions after clicks, or their value as well."""

ALL_MEASURES: Mapping[str, Measure] = {**MEASURES, **OUTCOME_MEASURES}
