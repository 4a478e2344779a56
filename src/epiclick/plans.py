"""From a model's constructor parameters, which are checked, to the plan of its fit."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from epiclick.arguments import ThetaPosterior, check_choice, is_number, is_switch, is_whole, shown
from epiclick.click_models.registry import click_model
from epiclick.data.counts import ClickCounts
from epiclick.errors import InputError, InputWarning
from epiclick.estimators.names import ESTIMATORS, make_estimator
from epiclick.fitted.state import head_of
from epiclick.fitting import Plan
from epiclick.identification.anchor import Anchor, resolve_anchor
from epiclick.posterior.known_bias import fixed_contexts, read_known_bias
from epiclick.posterior.laplace import require_numpyro
from epiclick.training.objective import EpistemicObjective, PointwiseObjective
from epiclick.training.optimizer import TrainingSettings

if TYPE_CHECKING:
    from epiclick.api import EpistemicModel, PointwisePBM


EPOCHS = 50
EPOCHS_WITHOUT_FEATURES = 300
STEPS_TO_MODE = 60
"""Without features, where all parameters have a posterior: steps towards its mode, at most."""

POSITION_RATE = 10.0
"""Learning rate of the click model's parameters, as a multiple of the network's."""


def epistemic_plan(model: "EpistemicModel", counts: ClickCounts) -> Plan:
    """The plan of fitting an epistemic model to counts."""
    check_parameters(model)
    estimator = make_estimator(
        model.estimator, samples=model.samples, baseline=model.baseline, literal=model.literal
    )
    point = estimator.is_point
    if click_model(model.click_model).is_affine and not point:
        raise InputError(
            f"estimator={model.estimator!r} has a Beta for each position, and a "
            f"{click_model(model.click_model).title} needs two probabilities there; use "
            "estimator='marginal'",
            code="estimator-needs-examination",
        )
    anchor = _anchor(model.anchor, counts) if point else None
    if not point and not (model.anchor is None or str(model.anchor) == "auto"):
        raise InputError(
            f"anchor={model.anchor!r} needs estimator='marginal'; the paper's estimators leave the "
            "scale free",
            code="anchor-needs-marginal",
        )
    check_choice("theta_posterior", model.theta_posterior, get_args(ThetaPosterior))
    if point and model.theta_posterior == "nuts":
        require_numpyro()
    index = None if anchor is None else anchor.index
    clicks = click_model(model.click_model)
    objective = EpistemicObjective(estimator, float(model.entropy), clicks, index, model.samples)
    plan = _plan(model, objective, anchor, counts)
    if point and counts.features is None and model.epochs is None:
        plan = replace(plan, training=replace(plan.training, epochs=STEPS_TO_MODE))
    return replace(plan, posterior=model.theta_posterior if point else None, wide=point)


def pointwise_plan(model: "PointwisePBM", counts: ClickCounts) -> Plan:
    """The plan of fitting a pointwise model to counts."""
    check_parameters(model)
    if counts.features is None:
        raise InputError(
            "PointwisePBM needs features; join them with read_log(..., features=...), or use "
            "EpistemicPBM, which can do without",
            code="features-needed",
        )
    anchor = _anchor(model.anchor, counts)
    index = None if anchor is None else anchor.index
    clicks = click_model(model.click_model)
    return _plan(model, PointwiseObjective(clicks, index), anchor, counts)


def with_known_bias(plan: Plan, counts: ClickCounts, source: Any) -> Plan:
    """The plan with externally known position bias; see `read_known_bias`."""
    objective = plan.objective
    if plan.posterior is None or not isinstance(objective, EpistemicObjective):
        raise InputError(
            "a given position bias needs EpistemicPBM with estimator='marginal'; others learn all "
            "of it from the clicks",
            code="known-bias-needs-marginal",
        )
    if click_model(plan.click_model).is_affine:
        raise InputError(
            f"a given position bias is not supported by a {click_model(plan.click_model).title}, "
            "whose clicks are not in proportion to relevance; fit a pbm, or leave it out",
            code="known-bias-needs-examination",
        )
    if plan.moved is not None:
        # the given bias is relative to the first position
        plan = replace(plan, anchor=plan.moved.usual, moved=None)
        objective = replace(objective, anchor=plan.anchor)
    known = read_known_bias(source, counts.contexts, plan.anchor, plan.level)
    held = fixed_contexts(known)
    if plan.training.networks > 1 and np.isfinite(known.mean).sum() > len(held):
        warnings.warn(
            "members of an ensemble start from the given position bias and then learn from the "
            "clicks alone; leave out low and high to fix it, or use members=1",
            InputWarning,
            stacklevel=3,
        )
    return replace(plan, known=known, objective=replace(objective, fixed=held))


def _plan(
    model: "EpistemicModel | PointwisePBM",
    objective: Any,
    anchor: Anchor | None,
    counts: ClickCounts,
) -> Plan:
    bare = counts.features is None
    if bare and model.members > 1 and not model.bootstrap:
        raise InputError(
            f"{model.members} members without a bootstrap would all be the same: without features "
            "nothing is random; leave bootstrap=True",
            code="identical-members",
        )
    kind = type(model).__name__
    return Plan(
        kind=kind,
        head=head_of(kind, with_features=not bare),
        settings={
            name: list(value) if isinstance(value, tuple) else value
            for name, value in model.get_params().items()
        },
        objective=objective,
        hidden=tuple(model.hidden),
        training=TrainingSettings(
            epochs=model.epochs or (EPOCHS_WITHOUT_FEATURES if bare else EPOCHS),
            batch_size=model.batch_size,
            learning_rate=model.learning_rate,
            position_rate=POSITION_RATE,
            weight_decay=model.weight_decay,
            # so few parameters cannot overfit
            patience=None if bare else model.patience,
            decay=model.decay,
            seed=model.seed,
            members=model.members,
            bootstrap=model.bootstrap,
        ),
        anchor=None if anchor is None else anchor.index,
        moved=None if anchor is None else anchor.moved,
        ratios=None if anchor is None else anchor.ratios,
        holdout=model.holdout,
        level=model.level,
        click_model=model.click_model,
    )


def _anchor(anchor: Any, counts: ClickCounts) -> Anchor | None:
    return None if anchor is None else resolve_anchor(counts, anchor)


@dataclass(frozen=True)
class Rule:
    """Validity of a parameter.

    Attributes:
        kind: whether a value has the right type.
        called: that type, for messages.
        fits: whether a value of that type is valid.
        rule: the condition for that, for messages.
        optional: whether None is valid as well.
    """

    kind: Callable[[Any], bool]
    called: str
    fits: Callable[[Any], bool] = lambda _: True
    rule: str = ""
    optional: bool = False

    def broken_by(self, value: Any) -> str:
        """What the value should have been; "" if it is valid."""
        if value is None and self.optional:
            return ""
        if not self.kind(value):
            return f"{self.called}{', or None' if self.optional else ''}"
        return "" if self.fits(value) else self.rule


def _whole(least: int, *, optional: bool = False) -> Rule:
    rule = f"at least {least}{', or None' if optional else ''}"
    return Rule(is_whole, "a whole number", lambda v: v >= least, rule, optional)


def _number(fits: Callable[[Any], bool], rule: str) -> Rule:
    return Rule(is_number, "a number", fits, rule)


SWITCH = Rule(is_switch, "True or False")
RULES: Mapping[str, Rule] = {
    "epochs": replace(_whole(1, optional=True), rule="at least 1"),
    "batch_size": _whole(1),
    "learning_rate": _number(lambda v: v > 0, "above 0"),
    "weight_decay": _number(lambda v: v >= 0, "at least 0"),
    "patience": _whole(1, optional=True),
    "holdout": _number(lambda v: 0 <= v < 1, "from 0 to below 1"),
    "level": _number(lambda v: 0 < v < 1, "strictly between 0 and 1"),
    "members": _whole(1),
    "hidden": Rule(
        lambda v: isinstance(v, Sequence) and not isinstance(v, str) and all(map(is_whole, v)),
        "whole numbers, as in (64, 32)",
        lambda v: all(units >= 1 for units in v),
        "layers of at least 1 unit",
    ),
    "samples": _whole(2),
    "entropy": _number(lambda v: v >= 0, "at least 0"),
    "seed": _whole(0),
    "estimator": Rule(lambda v: isinstance(v, str), f"one of {', '.join(ESTIMATORS)}"),
    "theta_posterior": Rule(
        lambda v: isinstance(v, str), f"one of {', '.join(get_args(ThetaPosterior))}"
    ),
    **dict.fromkeys(("baseline", "bootstrap", "literal", "decay"), SWITCH),
}


def check_parameters(model: "EpistemicModel | PointwisePBM") -> None:
    """Raise InputError with all parameters that have a wrong type or value."""
    given = model.get_params()
    broken = {name: rule.broken_by(given[name]) for name, rule in RULES.items() if name in given}
    wrong = [
        f"{name} must be {rule}, not {shown(given[name])}" for name, rule in broken.items() if rule
    ]
    if wrong:
        raise InputError(f"{type(model).__name__}: " + "; ".join(wrong), code="invalid-parameter")
