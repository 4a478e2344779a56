"""The likelihood in closed form, under one emission or many, as a function that jax can trace.

The sum is that of `epiclick.likelihood.closed_form`, whose docstring derives it. It separates: the
elementary symmetric polynomials e_n depend on position bias only, the ratios c_n on relevance only.
Many biases thus share the ratios, and only the last step takes a logarithm. Nothing is
renormalised, so it is for few displays and for float64.
"""

import math

import jax
import jax.numpy as jnp

from epiclick.click_models.click_model import Emission
from epiclick.likelihood.pairs import MANY_CONTEXTS

SHIFT = 8
"""Steps of the recurrence before Stirling's series, which is then accurate to 1e-16."""


def log_rising(x: jax.Array, n: jax.Array) -> jax.Array:
    r"""Logarithm of the rising factorial, for real n >= 0 as well.

    .. math:: \log (x)_n = \log\Gamma(x + n) - \log\Gamma(x)

    The difference of two log-gammas loses all digits that they share (in float32, 3e-4 at
    x = 1,000). Here both are shifted up by the recurrence, and Stirling's series is subtracted term
    by term.

    Args:
        x: positive, any shape.
        n: at least 0, of a shape that broadcasts with x.
    """
    return _log_rising(*jnp.broadcast_arrays(x, n))


@jax.custom_jvp
def _log_rising(x: jax.Array, n: jax.Array) -> jax.Array:
    # products of four do not overflow float32, and need fewer logarithms
    shifted = sum(
        jnp.log(math.prod((x + i) / (x + n + i) for i in range(start, start + 4)))
        for start in range(0, SHIFT, 4)
    )
    z = x + SHIFT
    leading = n * jnp.log(z) + (z + n - 0.5) * jnp.log1p(n / z) - n
    return shifted + leading + _stirling(z + n) - _stirling(z)


@_log_rising.defjvp
def _log_rising_jvp(primals: tuple, tangents: tuple) -> tuple[jax.Array, jax.Array]:
    r"""By x psi(x + n) - psi(x), again without a difference of large numbers; by n psi(x + n).

    Written out because automatic differentiation leaves the compiler a program for every quotient.
    """
    x, n = primals
    by_x, by_n = tangents
    z = x + SHIFT
    ratio = n / z
    between = jnp.log1p(ratio) + ratio / (2 * (z + n)) + _digamma_rest(z + n) - _digamma_rest(z)
    upper = jnp.log(z + n) - 1 / (2 * (z + n)) + _digamma_rest(z + n)
    for i in range(SHIFT):
        inverse = 1 / (x + n + i)
        between = between + n * inverse / (x + i)
        upper = upper - inverse
    return _log_rising(x, n), between * by_x + upper * by_n


def _digamma_rest(z: jax.Array) -> jax.Array:
    """What log z - 1 / (2 z) leaves of digamma, for z >= 8."""
    square = 1 / (z * z)
    series = 1 / 132 - square * (691 / 32_760 - square / 12)
    series = 1 / 252 - square * (1 / 240 - square * series)
    return -square * (1 / 12 - square * (1 / 120 - square * series))


def _stirling(z: jax.Array) -> jax.Array:
    """Remainder of Stirling's formula for log-gamma, for z >= 8."""
    square = 1 / (z * z)
    series = 1 / 1188 - square * (691 / 360_360 - square / 156)
    series = 1 / 1260 - square * (1 / 1680 - square * series)
    return (1 / 12 - square * (1 / 360 - square * series)) / z


def log_binomial(n: jax.Array, k: jax.Array) -> jax.Array:
    """Logarithm of the binomial coefficient, elementwise; accurate for millions too."""
    n, k = jnp.broadcast_arrays(n, k)
    fewer = jnp.minimum(k, n - k)
    return log_rising(n - fewer + 1, fewer) - log_rising(jnp.ones_like(n), fewer)


def log_attracted(alpha: jax.Array, beta: jax.Array, clicks: jax.Array) -> jax.Array:
    """Log-probability that M displays (pairs,) attract: log (a)_M / (a + b)_M; (pairs,)."""
    total = clicks.astype(alpha.dtype)
    return log_rising(alpha, total) - log_rising(alpha + beta, total)


def tables(emission: Emission) -> tuple[jax.Array, jax.Array | None]:
    """u and v of each display's form u zeta + v (1 - zeta), by the codes of `Bucket.order`.

    (..., contexts) of skips, then, if the emission is affine, the same number of clicks. Otherwise
    only skips are listed, and v, which is 1, is None.
    """
    if not emission.is_affine:
        return emission.attractive_rest, None
    u = jnp.concatenate([emission.attractive_rest, emission.attractive], axis=-1)
    return u, jnp.concatenate([emission.unattractive_rest, emission.unattractive], axis=-1)


def expanded_log_unclicked(
    emission: Emission, attractive: jax.Array, beta: jax.Array, order: jax.Array
) -> jax.Array:
    """Log-probability of each pair's unclicked displays given its clicks, under each emission.

    If the emission is affine, that of all displays, and attractive = a.

    Args:
        emission: (samples, contexts) probabilities of a click.
        attractive: (pairs,) a + M, first parameter of the Beta of relevance after the clicks.
        beta: (pairs,) second parameter.
        order: (pairs, width) displays, coded as in `Bucket`.

    Returns:
        (samples, pairs).
    """
    u, v = tables(emission)
    us = _looked_up(u, order)
    vs = None if v is None else _looked_up(v, order)
    if len(u) == 1:
        return _log_sum(us, vs, attractive, beta)
    polynomials = _symmetric_polynomials([*us]) if vs is None else _coefficients([*us], [*vs])
    ratios = _ratios(attractive, beta, len(us))
    return jnp.log(sum(e * ratio for e, ratio in zip(polynomials, ratios, strict=True)))


