"""What is known of items: by their own clicks where there are any, by their features elsewhere."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from epiclick.data.counts import ClickCounts
from epiclick.data.features import read_features
from epiclick.errors import InputError
from epiclick.models.fitted import FittedModel
from epiclick.models.item_tables import item_frame, relevance_frames
from epiclick.models.parameters import Parameters


def judged_items(
    fitted: FittedModel,
    features: Any,
    counts: ClickCounts | None,
    level: float,
    *,
    draws: Sequence[Parameters] | None = None,
) -> pd.DataFrame:
    """The columns of `relevance_frames` for items with clicks, and for others that have features.

    Args:
        fitted: the model.
        features: of the items, read as `read_features` does; None for those of the counts alone.
        counts: the items' own clicks, if any.
        level: probability that `low` to `high` holds.
        draws: of the parameters; those of `parameter_draws` unless given.

    With neither, a model without features tells of the items of its log.
    """
    if counts is None and features is None:
        if fitted.items is None:
            raise InputError("the model was trained with features; give those of the items")
        return item_frame(fitted.items)
    frames: list[pd.DataFrame] = []
    table = None if features is None else read_features(features)
    if table is not None:
        frames += relevance_frames(fitted, table, level, draws=draws)
    if counts is not None:
        from epiclick.posterior.items import posterior_frames  # which loads jax

        if table is not None:
            if counts.features is None:
                counts = counts.with_features(table)
            row = table.locate(counts.query_id, counts.doc_id)
            frames = [pd.concat(frames, ignore_index=True).drop(index=row[row >= 0])]
        frames += posterior_frames(fitted, counts, level, draws=draws)
    return pd.concat(frames, ignore_index=True)
