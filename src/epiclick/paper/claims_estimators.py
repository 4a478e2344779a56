"""RQ1 (paper, section 7.1, figure 2): which techniques raise the likelihood of test clicks."""

from collections.abc import Callable

from epiclick.paper.results import Results
from epiclick.paper.statement import (
    FINAL,
    LIKELIHOOD_MARGIN,
    PUBLISHED,
    Check,
    Statement,
    final,
    gains,
    runs_of,
)

QUESTION = "RQ1: which of the proposed techniques raise the log-likelihood of clicks?"
LITTLE = 0.1  # of the gain of conditioning: less counts as hardly any
NAIVE = {"": ("naive", "naive+baseline"), " literal": ("naive-literal", "naive-literal+baseline")}
OFFSET = {
    "": "The estimator with one fixed log-offset per run, without which it underflows.",
    " literal": "The estimator as written: its weights underflow to 0, so that it cannot learn.",
}


def _higher(id: str, claim: str, better: str, *worse: str, note: str = "") -> Statement:
    """One method has a higher likelihood than all others."""

    def checks(results: Results) -> list[Check]:
        return [c for one in worse for c in gains(results, better, one, above=LIKELIHOOD_MARGIN)]

    rule = f"Holds if it gains more than {LIKELIHOOD_MARGIN:g} nats per display."
    return Statement(id, QUESTION, claim, FINAL, rule, (better, *worse), checks, note=note)


def _stuck(naive: tuple[str, ...]) -> Callable[[Results], list[Check]]:
    """Gain of naive estimation since its first recorded epoch, minus a share of the best gain."""

    def checks(results: Results) -> list[Check]:
        found = []
        for method in naive:
            start = results.of(method, PUBLISHED)[1][:, 0]
            gain = final(results, method, PUBLISHED) - start
            best = final(results, "conditioned", PUBLISHED) - start
            name = f"gain of {method} since its first epoch"
            found.append(Check(f"{name} - {LITTLE:g} x gain to conditioned",
                               runs_of(gain - LITTLE * best), below=0))  # fmt: skip
            found.append(Check(name, runs_of(gain), below=LIKELIHOOD_MARGIN, decides=False))
        return found

    return checks


STATEMENTS: tuple[Statement, ...] = (
    _higher(
        "RQ1.1",
        "Self-normalisation with conditioning on position bias ends at a higher log-likelihood "
        "than self-normalisation alone.",
        "conditioned",
        "self_normalized",
    ),
    _higher(
        "RQ1.1 exact",
        "The same with the exact estimator, the limit of conditioning as samples increase.",
        "exact",
        "self_normalized",
    ),
    *(
        _higher(
            f"RQ1.2{which}",
            "Self-normalisation ends at a higher log-likelihood than naive estimation, with or "
            "without baseline corrections.",
            "self_normalized",
            *methods,
            note=OFFSET[which],
        )
        for which, methods in NAIVE.items()
    ),
    *(
        Statement(
            f"RQ1.3{which}",
            QUESTION,
            "Naive estimation hardly improves on its start, even with baseline corrections.",
            "Gain in published test log-likelihood from the first recorded epoch to the last.",
            f"Holds if the gain is less than {LITTLE:g} of the gain of self-normalisation with "
            "conditioning from the same start.",
            (*methods, "conditioned"),
            _stuck(methods),
            note=OFFSET[which],
        )
        for which, methods in NAIVE.items()
    ),
    Statement(
        "RQ1.4",
        QUESTION,
        "Baseline corrections lower the final log-likelihood of self-normalisation.",
        FINAL,
        f"Holds if the corrections cost more than {LIKELIHOOD_MARGIN:g} nats per display.",
        ("self_normalized+baseline", "self_normalized"),
        lambda r: gains(r, "self_normalized+baseline", "self_normalized", below=-LIKELIHOOD_MARGIN),
    ),
    Statement(
        "RQ1.5",
        QUESTION,
        "With conditioning, baseline corrections make no difference to the log-likelihood.",
        FINAL,
        f"Holds if the difference is within {LIKELIHOOD_MARGIN:g} nats per display.",
        ("conditioned+baseline", "conditioned"),
        lambda r: gains(r, "conditioned+baseline", "conditioned",
                        above=-LIKELIHOOD_MARGIN, below=LIKELIHOOD_MARGIN),
    ),
)  # fmt: skip
