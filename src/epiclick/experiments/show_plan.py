r"""Which items to show, and how often, if those that were never shown make a difference uncertain.

Item i adds C_i to the variance of the difference, and v_i is the variance of its relevance. A
display in a slot where a click has probability p, and p rises by s with relevance, has the
information I = s^2 / (p (1 - p)), so that after n_i displays it adds

.. math:: \frac{C_i}{1 + n_i v_i I_i}.

The fewest displays that bring the sum down to a target are, for one Lagrange multiplier,

.. math:: n_i = \max\Big(0, \frac{\sqrt{C_i v_i I_i / \lambda} - 1}{v_i I_i}\Big).
"""

import numpy as np
from scipy import optimize

LEAST, MOST = -700.0, 700.0  # logarithms of the multiplier


def displays_to_reach(
    part: np.ndarray, variance: np.ndarray, information: np.ndarray, target: float
) -> np.ndarray | None:
    """(items,) displays after which the items' parts add up to the target; None if they cannot.

    Args:
        part: (items,) C, in the variance of the difference.
        variance: (items,) of relevance.
        information: (items,) of a display about relevance.
        target: what the parts may add up to.
    """
    gain = variance * information
    movable = gain > 0
    if part[~movable].sum() >= target:
        return None

    def displays(log_multiplier: float) -> np.ndarray:
        needed = np.zeros(len(part))
        scale = 0.5 * (np.log(np.maximum(part * gain, np.finfo(float).tiny)) - log_multiplier)
        needed[movable] = np.expm1(np.clip(scale[movable], 0, MOST)) / gain[movable]
        return needed

    def excess(log_multiplier: float) -> float:
        return float((part / (1 + displays(log_multiplier) * gain)).sum() - target)

    if excess(MOST) <= 0:
        return np.zeros(len(part))
    return displays(float(optimize.brentq(excess, LEAST, MOST, xtol=1e-10)))
