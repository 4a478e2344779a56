r"""Likelihood and relevance of pairs under many parameters at once, from the nodes of one.

The nodes of the quadrature at some parameters, with their probabilities p_n given the clicks, also
serve for other parameters nearby: with r_k = 1 - theta_k, and primes for the other parameters,

.. math:: \frac{L'}{L} = \frac{B(a, b)}{B(a', b')}
          \prod_k \Big(\frac{\theta'_k}{\theta_k}\Big)^{M_k} \sum_n p_n t_n, \qquad
          t_n = \zeta_n^{a' - a} (1 - \zeta_n)^{b' - b}
          \prod_k \Big(1 + (r'_k - r_k) \frac{\zeta_n}{1 - \theta_k \zeta_n}\Big)^{W_k},

and relevance given the clicks has the probabilities p_n t_n, normalised. Nodes are reused, and only
changes are computed: a fraction of the time of the quadrature.

If unattractive items are clicked too, clicks and skips are both forms y = u zeta + v (1 - zeta),
and each has the factor 1 + ((u' - u) zeta + (v' - v) (1 - zeta)) / y.

Parameters that are far away move relevance off the nodes, or between two of them. Then few nodes
have all the probability, or those at the ends have some, and the quadrature is repeated. This check
is not perfect: where theta moved by 0.9 logits (standard deviation) and pairs had 1,000 displays,
variances that passed it were off by up to 9 %; by 3 % at 0.6 logits.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from epiclick.click_models.click_model import Emission
from epiclick.likelihood.quadrature import moments_of, posterior_nodes
from epiclick.likelihood.rising import log_beta

NODES = 24
NODES_AGAIN = 32  # of a repeated quadrature, which is then accurate to 1e-7 or better

MOST_RATIO = 1e30  # finite, so that 0 times it is 0; nodes this close to 1 have no weight
LEAST = 1e-12  # rounding may go below

FEWEST_NODES = 4.0
"""Effective number of nodes (inverse sum of squared probabilities) that a narrow peak needs."""

MOST_AT_ENDS = 1e-5
"""Probability of the first and the last node together."""

BLOCK = 256
"""Pairs at a time."""


class Tilted(NamedTuple):
    """Pairs under other parameters, (draws, pairs) each.

    Attributes:
        log_sum: logarithm of the sum of p_n t_n.
        mean: posterior mean of relevance.
        variance: its posterior variance.
    """

    log_sum: np.ndarray
    mean: np.ndarray
    variance: np.ndarray


def tilted(
    emission: Emission,
    alpha: np.ndarray,
    beta: np.ndarray,
    clicks: np.ndarray,
    unclicked: np.ndarray,
    other: Emission,
    other_alpha: np.ndarray,
    other_beta: np.ndarray,
    slots: np.ndarray | None = None,
    nodes: int = NODES,
) -> Tilted:
    """Pairs under other parameters, from the nodes at the given ones where these suffice.

    Args:
        emission: (contexts,) for which the nodes are computed.
        alpha: (pairs,) first parameter of the Beta of relevance there.
        beta: (pairs,) second parameter.
        clicks: (pairs, contexts), or (pairs, slots).
        unclicked: as clicks.
        other: (draws, contexts) of the other parameters.
        other_alpha: (draws, pairs).
        other_beta: (draws, pairs).
        slots: (pairs, slots) contexts of the counts; None where counts cover all contexts.
        nodes: of the quadrature at the given parameters.
    """
    pairs, draws = len(alpha), len(other_alpha)
    result = Tilted(*(np.empty((draws, pairs)) for _ in Tilted._fields))
    trusted = np.empty((draws, pairs), bool)
    # blocks of pairs that were displayed in equally many contexts: others need not be computed,
    # and neither those that are the same under all parameters, such as the anchor
    varies = np.any(other.attractive_rest != emission.attractive_rest, axis=0)
    varied = varies if slots is None else varies[slots]
    order = np.argsort(-((unclicked > 0) & varied).sum(axis=1), kind="stable")
    for start in range(0, pairs, BLOCK):
        part = order[start : start + BLOCK]
        own = (alpha[part], beta[part], clicks[part], unclicked[part])
        others = (other, other_alpha[:, part], other_beta[:, part])
        found = _tilted(emission, *own, *others, None if slots is None else slots[part], nodes)
        for whole, values in zip((*result, trusted), found, strict=True):
            whole[:, part] = values
    draw, pair = np.nonzero(~trusted)
    if not len(draw):
        return result
    size = len(draw)
    # these pairs at the given parameters too, as the sum is relative to them
    again = np.unique(pair)
    both = np.concatenate([pair, again])

    def of_entries(own: np.ndarray, moved: np.ndarray) -> np.ndarray:
        own, moved = np.asarray(own), np.asarray(moved)
        if slots is not None:
            return np.concatenate([moved[draw[:, None], slots[pair]], own[slots[again]]])
        return np.concatenate([moved[draw], np.broadcast_to(own, (len(again), len(own)))])

    entries = (
        _with_parts(of_entries, emission, other),
        np.concatenate([other_alpha[draw, pair], alpha[again]]),
        np.concatenate([other_beta[draw, pair], beta[again]]),
        clicks[both],
        unclicked[both],
    )
    log_integral, mean, variance = _by_quadrature(entries)
    at_given = log_integral[size:][np.searchsorted(again, pair)]
    for values, exact in zip(result, (log_integral[:size] - at_given, mean, variance), strict=True):
        values[draw, pair] = exact[:size]
    return result


def _with_parts(make: Callable[..., Any], *emissions: Emission) -> Emission:
    """The emission made by applying a function to each part of some emissions."""
    parts = zip(*emissions, strict=True)
    return Emission(*(None if own[0] is None else make(*own) for own in parts))


class _Form(NamedTuple):
    """u and v of a form for each context, (..., contexts); v of None is 1."""

    u: np.ndarray
    v: np.ndarray | None


def _forms(emission: Emission) -> list[_Form]:
    """u and v of skips, and of clicks if the emission is affine."""
    skips = _Form(emission.attractive_rest, emission.unattractive_rest)
    if not emission.is_affine:
        return [skips]
    return [skips, _Form(emission.attractive, emission.unattractive)]


def _tilted(
    emission: Emission,
    alpha: np.ndarray,
    beta: np.ndarray,
    clicks: np.ndarray,
    unclicked: np.ndarray,
    other: Emission,
    other_alpha: np.ndarray,
    other_beta: np.ndarray,
    slots: np.ndarray | None,
    nodes: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The parts of `Tilted`, and which of them are accurate; (draws, pairs) each."""
    local = emission if slots is None else emission.at(slots)
    at = posterior_nodes(local, alpha, beta, clicks, unclicked, nodes)
    log_weights = np.log(np.maximum(at.weights, np.finfo(np.float64).tiny))
    shape = other_alpha.shape
    log_sum, first, second = np.empty(shape), np.empty(shape), np.empty(shape)
    trusted = np.empty(shape, bool)
    # moments about the mean at the given parameters, which is near: about 0, they would cancel
    centre = (at.weights * at.zeta).sum(axis=0) / at.weights.sum(axis=0)
    offset = at.zeta - centre
    squared = offset**2
    kinds = zip(_forms(emission), _forms(other), (unclicked, clicks), strict=False)
    changes = [each for kind in kinds for each in _changes(*kind, slots, at)]
    more_alpha, more_beta = other_alpha - alpha, other_beta - beta
    for draw in range(len(other_alpha)):
        terms = more_alpha[draw] * at.log_zeta
        terms += log_weights
        terms += more_beta[draw] * at.log_other
        for each in changes:
            terms[:, : len(each.displays)] += each.log_factor(draw)
        top = terms.max(axis=0)
        terms -= top
        share = np.exp(terms, out=terms)  # times their total
        total = share.sum(axis=0)
        log_sum[draw] = top + np.log(total)
        first[draw] = np.einsum("np,np->p", share, offset) / total
        second[draw] = np.einsum("np,np->p", share, squared) / total
        enough = np.einsum("np,np->p", share, share) < total**2 / FEWEST_NODES
        trusted[draw] = enough & (share[0] + share[-1] < MOST_AT_ENDS * total)
    return log_sum, centre + first, np.maximum(second - first**2, 0), trusted


