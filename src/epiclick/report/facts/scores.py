"""Scores of the model beside those of other models and of simple rules."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.special import xlog1py, xlogy

from epiclick.data.counts import ClickCounts
from epiclick.evaluation.baselines import BASELINES, kept_rates
from epiclick.evaluation.clicks import score_clicks
from epiclick.models.prediction import click_probabilities
from epiclick.report.facts.sources import Sources, Trial

RULES = {
    "overall": "one click rate for all",
    "by_context": "click rate by position",
    "by_document": "click rate by item",
}
"""Baselines in words."""

CLEAR = 2.0
"""Standard errors from which on a lead is one."""


@dataclass(frozen=True)
class ScoreRow:
    """Scores of the model, of another one, or of a simple rule.

    Attributes:
        name: what was scored.
        is_model: whether it is the model of the report.
        log_likelihood: a display; the higher the better, and 0 would be perfect.
        perplexity: mean over positions; 1 would be perfect, 2 is a coin.
        explained: share of the log-likelihood of one rate for all that is gained on it.
        lead: what the model gains on it, in log-likelihood a display; 0 for the model itself.
        lead_error: standard error of the lead, from the differences between queries.
    """

    name: str
    is_model: bool
    log_likelihood: float
    perplexity: float
    explained: float
    lead: float
    lead_error: float


def score_rows(sources: Sources, tested: Trial, chance: np.ndarray) -> tuple[ScoreRow, ...]:
    """The model, which gives the entries tested the probabilities `chance`, then all others."""
    counts, rivals = tested.counts, dict(_rivals(sources, tested))
    base = score_clicks(counts, rivals[RULES["overall"]]).display_log_likelihood
    return (
        _row(sources.name, True, counts, chance, chance, base),
        *(_row(name, False, counts, chance, other, base) for name, other in rivals.items()),
    )


def _row(
    name: str,
    is_model: bool,
    counts: ClickCounts,
    own: np.ndarray,
    chance: np.ndarray,
    base: float,
) -> ScoreRow:
    """Scores of click probabilities (entries,), beside the model's own."""
    score = score_clicks(counts, chance)
    explained = 1 - score.display_log_likelihood / base if base < 0 else math.nan
    lead, error = _lead(counts, own, chance)
    return ScoreRow(
        name,
        is_model,
        score.display_log_likelihood,
        score.perplexity,
        explained,
        lead,
        error,
    )


def _lead(counts: ClickCounts, own: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """Log-likelihood a display of one less that of another, and its error between queries."""
    clicks, rest = counts.clicks, counts.displays - counts.clicks
    gain = (xlogy(clicks, own) + xlog1py(rest, -own)) - (
        xlogy(clicks, other) + xlog1py(rest, -other)
    )
    query, size = counts.query[counts.pair], counts.num_queries
    gained, shown = np.bincount(query, gain, size), np.bincount(query, counts.displays, size)
    lead = float(gained.sum() / shown.sum())
    if size < 2 or not np.isfinite(lead):
        return lead, math.nan
    squares = float(((gained - lead * shown) ** 2).sum())
    return lead, math.sqrt(size / (size - 1) * squares) / float(shown.sum())


def _rivals(sources: Sources, tested: Trial) -> Iterator[tuple[str, np.ndarray]]:
    """(entries,) by other models, then by simple rules of the log, or of what the model keeps."""
    counts = tested.counts
    for name, other in sources.others.items():
        # as blind to the items that are tested as the model itself
        fitted = other.fitted_ if tested.fitted.items else replace(other.fitted_, items=None)
        yield Path(name).name, click_probabilities(fitted, counts)
    if tested.train is None:
        for name, chance in kept_rates(sources.fitted, counts).items():
            yield RULES[name], chance
        return
    for name, rule in BASELINES.items():
        yield RULES[name], rule(tested.train, counts)
