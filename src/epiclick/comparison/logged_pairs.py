r"""Supported items: those that some ranker shows and the log has shown, at whatever position.

With w the share of pages of a slot's list, reach the share of those that display it, and S_k how
much the click rate at k rises with relevance (for the PBM, position bias), an item i gets

.. math:: E_i = \sum_{s \in \text{slots of } i} w_s\, \text{reach}_s\, S_{k(s)}, \qquad
          X_i = \sum_k N_{ik} S_k

of *exposure* per page of a ranker, and in all N_ik displays of the log.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from scipy import sparse

from epiclick.comparison.shown_items import Items
from epiclick.comparison.slots import Slots, Traffic
from epiclick.data.arrays import locate_rows
from epiclick.fitted.prediction import given_contexts_of
from epiclick.fitted.state import FittedModel


class Exposure(NamedTuple):
    """How much items are looked at, under every draw.

    Attributes:
        target: E, (pairs, rankers, draws), per page.
        logged: X, (pairs, draws), in the whole log.
    """

    target: np.ndarray
    logged: np.ndarray


@dataclass(frozen=True, eq=False)
class LoggedPairs:
    """The supported items of a comparison, which are its first; (pairs,) each unless noted.

    Attributes:
        displays: (pairs, given contexts of the log) sparse.
        clicks: the same of clicks.
        query: number of the query.
        pages: of the query, in the log.
        slots: (pairs x rankers, given contexts of the model) sparse weights of slots.
        given: (given contexts of the log,) their indices among the model's; -1 for unknown ones.
        rankers: number of rankers.
        log_pages: pages of the whole log.
    """

    displays: sparse.csr_array
    clicks: sparse.csr_array
    query: np.ndarray
    pages: np.ndarray
    slots: sparse.csr_array
    given: np.ndarray
    rankers: int
    log_pages: float

    @classmethod
    def of(cls, fitted: FittedModel, slots: Slots, items: Items, traffic: Traffic) -> Self | None:
        """The supported ones among the items of some slots; None if there are none."""
        if items.counts is None:
            return None
        counts = items.counts.by_given()
        given = given_contexts_of(fitted, counts.contexts)
        displays, clicks = (
            sparse.csr_array(
                (each.astype(float), (counts.pair, counts.context)),
                shape=(len(counts), len(counts.contexts)),
            )
            for each in (counts.displays, counts.clicks)
        )
        rankers = int(slots.ranker.max()) + 1
        own = items.index < len(counts)
        rows = items.index[own] * rankers + slots.ranker[own]
        weight = (slots.weight * slots.reach)[own]
        shape = (len(counts) * rankers, len(traffic.reach))
        row = locate_rows(
            {"query_id": traffic.keys["query_id"]}, {"query_id": counts.query_id}
        )  # any pair of the query
        known = row >= 0
        pages = np.bincount(counts.query[row[known]], traffic.pages[known], counts.num_queries)
        return cls(
            displays=displays,
            clicks=clicks,
            query=counts.query,
            pages=pages[counts.query],
            slots=sparse.csr_array((weight, (rows, slots.given[own])), shape=shape),
            given=given,
            rankers=rankers,
            log_pages=float(traffic.pages.sum()),
        )

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.query)

    def exposure(self, rise: np.ndarray, start: int = 0, stop: int | None = None) -> Exposure:
        """Exposure of some pairs; rise is S in the model's given contexts, (draws, contexts)."""
        stop = len(self) if stop is None else stop
        target = self.slots[start * self.rankers : stop * self.rankers] @ rise.T
        return Exposure(
            target.reshape(stop - start, self.rankers, -1), self.logged(rise, start, stop)
        )

    def logged(self, amount: np.ndarray, start: int = 0, stop: int | None = None) -> np.ndarray:
        """(pairs, draws) sums over the displays in the log of an amount (draws, contexts).

        In contexts that the model does not know, the amount is the mean of all others.
        """
        return self.displays[start:stop] @ self._at_log(amount).T

    def clicked(self, amount: np.ndarray, start: int = 0, stop: int | None = None) -> np.ndarray:
        """The same over the clicks in the log."""
        return self.clicks[start:stop] @ self._at_log(amount).T

    def _at_log(self, amount: np.ndarray) -> np.ndarray:
        """An amount in the contexts of the log, (draws, contexts)."""
        mean = amount.mean(axis=1, keepdims=True)
        return np.where(self.given < 0, mean, amount[:, self.given])
