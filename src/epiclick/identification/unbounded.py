r"""Ratios of position bias without a bound: clicks on the same item in several contexts.

A fit fixes its anchor at 1 and bounds all other biases by it. Whether another context is examined
more must be estimated without that bound, and without a model of relevance. With N displays and M
clicks of pair p in context c, clicks are modelled as Poisson with

.. math:: E[M_{pc}] = N_{pc}\, \theta_c\, \zeta_p .

Given the total clicks :math:`m_p` of a pair, :math:`\zeta_p` cancels, and the rest is multinomial:

.. math:: \ell(\log\theta) = \sum_p \sum_c M_{pc} \log \pi_{pc}, \qquad
          \pi_{pc} = \frac{N_{pc} \theta_c}{\sum_k N_{pk} \theta_k}, \qquad
          s_{pc} = M_{pc} - m_p \pi_{pc}.

It is concave, and its maximum is consistent wherever the mean is right, for any number of pairs and
any dispersion of their clicks. The error of a log ratio :math:`\log\theta_c - \log\theta_r` comes
from the differences between queries q, each scaled up by its share of the information (its
leverage), so that a few large queries do not look more certain than they are:

.. math:: a = H^{-1} (e_c - e_r), \qquad
          \mathrm{se}^2 = \sum_q \Big(\frac{a^\top s_q}{1 - h_q}\Big)^2, \qquad
          h_q = \frac{a^\top H_q a}{a^\top H a}.

Quantiles are those of Student's t with :math:`1 / \sum_q h_q^2 - 1` degrees of freedom, which is
the number of queries minus 1 if they are of equal size.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special
from scipy.sparse import csr_array

from epiclick.data.counts import ClickCounts
from epiclick.identification.bias_estimate import BiasEstimate, in_groups

MOST_STEPS = 100
"""Newton steps, at most; a log of 500,000 pairs in 20 contexts took 2 (4 s on 2 cores)."""

SMALLEST_GAIN = 1e-10
"""Expected gain in log-likelihood below which the maximum is reached."""


class LogRatio(NamedTuple):
    """Logarithm of the bias of a context over that of another.

    Attributes:
        value: infinite where no item shown in both was clicked in one of them, even by way of other
            contexts; NaN where no items compare them.
        error: its standard error; NaN where unknown.
        freedom: degrees of freedom of the error.
    """

    value: float
    error: float = float("nan")
    freedom: float = float("nan")

    def lower(self, tail: float) -> float:
        """Lower confidence bound of probability 1 - tail; NaN where the error is unknown."""
        return float(self.value + self.error * special.stdtrit(self.freedom, tail))


@dataclass(frozen=True, eq=False)
class UnboundedBias:
    """Position bias up to a factor, for each set of contexts that clicks compare.

    Attributes:
        log_bias: (contexts,) up to a constant for each component.
        component: (contexts,) contexts with the same number have a finite ratio.
        favoured: (contexts, contexts) nonzero where an item clicked in the row's context was also
            shown in the column's.
        inverse: (contexts, contexts) inverse of the information, 0 at one context per component.
        share: (rows, contexts) expected share of a pair's clicks within a component.
        clicks: (rows,) these clicks.
        query: (rows,) number of their query.
        scores: (queries, contexts) gradient of each query's log-likelihood.
    """

    log_bias: np.ndarray
    component: np.ndarray
    favoured: csr_array
    inverse: np.ndarray
    share: csr_array
    clicks: np.ndarray
    query: np.ndarray
    scores: csr_array

    def values(self, reference: int) -> np.ndarray:
        """(contexts,) logarithms of all biases over that of the reference, as in `LogRatio`."""
        values = np.full(len(self.log_bias), np.nan)
        values[_reached(self.favoured, reference)] = -np.inf
        above = _reached(self.favoured.T.tocsr(), reference)
        values[above] = np.where(np.isnan(values[above]), np.inf, values[above])
        same = self.component == self.component[reference]
        values[same] = (self.log_bias - self.log_bias[reference])[same]
        return values

    def estimate(self, reference: int, groups: int) -> BiasEstimate:
        """All log ratios to a context, with the influence of each of some groups of queries."""
        values = self.values(reference)
        along = self.inverse - self.inverse[:, [reference]]
        # (queries, contexts) summed to (groups, contexts)
        scores = in_groups(np.arange(self.scores.shape[0]), groups) @ self.scores
        moved = self.clicks * (1 - self.share.multiply(self.share).sum(axis=1))  # (rows,)
        return BiasEstimate(
            log_bias=np.where(np.isfinite(values), values, np.nan),
            influence=scores @ along,
            information=in_groups(self.query, groups) @ moved,
        )

    def ratio(self, context: int, reference: int) -> LogRatio:
        """The log ratio of one context to another, with its error."""
        value = float(self.values(reference)[context])
        if not np.isfinite(value) or context == reference:
            return LogRatio(value)
        along = self.inverse[:, context] - self.inverse[:, reference]
        spread = self.share @ np.square(along) - np.square(self.share @ along)  # (rows,)
        information = np.bincount(self.query, self.clicks * spread, self.scores.shape[0])
        leverage = information / information.sum()
        freedom = 1 / np.square(leverage).sum() - 1
        if freedom < 1:
            return LogRatio(value)
        influence = (self.scores @ along) / (1 - leverage)
        return LogRatio(value, float(np.sqrt(np.square(influence).sum())), float(freedom))


def unbounded_bias(counts: ClickCounts) -> UnboundedBias:
    """Estimate biases from the pairs that were clicked and shown in several contexts."""
    size = len(counts.contexts)
    entries = _Entries.of(counts)
    favoured = entries.favoured(size)
    from scipy.sparse.csgraph import connected_components  # slow to import, needed to fit only

    _, component = connected_components(favoured, directed=True, connection="strong")
    entries = entries.within(component)
    fixed = _most_clicked(entries, component)
    log_bias = _start(entries, component, size)
    reached = entries.slope(log_bias)
    for _ in range(MOST_STEPS):
        inverse = _inverse(reached.information, fixed)
        step = inverse @ reached.gradient
        gain = reached.gradient @ step
        if gain < SMALLEST_GAIN:
            break
        # halve the step until it improves: far from the maximum a full step may overshoot
        while (further := entries.slope(log_bias + step)).height < reached.height + 0.1 * gain:
            step, gain = step / 2, gain / 2
            if gain < SMALLEST_GAIN:
                break
        log_bias, reached = log_bias + step, further
    return UnboundedBias(
        log_bias=log_bias,
        component=component,
        favoured=favoured,
        inverse=_inverse(reached.information, fixed),
        share=reached.share,
        clicks=entries.row_clicks,
        query=entries.query,
        scores=entries.by_query(reached.share),
    )


class _Slope(NamedTuple):
    """Log-likelihood at a point, its gradient, minus its Hessian, and the expected shares."""

    height: float
    gradient: np.ndarray
    information: np.ndarray
    share: csr_array


@dataclass(frozen=True, eq=False)
class _Entries:
    """Displays and clicks by row and context; rows are pairs, in order.

    Attributes:
        displays: (rows, contexts).
        clicks: (rows, contexts), zeros kept.
        query: (rows,) number of the query.
    """

    displays: csr_array
    clicks: csr_array
    query: np.ndarray

    @classmethod
    def of(cls, counts: ClickCounts) -> "_Entries":
        shape = (len(counts), len(counts.contexts))
        where = (counts.pair, counts.context)
        displays = csr_array((counts.displays.astype(float), where), shape=shape)
        clicks = csr_array((counts.clicks.astype(float), where), shape=shape)
        for amount in (displays, clicks):
            amount.sum_duplicates()  # the parts of an entry
        return cls(displays, clicks, counts.query)._informative()

    def _informative(self) -> "_Entries":
        """Only rows with clicks and at least two contexts to compare."""
        kept = (np.diff(self.displays.indptr) >= 2) & (self.row_clicks > 0)
        return _Entries(self.displays[kept], self.clicks[kept], self.query[kept])

    def within(self, component: np.ndarray) -> "_Entries":
        """One row per pair and component: ratios between components have no finite estimate."""
        own = np.repeat(np.arange(len(self.query)), np.diff(self.displays.indptr))
        context = self.displays.indices
        found, row = np.unique(
            own * (component.max(initial=0) + 1) + component[context], return_inverse=True
        )
        pair = found // (component.max(initial=0) + 1)
        shape = (len(found), self.displays.shape[1])
        displays, clicks = (
            csr_array((amount.data, (row, context)), shape=shape)
            for amount in (self.displays, self.clicks)
        )
        return _Entries(displays, clicks, self.query[pair])._informative()

    @property
    def row_clicks(self) -> np.ndarray:
        """(rows,) clicks in all contexts."""
        return self.clicks.sum(axis=1)

    def favoured(self, size: int) -> csr_array:
        """(contexts, contexts) how many pairs were clicked in the row and shown in the column."""
        clicked, shown = self.clicks.copy(), self.displays.copy()
        clicked.data = (clicked.data > 0).astype(float)
        clicked.eliminate_zeros()
        shown.data[:] = 1
        return (clicked.T @ shown).tocsr().reshape((size, size))

    def slope(self, log_bias: np.ndarray) -> _Slope:
        share, entries = self.displays.copy(), np.diff(self.displays.indptr)
        share.data = share.data * np.exp(log_bias[share.indices])
        share.data /= np.repeat(share.sum(axis=1), entries)
        expected = share.copy()
        expected.data = share.data * np.repeat(self.row_clicks, entries)
        clicked = self.clicks.data > 0
        height = self.clicks.data[clicked] @ np.log(share.data[clicked])
        mean = expected.sum(axis=0)
        information = np.diag(mean) - (share.T @ expected).toarray()
        return _Slope(float(height), self.clicks.sum(axis=0) - mean, information, share)

    def by_query(self, share: csr_array) -> csr_array:
        """(queries, contexts) gradient of each query's log-likelihood."""
        entries = np.diff(share.indptr)
        own = self.clicks.data - share.data * np.repeat(self.row_clicks, entries)
        where = (np.repeat(self.query, entries), share.indices)
        shape = (int(self.query.max(initial=-1)) + 1, share.shape[1])
        scores = csr_array((own, where), shape=shape)
        scores.sum_duplicates()
        return scores


