r"""The likelihood in closed form under many position biases at once.

The sum over the ways in which unclicked displays were overlooked,

.. math:: E_\zeta\Big[\prod_k (\theta_k \zeta)^{M_k} (1 - \theta_k \zeta)^{W_k}\Big] =
    \prod_k \theta_k^{M_k} \, \frac{(a)_M}{(a+b)_M}
    \sum_{n=0}^{W} e_n \frac{(a + M)_n \, (b)_{W-n}}{(a + b + M)_W},

separates: the elementary symmetric polynomials e_n of the r_k = 1 - theta_k (each taken W_k times)
depend on position bias alone, the ratios on relevance alone. Many biases thus share the ratios, and
no step takes a logarithm but the last. This module has the sum; what stands before it concerns
clicks alone. All terms are positive. Nothing is renormalised on the way, so it is for few unclicked
displays and for float64: with 16 of them and a billion clicks the smallest ratio is 1e-144.
`exact.py` has the same sum for float32 and for more displays.
"""

import jax
import jax.numpy as jnp

MANY_CONTEXTS = 32


def expanded_log_unclicked(
    rest: jax.Array, attractive: jax.Array, beta: jax.Array, unclicked: jax.Array
) -> jax.Array:
    """Log-probability of each pair's unclicked displays given its clicks, under each bias.

    Args:
        rest: (samples, contexts) 1 - theta.
        attractive: (pairs,) a + M, first parameter of the Beta of relevance after the clicks.
        beta: (pairs,) second parameter.
        unclicked: (pairs, width) context of each display without a click, -1 where there is none.

    Returns:
        (samples, pairs).
    """
    polynomials = _symmetric_polynomials(_unseen(rest, unclicked))
    ratios = _ratios(attractive, beta, unclicked.shape[1])
    return jnp.log(sum(e * ratio for e, ratio in zip(polynomials, ratios, strict=True)))


def _unseen(rest: jax.Array, unclicked: jax.Array) -> list[jax.Array]:
    """1 - theta at each unclicked display: `width` arrays (samples, pairs).

    A display that is missing counts as one that nobody looks at: its factor is (1 - zeta) + zeta.
    Looked up by a product with ones and zeros, several times faster than a gather where contexts
    are few.
    """
    samples, contexts = rest.shape
    table = jnp.concatenate([rest, jnp.ones((samples, 1), rest.dtype)], axis=1)
    number = jnp.where(unclicked < 0, contexts, unclicked)
    if contexts > MANY_CONTEXTS:
        return [table[:, number[:, i]] for i in range(unclicked.shape[1])]
    # (contexts + 1, width, pairs)
    chosen = jnp.arange(contexts + 1)[:, None, None] == number.T[None]
    each = jnp.tensordot(table, chosen.astype(rest.dtype), axes=1)  # (samples, width, pairs)
    return [each[:, i] for i in range(unclicked.shape[1])]


def _symmetric_polynomials(factors: list[jax.Array]) -> list[jax.Array]:
    """e_0, e_1, ... of the factors, one factor at a time: e_n <- e_n + r e_(n-1)."""
    e = [jnp.ones_like(factors[0])]
    for r in factors:
        e = [e[0], *(e[n] + r * e[n - 1] for n in range(1, len(e))), r * e[-1]]
    return e


def _ratios(attractive: jax.Array, beta: jax.Array, width: int) -> list[jax.Array]:
    """(a + M)_n (b)_(width - n) / (a + b + M)_width for n = 0 ... width: arrays (pairs,)."""
    up, down = _rising(attractive, width), _rising(beta, width)
    whole = _rising(attractive + beta, width)[-1]
    return [up[n] * down[width - n] / whole for n in range(width + 1)]


def _rising(x: jax.Array, n: int) -> list[jax.Array]:
    """The rising factorials (x)_0 ... (x)_n."""
    products = [jnp.ones_like(x)]
    for i in range(n):
        products.append(products[-1] * (x + i))
    return products
