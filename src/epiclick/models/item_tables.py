"""Tables of what is known of items: from their features, or from the training log."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy import special

from epiclick.arguments import is_number, shown
from epiclick.beta import Beta
from epiclick.data.features import FeatureTable
from epiclick.errors import InputError
from epiclick.models.averaging import networks_of
from epiclick.models.fitted import FittedModel, Items
from epiclick.models.parameters import Parameters
from epiclick.models.prediction import relevance_of_rows
from epiclick.models.uncertainty import parameter_draws
from epiclick.relevance.average import beta_columns


def relevance_frames(
    fitted: FittedModel,
    features: FeatureTable,
    level: float,
    *,
    above: float | None = None,
    draws: Sequence[Parameters] | None = None,
) -> Iterator[pd.DataFrame]:
    """query_id, doc_id, mean, low, high, alpha, beta of the features' rows, chunk after chunk.

    Mean, low and high are of the average over draws of the parameters; alpha and beta are of the
    Beta with its mean and variance. Low and high of a pointwise model are quantiles of what its
    members say, with straight lines between neighbours, and it has no Beta. With `above` a column
    `prob_above` is added, the probability of a relevance above it. `draws` are those of
    `parameter_draws` unless given.
    """
    check_above(above)
    if fitted.features is None:
        raise InputError(
            "the model was trained without features, so it cannot predict from them; ask for the "
            "items of its log, or give clicks"
        )
    networks, start = networks_of(draws or parameter_draws(fitted)), 0
    for first, second in relevance_of_rows(fitted, networks, features, np.arange(len(features))):
        keys = features.keys.slice(start, first.shape[1])
        start += len(keys)
        columns = fitted.relevance_head.columns(first, second, level, above)
        yield frame_of(keys["query_id"], keys["doc_id"], columns)


def item_frame(items: Items, *, above: float | None = None) -> pd.DataFrame:
    """The same columns of the items of the training log, given their clicks there."""
    check_above(above)
    betas = Beta(items.alpha, items.beta)
    share = None if above is None else special.betaincc(items.alpha, items.beta, above)
    columns = beta_columns(betas, betas.mean, items.low, items.high, share)
    return frame_of(items.query_id, items.doc_id, columns)


def frame_of(
    query_id: pa.Array | pa.ChunkedArray,
    doc_id: pa.Array | pa.ChunkedArray,
    columns: dict[str, np.ndarray],
) -> pd.DataFrame:
    """A table of items, their ids first."""
    return pd.DataFrame(
        {"query_id": query_id.to_pandas(), "doc_id": doc_id.to_pandas(), **columns}, copy=False
    )


def check_above(above: float | None) -> None:
    """Refuse a threshold that no relevance can be on both sides of."""
    if above is not None and not (is_number(above) and 0 < above < 1):
        raise InputError(
            "above must lie strictly between 0 and 1, as relevance does, got "
            f"{shown(above)}; such as 0.3"
        )