def _most_clicked(entries: _Entries, component: np.ndarray) -> np.ndarray:
    """(contexts,) whether a context fixes the scale of its component."""
    clicks = entries.clicks.sum(axis=0)
    order = np.lexsort((-clicks, component))
    first = np.r_[True, np.diff(component[order]) > 0]
    fixed = np.zeros(len(component), bool)
    fixed[order[first]] = True
    return fixed


def _start(entries: _Entries, component: np.ndarray, size: int) -> np.ndarray:
    """(contexts,) log click rates; 0 where a component is a single context."""
    alone = np.bincount(component, minlength=size)[component] < 2
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.log(entries.clicks.sum(axis=0)) - np.log(entries.displays.sum(axis=0))
    return np.where(alone, 0.0, rate)


def _inverse(information: np.ndarray, fixed: np.ndarray) -> np.ndarray:
    """Inverse over the contexts that are not fixed, 0 elsewhere."""
    inverse = np.zeros_like(information)
    free = np.flatnonzero(~fixed)
    if len(free):
        inverse[np.ix_(free, free)] = np.linalg.inv(information[np.ix_(free, free)])
    return inverse


def _reached(edges: csr_array, start: int) -> np.ndarray:
    """Contexts that edges lead to from one."""
    from scipy.sparse.csgraph import breadth_first_order

    return breadth_first_order(edges, start, return_predecessors=False)
