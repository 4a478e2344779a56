"""Mean and variance of pairs' relevance given their clicks, by each of many draws of parameters."""

from collections.abc import Iterator, Sequence

import jax
import numpy as np

from epiclick.click_models.base import Emission
from epiclick.data.counts import ClickCounts
from epiclick.likelihood.compact import are_many, few_sizes, slots_needed, slots_of
from epiclick.likelihood.tilting import tilted
from epiclick.models.averaging import bias_by, networks_of
from epiclick.models.fitted import FittedModel
from epiclick.models.parameters import Parameters
from epiclick.models.prediction import chunks_of, contexts_of, relevance_of_pairs
from epiclick.processes import refuse_after_fork

CHUNK = 1024  # pairs at once, always as many, so that programs compile once


def moments_by_draw(
    fitted: FittedModel, counts: ClickCounts, draws: Sequence[Parameters]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Means and variances, (draws, pairs) each, of some pairs after the others.

    Where `posteriors` averages over draws, here they stay apart: what depends on many pairs at once
    varies with the parameters that these have in common.
    """
    refuse_after_fork()
    networks = networks_of(draws)
    emission = Emission(*bias_by(fitted, draws, contexts_of(fitted, counts.contexts)))
    mean = Emission(*(part.mean(axis=0) for part in emission[:2]))
    for _, _, part in chunks_of(counts, CHUNK):
        alpha, beta = (
            np.broadcast_to(each, (len(draws), len(part)))
            for each in relevance_of_pairs(fitted, networks, part)
        )
        slots, clicks, unclicked = _laid_out(part)
        missing = CHUNK - len(part)
        alpha, beta = (
            np.pad(each, ((0, 0), (0, missing)), constant_values=1) for each in (alpha, beta)
        )
        below = ((0, missing), (0, 0))
        clicks, unclicked = (np.pad(each, below) for each in (clicks, unclicked))
        slots = None if slots is None else np.pad(slots, below)
        average = (mean, alpha.mean(axis=0), beta.mean(axis=0), clicks, unclicked)
        with jax.enable_x64(True):
            found = tilted(*average, emission, alpha, beta, slots)
        yield found.mean[:, : len(part)], found.variance[:, : len(part)]


def _laid_out(counts: ClickCounts) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """Contexts, clicks and unclicked displays by slots, or of all contexts (None) if few."""
    contexts = len(counts.contexts)
    if not are_many(contexts):
        displays, clicks = counts.dense()
        return None, clicks, displays - clicks
    size = few_sizes(int(slots_needed(counts).max(initial=1)), contexts)
    return slots_of(counts, np.arange(len(counts)), size)
