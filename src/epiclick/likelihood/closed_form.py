r"""The likelihood of pairs with few displays, in closed form and with its derivatives.

Given position bias, a pair's relevance is zeta ~ Beta(a, b), and its clicks have probability

.. math:: E_\zeta\Big[\prod_k (\theta_k \zeta)^{M_k} (1 - \theta_k \zeta)^{W_k}\Big],

the paper's JJ (its section 5.2) without binomial coefficients. The M = sum M_k clicks turn the Beta
into Beta(a + M, b). An unclicked display was either not attractive, or attractive and not examined:

.. math:: 1 - \theta_k \zeta = (1 - \zeta) + r_k \zeta, \qquad r_k = 1 - \theta_k,

so that with n the number of those of the second kind

.. math:: E_\zeta\Big[\prod_k (1 - \theta_k \zeta)^{W_k}\Big] =
    \sum_{n=0}^{W} e_n c_n, \qquad
    c_n = \frac{(a + M)_n \, (b)_{W-n}}{(a + b + M)_W},

with e_n the elementary symmetric polynomials of the r_k, each taken W_k times. All terms are
positive, so nothing cancels. Given the clicks, relevance is the mixture of
Beta(a + M + n, b + W - n) with weights proportional to e_n c_n.

If unattractive items are clicked too, clicks and skips are both positive forms of zeta and
1 - zeta,

.. math:: P(\text{outcome}) = u\, \zeta + v\, (1 - \zeta), \qquad (u, v) = (A, B)
          \text{ or } (1 - A, 1 - B),

and the coefficients of the product of all forms, e_n <- v e_n + u e_(n-1), replace e_n, N displays
replace W, and M = 0. Without clicks on unattractive items u = r and v = 1.

Derivatives follow the recursion backwards: with g_n the derivative of the sum in e_n after a
display, that in its u is sum_n g_(n+1) e_n, that in its v is sum_n g_n e_n, and before it
g_n <- v g_n + u g_(n+1).

Pairs are the last axis of all arrays, and are processed in blocks that fit in the processor's
cache. float64 suffices up to `pairs.SWITCH_OVER` displays: with a billion clicks the smallest c_n
is 1e-144.
"""

from typing import NamedTuple

import numpy as np

from epiclick.click_models.click_model import Emission
from epiclick.likelihood.rising import log_rising, rising_slope

BLOCK = 160_000
"""Numbers in the largest array of a block: pairs times the square of the number of displays."""


class Expansion(NamedTuple):
    """Logarithm of the sum, (pairs,), and its derivatives.

    Attributes:
        value: log of the probability of the displays in the sum.
        by_a: (pairs,) derivative in the first parameter of the Beta.
        by_b: (pairs,) in the second.
        by_u: (width, pairs) in u of each display.
        by_v: (width, pairs) in v of each display; None where it is 1.
    """

    value: np.ndarray
    by_a: np.ndarray
    by_b: np.ndarray
    by_u: np.ndarray
    by_v: np.ndarray | None


def forms(emission: Emission) -> tuple[np.ndarray, np.ndarray | None]:
    """u and v of each display's form u zeta + v (1 - zeta), by the codes of `Bucket.order`.

    (..., contexts) of skips, then, if the emission is affine, the same number of clicks, and a last
    one for a missing display, whose form is 1. v of None is 1.
    """
    skip, click = emission.attractive_rest, emission.attractive
    one = np.ones((*np.shape(skip)[:-1], 1))
    if not emission.is_affine:
        return np.concatenate([skip, one], axis=-1), None
    u = np.concatenate([skip, click, one], axis=-1)
    other = (emission.unattractive_rest, emission.unattractive, one)
    return u, np.concatenate(other, axis=-1)


def expand(
    u: np.ndarray, v: np.ndarray | None, a: np.ndarray, b: np.ndarray, order: np.ndarray
) -> Expansion:
    """The sum and its derivatives.

    Args:
        u: (codes,) see `forms`.
        v: (codes,) or None.
        a: (pairs,) a + M; a if the emission is affine.
        b: (pairs,).
        order: (pairs, width) displays, coded as in `Bucket`; -1 is the last code.
    """
    pairs, width = order.shape
    value, by_a, by_b = np.empty(pairs), np.empty(pairs), np.empty(pairs)
    by_u = np.empty((width, pairs))
    by_v = None if v is None else np.empty((width, pairs))
    for part in blocks(pairs, width):
        own = order[part].T
        found = _expanded(u[own], None if v is None else v[own], a[part], b[part])
        value[part], by_a[part], by_b[part], by_u[:, part] = found[:4]
        if by_v is not None:
            by_v[:, part] = found[4]
    return Expansion(value, by_a, by_b, by_u, by_v)


def log_expanded(
    u: np.ndarray, v: np.ndarray | None, a: np.ndarray, b: np.ndarray, order: np.ndarray
) -> np.ndarray:
    """The value alone, for one emission (codes,) or several (samples, codes): (..., pairs)."""
    pairs, width = order.shape
    found = np.empty((*u.shape[:-1], pairs))
    for part in blocks(pairs, width):
        own = order[part].T
        terms = _terms(a[part], b[part], width)
        for sample in np.ndindex(u.shape[:-1]):
            e = _coefficients(u[sample][own], None if v is None else v[sample][own])[0]
            found[(*sample, part)] = np.log((e * terms).sum(axis=0))
    return found


