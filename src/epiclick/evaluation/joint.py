r"""How likely all clicks of a pair, and all clicks of a log, are together.

The probability of a single click depends on expectations alone; the joint probability of several
also sees how sure a model is of them. With biases theta^(i), i = 1 ... S, drawn from the model:

.. math:: \text{pair: } \sum_{qd} \log \frac1S \sum_i JJ_{qd}(\theta^{(i)}), \qquad
          \text{whole: } \log \frac1S \sum_i \prod_{qd} JJ_{qd}(\theta^{(i)})

The latter is the estimate that the paper publishes (its section 5.2). Binomial coefficients, the
same for all models, are left out: the clicks are taken in the order in which they came.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp

from epiclick.click_models.base import Emission
from epiclick.data.counts import ClickCounts
from epiclick.likelihood.pairs import PairBatch, pair_log_likelihoods
from epiclick.processes import refuse_after_fork
from epiclick.training.batches import Batches

CHUNK = 32_768  # pairs at once


@dataclass(frozen=True)
class JointScores:
    """Joint log-likelihoods of all pairs: `pair` summed over pairs, `whole` of all at once."""

    pair: float
    whole: float


def joint_log_likelihood(
    counts: ClickCounts,
    emission: Emission,
    alpha: np.ndarray,
    beta: np.ndarray,
    batches: Batches | None = None,
) -> JointScores:
    """Joint log-likelihoods of counts, relevance integrated out.

    Args:
        counts: displays and clicks.
        emission: (samples, contexts) drawn from the model, or a single one.
        alpha: (pairs,) first parameter of the Beta of relevance.
        beta: (pairs,) second parameter.
        batches: how the pairs are dealt, where several counts are to share compiled programs.
    """
    refuse_after_fork()
    if batches is None:
        batches = Batches(counts, CHUNK, affine=emission.is_affine)
    by_sample = np.zeros(len(emission.attractive))
    total = 0.0
    with jax.enable_x64(True):
        for pairs in batches.epoch():
            batch = batches.assemble(pairs)
            each = _weighted(emission, alpha[pairs], beta[pairs], batch)
            pair, samples = map(np.asarray, each)
            total += float(pair)
            by_sample += samples
    return JointScores(total, float(logsumexp(by_sample) - np.log(len(by_sample))))


@jax.jit
def _weighted(
    emission: Emission, alpha: jax.Array, beta: jax.Array, batch: PairBatch
) -> tuple[jax.Array, jax.Array]:
    """Sum over pairs of log mean JJ, and of log JJ under each bias (samples,)."""
    each = pair_log_likelihoods(emission, alpha, beta, batch)  # (samples, pairs)
    mean = jax.nn.logsumexp(each, axis=0) - jnp.log(len(each))
    return mean @ batch.weight, each @ batch.weight
