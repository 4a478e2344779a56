r"""How far a log supports the value of a ranker: what it has shown of what the ranker shows.

With E_i and X_i the exposure of an item by a ranker and in the log (`logged_pairs`), a display of i
in the log counts by the importance weight u_i = E_i / X_i, and all N_i displays together are worth

.. math:: n = \frac{(\sum_i N_i u_i)^2}{\sum_i N_i u_i^2}

displays of equal weight (Kish). What the ranker *moves* is the total variation distance between its
exposure and that of the log, each as shares e_i and l_i of the whole:

.. math:: \frac{1}{2} \sum_i |e_i - l_i|.

Where clicks depend on others of the page, exposure is by how often a position was examined in the
log.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from epiclick.click_models.click_model import Emission
from epiclick.comparison.factors import GoingOn, factors_of
from epiclick.comparison.logged_pairs import LoggedPairs
from epiclick.comparison.shown_items import Items
from epiclick.comparison.slots import ALL_MEASURES, Measure, Slots, Traffic
from epiclick.data.arrays import is_among, locate_rows
from epiclick.data.counts import ClickCounts
from epiclick.data.placement import kinds_of
from epiclick.fitted.prediction import contexts_of, display_chances, given_contexts_of, lists_of
from epiclick.fitted.state import FittedModel, given_of

TINY = 1e-300


@dataclass(frozen=True)
class Support:
    """What the log has shown of a ranker's items.

    Attributes:
        name: of the ranker.
        slots: share of its slots with items that the log has shown, at any position.
        clicks: share of its expected clicks on them.
        displays: of these items, in the log.
        effective_displays: the number of displays of equal weight that they are worth.
        moved: share of what users look at that the ranker moves to other items.
    """

    name: str
    slots: float
    clicks: float
    displays: int
    effective_displays: float
    moved: float


class Live(NamedTuple):
    """Exposure in the log, per page and with the comparison's weights of queries.

    Attributes:
        supported: (pairs,) of the supported items.
        others: of all other items together.
    """

    supported: np.ndarray
    others: float


def examined_by(fitted: FittedModel, emission: Emission, log: ClickCounts) -> np.ndarray:
    """(given contexts,) how often each is looked at: where it depends on clicks, in the log.

    For a trust model, how much clicks rise with relevance.

    Args:
        fitted: the model.
        emission: at the mean of the parameters, (contexts,) each; of reported relevance.
        log: with features if the model needs them.
    """
    rise = emission.attractive
    if emission.unattractive is not None:
        rise = rise - emission.unattractive
    if not fitted.clicks.history and not fitted.clicks.has_latent_state:
        return rise
    size = len(given_of(fitted)[0])
    if fitted.clicks.has_latent_state:
        lists, (read, _) = lists_of(fitted, log), display_chances(fitted, log)
        known = lists.shown & (lists.given >= 0)
        given, looks = lists.given[known], read[known]
        displays = np.broadcast_to(lists.pages[:, None], known.shape)[known]
    else:
        context = contexts_of(fitted, log.contexts, warn=False)[log.context]
        known = context >= 0
        given = given_of(fitted)[1][context[known]]
        looks, displays = rise[context[known]], log.displays[known]
    total = np.bincount(given, displays, size)
    return np.bincount(given, displays * looks, size) / np.maximum(total, 1)


def live_exposure(
    fitted: FittedModel,
    slots: Slots,
    items: Items,
    traffic: Traffic,
    log: ClickCounts,
    examined: np.ndarray,
) -> Live:
    """Exposure in the log of the queries that are compared, (given contexts,) being looked at."""
    log = log.by_given()
    given = given_contexts_of(fitted, log.contexts)
    kinds, kind = kinds_of(log.contexts, log.options.slot)
    names = [*kinds.column_names, "query_id"]
    # lists of one ranker have the weights of all: as many as pages, or the same for all queries
    lists = np.flatnonzero(np.diff(slots.page, prepend=-1) != 0)
    lists = lists[slots.ranker[lists] == 0]
    of_lists = given_of(fitted)[0].take(slots.given[lists])
    wanted = {name: of_lists[name] for name in kinds.column_names}
    wanted["query_id"] = slots.query_id.take(pa.array(lists))
    row = locate_rows(wanted, {name: traffic.keys[name] for name in names})
    there = row >= 0
    weight = np.bincount(row[there], slots.weight[lists[there]], len(traffic.pages))
    # a page of the log by query and kind
    first = np.flatnonzero(np.diff(log.query, prepend=-1))
    query = locate_rows(
        {"query_id": traffic.keys["query_id"]}, {"query_id": log.query_id.take(pa.array(first))}
    )
    column = np.zeros(len(query), int)
    if kinds.column_names:
        of_kind = {name: kinds[name] for name in kinds.column_names}
        column = locate_rows({name: traffic.keys[name] for name in of_kind}, of_kind)
    per_page = np.zeros((log.num_queries, int(kind.max(initial=0)) + 1))
    per_page[query, column] = weight / traffic.pages
    looks = np.where(given < 0, examined.mean(), examined[given])
    exposed = log.displays * looks[log.context] * per_page[log.query[log.pair], kind[log.context]]
    by_pair = np.bincount(log.pair, exposed, len(log))
    if items.counts is None:
        return Live(np.zeros(0), float(by_pair.sum()))
    supported = by_pair[items.counts.numbers_in(log)]
    return Live(supported, max(float(by_pair.sum() - supported.sum()), 0.0))


def clicks_on_supported(
    fitted: FittedModel,
    slots: Slots,
    items: Items,
    emission: Emission,
    relevance: np.ndarray,
    going_on: GoingOn | None,
) -> np.ndarray:
    """(rankers,) share of the expected clicks on items that the log has shown.

    Args:
        fitted: the model.
        slots: of all rankers.
        items: in them.
        emission: at the mean of the parameters, (contexts,) each; of reported relevance.
        relevance: (items,) expected.
        going_on: whether users go on after a click, for one draw; None if always.
    """
    own = 0 if items.counts is None else len(items.counts)
    shown = items.index < own
    measures = [
        Measure(lambda s: s.weight * s.reach * shown, True, "clicks", "supported"),
        ALL_MEASURES["clicks"],
    ]
    one = Emission(*(None if part is None else part[None] for part in emission))
    states = fitted.clicks.states(fitted.contexts)
    factors = factors_of(slots, items.index, measures, len(items), states, one, going_on)
    moments = [(relevance[None], np.zeros((1, len(items))))]
    total = sum(part.expected[0] for part in factors.parts(moments))
    supported, all_clicks = np.split(np.asarray(total), 2)
    return np.minimum(supported / np.where(all_clicks > 0, all_clicks, 1), 1.0)


def supports_of(
    names: Sequence[str],
    slots: Slots,
    pairs: LoggedPairs | None,
    traffic: Traffic,
    examined: np.ndarray,
    live: Live,
    clicks: np.ndarray,
) -> tuple[Support, ...]:
    """The support of all rankers.

    Args:
        names: of the rankers.
        slots: of all of them.
        pairs: the supported items; None if there are none.
        traffic: of the log.
        examined: (given contexts,) how often each is looked at.
        live: exposure in the log.
        clicks: (rankers,) share of expected clicks on supported items.
    """
    rankers = len(names)
    target, logged, displays = np.zeros((0, rankers)), np.zeros(0), np.zeros(0)
    supported = np.zeros(rankers)
    if pairs is not None:
        target, logged = (each[..., 0] for each in pairs.exposure(examined[None]))
        displays = pairs.displays.sum(axis=1)
        supported = pairs.slots.sum(axis=1).reshape(-1, rankers).sum(axis=0)
    # a query that is not in the log has no live ranking to differ from
    known = is_among("query_id", slots.query_id, traffic.keys["query_id"].combine_chunks())
    displayed = slots.weight * slots.reach
    whole = np.bincount(slots.ranker, displayed, rankers)
    exposed = np.bincount(slots.ranker, displayed * examined[slots.given] * known, rankers)
    return tuple(
        Support(
            name=name,
            slots=_share(supported[r], whole[r]),
            clicks=float(clicks[r]),
            displays=round(float(displays[target[:, r] > 0].sum())),
            effective_displays=effective_number(
                displays,
                np.divide(target[:, r], logged, out=np.zeros(len(logged)), where=logged > 0),
            ),
            moved=moved_share(Live(target[:, r], exposed[r] - target[:, r].sum()), live),
        )
        for r, name in enumerate(names)
    )


def effective_number(displays: np.ndarray, weight: np.ndarray) -> float:
    """Kish's effective number of displays, (pairs,), of importance weights, (pairs,)."""
    squares = float((displays * np.square(weight)).sum())
    return float((displays * weight).sum()) ** 2 / squares if squares > 0 else 0.0


def moved_share(target: Live, live: Live) -> float:
    """Total variation distance of two exposures; their other items have none in common."""
    one, other = (
        np.append(each.supported, max(each.others, 0.0))
        / max(each.supported.sum() + max(each.others, 0.0), TINY)
        for each in (target, live)
    )
    return float(np.abs(one[:-1] - other[:-1]).sum() + one[-1] + other[-1]) / 2


def _share(part: float, whole: float) -> float:
    return min(float(part / whole), 1.0) if whole > 0 else 0.0
