"""The estimators by name, and what is to be known of each before jax is loaded."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from epiclick.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from epiclick.estimators.estimator import Estimator

EstimatorName = Literal["naive", "self_normalized", "conditioned", "exact", "marginal"]

POINTWISE = "pointwise"
"""In place of an estimator: relevance is a point, too, and its likelihood is followed as it is."""


@dataclass(frozen=True)
class Listed:
    """An estimator that need not be loaded to be named.

    Attributes:
        module: where it is, in this folder.
        class_name: its class there.
        is_point: whether the click model's parameters are points while training, and not Betas.
        options: of `make_estimator` that it has.
    """

    module: str
    class_name: str
    is_point: bool
    options: tuple[str, ...]


ESTIMATORS: Mapping[str, Listed] = {
    "naive": Listed("naive", "Naive", False, ("samples", "baseline", "literal")),
    "self_normalized": Listed(
        "self_normalized", "SelfNormalized", False, ("samples", "baseline", "literal")
    ),
    "conditioned": Listed("conditioned", "Conditioned", False, ("samples", "baseline", "literal")),
    "exact": Listed("exact", "Exact", False, ("samples", "baseline")),
    "marginal": Listed("marginal", "Marginal", True, ()),
}


def make_estimator(
    name: str, samples: int = 60, baseline: bool = False, literal: bool = False
) -> "Estimator[Any]":
    """The estimator of that name; InputError where it is unknown or has no such option.

    Args:
        name: a key of `ESTIMATORS`.
        samples: samples drawn for each step; an estimator that draws none has no use for it.
        baseline: whether score functions have a leave-one-out baseline.
        literal: whether the paper's formula is used to the letter, where that differs.

    >>> make_estimator("conditioned", samples=100)
    Conditioned(samples=100, baseline=False, literal=False)
    """
    if name not in ESTIMATORS:
        hint = did_you_mean(name, ESTIMATORS)
        raise InputError(f"estimator must be one of {', '.join(ESTIMATORS)}; got '{name}'{hint}")
    chosen = ESTIMATORS[name]
    reasons = {
        "baseline": (baseline, "it has no score functions"),
        "literal": (literal, "it is not in the paper"),
    }
    for option, (wanted, reason) in reasons.items():
        if wanted and option not in chosen.options:
            others = [key for key, each in ESTIMATORS.items() if option in each.options]
            raise InputError(
                f"{option} does not apply to estimator '{name}': {reason}. "
                f"Leave it out, or choose one of {', '.join(others)}"
            )
    given = {"samples": samples, "baseline": baseline, "literal": literal}
    made = getattr(import_module(f"epiclick.estimators.{chosen.module}"), chosen.class_name)
    return made(**{option: given[option] for option in chosen.options})
