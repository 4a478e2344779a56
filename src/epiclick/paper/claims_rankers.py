"""RQ5 (paper, section 7.5, figure 7): expected clicks of rankers that were never shown."""

import numpy as np

from epiclick.paper.results import Results
from epiclick.paper.statement import Check, Checks, Statement, Undecidable, runs_of

QUESTION = "RQ5: are the epistemic model's distributions of rankers' values appropriate?"
METHODS = {"": "conditioned", " exact": "exact", " marginal": "marginal"}
NOTES = {
    "": "Relevance and position bias drawn independently of each other, as in the paper.",
    " exact": "Relevance and position bias drawn independently of each other, as in the paper.",
    " marginal": "Samples include the uncertainty of the network, which items share.",
}
NEAR = 0.1  # of the true value
SUBSTANTIAL = 0.25  # of the probability
MOST = 0.5  # of the distributions
COMPARABLE = 0.02  # of the true value
INTERVAL, COVERED = 0.90, 0.8  # share of 90 % intervals that has to contain the truth


def _truth(results: Results, method: str) -> np.ndarray:
    """(runs, rankers) true values."""
    return results.last(method, "ranker_truth")


def _samples(results: Results, method: str) -> np.ndarray:
    """(runs, rankers, samples) of values."""
    samples = results.samples(method, "ranker_sample")
    broken = int((~np.isfinite(samples).all(axis=(1, 2))).sum())
    if broken:
        raise Undecidable(f"{method} has no values of rankers in {broken} of {len(samples)} runs")
    return samples


def _mass(method: str) -> Checks:
    """Share of rankers whose distribution has substantial mass near the truth."""

    def checks(results: Results) -> list[Check]:
        samples = _samples(results, method)
        truth = _truth(results, method)[..., None]
        mass = (np.abs(samples - truth) <= NEAR * truth).mean(axis=2)
        return [
            Check(f"share of rankers with substantial mass near the truth, {method}",
                  runs_of((mass >= SUBSTANTIAL).mean(axis=1)), above=MOST),
            Check(f"mass within {NEAR:.0%} of the truth, {method}",
                  runs_of(mass.mean(axis=1)), above=SUBSTANTIAL, decides=False),
        ]  # fmt: skip

    return checks


def _errors(results: Results, method: str) -> np.ndarray:
    """(runs,) mean relative error of expected values, over rankers."""
    truth = _truth(results, method)
    return (np.abs(results.last(method, "ranker_value") - truth) / truth).mean(axis=1)


def _comparable(method: str) -> Checks:
    def checks(results: Results) -> list[Check]:
        own, points = _errors(results, method), _errors(results, "pointwise")
        return [
            Check(f"mean relative error, {method} - pointwise", runs_of(own - points),
                  -COMPARABLE, COMPARABLE),
            Check(f"mean relative error, {method}", runs_of(own), decides=False),
            Check("mean relative error, pointwise", runs_of(points), decides=False),
        ]  # fmt: skip

    return checks


def _coverage(method: str) -> Checks:
    """Share of rankers whose central interval contains the truth."""

    def checks(results: Results) -> list[Check]:
        ends = ((1 - INTERVAL) / 2, (1 + INTERVAL) / 2)
        low, high = np.quantile(_samples(results, method), ends, axis=2)
        truth = _truth(results, method)
        covered = ((low <= truth) & (truth <= high)).mean(axis=1)
        return [Check(f"share of {INTERVAL:.0%} intervals that contain the truth, {method}",
                      runs_of(covered), above=COVERED)]  # fmt: skip

    return checks


def _of(which: str, method: str) -> tuple[Statement, ...]:
    """The claims of one method."""
    note = NOTES[which]
    return (
        Statement(
            f"RQ5.1{which}",
            QUESTION,
            "Most distributions of a ranker's value have substantial mass around the true value.",
            f"Share of the rankers with at least {SUBSTANTIAL:.0%} of the samples within "
            f"{NEAR:.0%} of the truth.",
            f"Holds if it is above {MOST:g}.",
            (method,),
            _mass(method),
            note=note,
        ),
        Statement(
            f"RQ5.2{which}",
            QUESTION,
            "Expected values of rankers are about as accurate as those of the pointwise model.",
            "|expected - true value| / true value, mean over rankers, minus that of the pointwise "
            "model.",
            f"Equivalence: holds if the difference is within {COMPARABLE:g}.",
            (method, "pointwise"),
            _comparable(method),
            note=note,
        ),
        Statement(
            f"RQ5.3{which}",
            QUESTION,
            "The width of the distributions is a useful indication of their error.",
            f"Share of the central {INTERVAL:.0%} intervals of the samples that contain the truth.",
            f"Holds if it is above {COVERED:g}.",
            (method,),
            _coverage(method),
            note=note,
        ),
    )


STATEMENTS: tuple[Statement, ...] = tuple(
    statement for which, method in METHODS.items() for statement in _of(which, method)
)
