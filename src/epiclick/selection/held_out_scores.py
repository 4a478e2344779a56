"""Scores of one fitted model on held-out pages, by query, so that models can be paired."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import special

from epiclick.api import BaseModel
from epiclick.data.counts import ClickCounts
from epiclick.data.shown_pages import ShownPages
from epiclick.evaluation.log_scores import joint_scores, scored_displays
from epiclick.evaluation.page_chances import list_chances, page_chances
from epiclick.fitted.prediction import click_probabilities
from epiclick.fitted.state import FittedModel


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
    own = held_out_displays(model.fitted_, counts, pages)
    scores = scores_of(own, counts.num_queries, counts.given[0].to_pandas())
    joint = None if scores.impossible else _joint(model, counts)
    return replace(scores, pair_log_likelihood=joint)


def scores_of(own: "Displays", queries: int, contexts: pd.DataFrame) -> HeldOutScores:
    """The scores that follow from probabilities of displays, whatever they come from.

    Args:
        own: the displays.
        queries: number of queries.
        contexts: the given contexts that `Displays.place` refers to, a row each.
    """
    logs, marginal_logs = own.logs, own.marginal_logs
    ruled_out = np.isneginf(logs)
    if own.page is None:
        contrary = np.where(own.given == 0, own.clicks, own.displays - own.clicks)
        impossible = int(contrary[ruled_out].sum())
    else:
        impossible = len(np.unique(own.page[ruled_out]))
    return HeldOutScores(
        displays=np.bincount(own.query, own.displays, queries).astype(np.int64),
        given=np.bincount(own.query, logs, queries),
        marginal=np.bincount(own.query, marginal_logs, queries),
        by_position=_by_position(contexts, own, marginal_logs),
        pair_log_likelihood=None,
        impossible=impossible,
        unit="display" if own.page is None else "page",
    )


class Displays(NamedTuple):
    """Displays with the same probabilities; (rows,) each.

    Attributes:
        query: number of the query.
        place: given context.
        clicks: number of clicks.
        displays: number of displays.
        given: probability of a click, given the clicks above.
        marginal: probability of a click, not given them.
        page: number of the page, None where pages are unknown.
    """

    query: np.ndarray
    place: np.ndarray
    clicks: np.ndarray
    displays: np.ndarray
    given: np.ndarray
    marginal: np.ndarray
    page: np.ndarray | None

    @property
    def logs(self) -> np.ndarray:
        """Log-probability of the clicks and skips, given the clicks above."""
        return log_probability(self.clicks, self.displays, self.given)

    @property
    def marginal_logs(self) -> np.ndarray:
        """The same, not given them."""
        return log_probability(self.clicks, self.displays, self.marginal)


def held_out_displays(
    fitted: FittedModel, counts: ClickCounts, pages: ShownPages | None
) -> Displays:
    """The displays of held-out counts with their probabilities; arguments as `held_out_scores`."""
    place = counts.given[1]
    if counts.lists is not None:
        chances, lists = list_chances(fitted, counts), counts.lists
        shown = lists.shown
        number = np.broadcast_to(lists.pages[:, None], shown.shape)[shown]
        return Displays(
            counts.query[lists.pair[shown]],
            lists.given[shown],
            np.where(lists.clicked[shown], number, 0),
            number,
            chances.given[shown],
            chances.marginal[shown],
            np.nonzero(shown)[0],
        )
    if pages is None:
        assert not fitted.clicks.history, "a model with a history needs pages"
        chance = click_probabilities(fitted, counts)
        query = counts.query[counts.pair]
        rows = (query, place[counts.context], counts.clicks, counts.displays)
        return Displays(*rows, chance, chance, None)
    chances, shown = page_chances(fitted, counts, pages), pages.shown
    entry, clicks = pages.entry[shown], pages.clicked[shown].astype(np.int64)
    query = counts.query[counts.pair[entry]]
    rows = (query, place[counts.context[entry]], clicks, np.ones_like(clicks))
    page = np.nonzero(shown)[0]
    return Displays(*rows, chances.given[shown], chances.marginal[shown], page)


def log_probability(clicks: np.ndarray, displays: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """Log-probability of clicks among displays; minus infinity where they are impossible."""
    chance = np.clip(chance, 0, 1)  # averages of probabilities exceed 1 by rounding
    with np.errstate(divide="ignore"):
        clicked: np.ndarray = special.xlogy(clicks, chance)
        return clicked + special.xlog1py(displays - clicks, -chance)


def _by_position(contexts: pd.DataFrame, own: Displays, logs: np.ndarray) -> pd.DataFrame:
    size = len(contexts)
    number = np.bincount(own.place, own.displays, size)
    table = contexts.copy()
    table["displays"] = number.astype(np.int64)
    table["clicks"] = np.bincount(own.place, own.clicks, size).astype(np.int64)
    with np.errstate(over="ignore", invalid="ignore"):
        table["perplexity"] = np.exp(-np.bincount(own.place, logs, size) / number)
    return table[table["displays"] > 0].reset_index(drop=True)


def _joint(model: BaseModel, counts: ClickCounts) -> float:
    """Joint log-likelihood per pair, relevance integrated out."""
    scored = scored_displays(model.fitted_, counts)
    return joint_scores(model.fitted_, counts, scored).pair / len(counts)
