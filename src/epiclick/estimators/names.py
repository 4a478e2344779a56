"""The estimators by name, with what is needed of each before jax is loaded."""

from collections.abc import Callable
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
    """An estimator of the registry.

    Attributes:
        make: its class, or a function that makes it; given the options below.
        is_point: whether the click model's parameters are points during training, not Betas.
        options: the options of `make_estimator` that apply to it.
    """

    make: Callable[..., "Estimator[Any]"]
    is_point: bool
    options: tuple[str, ...]


def _later(module: str, name: str) -> Callable[..., "Estimator[Any]"]:
    """A class of this folder, imported when it is used: most need jax, which takes long to load."""

    def make(**options: Any) -> "Estimator[Any]":
        made: Estimator[Any] = getattr(import_module(f"epiclick.estimators.{module}"), name)(
            **options
        )
        return made

    return make


_SAMPLED = ("samples", "baseline", "literal")

ESTIMATORS: dict[str, Entry] = {
    "naive": Entry(_later("naive", "Naive"), False, _SAMPLED),
    "self_normalized": Entry(_later("self_normalized", "SelfNormalized"), False, _SAMPLED),
    "conditioned": Entry(_later("conditioned", "Conditioned"), False, _SAMPLED),
    "exact": Entry(_later("exact", "Exact"), False, ("samples", "baseline")),
    "marginal": Entry(_later("marginal", "Marginal"), True, ()),
}
"""By name. Your own, added here, can be fitted by that name: `EpistemicPBM(estimator="mine")`."""


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
    return chosen.make(**{option: given[option] for option in chosen.options})
