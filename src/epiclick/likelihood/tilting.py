r"""Likelihood and relevance of pairs under many parameters at once, from the nodes of one.

The nodes of the quadrature at some parameters, with their probabilities p_n given the clicks, serve
for other parameters near by as well: with r_k = 1 - theta_k, and a dash for what is other,

.. math:: \frac{L'}{L} = \frac{B(a, b)}{B(a', b')}
          \prod_k \Big(\frac{\theta'_k}{\theta_k}\Big)^{M_k} \sum_n p_n t_n, \qquad
          t_n = \zeta_n^{a' - a} (1 - \zeta_n)^{b' - b}
          \prod_k \Big(1 + (r'_k - r_k) \frac{\zeta_n}{1 - \theta_k \zeta_n}\Big)^{W_k},

and relevance given the clicks has the probabilities p_n t_n, rescaled. No node is looked for anew,
and all is of the size of a change, so that float32 does: a tenth of the time of the quadrature.

Parameters that are far off move relevance away from the nodes, or between two of them. Then few
nodes have all the probability, or those at the ends have some, and the quadrature is needed. That
check is not perfect: where theta moved by 0.9 logits (standard deviation) and pairs had 1,000
displays, variances that it let pass were off by up to 9 %; by 3 % at 0.6 logits.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from epiclick.likelihood.quadrature import log_beta, posterior_nodes

NODES = 24
ANEW = 32  # nodes of the quadrature, which is then right to 1e-7 or better

MOST_RATIO = 1e30  # times 0 it is 0; nodes so near 1 weigh nothing, or were not unclicked
LEAST = -1 + 1e-7  # which rounding may pass

FEWEST_NODES = 4.0
"""Nodes, counted by the inverse sum of their squared probabilities, that a narrow peak needs."""

MOST_AT_ENDS = 1e-5
"""Probability of the first and the last node together."""

BLOCK = 512
"""Pairs that are given to the quadrature at once."""


class Tilted(NamedTuple):
    """Pairs under other parameters, (draws, pairs) each.

    Attributes:
        log_sum: logarithm of the sum of p_n t_n.
        mean: of relevance given the clicks.
        variance: likewise.
    """

    log_sum: np.ndarray
    mean: np.ndarray
    variance: np.ndarray


def tilted(
    rest: np.ndarray,
    alpha: np.ndarray,
    beta: np.ndarray,
    clicks: np.ndarray,
    unclicked: np.ndarray,
    other_rest: np.ndarray,
    other_alpha: np.ndarray,
    other_beta: np.ndarray,
) -> Tilted:
    """What some parameters say of pairs, by way of the nodes at others where these serve.

    To be called within `jax.enable_x64(True)`.

    Args:
        rest: (contexts,) 1 - theta, where the nodes are found.
        alpha: (pairs,) first parameter of the Beta of relevance there.
        beta: (pairs,) second parameter.
        clicks: (pairs, contexts).
        unclicked: (pairs, contexts).
        other_rest: (draws, contexts) of the other parameters.
        other_alpha: (draws, pairs).
        other_beta: (draws, pairs).
    """
    others = (other_rest, other_alpha, other_beta)
    *found, trusted = _tilted(rest, alpha, beta, clicks, unclicked, *others)
    result = Tilted(*(np.array(each, np.float64) for each in found))
    draw, pair = np.nonzero(~np.asarray(trusted))
    if not len(draw):
        return result
    size = len(draw)
    # pairs once more at their own parameters, as the sum is relative to these
    again = np.unique(pair)
    entries = (
        np.concatenate([other_rest[draw], np.broadcast_to(rest, (len(again), len(rest)))]),
        np.concatenate([other_alpha[draw, pair], alpha[again]]),
        np.concatenate([other_beta[draw, pair], beta[again]]),
        clicks[np.concatenate([pair, again])],
        unclicked[np.concatenate([pair, again])],
    )
    log_integral, mean, variance = _by_quadrature(entries)
    own = log_integral[size:][np.searchsorted(again, pair)]
    for values, exact in zip(result, (log_integral[:size] - own, mean, variance), strict=True):
        values[draw, pair] = exact[:size]
    return result


@jax.jit
def _tilted(
    rest: jax.Array,
    alpha: jax.Array,
    beta: jax.Array,
    clicks: jax.Array,
    unclicked: jax.Array,
    other_rest: jax.Array,
    other_alpha: jax.Array,
    other_beta: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """The parts of `Tilted`, and which of them to trust; (draws, pairs) each."""
    at = posterior_nodes(rest, alpha, beta, clicks, unclicked, NODES)
    seen = at.zeta / (at.other + rest[:, None, None] * at.zeta)  # (contexts, nodes, pairs)
    seen = jnp.minimum(seen, MOST_RATIO)
    nodes = (jnp.log(at.weights), at.log_zeta, at.log_other, at.zeta, seen, unclicked.T)
    log_weights, log_zeta, log_other, zeta, seen, missed = (_single(each) for each in nodes)

    def one(change: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        by_rest, by_alpha, by_beta = change

        def add(total: jax.Array, context: tuple[jax.Array, ...]) -> tuple[jax.Array, None]:
            ratio, count, moved = context
            return total + count * jnp.log1p(jnp.maximum(moved * ratio, LEAST)), None

        start = log_weights + by_alpha * log_zeta + by_beta * log_other
        terms, _ = jax.lax.scan(add, start, (seen, missed, by_rest))
        top = terms.max(axis=0)
        weights = jnp.exp(terms - top)
        total = weights.sum(axis=0)
        share = weights / total
        mean = (share * zeta).sum(axis=0)
        variance = (share * (zeta - mean) ** 2).sum(axis=0)
        enough = (share**2).sum(axis=0) < 1 / FEWEST_NODES
        within = share[0] + share[-1] < MOST_AT_ENDS
        return top + jnp.log(total), mean, variance, enough & within

    changes = (other_rest - rest, other_alpha - alpha, other_beta - beta)
    return jax.lax.map(one, tuple(_single(change) for change in changes))


def _by_quadrature(entries: tuple[np.ndarray, ...]) -> np.ndarray:
    """Logarithm of the integral, mean and variance of relevance of some entries, (3, entries).

    Args:
        entries: rest (entries, contexts), alpha and beta (entries,), clicks and unclicked
            (entries, contexts).
    """
    size = len(entries[0])
    found = np.empty((3, size))
    for start in range(0, size, BLOCK):
        # the last block is filled up, so that programs compile once
        index = np.minimum(np.arange(start, start + BLOCK), size - 1)
        part = np.stack([np.asarray(each) for each in _integrals(*(e[index] for e in entries))])
        found[:, start : start + BLOCK] = part[:, : size - start]
    return found


@jax.jit
def _integrals(
    rest: jax.Array, alpha: jax.Array, beta: jax.Array, clicks: jax.Array, unclicked: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    at = posterior_nodes(rest, alpha, beta, clicks, unclicked, ANEW)
    mean = (at.weights * at.zeta).sum(axis=0)
    variance = (at.weights * (at.zeta - mean) ** 2).sum(axis=0)
    return at.log_likelihood + log_beta(alpha, beta), mean, variance


def _single(values: jax.Array) -> jax.Array:
    return values.astype(jnp.float32)
