"""What a fitted model knows of the pairs of a log given their clicks, some pairs at a time."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from epiclick.data.counts import ClickCounts
from epiclick.errors import InputError
from epiclick.models.averaging import bias_by, networks_of
from epiclick.models.fitted import FittedModel, Items
from epiclick.models.item_tables import check_above, frame_of
from epiclick.models.parameters import Parameters
from epiclick.models.prediction import chunks_of, contexts_of, relevance_of_pairs
from epiclick.models.uncertainty import parameter_draws
from epiclick.posterior.relevance import ItemPosterior, item_posterior
from epiclick.relevance.average import beta_columns

CHUNK = 65_536  # pairs at once


def posteriors(
    fitted: FittedModel,
    counts: ClickCounts,
    level: float,
    *,
    above: float | None = None,
    draws: Sequence[Parameters] | None = None,
) -> Iterator[tuple[ClickCounts, ItemPosterior]]:
    """Pairs and their relevance given their clicks, averaged over draws of the parameters.

    What is known of the parameters is taken as it is: these clicks do not add to it, as they mostly
    are in it already.
    """
    draws = draws or parameter_draws(fitted)
    networks = networks_of(draws)
    theta, rest = bias_by(fitted, draws, contexts_of(fitted, counts.contexts))
    for _, _, part in chunks_of(counts, CHUNK):
        alpha, beta = relevance_of_pairs(fitted, networks, part)
        yield part, item_posterior(part, theta, rest, alpha, beta, level, CHUNK, above=above)


def posterior_frames(
    fitted: FittedModel,
    counts: ClickCounts,
    level: float,
    *,
    above: float | None = None,
    draws: Sequence[Parameters] | None = None,
) -> Iterator[pd.DataFrame]:
    """The columns of `relevance_frames` for the pairs of counts, in their order."""
    check_above(above)
    if not fitted.relevance_head.learns_from_clicks:
        raise InputError(
            "a pointwise model has one number for an item and does not learn from its clicks; fit "
            "an EpistemicPBM"
        )
    for part, known in posteriors(fitted, counts, level, above=above, draws=draws):
        columns = beta_columns(known.betas, known.mean, known.low, known.high, known.above)
        yield frame_of(part.query_id, part.doc_id, columns)


def known_items(fitted: FittedModel, counts: ClickCounts, level: float) -> Items:
    """What a model without features keeps of the pairs of its log."""
    found = [known for _, known in posteriors(fitted, counts, level)]
    betas = [known.betas for known in found]
    return Items(
        counts.query_id,
        counts.doc_id,
        alpha=np.concatenate([each.alpha for each in betas]),
        beta=np.concatenate([each.beta for each in betas]),
        low=np.concatenate([known.low for known in found]),
        high=np.concatenate([known.high for known in found]),
    )