@jax.custom_jvp
def _log_sum(
    us: jax.Array, vs: jax.Array | None, attractive: jax.Array, beta: jax.Array
) -> jax.Array:
    """The logarithm of the sum, (samples, pairs), of displays us and vs (width, samples, pairs).

    Its derivatives are written out: the compiler takes several times as long for those that
    automatic differentiation finds, and most of the time of a small fit is compiling.
    """
    return jnp.log(_mixtures(us, vs, attractive, beta)[0].sum(axis=0))


@_log_sum.defjvp
def _log_sum_jvp(primals: tuple, tangents: tuple) -> tuple[jax.Array, jax.Array]:
    """The sum, and its change, from the derivatives by each display and by both Beta parameters.

    With p the weights of the mixture before a display and g the derivatives of the sum by those
    after it, the display's form leads back to g_n <- (v g_n (b + j - n) + u g_(n+1) (a + n)) / s,
    s = a + b + j, and its own derivatives are sums over n of products of g and p.
    """
    us, vs, attractive, beta = primals
    by_u, by_v, by_attractive, by_beta = tangents
    last, before = _mixtures(us, vs, attractive, beta)
    total = last.sum(axis=0)
    hidden = jnp.arange(len(last), dtype=us.dtype)[:, None, None]  # n

    def step(later: tuple, display: tuple) -> tuple[tuple, tuple]:
        g, d_attractive, d_beta = later
        weights, u, v, counted = display
        shift = attractive + beta + counted
        above = jnp.concatenate([g[1:], jnp.zeros_like(g[:1])])  # g_(n+1)
        stays, moves = weights * g, weights * above
        stay = (stays * (beta + counted - hidden)).sum(axis=0)
        move = (moves * (attractive + hidden)).sum(axis=0)
        stays, moves = stays.sum(axis=0), moves.sum(axis=0) * u
        through = stay + move * u if v is None else stay * v + move * u
        through = through / shift
        d_attractive = d_attractive + (moves - through) / shift
        d_beta = d_beta + ((stays if v is None else stays * v) - through) / shift
        g = (beta + counted - hidden) * (g if v is None else g * v) + (
            attractive + hidden
        ) * above * u
        return (g / shift, d_attractive, d_beta), (
            move / shift,
            None if v is None else stay / shift,
        )

    nothing = jnp.zeros_like(total)
    start = (jnp.broadcast_to(1 / total, last.shape), nothing, nothing)
    displays = (before, us, vs, jnp.arange(len(us), dtype=us.dtype))
    (_, d_attractive, d_beta), (d_u, d_v) = jax.lax.scan(step, start, displays, reverse=True)
    change = (d_u * by_u).sum(axis=0) + d_attractive * by_attractive + d_beta * by_beta
    return jnp.log(total), change if vs is None else change + (d_v * by_v).sum(axis=0)


def _mixtures(
    us: jax.Array, vs: jax.Array | None, attractive: jax.Array, beta: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Weights of the mixture, not normalised, after all displays and before each of them.

    They add up to the likelihood of the displays up to there, a product of probabilities. (width +
    1, samples, pairs), and (width, width + 1, samples, pairs).
    """
    width, samples, pairs = us.shape
    hidden = jnp.arange(width + 1, dtype=us.dtype)[:, None, None]  # n

    def step(weights: jax.Array, display: tuple) -> tuple[jax.Array, jax.Array]:
        u, v, counted = display
        # weights beyond n = counted are 0, whatever their factors
        stay = weights * (beta + counted - hidden)
        move = weights * (attractive + hidden) * u
        stay = stay if v is None else stay * v
        grown = stay + jnp.concatenate([jnp.zeros_like(move[:1]), move[:-1]])
        return grown / (attractive + beta + counted), weights

    start = jnp.zeros((width + 1, samples, pairs), us.dtype).at[0].set(1)
    return jax.lax.scan(step, start, (us, vs, jnp.arange(width, dtype=us.dtype)))


def _looked_up(values: jax.Array, order: jax.Array) -> jax.Array:
    """Values (samples, codes) at each display: (width, samples, pairs).

    A missing display counts as one that is never examined: its factor is (1 - zeta) + zeta = 1.
    With few contexts a product with ones and zeros is several times faster than a gather.
    """
    samples, codes = values.shape
    table = jnp.concatenate([values, jnp.ones((samples, 1), values.dtype)], axis=1)
    number = jnp.where(order < 0, codes, order).T  # (width, pairs)
    if codes > MANY_CONTEXTS:
        return jnp.moveaxis(table[:, number], 0, 1)
    chosen = jnp.arange(codes + 1)[:, None, None] == number  # (codes + 1, width, pairs)
    return jnp.moveaxis(jnp.tensordot(table, chosen.astype(values.dtype), axes=1), 0, 1)


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
