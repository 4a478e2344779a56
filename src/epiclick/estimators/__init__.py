"""Ways to follow the gradient of the likelihood: the paper's, and ours in closed form.

| name | position bias | relevance | gradient |
|---|---|---|---|
| `naive` | sampled | sampled with it | of the likelihood, by score functions |
| `self_normalized` | sampled | sampled with it | of the log-likelihood, by score functions |
| `conditioned` | sampled | sampled for each bias | of the log-likelihood, by score functions |
| `exact` | sampled | integrated | by a score function for bias, exact for relevance |
| `marginal` | a point | integrated | exact |
"""

from inspect import signature
from typing import Any

from epiclick.errors import InputError, did_you_mean
from epiclick.estimators.base import Betas, Draws, Estimate, Estimator
from epiclick.estimators.conditioned import Conditioned
from epiclick.estimators.exact import Exact
from epiclick.estimators.marginal import Marginal
from epiclick.estimators.naive import Naive
from epiclick.estimators.self_normalized import SelfNormalized

ESTIMATORS: dict[str, type[Estimator[Any]]] = {
    "naive": Naive,
    "self_normalized": SelfNormalized,
    "conditioned": Conditioned,
    "exact": Exact,
    "marginal": Marginal,
}


def make_estimator(
    name: str, samples: int = 60, baseline: bool = False, literal: bool = False
) -> Estimator[Any]:
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
    options = signature(chosen).parameters
    reasons = {
        "baseline": (baseline, "it has no score functions"),
        "literal": (literal, "it is not in the paper"),
    }
    for option, (wanted, reason) in reasons.items():
        if wanted and option not in options:
            others = [key for key, cls in ESTIMATORS.items() if option in signature(cls).parameters]
            raise InputError(
                f"{option} does not apply to estimator '{name}': {reason}. "
                f"Leave it out, or choose one of {', '.join(others)}"
            )
    given = {"samples": samples, "baseline": baseline, "literal": literal}
    return chosen(**{option: value for option, value in given.items() if option in options})


__all__ = [
    "ESTIMATORS",
    "Betas",
    "Draws",
    "Estimate",
    "Estimator",
    "make_estimator",
]
