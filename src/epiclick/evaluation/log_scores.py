r"""A model's scores on a log: overall, joint, by whether queries were trained on, and baselines.

The probability of a single click depends on expectations alone; the joint probability of several
also depends on the model's uncertainty. With biases theta^(i), i = 1 ... S, drawn from the model:

.. math:: \text{pair: } \sum_{qd} \log \frac1S \sum_i JJ_{qd}(\theta^{(i)}), \qquad
          \text{whole: } \log \frac1S \sum_i \prod_{qd} JJ_{qd}(\theta^{(i)})

The latter is the estimate in the paper (section 5.2). Binomial coefficients, the same for all
models, are left out, as if the order of the clicks were observed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from epiclick.batching.batches import Batches
from epiclick.click_models.click_model import Emission
from epiclick.data.arrays import is_among
from epiclick.data.counts import ClickCounts
from epiclick.data.page_weights import PageWeights
from epiclick.diagnostics.checks import FitCheck, chi2_of
from epiclick.evaluation.click_scores import BASELINES, ClickScores, kept_rates, score_clicks
from epiclick.fitted.prediction import (
    click_probabilities,
    display_chances,
    draw_emission,
    relevance_before,
)
from epiclick.fitted.state import FittedModel
from epiclick.likelihood.batch_gradient import pair_log_likelihoods
from epiclick.views.summaries import Summary

CHUNK = 32_768  # pairs at once


@dataclass(frozen=True)
class JointScores:
    """Joint log-likelihoods of all pairs: `pair` summed over pairs, `whole` of all at once."""

    pair: float
    whole: float


def joint_log_likelihood(
    counts: ClickCounts,
    emission: Emission,
    alpha: np.ndarray,
    beta: np.ndarray,
    batches: Batches | None = None,
) -> JointScores:
    """Joint log-likelihoods of counts, relevance integrated out.

    Args:
        counts: displays and clicks.
        emission: (samples, contexts) drawn from the model, or a single one.
        alpha: (pairs,) first parameter of the Beta of relevance.
        beta: (pairs,) second parameter.
        batches: of the pairs, where they are known already.
    """
    if batches is None:
        batches = Batches(counts, CHUNK, affine=emission.is_affine)
    by_sample = np.zeros(len(emission.attractive))
    total = 0.0
    for pairs in batches.epoch():
        batch = batches.assemble(pairs)
        each = pair_log_likelihoods(emission, alpha[pairs], beta[pairs], batch)  # (samples, pairs)
        total += float((logsumexp(each, axis=0) - np.log(len(each))) @ batch.weight)
        by_sample += each @ batch.weight
    return JointScores(total, float(logsumexp(by_sample) - np.log(len(by_sample))))


SAMPLES = 60  # draws of position bias where it is a Beta, as in the paper


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """Scores of one model on one log.

    Attributes:
        clicks: scores of the click probabilities.
        joint: log-likelihood of the whole log at once, per display.
        fit: whether clicks vary as much as a position-based model expects.
        by_queries: scores on the queries that were trained on ("train"), that decided when to stop
            ("held-out") and that are new to the model ("new"), where there are any.
        baselines: scores of simple click rates from the training log.
    """

    clicks: ClickScores
    joint: float
    fit: FitCheck
    by_queries: Mapping[str, ClickScores]
    baselines: Mapping[str, ClickScores]

    def summary(self) -> Summary:
        """Scores of the model and of the baselines, and click rates by context."""
        scores = {"model": self.clicks, **self.baselines}
        facts = [
            (
                name,
                f"log-likelihood per display {each.display_log_likelihood:.5f}, "
                f"perplexity {each.perplexity:.4f}",
            )
            for name, each in scores.items()
        ]
        if self.fit.ratio is not None:
            facts.append(("chi2/df", f"{self.fit.ratio:.2f}"))
        caption = "Observed and predicted click rates:"
        return Summary("Evaluation on a log", facts, self.clicks.by_context, caption)

    def __str__(self) -> str:
        """The summary as text."""
        return str(self.summary())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The summary, for notebooks."""
        return self.summary()._repr_html_()

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
        pages: weights of its entries within pages, for scores per page.
        train: the log the model was trained on, for the baselines. Without it, only those whose
            rates the model keeps are scored.
    """
    scored = scored_displays(fitted, counts)
    joint = joint_scores(fitted, counts, scored)
    pair = joint.pair / len(counts)
    weights = pages if scored.pages is None else scored.pages
    overall = score_clicks(scored.counts, scored.probability, weights, pair_log_likelihood=pair)
    return Evaluation(
        clicks=overall,
        joint=joint.whole / counts.total_displays,
        fit=chi2_of(fitted, counts),
        by_queries={
            # a model without features keeps items with their clicks, held-out ones too: drop them
            name: _part_scores(replace(fitted, items=None) if name == "held-out" else fitted, part)
            for name, part in _by_queries(fitted, counts)
        },
        baselines=dict(_baselines(fitted, counts, pages, train)),
    )


class ScoredDisplays(NamedTuple):
    """Displays that share a probability of a click, and that probability.

    Attributes:
        counts: with an entry for each.
        probability: (entries,) of a click.
        pages: weights of the entries within pages, if the pages are known from the counts.
    """

    counts: ClickCounts
    probability: np.ndarray
    pages: PageWeights | None = None


def scored_displays(fitted: FittedModel, counts: ClickCounts) -> ScoredDisplays:
    """The entries of counts; or all displays, if the probability depends on the whole page."""
    if not fitted.clicks.has_latent_state:
        return ScoredDisplays(counts, click_probabilities(fitted, counts))
    _, chance = display_chances(fitted, counts)
    lists = counts.lists
    assert lists is not None
    order = np.argsort(lists.pair[lists.shown], kind="stable")

    def displayed(values: np.ndarray) -> np.ndarray:
        return np.broadcast_to(values, lists.pair.shape)[lists.shown][order]

    pages, clicked = displayed(lists.pages[:, None]), displayed(lists.clicked)
    length = displayed(lists.shown.sum(axis=1, keepdims=True))
    single = replace(
        counts,
        pair=displayed(lists.pair).astype(np.int64),
        context=displayed(lists.given).astype(np.int64),
        displays=pages,
        clicks=np.where(clicked, pages, 0),
        conversions=None,
        part=None,
        parts=None,
        lists=None,
    )
    weights = PageWeights(
        single.clicks / length, (pages - single.clicks) / length, lists.pages.sum()
    )
    return ScoredDisplays(single, displayed(chance), weights)


def _part_scores(fitted: FittedModel, counts: ClickCounts) -> ClickScores:
    scored = scored_displays(fitted, counts)
    pair = joint_scores(fitted, counts, scored).pair / len(counts)
    return score_clicks(scored.counts, scored.probability, pair_log_likelihood=pair)


def joint_scores(fitted: FittedModel, counts: ClickCounts, scored: ScoredDisplays) -> JointScores:
    """Joint log-likelihoods; for a model without uncertainty displays are independent.

    So they are, at expected items, where items of a page depend on each other.
    """
    if not fitted.relevance_head.has_uncertainty or fitted.clicks.has_latent_state:
        mean = score_clicks(scored.counts, scored.probability).display_log_likelihood
        total = mean * counts.total_displays
        return JointScores(total, total)
    emission = draw_emission(fitted, counts.contexts, SAMPLES)
    return joint_log_likelihood(counts, emission, *relevance_before(fitted, counts))


def _by_queries(fitted: FittedModel, counts: ClickCounts) -> Iterator[tuple[str, ClickCounts]]:
    """The pairs of the log by whether their queries were trained on, held out or new."""
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
