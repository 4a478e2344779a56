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

Where unattractive items are clicked as well, each display, clicked or not, is a form
u zeta + v (1 - zeta) (see `exact.py`). Then N displays stand in place of W, a in place of a + M,
and in place of e_n the coefficients of their product, c_n <- v c_n + u c_(n-1).
"""

import jax
import jax.numpy as jnp

from epiclick.click_models.base import Emission
from epiclick.likelihood.exact import tables

MANY_CONTEXTS = 32
"""More are looked up by index, and pairs are laid out by the contexts that they were shown in."""


def expanded_log_unclicked(
    emission: Emission, attractive: jax.Array, beta: jax.Array, order: jax.Array
) -> jax.Array:
    """Log-probability of each pair's unclicked displays given its clicks, under each emission.

    Where the emission is affine, that of all displays, and attractive = a.

    Args:
        emission: (samples, contexts) probabilities of a click.
        attractive: (pairs,) a + M, first parameter of the Beta of relevance after the clicks.
        beta: (pairs,) second parameter.
        order: (pairs, width) displays, coded as in `Bucket`.

    Returns:
        (samples, pairs).
    """
    u, v = tables(emission)
    if v is None:
        polynomials = _symmetric_polynomials(_looked_up(u, order))
    else:
        polynomials = _coefficients(_looked_up(u, order), _looked_up(v, order))
    ratios = _ratios(attractive, beta, order.shape[1])
    return jnp.log(sum(e * ratio for e, ratio in zip(polynomials, ratios, strict=True)))


def _looked_up(values: jax.Array, order: jax.Array) -> list[jax.Array]:
    """Values (samples, codes) at each display: `width` arrays (samples, pairs).

    A display that is missing counts as one that nobody looks at: its factor is (1 - zeta) + zeta.
    Looked up by a product with ones and zeros, several times faster than a gather where contexts
    are few.
    """
    samples, codes = values.shape
    table = jnp.concatenate([values, jnp.ones((samples, 1), values.dtype)], axis=1)
    number = jnp.where(order < 0, codes, order)
    if codes > MANY_CONTEXTS:
        return [table[:, number[:, i]] for i in range(order.shape[1])]
    # (codes + 1, width, pairs)
    chosen = jnp.arange(codes + 1)[:, None, None] == number.T[None]
    each = jnp.tensordot(table, chosen.astype(values.dtype), axes=1)  # (samples, width, pairs)
    return [each[:, i] for i in range(order.shape[1])]


def _coefficients(us: list[jax.Array], vs: list[jax.Array]) -> list[jax.Array]:
    """c_0, c_1, ... of the product of all u zeta + v (1 - zeta), one factor at a time."""
    c = [jnp.ones_like(us[0])]
    for u, v in zip(us, vs, strict=True):
        c = [v * c[0], *(v * c[n] + u * c[n - 1] for n in range(1, len(c))), u * c[-1]]
    return c


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