def mixture_weights(
    u: np.ndarray, v: np.ndarray | None, a: np.ndarray, b: np.ndarray, order: np.ndarray
) -> np.ndarray:
    """Weights of the mixture of Beta(a + n, b + W - n) given the displays: (width + 1, pairs).

    W is the number of displays of a pair, and weights beyond it are 0. Arguments as for `expand`.
    """
    pairs, width = order.shape
    found = np.zeros((width + 1, pairs))
    displays = (order >= 0).sum(axis=1)
    # a missing display would be one more that is both attractive and unattractive
    for number in np.unique(displays):
        (rows,) = np.nonzero(displays == number)
        for part in blocks(len(rows), int(number)):
            own = rows[part]
            codes = order[own, :number].T
            e = _coefficients(u[codes], None if v is None else v[codes])[0]
            terms = e * _terms(a[own], b[own], int(number))
            found[: number + 1, own] = terms / terms.sum(axis=0)
    return found


def attracted(a: np.ndarray, b: np.ndarray, clicks: np.ndarray) -> np.ndarray:
    """Log-probability that M displays (pairs,) attract, log (a)_M / (a + b)_M; its derivatives.

    Returns:
        (3, pairs): the value, its derivative in a and that in b.
    """
    found = np.zeros((3, len(a)))
    (some,) = np.nonzero(clicks)  # of most pairs, none
    a, total, count = a[some], a[some] + b[some], clicks[some].astype(np.float64)
    # symmetric in M and b: the smaller of them keeps the logarithms, which cancel, small
    fewer, more = np.minimum(count, b[some]), np.maximum(count, b[some])
    found[0, some] = log_rising(a, fewer) - log_rising(a + more, fewer)
    by_total = rising_slope(total, count)
    found[1, some] = rising_slope(a, count) - by_total
    found[2, some] = -by_total
    return found


def blocks(pairs: int, width: int) -> list[slice]:
    """Consecutive pairs that are processed at once."""
    size = max(BLOCK // (width + 1) ** 2, 64)
    return [slice(start, start + size) for start in range(0, pairs, size)]


def _expanded(us: np.ndarray, vs: np.ndarray | None, a: np.ndarray, b: np.ndarray) -> tuple:
    """The parts of an `Expansion` for displays us and vs, (width, pairs) each."""
    width, pairs = us.shape
    e, before = _coefficients(us, vs)
    g = _terms(a, b, width)
    weights = e * g
    total = weights.sum(axis=0)
    g /= total
    weights /= total

    # the derivative of log c_n in a is sum_(i < n) 1 / (a + i) - sum_i 1 / (a + b + i); those of
    # all n share the inverses, each with the weight of the n beyond it
    by_a, by_b, both = np.zeros(pairs), np.zeros(pairs), np.zeros(pairs)
    beyond, up_to, sum_of_both = np.zeros(pairs), np.zeros(pairs), a + b
    for i in range(width - 1, -1, -1):
        beyond += weights[i + 1]
        up_to += weights[width - 1 - i]
        by_a += beyond / (a + i)
        by_b += up_to / (b + i)
        both += 1 / (sum_of_both + i)
    by_a -= both
    by_b -= both

    by_u = np.empty_like(us)
    by_v = None if vs is None else np.empty_like(us)
    room = np.empty_like(g)
    for j in range(width - 1, -1, -1):
        earlier = before[j, : j + 1]
        np.einsum("np,np->p", g[1 : j + 2], earlier, out=by_u[j])
        moved = np.multiply(us[j], g[1 : j + 2], out=room[: j + 1])
        if vs is not None and by_v is not None:
            np.einsum("np,np->p", g[: j + 1], earlier, out=by_v[j])
            g[: j + 1] *= vs[j]
        g[: j + 1] += moved
    return np.log(total), by_a, by_b, by_u, by_v


def _coefficients(us: np.ndarray, vs: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """e_n after all displays, (width + 1, pairs), and before each, (width, width + 1, pairs).

    Before the display j only n up to j are set.
    """
    width, pairs = us.shape
    before = np.empty((width + 1, width + 1, pairs))
    before[0, 0] = 1
    for j in range(width):
        e, grown = before[j, : j + 1], before[j + 1]
        np.multiply(us[j], e, out=grown[1 : j + 2])
        if vs is None:
            grown[0] = 1
            grown[1 : j + 1] += e[1:]
        else:
            np.multiply(vs[j], e[0], out=grown[0])
            grown[1 : j + 1] += vs[j] * e[1:]
    return before[width], before[:width]


def _terms(a: np.ndarray, b: np.ndarray, width: int) -> np.ndarray:
    """c_n = (a)_n (b)_(width - n) / (a + b)_width, n = 0 ... width: (width + 1, pairs)."""
    up, down = np.empty((width + 1, len(a))), np.empty((width + 1, len(a)))
    up[0], down[0] = 1, 1
    whole, total = np.ones(len(a)), a + b
    for n in range(width):
        np.multiply(up[n], a + n, out=up[n + 1])
        np.multiply(down[n], b + n, out=down[n + 1])
        whole *= total + n
    up *= down[::-1]
    up /= whole
    return up
