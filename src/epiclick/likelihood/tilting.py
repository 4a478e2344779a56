r"""Likelihood and relevance of pairs under many parameters at once, from the nodes of one.

The nodes of the quadrature at some parameters, with their probabilities p_n given the clicks, also
serve for other parameters nearby: with r_k = 1 - theta_k, and primes for the other parameters,

.. math:: \frac{L'}{L} = \frac{B(a, b)}{B(a', b')}
          \prod_k \Big(\frac{\theta'_k}{\theta_k}\Big)^{M_k} \sum_n p_n t_n, \qquad
          t_n = \zeta_n^{a' - a} (1 - \zeta_n)^{b' - b}
          \prod_k \Big(1 + (r'_k - r_k) \frac{\zeta_n}{1 - \theta_k \zeta_n}\Big)^{W_k},

and relevance given the clicks has the probabilities p_n t_n, normalised. Nodes are reused, and only
changes are computed, for which float32 suffices: a tenth of the time of the quadrature.

If unattractive items are clicked too, clicks and skips are both forms y = u zeta + v (1 - zeta),
and each has the factor 1 + ((u' - u) zeta + (v' - v) (1 - zeta)) / y.

Parameters that are far away move relevance off the nodes, or between two of them. Then few nodes
have all the probability, or those at the ends have some, and the quadrature is repeated. This check
is not perfect: where theta moved by 0.9 logits (standard deviation) and pairs had 1,000 displays,
variances that passed it were off by up to 9 %; by 3 % at 0.6 logits.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from epiclick.click_models.click_model import Emission
from epiclick.likelihood.quadrature import log_beta, posterior_nodes

NODES = 24
NODES_AGAIN = 32  # of a repeated quadrature, which is then accurate to 1e-7 or better

MOST_RATIO = 1e30  # finite, so that 0 times it is 0; nodes this close to 1 have no weight
LEAST = -1 + 1e-7  # rounding may go below

FEWEST_NODES = 4.0
"""Effective number of nodes (inverse sum of squared probabilities) that a narrow peak needs."""

MOST_AT_ENDS = 1e-5
"""Probability of the first and the last node together."""

BLOCK = 512
"""Entries per call of the quadrature."""


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
) -> Tilted:
    """Pairs under other parameters, from the nodes at the given ones where these suffice.

    Must be called within `jax.enable_x64(True)`.

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
    """
    counts = (clicks, unclicked)
    others = (other, other_alpha, other_beta)
    *found, trusted = _tilted(emission, alpha, beta, *counts, *others, slots)
    result = Tilted(*(np.array(each, np.float64) for each in found))
    draw, pair = np.nonzero(~np.asarray(trusted))
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
    own = log_integral[size:][np.searchsorted(again, pair)]
    for values, exact in zip(result, (log_integral[:size] - own, mean, variance), strict=True):
        values[draw, pair] = exact[:size]
    return result


def _with_parts(make: Callable[..., Any], *emissions: Emission) -> Emission:
    """The emission made by applying a function to each part of some emissions."""
    parts = zip(*emissions, strict=True)
    return Emission(*(None if own[0] is None else make(*own) for own in parts))


class _Changes(NamedTuple):
    """u and v of a form for each context, or their changes: (..., contexts); v of None is 1."""

    u: jax.Array
    v: jax.Array | None


def _forms(emission: Emission) -> list[_Changes]:
    """u and v of skips, and of clicks if the emission is affine."""
    skips = _Changes(emission.attractive_rest, emission.unattractive_rest)
    if not emission.is_affine:
        return [skips]
    return [skips, _Changes(emission.attractive, emission.unattractive)]


@jax.jit
def _tilted(
    emission: Emission,
    alpha: jax.Array,
    beta: jax.Array,
    clicks: jax.Array,
    unclicked: jax.Array,
    other: Emission,
    other_alpha: jax.Array,
    other_beta: jax.Array,
    slots: jax.Array | None,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """The parts of `Tilted`, and which of them are accurate; (draws, pairs) each."""
    local = emission if slots is None else emission.at(slots)
    at = posterior_nodes(local, alpha, beta, clicks, unclicked, NODES)

    def ratios(form: _Changes) -> tuple[jax.Array, jax.Array | None]:
        """zeta and 1 - zeta over the form: (contexts or slots, nodes, pairs) each."""
        u, *both = (
            part[:, None, None] if part.ndim == 1 else part.T[:, None]
            for part in form
            if part is not None
        )
        y = (both[0] * at.other if both else at.other) + u * at.zeta
        seen = _single(jnp.minimum(at.zeta / y, MOST_RATIO))
        return seen, None if not both else _single(jnp.minimum(at.other / y, MOST_RATIO))

    quotients = [ratios(form) for form in _forms(local)]
    counts = [_single(count.T) for count in (unclicked, clicks)]
    nodes = (jnp.log(at.weights), at.log_zeta, at.log_other, at.zeta)
    log_weights, log_zeta, log_other, zeta = (_single(each) for each in nodes)

    def one(change: tuple) -> tuple[jax.Array, ...]:
        forms, by_alpha, by_beta = change

        def add(total: jax.Array, context: tuple) -> tuple[jax.Array, None]:
            (by_zeta, by_other), count, (u, v) = context
            moved = u * by_zeta if v is None else u * by_zeta + v * by_other
            return total + count * jnp.log1p(jnp.maximum(moved, LEAST)), None

        terms = log_weights + by_alpha * log_zeta + by_beta * log_other
        for form, quotient, count in zip(forms, quotients, counts, strict=False):
            if slots is not None:
                form = jax.tree.map(lambda part: part[slots].T, form)
            terms, _ = jax.lax.scan(add, terms, (quotient, count, form))
        top = terms.max(axis=0)
        weights = jnp.exp(terms - top)
        total = weights.sum(axis=0)
        share = weights / total
        mean = (share * zeta).sum(axis=0)
        variance = (share * (zeta - mean) ** 2).sum(axis=0)
        enough = (share**2).sum(axis=0) < 1 / FEWEST_NODES
        within = share[0] + share[-1] < MOST_AT_ENDS
        return top + jnp.log(total), mean, variance, enough & within

    of_forms = jax.tree.map(
        lambda moved, own: _single(moved - own), _forms(other), _forms(emission)
    )
    changes = (other_alpha - alpha, other_beta - beta)
    return jax.lax.map(one, (of_forms, *(_single(change) for change in changes)))


def _by_quadrature(entries: tuple[Any, ...]) -> np.ndarray:
    """Logarithm of the integral, mean and variance of relevance of some entries, (3, entries).

    Args:
        entries: emission (entries, contexts), alpha and beta (entries,), clicks and unclicked
            (entries, contexts).
    """
    size = len(entries[1])
    found = np.empty((3, size))
    for start in range(0, size, BLOCK):
        # the last block is padded, so that the program compiles once
        index = np.minimum(np.arange(start, start + BLOCK), size - 1)
        some = jax.tree.map(lambda values, index=index: values[index], entries)
        part = np.stack([np.asarray(each) for each in _integrals(*some)])
        found[:, start : start + BLOCK] = part[:, : size - start]
    return found


@jax.jit
def _integrals(
    emission: Emission, alpha: jax.Array, beta: jax.Array, clicks: jax.Array, unclicked: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    at = posterior_nodes(emission, alpha, beta, clicks, unclicked, NODES_AGAIN)
    mean = (at.weights * at.zeta).sum(axis=0)
    variance = (at.weights * (at.zeta - mean) ** 2).sum(axis=0)
    return at.log_likelihood + log_beta(alpha, beta), mean, variance


def _single(values: jax.Array) -> jax.Array:
    return values.astype(jnp.float32)
