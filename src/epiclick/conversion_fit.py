"""A fit of clicks, and of the conversions that follow them if the log shows any.

Given the clicks, conversions tell nothing about examination: the likelihood of both is that of
clicks times that of conversions among clicks. So conversions have a model of their own, in which a
click is a trial and the relevance of an item is the probability of a conversion. It is fitted as
the cascade model is, whose items are certainly read: a Beta from the features (or one for all
items), a Gaussian posterior of the last layer with a covariance from the differences between
queries, and items' own conversions by Bayes' rule.
"""

from dataclasses import replace
from typing import Any

from epiclick.click_models.registry import CLICK_MODELS, REGISTRY
from epiclick.data.counts import ClickCounts
from epiclick.data.outcome_counts import conversion_counts, conversions_of
from epiclick.diagnostics.conversion_check import check_positions, conversion_words
from epiclick.errors import InputError
from epiclick.fitted.revenue import Revenue
from epiclick.fitted.state import FittedModel
from epiclick.fitting import Plan, fit_model
from epiclick.posterior.conversion_items import kept_conversions
from epiclick.training.objective import EpistemicObjective

OUTCOME = "cascade"
"""The click model of conversions: what is tried succeeds with the item's probability."""


def fit_outcomes(
    plan: Plan,
    counts: ClickCounts,
    valid: ClickCounts | None = None,
    *,
    init: FittedModel | None = None,
    progress: bool = True,
    **how: Any,
) -> FittedModel:
    """Fit a model to clicks and, if they were counted, to conversions.

    Arguments are those of `fit_model`; `how` are those that only concern clicks.
    """
    if counts.conversions is None:
        return fit_model(plan, counts, valid, init=init, progress=progress, **how)
    own = _plan(plan, counts)  # which refuses what cannot be fitted before anything is
    fitted = fit_model(plan, counts, valid, init=init, progress=progress, **how)
    clicked, held_out = (None if each is None else _clicked(each) for each in (counts, valid))
    assert clicked is not None
    earlier = None if init is None else init.conversion
    if held_out is not None and not len(held_out):
        held_out = None
    if not len(fitted.queries.held_out):
        own = replace(own, holdout=0.0)  # as for clicks, whose fit has said why
    encoding = None if fitted.features is None else fitted.features.encoding
    conversion = fit_model(
        own, clicked, held_out, init=earlier, progress=progress, encoding=encoding
    )
    if fitted.items is not None:
        conversion = replace(conversion, items=kept_conversions(conversion, counts, plan.level))
    found = check_positions(counts)
    record = {
        "column": counts.options.conversion,
        "clicks": counts.total_clicks,
        "conversions": counts.conversions.total,
        "position": found.to_dict(),
    }
    summary = fitted.training
    words = [*summary.checks.get("words", ()), *conversion_words(counts, found)]
    summary = replace(
        summary,
        checks={**summary.checks, "conversion": record, "words": words},
        warnings=(*summary.warnings, *found.warnings),
    )
    revenue = None
    if counts.conversions.value is not None:
        revenue = Revenue.of(counts, plan.training.seed, keep=fitted.items is not None)
    return replace(fitted, conversion=conversion, revenue=revenue, training=summary)


def _plan(plan: Plan, counts: ClickCounts) -> Plan:
    """The plan of fitting conversions."""
    objective = plan.objective
    if plan.posterior is None or not isinstance(objective, EpistemicObjective):
        raise InputError(
            "conversions need a model whose items are Betas with a posterior; use an epistemic "
            "model with estimator='marginal' (--estimator marginal, the default), or read the log "
            "without conversion",
            code="conversions-need-marginal",
        )
    assert counts.conversions is not None
    if not counts.conversions.total:
        raise InputError(
            f"none of the {counts.total_clicks:,} clicks led to a conversion: "
            f"{counts.options.conversion} is 0 everywhere. Is it the right column?",
            code="no-conversions",
        )
    return replace(
        plan,
        kind=REGISTRY[OUTCOME].public,
        click_model=OUTCOME,
        objective=replace(objective, clicks=CLICK_MODELS[OUTCOME], anchor=0, fixed=()),
        anchor=0,
        moved=None,
        ratios=None,
        posterior="laplace",
        shapes=None,
        known=None,
    )


def _clicked(counts: ClickCounts) -> ClickCounts:
    """Conversions of the pairs that were clicked."""
    return conversion_counts(counts).subset(conversions_of(counts)[0] > 0)
