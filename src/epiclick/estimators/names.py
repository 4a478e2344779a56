"""The estimators by name, with what is needed of each before jax is loaded."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from epiclick.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from epiclick.estimators.estimator import Estimator

EstimatorName = Literal["naive", "self_normalized", "conditioned", "exact", "marginal"]

POINTWISE = "pointwise"
"""Instead of an estimator: relevance is a point as well, fitted by its likelihood."""


@dataclass(frozen=True)
class Entry:
    """An estimator of the registry, which is loaded when it is made.

    Attributes:
        module: its file in this folder.
        class_name: its class there.
        is_point: whether the click model's parameters are points during training, not Betas.
        options: the options of `make_estimator` that apply to it.
    """

    module: str
    class_name: str
    is_point: bool
    options: tuple[str, ...]


ESTIMATORS: Mapping[str, Entry] = {
    "naive": Entry("naive", "Naive", False, ("samples", "baseline", "literal")),
    "self_normalized": Entry(
        "self_normalized", "SelfNormalized", False, ("samples", "baseline", "literal")
    ),
    "conditioned": Entry("conditioned", "Conditioned", False, ("samples", "baseline", "literal")),
    "exact": Entry("exact", "Exact", False, ("samples", "baseline")),
    "marginal": Entry("marginal", "Marginal", True, ()),
}


def make_estimator(
    name: str, samples: int = 60, baseline: bool = False, literal: bool = False
) -> "Estimator[Any]":
    """The estimator of that name; InputError if it is unknown or an option does not apply to it.

    Args:
        name: a key of `ESTIMATORS`.
        samples: samples drawn per step; ignored by an estimator that draws none.
        baseline: whether score functions have a leave-one-out baseline.
        literal: whether the paper's formula is used to the letter, where ours differs.

    >>> make_estimator("conditioned", samples=100)
    Conditioned(samples=100, baseline=False, literal=False)
    """
    if name not in ESTIMATORS:
        hint = did_you_mean(name, ESTIMATORS)
        raise InputError(
            f"estimator must be one of {', '.join(ESTIMATORS)}; got '{name}'{hint}",
            code="unknown-estimator",
        )
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
                f"Leave it out, or choose one of {', '.join(others)}",
                code="option-does-not-apply",
            )
    given = {"samples": samples, "baseline": baseline, "literal": literal}
    made = getattr(import_module(f"epiclick.estimators.{chosen.module}"), chosen.class_name)
    return made(**{option: given[option] for option in chosen.options})
