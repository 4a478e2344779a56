r"""Adam (Kingma and Ba 2015), for one array of parameters at a time.

.. math:: m \leftarrow 0.9\, m + 0.1\, g, \quad v \leftarrow 0.999\, v + 0.001\, g^2, \quad
          \text{step} = \frac{m / (1 - 0.9^t)}{\sqrt{v / (1 - 0.999^t)} + \epsilon}
"""

import numpy as np

DECAYS = 0.9, 0.999  # of the running means of gradients and of their squares
EPSILON = 1e-8


def adam_step(
    gradient: np.ndarray, mean: np.ndarray, square: np.ndarray, number: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The step to be scaled by a learning rate, and the running means after it.

    Args:
        gradient: of the array.
        mean: running mean of gradients, 0 before the first step.
        square: running mean of their squares, 0 before the first step.
        number: of the step, counted from 1.
    """
    mean = DECAYS[0] * mean + (1 - DECAYS[0]) * gradient
    square = DECAYS[1] * square + (1 - DECAYS[1]) * np.square(gradient)
    fade, fade_square = (1 - decay**number for decay in DECAYS)
    return (mean / fade) / (np.sqrt(square / fade_square) + EPSILON), mean, square
