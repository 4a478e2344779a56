"""Items in order, query by query: by what is expected of them, or by how sure that is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from epiclick.beta import Beta
from epiclick.errors import InputError, did_you_mean
from epiclick.models.fitted import FittedModel
from epiclick.models.parameters import Parameters
from epiclick.models.uncertainty import parameter_draws, without_uncertainty

Score = Callable[[pd.DataFrame, np.random.Generator], np.ndarray]
"""A table of items as `relevance` gives it -> (items,) what they are ordered by."""


def ranked(items: pd.DataFrame, how: str, rng: np.random.Generator) -> pd.DataFrame:
    """query_id, doc_id, position (1 is best) and score; equal scores are in the order of doc_id."""
    table = items[["query_id", "doc_id"]].assign(score=SCORES[how](items, rng))
    table = table.sort_values(
        ["query_id", "score", "doc_id"], ascending=[True, False, True], ignore_index=True
    )
    table.insert(2, "position", table.groupby("query_id").cumcount() + 1)
    return table


def draws_to_rank_by(
    fitted: FittedModel, how: str, rng: np.random.Generator
) -> Sequence[Parameters]:
    """The draws to average over; for "thompson" one alone."""
    if how not in SCORES:
        raise InputError(
            f"how must be one of {', '.join(SCORES)}, not {how!r}{did_you_mean(how, SCORES)}"
        )
    if how != "mean" and not (fitted.relevance_head.has_uncertainty or fitted.members):
        raise InputError(
            f"how={how!r} needs to know how sure the model is, and a pointwise model has one "
            "number for an item; rank by how='mean', fit it with members=5, or fit an EpistemicPBM"
        )
    if how != "thompson":
        return parameter_draws(fitted)
    if fitted.members:  # whose own position bias may be Betas
        member = fitted.members[int(rng.integers(len(fitted.members)))]
        fitted = without_uncertainty(replace(fitted, parameters=member))
    return parameter_draws(fitted, 1, seed=int(rng.integers(2**31)))


def _thompson(items: pd.DataFrame, rng: np.random.Generator) -> np.ndarray:
    """A draw of each relevance; a pointwise model leaves nothing to draw once it is drawn."""
    alpha, beta = items["alpha"].to_numpy(), items["beta"].to_numpy()
    if np.all(np.isnan(alpha)):
        return items["mean"].to_numpy()
    return Beta(alpha, beta).sample(rng)


SCORES: Mapping[str, Score] = {
    "mean": lambda items, _: items["mean"].to_numpy(),
    "lower": lambda items, _: items["low"].to_numpy(),
    "upper": lambda items, _: items["high"].to_numpy(),
    "thompson": _thompson,
}
