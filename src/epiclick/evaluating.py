"""A model's scores on a log: overall, by what it has seen of the queries, beside baselines."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from epiclick.click_models.base import Emission
from epiclick.data.counts import ClickCounts
from epiclick.data.matching import is_among
from epiclick.data.page_weights import PageWeights
from epiclick.evaluation.baselines import BASELINES, kept_rates
from epiclick.evaluation.clicks import ClickScores, score_clicks
from epiclick.evaluation.fit_check import FitCheck, chi2_per_df
from epiclick.evaluation.joint import JointScores, joint_log_likelihood
from epiclick.models.fitted import FittedModel
from epiclick.models.prediction import (
    bias_at,
    click_probabilities,
    draw_bias,
    relevance_before,
)

SAMPLES = 60  # position biases drawn where they are Betas, as in the paper


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Scores of one model on one log.

    Attributes:
        clicks: scores of the click probabilities.
        joint: log-likelihood of the whole log at once, per display.
        fit: whether clicks vary as a position-based model says.
        by_queries: scores on the queries that were trained on ("train"), that stopped training
            ("held-out") and that are new to the model ("new"), where there are any.
        baselines: scores of simple rules learned from the training log.
    """

    clicks: ClickScores
    joint: float
    fit: FitCheck
    by_queries: Mapping[str, ClickScores]
    baselines: Mapping[str, ClickScores]

    def to_dict(self) -> dict[str, Any]:
        """A record for JSON."""
        overall = self.clicks.to_dict()
        overall["log_likelihood"]["whole"] = self.joint
        return {
            **overall,
            "chi2_per_df": self.fit.ratio,
            "by_queries": {name: scores.to_dict() for name, scores in self.by_queries.items()},
            "baselines": {name: scores.to_dict() for name, scores in self.baselines.items()},
        }


def evaluate(
    fitted: FittedModel,
    counts: ClickCounts,
    *,
    pages: PageWeights | None = None,
    train: ClickCounts | None = None,
) -> Evaluation:
    """Score a fitted model on a log.

    Args:
        fitted: the model.
        counts: the log.
        pages: weights of its entries on pages, for scores a page.
        train: the log the model was trained on, from which baselines learn. Without it, those that
            the model itself can tell are given.
    """
    probability = click_probabilities(fitted, counts)
    joint = _joint(fitted, counts, probability)
    pair = joint.pair / len(counts)
    overall = score_clicks(counts, probability, pages, pair_log_likelihood=pair)
    theta, _ = bias_at(fitted, counts.contexts)
    return Evaluation(
        clicks=overall,
        joint=joint.whole / counts.total_displays,
        fit=chi2_per_df(counts, theta),
        by_queries={
            # a model without features knows items by their clicks, held-out ones too: leave them
            name: _part_scores(replace(fitted, items=None) if name == "held-out" else fitted, part)
            for name, part in _by_queries(fitted, counts)
        },
        baselines=dict(_baselines(fitted, counts, pages, train)),
    )


def _part_scores(fitted: FittedModel, counts: ClickCounts) -> ClickScores:
    probability = click_probabilities(fitted, counts)
    pair = _joint(fitted, counts, probability).pair / len(counts)
    return score_clicks(counts, probability, pair_log_likelihood=pair)


def _joint(fitted: FittedModel, counts: ClickCounts, probability: np.ndarray) -> JointScores:
    """Joint log-likelihoods; displays are independent for a model without uncertainty."""
    if not fitted.relevance_head.has_uncertainty:
        total = score_clicks(counts, probability).display_log_likelihood * counts.total_displays
        return JointScores(total, total)
    emission = Emission(*draw_bias(fitted, counts.contexts, SAMPLES))
    return joint_log_likelihood(counts, emission, *relevance_before(fitted, counts))


def _by_queries(fitted: FittedModel, counts: ClickCounts) -> Iterator[tuple[str, ClickCounts]]:
    """The pairs of the log by what the model has seen of their queries."""
    train, held_out = (
        is_among("query_id", counts.query_id, queries)
        for queries in (fitted.queries.train, fitted.queries.held_out)
    )
    seen = {"train": train, "held-out": held_out, "new": ~train & ~held_out}
    for name, chosen in seen.items():
        if chosen.any():
            yield name, counts.subset(chosen)


def _baselines(
    fitted: FittedModel, counts: ClickCounts, pages: PageWeights | None, train: ClickCounts | None
) -> Iterator[tuple[str, ClickScores]]:
    if train is not None:
        for name, rule in BASELINES.items():
            yield name, score_clicks(counts, rule(train, counts), pages)
        return
    for name, rate in kept_rates(fitted, counts).items():
        yield name, score_clicks(counts, rate, pages)
