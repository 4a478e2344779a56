"""The likelihood display by display, as a product of probabilities: slow, and for any number."""

import numpy as np

STEP = 1e-30
"""Of derivatives by a complex step, which have no rounding error of a difference."""


def log_displays(
    us: np.ndarray, vs: np.ndarray | float, a: np.ndarray, b: np.ndarray
) -> np.ndarray:
    r"""Log-probability of displays with forms u zeta + v (1 - zeta), zeta ~ Beta(a, b): (pairs,).

    After j displays relevance is a mixture of Beta(a + n, b + j - n) with weights p_n, and the next
    one has the probability sum_n p_n (v (b + j - n) + u (a + n)) / (a + b + j). Numbers may be
    complex.

    Args:
        us: (displays, pairs); 1 for a display that is missing.
        vs: the same, or 1.
        a: (pairs,).
        b: (pairs,).
    """
    displays, pairs = us.shape
    vs = np.broadcast_to(vs, us.shape)
    kind = np.result_type(us, vs, a, b, float)
    n = np.arange(displays + 1)[:, None]
    weights = np.zeros((displays + 1, pairs), kind)
    weights[0] = 1
    total = np.zeros(pairs, kind)
    for j in range(displays):
        stay = weights * (vs[j] * (b + j - n))
        move = weights * (us[j] * (a + n))
        weights = stay
        weights[1:] += move[:-1]
        weights /= a + b + j
        scale = weights.sum(axis=0)
        weights /= scale
        total += np.log(scale)
    return total


def slope(function, at: list[np.ndarray], which: int, place: tuple | slice = ...) -> np.ndarray:
    """Derivative of a function of arrays in an element (or one per pair) of one of them."""
    moved = [np.asarray(part, complex).copy() for part in at]
    moved[which][place] += 1j * STEP
    return function(*moved).imag / STEP
