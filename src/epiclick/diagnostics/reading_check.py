"""What a model whose users may stop after a click says about reading, on the pages of its log."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from epiclick.data.counts import ClickCounts
from epiclick.fitted.parameters import Parameters
from epiclick.fitted.prediction import going_on_by, lists_of
from epiclick.fitted.state import FittedModel
from epiclick.posterior.reading_items import ItemDraws
from epiclick.reading.pages import reading_on_average


def reading_record(
    fitted: FittedModel,
    counts: ClickCounts,
    draws: Sequence[Parameters],
    items: ItemDraws,
    missing: np.ndarray,
) -> dict[str, Any]:
    """A record of how often each given context is read, and of what the log does not show.

    Args:
        fitted: the model.
        counts: its log.
        draws: of its parameters.
        items: under every draw.
        missing: (parameters,) share of information that is lost because stops are not logged.

    Returns:
        `draws`: (draws, given contexts) probability of reading, averaged over the log's pages.
        `missing`: the lost share of information on each of the click model's parameters.
    """
    lists = lists_of(fitted, counts)
    weight = np.where(lists.shown, lists.pages[:, None], 0)
    size = len(fitted.contexts)
    displays = np.bincount(lists.given.ravel(), weight.ravel(), size)
    found = []
    for i, draw in enumerate(draws):
        satisfied = None if items.satisfaction is None else items.satisfaction.mean[i]
        stay = going_on_by(fitted, draw, lists, satisfied)
        read = reading_on_average(lists, items.attraction.mean[i], stay)
        total = np.bincount(lists.given.ravel(), (weight * read).ravel(), size)
        found.append((total / np.maximum(displays, 1)).tolist())
    free = len(fitted.clicks.free(size, fitted.anchor))
    return {"draws": found, "missing": missing[:free].tolist()}


def mean_log_likelihood(counts: ClickCounts, chance: np.ndarray) -> float:
    """Per display, of clicks with these probabilities (lists, depth), given those above."""
    lists = counts.lists
    assert lists is not None
    outcome = np.where(lists.clicked, chance, 1 - chance)
    logs = np.log(np.maximum(np.where(lists.shown, outcome, 1.0), np.finfo(float).tiny))
    return float((lists.pages * logs.sum(axis=1)).sum() / counts.total_displays)
