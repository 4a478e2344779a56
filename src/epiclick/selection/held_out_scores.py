"""Scores of one fitted model on held-out pages, by query, so that models can be paired."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special

from epiclick.api import BaseModel
from epiclick.data.counts import ClickCounts
from epiclick.data.shown_pages import ShownPages
from epiclick.evaluation.log_scores import joint_scores
from epiclick.evaluation.page_chances import page_chances


@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """Sums of log-probabilities of the clicks and skips of held-out displays.

    Attributes:
        displays: (queries,) number of displays.
        given: (queries,) given the clicks above each display on its page.
        marginal: (queries,) averaged over them.
        by_position: given context columns, displays, clicks, and the marginal perplexity.
        pair_log_likelihood: mean joint log-likelihood per pair; None where a model has none.
        impossible: number of pages (of displays, where pages are unknown) of probability 0.
        unit: what `impossible` counts, "page" or "display".
    """

    displays: np.ndarray
    given: np.ndarray
    marginal: np.ndarray
    by_position: pd.DataFrame
    pair_log_likelihood: float | None
    impossible: int
    unit: str

    @property
    def log_likelihood(self) -> float:
        """Mean per display, given the clicks above it; minus infinity if some are impossible."""
        return float(self.given.sum() / self.displays.sum())

    @property
    def marginal_log_likelihood(self) -> float:
        """Mean per display, not given the clicks above it."""
        return float(self.marginal.sum() / self.displays.sum())

    @property
    def perplexity(self) -> float:
        """Marginal perplexity, averaged over positions with equal weights."""
        return float(self.by_position["perplexity"].mean())


def held_out_scores(
    model: BaseModel, counts: ClickCounts, pages: ShownPages | None = None
) -> HeldOutScores:
    """Score a fitted model.

    Args:
        model: the model.
        counts: held-out counts by the contexts of its click model.
        pages: the pages behind them; needed where clicks depend on those above them.
    """
    probability = model.predict_clicks(counts)
    if pages is None:
        assert not model.fitted_.clicks.history, "a model with a history needs pages"
        entry, clicks, displays = np.arange(len(counts.pair)), counts.clicks, counts.displays
        given = marginal = probability
    else:
        chances, shown = page_chances(model.fitted_, counts, pages), pages.shown
        entry, clicks = pages.entry[shown], pages.clicked[shown].astype(np.int64)
        displays = np.ones_like(clicks)
        given, marginal = chances.given[shown], chances.marginal[shown]
    logs = log_probability(clicks, displays, given)
    marginal_logs = log_probability(clicks, displays, marginal)
    query, size = counts.query[counts.pair[entry]], counts.num_queries
    ruled_out = np.isneginf(logs)
    if pages is None:
        impossible = int(np.where(given == 0, clicks, displays - clicks)[ruled_out].sum())
    else:
        impossible = len(np.unique(np.nonzero(pages.shown)[0][ruled_out]))
    return HeldOutScores(
        displays=np.bincount(query, displays, size).astype(np.int64),
        given=np.bincount(query, logs, size),
        marginal=np.bincount(query, marginal_logs, size),
        by_position=_by_position(counts, entry, clicks, displays, marginal_logs),
        pair_log_likelihood=None if impossible else _joint(model, counts, probability),
        impossible=impossible,
        unit="display" if pages is None else "page",
    )


def log_probability(clicks: np.ndarray, displays: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """Log-probability of clicks among displays; minus infinity where they are impossible."""
    chance = np.clip(chance, 0, 1)  # averages of probabilities exceed 1 by rounding
    with np.errstate(divide="ignore"):
        clicked: np.ndarray = special.xlogy(clicks, chance)
        return clicked + special.xlog1py(displays - clicks, -chance)


def _by_position(
    counts: ClickCounts,
    entry: np.ndarray,
    clicks: np.ndarray,
    displays: np.ndarray,
    logs: np.ndarray,
) -> pd.DataFrame:
    contexts, index = counts.given
    place, size = index[counts.context[entry]], len(contexts)
    number = np.bincount(place, displays, size)
    table = contexts.to_pandas()
    table["displays"] = number.astype(np.int64)
    table["clicks"] = np.bincount(place, clicks, size).astype(np.int64)
    with np.errstate(over="ignore", invalid="ignore"):
        table["perplexity"] = np.exp(-np.bincount(place, logs, size) / number)
    return table[table["displays"] > 0].reset_index(drop=True)


def _joint(model: BaseModel, counts: ClickCounts, probability: np.ndarray) -> float:
    """Joint log-likelihood per pair, relevance integrated out."""
    return joint_scores(model.fitted_, counts, probability).pair / len(counts)
