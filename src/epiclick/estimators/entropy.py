"""Entropy of Beta distributions inside compiled programs, and the paper's regularisation by it."""

import math

import jax
import jax.numpy as jnp

from epiclick.estimators.estimator import Betas

SHIFT = 10
"""Steps of the recurrence before Stirling's series, which is then exact to 4e-16."""

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)  # B_2, B_4, ...


def beta_entropy(alpha: jax.Array, beta: jax.Array) -> jax.Array:
    r"""Differential entropy of each Beta (paper, section 4.2), elementwise; float64.

    .. math:: H = \log B(\alpha, \beta) - (\alpha - 1) \psi(\alpha) - (\beta - 1) \psi(\beta)
                  + (\nu - 2) \psi(\nu), \quad \nu = \alpha + \beta

    With the remainders of Stirling's formula every term that grows with nu cancels analytically,
    and the Gaussian limit comes first:

    .. math:: H = \tfrac12 \log \frac{2 \pi e\, \alpha \beta}{\nu^3} - \frac{1}{2 \alpha}
                  - \frac{1}{2 \beta} + \frac{1}{\nu} + g_1(\alpha) + g_1(\beta) - g_2(\nu),
                  \quad g_c(x) = \delta(x) + (x - c)\, \eta(x)
    """
    nu = alpha + beta
    spread = jnp.log(alpha) + jnp.log(beta) - 3 * jnp.log(nu)
    gaussian = 0.5 * (math.log(2 * math.pi) + 1 + spread)
    return gaussian + _beyond(alpha, 1) + _beyond(beta, 1) - _beyond(nu, 2)


def modified_entropy(relevance: Betas, position: Betas | None, weight: jax.Array) -> jax.Array:
    r"""Mean entropy over pairs plus mean entropy over contexts (paper, section 5.4); a scalar.

    .. math:: \bar{\mathbf H}' = \frac{1}{|\mathcal D|} \sum_{qd} H(\alpha_{qd}, \beta_{qd})
                                 + \frac1K \sum_k H(\alpha_k, \beta_k)

    Args:
        relevance: (pairs,) Betas.
        position: (contexts,) Betas; None for points, which have no entropy term.
        weight: (pairs,) weight of each pair in the mean.
    """
    each = beta_entropy(relevance.alpha, relevance.beta)
    total = weight.sum()
    mean = (weight @ each) / jnp.where(total > 0, total, 1.0)  # a bootstrap sample may be empty
    if position is None:
        return mean
    return mean + beta_entropy(position.alpha, position.beta).mean()


def _beyond(x: jax.Array, c: int) -> jax.Array:
    """g_c(x) - c / (2 x): one parameter's correction to the Gaussian limit."""
    delta, eta = _stirling_remainders(x)
    return delta + (x - c) * eta - 0.5 * c / x


def _stirling_remainders(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    r"""Remainders of Stirling's formula for log-gamma and digamma: delta and eta, shapes as x.

    .. math:: \log\Gamma(x) = (x - \tfrac12) \log x - x + \tfrac12 \log 2\pi + \delta(x),
              \quad \psi(x) = \log x - \frac{1}{2x} - \eta(x)

    Their recurrences lead from x to z = x + 10,

    .. math:: \delta(x) &= \delta(z) + (x - \tfrac12) \log\frac zx - 10
                           - \sum_{i<10} \log\frac{x + i}{z} \\
              \eta(x) &= \eta(z) - \log\frac zx
                         + \sum_{i<10} \frac12 \Big(\frac{1}{x + i} + \frac{1}{x + i + 1}\Big),

    in terms that are accurate to 1e-15 for all x: there is no branch, and derivatives are as
    accurate.
    """
    z = x + SHIFT
    stretch = jnp.log1p(SHIFT / x)  # log(z / x)
    steps = jnp.log(math.prod((x + i) / z for i in range(SHIFT)))
    trapezoids = 0.5 / x + sum(1 / (x + i) for i in range(1, SHIFT)) + 0.5 / z
    t = 1 / (z * z)
    delta = _polynomial([b / (2 * k * (2 * k - 1)) for k, b in enumerate(_BERNOULLI, 1)], t) / z
    eta = _polynomial([b / (2 * k) for k, b in enumerate(_BERNOULLI, 1)], t) * t
    return delta + (x - 0.5) * stretch - SHIFT - steps, eta - stretch + trapezoids


def _polynomial(coefficients: list[float], t: jax.Array) -> jax.Array:
    """c_0 + c_1 t + c_2 t^2 + ..., by Horner's rule."""
    value = jnp.zeros_like(t)
    for c in reversed(coefficients):
        value = value * t + c
    return value
