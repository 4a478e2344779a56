"""Ways to follow the gradient of the likelihood: the paper's, and ours in closed form.

| name | position bias | relevance | gradient |
|---|---|---|---|
| `naive` | sampled | sampled with it | of the likelihood, by score functions |
| `self_normalized` | sampled | sampled with it | of the log-likelihood, by score functions |
| `conditioned` | sampled | sampled for each bias | of the log-likelihood, by score functions |
| `exact` | sampled | integrated | by a score function for bias, exact for relevance |
| `marginal` | a point | integrated | exact |

Names are known without jax, which is loaded with the first estimator that is made.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from epiclick.errors import InputError, did_you_mean
from epiclick.estimators.names import ESTIMATORS

if TYPE_CHECKING:
    from epiclick.estimators.base import Betas, Draws, Estimate, Estimator

_OF_BASE = ("Betas", "Draws", "Estimate", "Estimator")


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
    made = getattr(import_module(f"{__name__}.{chosen.module}"), chosen.class_name)
    return made(**{option: given[option] for option in chosen.options})


def __getattr__(name: str) -> Any:
    """The classes of `estimators.base`, loaded when first used, as they need jax."""
    if name not in _OF_BASE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("epiclick.estimators.base"), name)


__all__ = [
    "ESTIMATORS",
    "Betas",
    "Draws",
    "Estimate",
    "Estimator",
    "make_estimator",
]
