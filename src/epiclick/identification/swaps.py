r"""Position bias from the same item shown at several positions, on one day or on different days.

With N displays and M clicks of pair p in context k on day a, and relevance the same on all of them,

.. math:: E\big[M_{pka} N_{plb}\, \theta_l - M_{plb} N_{pka}\, \theta_k\big] =
          \zeta_p\, (N_{pka} \theta_k N_{plb} \theta_l - N_{plb} \theta_l N_{pka} \theta_k) = 0

exactly, for clicks of any number and any relevance. Summed over pairs with weights w,

.. math:: A_{kl} = \sum_p w_p \sum_{(a, b)} M_{pka} N_{plb}, \qquad
          \sum_l A_{kl} \theta_l = \theta_k \sum_l A_{lk}

for all k: theta is the stationary distribution of a Markov chain that moves from l to k at rate
:math:`A_{kl}`, and so is positive and unique wherever clicks compare all contexts. Swaps *within
days* are the sums with a = b; swaps *between days* those with a different from b. Weights are one
over the expected clicks of an item of relevance 1, :math:`\sum_k N_k \theta_k`, at a theta that is
known roughly: with all swaps this is the estimate of `unbounded.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from epiclick.data.counts import ClickCounts
from epiclick.identification.bias_estimate import BiasEstimate

ROUNDING = 1e-12
"""Share of the largest rate below which a difference of sums is 0."""


class Swaps(NamedTuple):
    """Position bias from both kinds of swaps; None where these do not compare any contexts."""

    within: BiasEstimate | None
    between: BiasEstimate | None


def swaps_by_part(counts: ClickCounts, log_bias: np.ndarray, reference: int, groups: int) -> Swaps:
    """Estimate position bias from swaps within parts, and from swaps between them.

    Args:
        counts: a log with parts.
        log_bias: (contexts,) a rough estimate, for weights; contexts where it is NaN are left out.
        reference: context that others are compared with.
        groups: number of groups of queries.
    """
    assert counts.part is not None
    assert counts.parts is not None
    known = np.isfinite(log_bias)[counts.context]
    pair, context = counts.pair[known], counts.context[known]
    _, day = np.unique(pair * len(counts.parts) + counts.part[known], return_inverse=True)
    entries = _Entries(
        context=context,
        displays=counts.displays[known].astype(np.float64),
        clicks=counts.clicks[known].astype(np.float64),
        group=counts.query[pair] % groups,
    )
    examined = entries.displays * np.exp(log_bias)[context]
    by_pair, by_day = (1 / np.bincount(rows, examined)[rows] for rows in (pair, day))
    size = len(log_bias)
    return Swaps(
        within=_estimate(entries, [_Sum(day, by_day)], reference, size, groups),
        between=_estimate(
            entries, [_Sum(pair, by_pair), _Sum(day, -by_pair)], reference, size, groups
        ),
    )


@dataclass(frozen=True, eq=False)
class _Entries:
    """Displays and clicks in a context on a day: (entries,) each."""

    context: np.ndarray
    displays: np.ndarray
    clicks: np.ndarray
    group: np.ndarray

    def subset(self, keep: np.ndarray) -> "_Entries":
        return _Entries(*(each[keep] for each in vars(self).values()))


class _Sum(NamedTuple):
    """A sum over all swaps within rows, which are pairs or days of pairs.

    Attributes:
        row: (entries,) row of each entry.
        weight: (entries,) w of its row; negative where the sum is subtracted.
    """

    row: np.ndarray
    weight: np.ndarray

    def rates(self, entries: _Entries, size: int) -> np.ndarray:
        """(contexts, contexts) its part of A."""
        clicks, displays = self._by_row(entries, size)
        return (clicks.T @ displays).toarray()

    def compared(self, entries: _Entries, theta: np.ndarray, groups: int) -> np.ndarray:
        """(groups,) clicks that are compared with displays in another context."""
        clicks, displays = self._by_row(entries, len(theta))
        own = clicks.sum(axis=1) * (displays @ theta) - clicks.multiply(displays) @ theta
        group = np.zeros(len(own), np.int64)
        group[self.row] = entries.group
        return np.bincount(group, own, groups)

    def _by_row(self, entries: _Entries, size: int) -> tuple[csr_array, csr_array]:
        """(rows, contexts) clicks, and displays times w."""
        where, shape = (self.row, entries.context), (int(self.row.max(initial=-1)) + 1, size)
        amounts = (entries.clicks, self.weight * entries.displays)
        clicks, displays = (csr_array((amount, where), shape) for amount in amounts)
        return clicks, displays

    def gaps(self, entries: _Entries, theta: np.ndarray) -> np.ndarray:
        """(entries,) w (M_k sum_l N_l theta_l - N_k theta_k sum_l M_l)."""
        examined = entries.displays * theta[entries.context]
        total, clicks = (
            np.bincount(self.row, amount)[self.row] for amount in (examined, entries.clicks)
        )
        return self.weight * (entries.clicks * total - examined * clicks)


def _estimate(
    entries: _Entries, sums: Sequence[_Sum], reference: int, size: int, groups: int
) -> BiasEstimate | None:
    """The solution of the equations, in the contexts that clicks compare with the reference."""
    rates = np.sum([each.rates(entries, size) for each in sums], axis=0)
    np.fill_diagonal(rates, 0)
    rates[rates <= ROUNDING * rates.max(initial=0)] = 0
    linked = _linked(rates, reference)
    free = np.flatnonzero(linked & (np.arange(size) != reference))
    if not len(free):
        return None
    rates = np.where(linked[:, None] & linked, rates, 0)
    flow = np.diag(rates.sum(axis=0)) - rates  # flow @ theta = 0
    inner = np.ix_(free, free)
    theta = np.zeros(size)
    theta[reference] = 1
    theta[free] = np.linalg.solve(flow[inner], -flow[free, reference])
    kept = linked[entries.context]
    inside = entries.subset(kept)
    sums = [_Sum(each.row[kept], each.weight[kept]) for each in sums]
    gaps = np.sum([each.gaps(inside, theta) for each in sums], axis=0)
    scores = np.bincount(inside.group * size + inside.context, gaps, groups * size)
    influence = np.zeros((groups, size))
    slope = flow[inner] * theta[free]  # minus the derivatives of the equations in log theta
    influence[:, free] = np.linalg.solve(slope, scores.reshape(groups, size)[:, free].T).T
    log_bias = np.full(size, np.nan)
    log_bias[linked] = np.log(theta[linked])
    compared = np.sum([each.compared(inside, theta, groups) for each in sums], axis=0)
    return BiasEstimate(log_bias, influence, np.maximum(compared, 0))


def _linked(rates: np.ndarray, reference: int) -> np.ndarray:
    """(contexts,) whether rates lead from the reference to a context and back."""
    from scipy.sparse.csgraph import connected_components  # slow to import, needed to fit only

    _, component = connected_components(csr_array(rates), directed=True, connection="strong")
    return component == component[reference]