class _Change(NamedTuple):
    """How displays of one kind in one slot change the likelihood of the first pairs.

    Attributes:
        displays: (pairs,) their number; pairs after these have none.
        u: (draws, pairs) change of the form's u.
        v: the same for v; None where it is always 1.
        ratio: zeta and 1 - zeta over the form, (nodes, pairs).
    """

    displays: np.ndarray
    u: np.ndarray
    v: np.ndarray | None
    ratio: _Form

    def log_factor(self, draw: int) -> np.ndarray:
        """(nodes, pairs) logarithm of the factor of t under a draw."""
        change = self.u[draw] * self.ratio.u
        if self.v is not None:
            change += self.v[draw] * self.ratio.v
        np.maximum(change, LEAST - 1, out=change)
        np.log1p(change, out=change)
        change *= self.displays
        return change


def _changes(
    own: _Form, moved: _Form, count: np.ndarray, slots: np.ndarray | None, at: Any
) -> Iterator[_Change]:
    """The changes due to displays of one kind, by slots of which no pair has more than it needs.

    Args:
        own: u and v of each context, (contexts,).
        moved: the same under each draw, (draws, contexts).
        count: (pairs, contexts), or (pairs, slots).
        slots: (pairs, slots) contexts of the counts; None where counts cover all contexts.
        at: the nodes.
    """
    varies = np.any(moved.u != own.u, axis=0)
    if moved.v is not None:
        varies |= np.any(moved.v != own.v, axis=0)
    count = np.where(varies if slots is None else varies[slots], count, 0)
    filled_first = np.argsort(count == 0, axis=1, kind="stable")
    context = filled_first
    if slots is not None:
        context = np.take_along_axis(slots, filled_first, axis=1)
    count = np.take_along_axis(count, filled_first, axis=1)
    for i in range(count.shape[1]):
        filled = np.flatnonzero(count[:, i])
        if not len(filled):
            return
        pairs = filled[-1] + 1
        where = context[:pairs, i]
        zeta, other = at.zeta[:, :pairs], at.other[:, :pairs]
        y = own.u[where] * zeta + (other if own.v is None else own.v[where] * other)
        with np.errstate(divide="ignore", invalid="ignore"):  # 0 / 0 is as good as a large number
            seen = np.fmin(zeta / y, MOST_RATIO)
            unseen = None if own.v is None else np.fmin(other / y, MOST_RATIO)
        u = (moved.u - own.u)[:, where]
        v = None if moved.v is None or own.v is None else (moved.v - own.v)[:, where]
        yield _Change(count[:pairs, i], u, v, _Form(seen, unseen))


def _by_quadrature(entries: tuple[Any, ...]) -> np.ndarray:
    """Logarithm of the integral, mean and variance of relevance of some entries, (3, entries).

    Args:
        entries: emission (entries, contexts), alpha and beta (entries,), clicks and unclicked
            (entries, contexts).
    """
    emission, *columns = entries
    found = np.empty((3, len(columns[0])))
    for start in range(0, found.shape[1], BLOCK):
        part = slice(start, start + BLOCK)
        own = Emission(*(None if each is None else each[part] for each in emission))
        alpha, beta, clicks, unclicked = (each[part] for each in columns)
        at = posterior_nodes(own, alpha, beta, clicks, unclicked, NODES_AGAIN)
        found[0, part] = at.log_likelihood + log_beta(alpha, beta)
        found[1:, part] = moments_of(at)
    return found
