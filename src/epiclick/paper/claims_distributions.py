"""RQ3 (paper, section 7.3, figures 3, 4): learned distributions of position bias and relevance."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from epiclick.paper.results import Results
from epiclick.paper.statement import (
    FAILS,
    FLAT,
    OPEN,
    PUBLISHED,
    Check,
    Checks,
    Statement,
    Undecidable,
    bias,
    bias_error,
    bias_mean,
    final,
    flat_bias,
    runs_of,
)

QUESTION = "RQ3: does the epistemic model capture uncertainty appropriately?"
NAIVE = {"": "naive+baseline", " literal": "naive-literal+baseline"}
CONDITIONED = {"": "conditioned", " exact": "exact"}
CENTRED = 0.05  # a twentieth of the axis of figure 3
NARROW = 2.0  # standard deviations between the truth and the mean
SPREAD = 2.0  # factor
AT_ONE = "A true position bias of 1 can only be underestimated."
WIDTH = (
    "The width of these distributions depends on the batch size and on when training stops, not "
    "only on the data."
)
BIAS = "Means of the position-bias distributions after the last epoch, minus the truth."
DISTANCE = "median distance of the truth from the mean, in standard deviations"


def _below_truth(method: str, positions: Sequence[int]) -> Checks:
    """Mean position bias minus the truth, at some positions."""

    def checks(results: Results) -> list[Check]:
        error = bias_mean(results, method) - results.truth
        return [
            Check(f"theta_{k} - truth, {method}", runs_of(error[:, k - 1]), below=0)
            for k in positions
            if k <= len(results.truth)
        ]

    return checks


def _within(method: str, positions: Sequence[int]) -> Checks:
    """Mean position bias within a margin of the truth; relative errors for comparison."""

    def checks(results: Results) -> list[Check]:
        truth, known = results.truth, [k for k in positions if k <= len(results.truth)]
        error = bias_mean(results, method) - truth
        return [
            *(Check(f"theta_{k} - truth, {method}", runs_of(error[:, k - 1]), -CENTRED, CENTRED)
              for k in known),
            *(Check(f"theta_{k} / truth - 1, {method}", runs_of(error[:, k - 1] / truth[k - 1]),
                    decides=False) for k in known),
        ]  # fmt: skip

    return checks


def _distances(results: Results, method: str) -> np.ndarray:
    """(runs,) median over positions of |truth - mean| in standard deviations."""
    theta = bias(results, method)
    return np.median(np.abs(results.truth - theta.mean) / theta.sd, axis=1)


def _narrow(results: Results) -> list[Check]:
    return [
        Check(f"{DISTANCE}, {method}", runs_of(_distances(results, method)), above=NARROW,
              decides=method == "self_normalized")
        for method in ("self_normalized", "conditioned")
        if method in results.methods
    ]  # fmt: skip


def _centred(method: str) -> Checks:
    """Mean position bias within a margin of the truth, and the truth within the distribution."""

    def checks(results: Results) -> list[Check]:
        found = _within(method, range(1, len(results.truth) + 1))(results)
        if not results.has(method, "theta_alpha"):
            return found
        distance = runs_of(_distances(results, method))
        return [*found, Check(f"{DISTANCE}, {method}", distance, below=NARROW)]

    return checks


def _nearer(results: Results) -> list[Check]:
    """Of two methods, the one with the higher likelihood has the smaller position-bias error."""
    order = ("conditioned", "self_normalized", "naive+baseline")
    found = []
    for a, b in pairwise(order):
        gain = Check("", runs_of(final(results, a, PUBLISHED) - final(results, b, PUBLISHED)),
                     above=0)  # fmt: skip
        better, worse = (b, a) if gain.outcome == FAILS else (a, b)
        error = bias_error(results, better) - bias_error(results, worse)
        tied = "it is unclear which of the two has the higher likelihood"
        found.append(Check(f"mean |theta - truth|, {better} - {worse}", runs_of(error), below=0,
                           unfit=tied if gain.outcome == OPEN else ""))  # fmt: skip
    return found


def _spread(method: str) -> Checks:
    """Width of a typical run's distributions against the spread of pointwise estimates.

    The spread over runs has no value per run: the interval is of the jackknife's pseudo-values.
    """

    def checks(results: Results) -> list[Check]:
        width, points = bias(results, method).sd, results.last("pointwise", "theta")
        runs = len(points)
        if runs < 3:
            raise Undecidable(f"a spread over runs needs at least 3, there are {runs}")

        def ratio(kept: np.ndarray) -> float:
            spread = points[kept].std(axis=0, ddof=1)
            with np.errstate(divide="ignore"):  # identical runs
                return float(np.log2(width[kept].mean(axis=0) / spread).mean())

        every = np.arange(runs)
        without = np.array([ratio(np.delete(every, run)) for run in every])
        with np.errstate(invalid="ignore"):
            pseudo = runs * ratio(every) - (runs - 1) * without
        limit = np.log2(SPREAD)
        name = f"log2 of width of {method} / spread of pointwise over runs (jackknife)"
        return [Check(name, runs_of(pseudo), -limit, limit)]

    return checks


BIAS_STATEMENTS: tuple[Statement, ...] = (
    *(
        Statement(
            f"RQ3.1{which}",
            QUESTION,
            "Naive estimation leaves the distributions of all position biases flat.",
            "Standard deviation of the distributions after the last epoch (uniform: 0.289).",
            f"Holds if that of the narrowest position is above {FLAT:g}.",
            (method,),
            flat_bias(method),
        )
        for which, method in NAIVE.items()
    ),
    Statement(
        "RQ3.2",
        QUESTION,
        "Self-normalisation without conditioning underestimates all position biases.",
        BIAS,
        "Holds if it is below 0 at every position.",
        ("self_normalized",),
        _below_truth("self_normalized", range(1, 100)),
        note=AT_ONE,
    ),
    Statement(
        "RQ3.3",
        QUESTION,
        "The distributions of self-normalisation without conditioning are too narrow: they give "
        "the true values almost no probability.",
        "Distance of the truth from the distribution's mean, in standard deviations; median over "
        "positions.",
        f"Holds if it is above {NARROW:g}.",
        ("self_normalized",),
        _narrow,
    ),
    *(
        Statement(
            f"RQ3.4{which}",
            QUESTION,
            "Self-normalisation with conditioning centres the distributions on the truth.",
            BIAS,
            f"Holds if it is within {CENTRED:g} at every position, and the truth within "
            f"{NARROW:g} standard deviations (median over positions; not for point estimates).",
            (method,),
            _centred(method),
            note="It fixes the first position at 1." if method == "marginal" else AT_ONE,
        )
        for which, method in {**CONDITIONED, " marginal": "marginal"}.items()
    ),
    Statement(
        "RQ3.5",
        QUESTION,
        "The pointwise model underestimates the first three position biases.",
        "Its position biases after the last epoch, minus the truth.",
        "Holds if it is below 0 at positions 1 to 3.",
        ("pointwise",),
        _below_truth("pointwise", (1, 2, 3)),
        note=AT_ONE,
    ),
    Statement(
        "RQ3.6",
        QUESTION,
        "At the last two positions the pointwise estimates lie around the truth.",
        "Its position biases after the last epoch, minus the truth.",
        f"Holds if it is within {CENTRED:g} at positions 4 and 5.",
        ("pointwise",),
        _within("pointwise", (4, 5)),
    ),
    Statement(
        "RQ3.7",
        QUESTION,
        "Methods with a higher likelihood have distributions closer to the true position bias.",
        "Mean over positions of |mean - truth| for conditioned, self-normalised and naive + "
        "baseline estimation; of each adjacent two, the one with the higher published likelihood "
        "minus the other.",
        "Holds if both differences are below 0; undecided if it is unclear which likelihood is "
        "higher.",
        ("conditioned", "self_normalized", "naive+baseline"),
        _nearer,
    ),
    *(
        Statement(
            f"RQ3.8{which}",
            QUESTION,
            "With conditioning, widths match the spread of pointwise estimates over runs.",
            "log2 of (mean width of the distributions / standard deviation over runs of the "
            "pointwise estimates), mean over positions.",
            f"Holds if they are within a factor of {SPREAD:g}.",
            (method, "pointwise"),
            _spread(method),
            note=WIDTH,
        )
        for which, method in CONDITIONED.items()
    ),
)


NEAR_ZERO = 0.1  # of the value with conditioning
LOW_CONFIDENCE = 2.0  # confidence is at least 1
GROWTH = 1.1  # of confidence over the second half of training
RISE = 0.05  # of mean relevance
EARLY = 0.1  # of the epochs
VARIES = {"mu_sd": 0.05, "nu_sd": 0.5}


def _rises(results: Results) -> list[Check]:
    """Highest mean relevance in the first tenth of training, minus that of the first epoch."""
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
    """Spread over pairs of naive estimation minus a tenth of that of conditioning."""

    def checks(results: Results) -> list[Check]:
        found = []
        for quantity, name in (("mu_sd", "s.s.d. of mu"), ("nu_sd", "s.s.d. of nu")):
            own = final(results, method, quantity)
            limit = NEAR_ZERO * final(results, "conditioned", quantity)
            found.append(Check(f"{name}, {method} - {NEAR_ZERO:g} x conditioned",
                               runs_of(own - limit), below=0))  # fmt: skip
            found.append(Check(f"{name}, {method}", runs_of(own), decides=False))
        return found

    return checks


def _low_confidence(method: str) -> Checks:
    return lambda r: [
        Check(f"average nu, {method}", runs_of(final(r, method, "nu_mean")), below=LOW_CONFIDENCE)
    ]


def _keeps_growing(results: Results) -> list[Check]:
    """log of average confidence at the end relative to the middle of training."""
    found: list[Check] = []
    for method in ("self_normalized", "conditioned"):
        if method in results.methods:
            epochs, nu = results.of(method, "nu_mean")
            middle = int(np.searchsorted(epochs, epochs[-1] / 2))
            name = f"log of average nu, last / middle epoch, {method}"
            found.append(Check(name, runs_of(np.log(nu[:, -1] / nu[:, middle])),
                               above=np.log(GROWTH), decides=not found))  # fmt: skip
    return found


def _varies(method: str) -> Checks:
    return lambda r: [
        Check(f"s.s.d. of {quantity[:2]}, {method}", runs_of(final(r, method, quantity)),
              above=least)
        for quantity, least in VARIES.items()
    ]  # fmt: skip


RELEVANCE_STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "RQ3.9",
        QUESTION,
        "Without conditioning, average relevance mu rises substantially in the first epochs.",
        f"Highest average mu in the first {EARLY:.0%} of the epochs, minus that of the first "
        "recorded one (self-normalised; others for comparison).",
        f"Holds if it rises by more than {RISE:g}.",
        ("self_normalized",),
        _rises,
        note="Changes within the first recorded epoch are not measured.",
    ),
    *(
        Statement(
            f"RQ3.10{which}",
            QUESTION,
            "Naive estimation gives all items the same relevance and confidence: the sample "
            "standard deviations of mu and nu are near 0.",
            "Sample standard deviations over displayed pairs after the last epoch.",
            f"Holds if both are below {NEAR_ZERO:g} of those of self-normalisation with "
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
            f"Holds if it is below {LOW_CONFIDENCE:g}.",
            (method,),
            _low_confidence(method),
        )
        for which, method in NAIVE.items()
    ),
    Statement(
        "RQ3.12",
        QUESTION,
        "The average confidence nu of self-normalisation without conditioning keeps growing.",
        "log of average nu after the last epoch relative to half of the epochs.",
        f"Holds if nu grows by more than {GROWTH - 1:.0%} (log above {np.log(GROWTH):.3g}).",
        ("self_normalized",),
        _keeps_growing,
    ),
    *(
        Statement(
            f"RQ3.13{which}",
            QUESTION,
            "With conditioning, both relevance and confidence differ between items.",
            "Sample standard deviations of mu and nu over displayed pairs after the last epoch.",
            f"Holds if they are above {VARIES['mu_sd']:g} (mu) and {VARIES['nu_sd']:g} (nu).",
            (method,),
            _varies(method),
        )
        for which, method in CONDITIONED.items()
    ),
)
