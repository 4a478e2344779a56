"""RQ4 (paper, section 7.4, figures 5 and 6): what entropy regularisation does."""

import numpy as np

from epiclick.paper.results import Results
from epiclick.paper.statement import (
    FINAL,
    FLAT,
    LIKELIHOOD_MARGIN,
    Check,
    Checks,
    Statement,
    bias,
    bias_mean,
    final,
    flat_bias,
    gains,
    runs_of,
)

QUESTION = "RQ4: what does entropy regularisation do to the epistemic model?"
FAMILIES = {"": "conditioned", " literal 1/S": "conditioned/S", " exact": "exact"}
NOTES = {
    "": "",
    " literal 1/S": "With the factor 1/S that the paper writes next to the softmax, so that lambda "
    "weighs S times as much.",
    " exact": "With the exact estimator in place of conditioning.",
}
MILD = ("0.0001", "0.001")
SHOWN, EXTREME = "0.001", "0.25"
SHIFT = 0.01  # of a position bias
RUINED = 0.01  # nats per display: 1 % of perplexity
HALF = 0.5  # of the confidence without regularisation


def weighted(family: str, weight: str) -> str:
    """Key of a family's variant with an entropy weight."""
    return f"{family}@{weight}"


def unweighted(family: str) -> str:
    """Key of a family's variant without entropy, where 1/S only rescales gradients."""
    return family.removesuffix("/S")


def _keeps(family: str) -> Checks:
    return lambda r: [
        check
        for weight in MILD
        for check in gains(r, weighted(family, weight), unweighted(family),
                           above=-LIKELIHOOD_MARGIN)
    ]  # fmt: skip


def _confidence(family: str, weights: tuple[str, ...], share: float) -> Checks:
    """Average nu minus a share of that without entropy."""

    def checks(results: Results) -> list[Check]:
        before = final(results, unweighted(family), "nu_mean")
        times = "" if share == 1 else f"{share:g} x "
        return [
            Check(f"average nu, {weighted(family, weight)} - {times}{unweighted(family)}",
                  runs_of(final(results, weighted(family, weight), "nu_mean") - share * before),
                  below=0)
            for weight in weights
        ]  # fmt: skip

    return checks


def _shifts(family: str) -> Checks:
    """Shifts of mean position bias, with widths for comparison."""

    def checks(results: Results) -> list[Check]:
        method, before = weighted(family, SHOWN), unweighted(family)
        shift = bias_mean(results, method) - bias_mean(results, before)
        width = np.log2(bias(results, method).sd / bias(results, before).sd)
        positions = range(1, len(results.truth) + 1)
        return [
            *(Check(f"theta_{k}, {method} - {before}", runs_of(shift[:, k - 1]), -SHIFT, SHIFT,
                    outside=True) for k in positions),
            *(Check(f"log2 of width of theta_{k}, {method} / {before}", runs_of(width[:, k - 1]),
                    -1, 1, decides=False) for k in positions),
        ]  # fmt: skip

    return checks


def _ruins(family: str) -> Checks:
    return lambda r: gains(r, weighted(family, EXTREME), unweighted(family), below=-RUINED)


def _of(which: str, family: str) -> tuple[Statement, ...]:
    """The claims of one family of variants."""
    before, note = unweighted(family), NOTES[which]
    mild = (before, *(weighted(family, weight) for weight in MILD))
    shown, extreme = (before, weighted(family, SHOWN)), (before, weighted(family, EXTREME))
    return (
        Statement(
            f"RQ4.1{which}",
            QUESTION,
            "An entropy weight of up to 0.001 does not lower the log-likelihood.",
            FINAL,
            f"Holds if weights 0.0001 and 0.001 lose less than {LIKELIHOOD_MARGIN:g} nats per "
            "display.",
            mild,
            _keeps(family),
            note=note,
        ),
        Statement(
            f"RQ4.2{which}",
            QUESTION,
            "An entropy weight of up to 0.001 lowers the average confidence in relevance.",
            "Mean of nu over displayed pairs after the last epoch.",
            "Holds if it is lower than without entropy at weights 0.0001 and 0.001.",
            mild,
            _confidence(family, MILD, 1.0),
            note=note,
        ),
        Statement(
            f"RQ4.3{which}",
            QUESTION,
            "An entropy weight of 0.001 shifts the means of the position-bias distributions.",
            "Means of the position-bias distributions with entropy, minus those without (widths "
            "for comparison).",
            f"Holds if one position shifts by more than {SHIFT:g}, does not hold if all shift by "
            "less.",
            shown,
            _shifts(family),
            any_of_them=True,
            note=note,
        ),
        Statement(
            f"RQ4.4{which}",
            QUESTION,
            "An entropy weight of 0.25 considerably lowers the log-likelihood.",
            FINAL,
            f"Holds if it costs more than {RUINED:g} nats per display.",
            extreme,
            _ruins(family),
            note=note,
        ),
        Statement(
            f"RQ4.5{which}",
            QUESTION,
            "An entropy weight of 0.25 considerably lowers the average confidence in relevance.",
            "Mean of nu over displayed pairs after the last epoch.",
            f"Holds if it is below {HALF:g} of that without entropy.",
            extreme,
            _confidence(family, (EXTREME,), HALF),
            note=note,
        ),
        Statement(
            f"RQ4.6{which}",
            QUESTION,
            "An entropy weight of 0.25 makes position-bias distributions uninformatively wide.",
            "Standard deviation of the distributions after the last epoch (uniform: 0.289).",
            f"Holds if that of the narrowest position is above {FLAT:g}.",
            (weighted(family, EXTREME),),
            flat_bias(weighted(family, EXTREME)),
            note=note,
        ),
    )


STATEMENTS: tuple[Statement, ...] = tuple(
    statement for which, family in FAMILIES.items() for statement in _of(which, family)
)
