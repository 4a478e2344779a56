"""Where a pair was shown: the inputs of the Beta by id.

Without features the network is its last layer alone, and its inputs are where a pair was shown: one
Beta for all pairs, tilted by the shares of its displays in each given context. Were it the same for
all, rankers would deceive it: they show better items higher up, so that clicks lost to lower
positions would be blamed on position, and bias there would come out too low. (What is shown is no
part of the likelihood, so relevance may depend on it; this is Mundlak's device for random effects.)
"""

import numpy as np


def exposure(displays: np.ndarray) -> np.ndarray:
    """Share of a pair's displays in each given context, (pairs, given contexts) float32.

    Given ones alone: by contexts with a history, shares would report the clicks to the prior.

    A pair that was never shown counts as shown in all alike: shares of 0 are beyond anything that a
    network has learned from.
    """
    total = displays.sum(axis=1, keepdims=True)
    shares = np.where(total > 0, displays / np.maximum(total, 1), 1 / displays.shape[1])
    return shares.astype(np.float32)
