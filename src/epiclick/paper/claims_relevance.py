"""RQ3, second part (paper, section 7.3, figure 4): means and confidences of relevance."""

import numpy as np

from epiclick.paper.checks import Check
from epiclick.paper.claims_position_bias import CONDITIONED, NAIVE, QUESTION
from epiclick.paper.readings import Checks, final, runs_of
from epiclick.paper.results import Results
from epiclick.paper.statement import Statement

NEAR_ZERO = 0.1  # of what conditioning has
LOW_CONFIDENCE = 2.0  # confidence is at least 1
GROWTH = 1.1  # of confidence over the second half of training
RISE = 0.05  # of mean relevance
EARLY = 0.1  # of the epochs
VARIES = {"mu_sd": 0.05, "nu_sd": 0.5}


def _rises(results: Results) -> list[Check]:
    """Highest mean relevance in the first tenth of training, less that of the first epoch."""
    found: list[Check] = []
    for method in ("self_normalized", "self_normalized+baseline", "naive+baseline", "conditioned"):
        if method in results.methods:
            epochs, mu = results.of(method, "mu_mean")
            early = mu[:, epochs <= max(EARLY * epochs[-1], epochs[min(1, len(epochs) - 1)])]
            found.append(Check(f"early rise of average mu, {method}",
                               runs_of(early.max(axis=1) - mu[:, 0]), above=RISE,
                               decides=not found))  # fmt: skip
    return found


def _near_zero(method: str) -> Checks:
    """Spread over pairs of naive estimation less a tenth of that of conditioning."""

    def checks(results: Results) -> list[Check]:
        found = []
        for quantity, words in (("mu_sd", "s.s.d. of mu"), ("nu_sd", "s.s.d. of nu")):
            own = final(results, method, quantity)
            limit = NEAR_ZERO * final(results, "conditioned", quantity)
            found.append(Check(f"{words}, {method} - {NEAR_ZERO:g} x conditioned",
                               runs_of(own - limit), below=0))  # fmt: skip
            found.append(Check(f"{words}, {method}", runs_of(own), decides=False))
        return found

    return checks


def _low_confidence(method: str) -> Checks:
    return lambda r: [
        Check(f"average nu, {method}", runs_of(final(r, method, "nu_mean")), below=LOW_CONFIDENCE)
    ]


def _keeps_growing(results: Results) -> list[Check]:
    """log of average confidence at the end over that in the middle of training."""
    found: list[Check] = []
    for method in ("self_normalized", "conditioned"):
        if method in results.methods:
            epochs, nu = results.of(method, "nu_mean")
            middle = int(np.searchsorted(epochs, epochs[-1] / 2))
            words = f"log of average nu, last / middle epoch, {method}"
            found.append(Check(words, runs_of(np.log(nu[:, -1] / nu[:, middle])),
                               above=np.log(GROWTH), decides=not found))  # fmt: skip
    return found


def _varies(method: str) -> Checks:
    return lambda r: [
        Check(f"s.s.d. of {quantity[:2]}, {method}", runs_of(final(r, method, quantity)),
              above=least)
        for quantity, least in VARIES.items()
    ]  # fmt: skip


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "RQ3.9",
        QUESTION,
        "Without conditioning, average relevance mu rises substantially in the first epochs.",
        f"Highest average mu in the first {EARLY:.0%} of the epochs, less that of the first "
        "recorded one (self-normalised; the others beside).",
        f"Holds where it rises by more than {RISE:g}.",
        ("self_normalized",),
        _rises,
        note="What happens within the first recorded epoch is not seen.",
    ),
    *(
        Statement(
            f"RQ3.10{which}",
            QUESTION,
            "Naive estimation gives all items the same relevance and confidence: the sample "
            "standard deviations of mu and nu are near 0.",
            "Sample standard deviations over displayed pairs after the last epoch.",
            f"Holds where both are below {NEAR_ZERO:g} of those of self-normalisation with "
            "conditioning.",
            (method, "conditioned"),
            _near_zero(method),
        )
        for which, method in NAIVE.items()
    ),
    *(
        Statement(
            f"RQ3.11{which}",
            QUESTION,
            "Naive estimation has extremely low confidence on average.",
            "Mean of nu over displayed pairs after the last epoch; it is at least 1.",
            f"Holds where it is below {LOW_CONFIDENCE:g}.",
            (method,),
            _low_confidence(method),
        )
        for which, method in NAIVE.items()
    ),
    Statement(
        "RQ3.12",
        QUESTION,
        "The average confidence nu of self-normalisation without conditioning keeps growing.",
        "log of average nu after the last epoch over that half-way.",
        f"Holds where nu grows by more than {GROWTH - 1:.0%} (log above {np.log(GROWTH):.3g}).",
        ("self_normalized",),
        _keeps_growing,
    ),
    *(
        Statement(
            f"RQ3.13{which}",
            QUESTION,
            "With conditioning both relevance and confidence differ between items.",
            "Sample standard deviations of mu and nu over displayed pairs after the last epoch.",
            f"Holds where they are above {VARIES['mu_sd']:g} (mu) and {VARIES['nu_sd']:g} (nu).",
            (method,),
            _varies(method),
        )
        for which, method in CONDITIONED.items()
    ),
)
