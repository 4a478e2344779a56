"""A claim of the paper with its decision rule, fixed before the measurement, and its outcome.

A number is measured once per run, as a paired difference where it compares two methods, and its
mean over runs has a Student-t interval. A rule is a range that does not depend on the data. The
rule holds if the whole interval lies inside the range and does not hold if the whole interval lies
outside; the outcome is "cannot tell" if the interval crosses a bound, or if the number could not
have met the rule in these runs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan
from typing import Any, Literal

import numpy as np
from scipy import stats

from epiclick.beta import Beta
from epiclick.errors import InputError
from epiclick.paper.results import Results

LEVEL = 0.95

Outcome = Literal["holds", "does not hold", "cannot tell"]
HOLDS: Outcome = "holds"
FAILS: Outcome = "does not hold"
OPEN: Outcome = "cannot tell"
_OPPOSITE: dict[Outcome, Outcome] = {HOLDS: FAILS, FAILS: HOLDS, OPEN: OPEN}


class Undecidable(Exception):
    """The results cannot decide a claim; the message says why."""


@dataclass(frozen=True)
class Interval:
    """A mean over runs with its Student-t interval; NaN where there is none."""

    mean: float
    low: float
    high: float


def mean_interval(by_run: Sequence[float] | np.ndarray, level: float = LEVEL) -> Interval:
    """Mean and two-sided Student-t interval.

    >>> mean_interval([1.0, 2.0, 3.0])
    Interval(mean=2.0, low=-0.484..., high=4.484...)
    """
    values = np.asarray(by_run, float)
    mean = float(values.mean()) if len(values) else nan
    if len(values) < 2 or not np.isfinite(values).all():
        return Interval(mean, nan, nan)
    half = stats.t.ppf((1 + level) / 2, len(values) - 1) * stats.sem(values)
    return Interval(mean, float(mean - half), float(mean + half))


@dataclass(frozen=True)
class Check:
    """A number measured in every run, and the range that its mean has to lie in.

    Attributes:
        quantity: description of the number.
        by_run: (runs,) its values.
        above: lower bound of the range.
        below: upper bound.
        outside: whether the mean has to lie outside the range instead.
        decides: whether the claim's outcome depends on it; if not, it is shown for comparison.
        unfit: why these runs cannot decide, if they cannot; the number is still shown.
    """

    quantity: str
    by_run: tuple[float, ...]
    above: float = -inf
    below: float = inf
    outside: bool = False
    decides: bool = True
    unfit: str = ""

    @property
    def interval(self) -> Interval:
        """Mean and interval over the runs."""
        return mean_interval(self.by_run)

    @property
    def rule(self) -> str:
        """The range in words; empty if the number is shown without a rule."""
        if not isfinite(self.above) and not isfinite(self.below):
            return ""
        if not isfinite(self.below):
            return f"above {self.above:g}"
        if not isfinite(self.above):
            return f"below {self.below:g}"
        ends = f"{self.above:g} and {self.below:g}"
        return f"not between {ends}" if self.outside else f"between {ends}"

    @property
    def outcome(self) -> Outcome:
        """The outcome of the rule with an interval at `LEVEL`."""
        return self.outcome_at(LEVEL)

    def outcome_at(self, level: float) -> Outcome:
        """The outcome of the rule with an interval at another level."""
        found = mean_interval(self.by_run, level)
        low, high = found.low, found.high
        if self.unfit or not (isfinite(low) and isfinite(high)):
            return OPEN
        if low > self.above and high < self.below:
            inside = HOLDS
        elif high <= self.above or low >= self.below:
            inside = FAILS
        else:
            inside = OPEN
        return _OPPOSITE[inside] if self.outside else inside

    @property
    def reason(self) -> str:
        """Why the outcome is undecided; empty if it is not."""
        if self.outcome != OPEN:
            return ""
        if len(self.by_run) < 2:
            return (
                f"{self.quantity}: an interval needs at least 2 runs, there is {len(self.by_run)}"
            )
        broken = int((~np.isfinite(self.by_run)).sum())
        if broken:
            return f"{self.quantity}: not finite in {broken} of {len(self.by_run)} runs"
        if self.unfit:
            return f"{self.quantity}: {self.unfit}"
        low, high = self.interval.low, self.interval.high
        return f"{self.quantity}: the interval {low:.4g} to {high:.4g} crosses a bound of the range"

    def to_dict(self) -> dict[str, Any]:
        """For JSON, which has no infinity and no NaN."""
        found = self.interval
        return {
            "quantity": self.quantity,
            "rule": self.rule,
            "decides": self.decides,
            "mean": finite(found.mean),
            "low": finite(found.low),
            "high": finite(found.high),
            "level": LEVEL,
            "runs": len(self.by_run),
            "by_run": [finite(value) for value in self.by_run],
            "outcome": self.outcome if self.rule else None,
        }


def finite(value: float) -> float | None:
    """The number, or None where JSON has no value for it."""
    return float(value) if isfinite(value) else None


def combined(checks: Sequence[Check], any_of_them: bool = False) -> Outcome:
    """The outcome of the deciding checks: all of them have to hold, or any.

    If a single check can decide (one fails where all have to hold, or one holds where any is
    enough), its interval is widened by the Bonferroni correction; if all agree, none is.
    """
    deciding = [check for check in checks if check.decides]
    if not deciding:
        return OPEN
    alone, together = (HOLDS, FAILS) if any_of_them else (FAILS, HOLDS)
    widened = 1 - (1 - LEVEL) / len(deciding)
    if any(check.outcome_at(widened) == alone for check in deciding):
        return alone
    return together if all(check.outcome == together for check in deciding) else OPEN


METRICS: dict[str, str] = {
    "whole_set": "as published: whole test set, per display",
    "per_display": "expected clicks, per display",
    "per_pair": "all clicks of a pair, per pair",
}
PUBLISHED = "whole_set"
FLAT = 0.2  # standard deviation; a uniform distribution has 0.289

Checks = Callable[[Results], list[Check]]

# Nats per display (per pair, for that metric). A thousandth changes perplexity by 0.1 %: a smaller
# difference could not be seen in the paper's curves.
LIKELIHOOD_MARGIN = 0.001
FINAL = "Test log-likelihood after the last epoch, as published (other two metrics for comparison)."


def final(results: Results, method: str, quantity: str) -> np.ndarray:
    """(runs,) a quantity after the last epoch."""
    return results.last(method, quantity)[:, 0]


def bias(results: Results, method: str) -> Beta:
    """(runs, positions) the Betas of position bias after the last epoch."""
    alpha, beta = results.last(method, "theta_alpha"), results.last(method, "theta_beta")
    valid = np.isfinite(alpha) & np.isfinite(beta) & (alpha > 0) & (beta > 0)
    if not valid.all():
        broken = int((~valid.all(axis=1)).sum())
        raise Undecidable(f"{method} has no position bias in {broken} of {len(alpha)} runs")
    return Beta(alpha, beta)


def bias_mean(results: Results, method: str) -> np.ndarray:
    """(runs, positions) mean position bias after the last epoch, or its point estimate."""
    if results.has(method, "theta_alpha"):
        return bias(results, method).mean
    return results.point_bias(method)


def bias_error(results: Results, method: str) -> np.ndarray:
    """(runs,) mean absolute error of the mean position bias, over positions."""
    return np.abs(bias_mean(results, method) - results.truth).mean(axis=1)


def epoch_near_best(results: Results, method: str, metric: str = PUBLISHED) -> np.ndarray:
    """(runs,) the first recorded epoch with a likelihood within the margin of the run's best."""
    epochs, values = results.of(method, metric)
    return _first(epochs, values >= values.max(axis=1, keepdims=True) - LIKELIHOOD_MARGIN)


def epoch_near_last(results: Results, method: str) -> np.ndarray:
    """(runs,) the first recorded epoch with a likelihood within the margin of the last epoch's."""
    epochs, values = results.of(method, PUBLISHED)
    return _first(epochs, _near_last(values))


def epoch_stays_near_last(results: Results, method: str) -> np.ndarray:
    """(runs,) the first recorded epoch from which all are within the margin of the last."""
    epochs, values = results.of(method, PUBLISHED)
    backwards = np.logical_and.accumulate(_near_last(values)[:, ::-1], axis=1)
    return _first(epochs, backwards[:, ::-1])


def _near_last(values: np.ndarray) -> np.ndarray:
    return np.abs(values - values[:, -1:]) <= LIKELIHOOD_MARGIN


def _first(epochs: np.ndarray, found: np.ndarray) -> np.ndarray:
    """(runs,) the first epoch of each run; NaN where there is none, as after divergence."""
    return np.where(found.any(axis=1), epochs[found.argmax(axis=1)].astype(float), np.nan)


def flat_bias(method: str) -> Checks:
    """Whether even the narrowest of the position-bias distributions is almost flat."""
    return lambda r: [
        Check(f"smallest standard deviation over positions, {method}",
              runs_of(bias(r, method).sd.min(axis=1)), above=FLAT)
    ]  # fmt: skip


def gains(
    results: Results,
    better: str,
    worse: str,
    *,
    above: float = -np.inf,
    below: float = np.inf,
    deciding: Sequence[str] = (PUBLISHED,),
) -> list[Check]:
    """Differences in final likelihood, better - worse, in all three metrics."""
    return [
        Check(
            f"log-likelihood ({name}), {better} - {worse}",
            runs_of(final(results, better, metric) - final(results, worse, metric)),
            above=above,
            below=below,
            decides=metric in deciding,
        )
        for metric, name in METRICS.items()
    ]


def runs_of(values: np.ndarray) -> tuple[float, ...]:
    """Values of the runs as a tuple."""
    return tuple(np.asarray(values, float).tolist())


TEST = "Mean over runs, paired by run, with its 95 % Student-t interval."
NOT_RUN = "not run: "
WIDENED = "If one of several numbers decides, its interval is Bonferroni-corrected."


@dataclass(frozen=True)
class Claim:
    """A claim with its outcome; `reason` says why it is undecided, `note` what limits it."""

    id: str
    question: str
    claim: str
    measured: str
    test: str
    needs: tuple[str, ...]
    outcome: Outcome
    reason: str
    note: str
    checks: tuple[Check, ...]

    @property
    def was_asked(self) -> bool:
        """Whether the methods that it is about were run."""
        return not self.reason.startswith(NOT_RUN)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        checks = [check.to_dict() for check in self.checks]
        return {**vars(self), "needs": list(self.needs), "checks": checks}


@dataclass(frozen=True)
class Statement:
    """A claim and its decision rule.

    Attributes:
        id: question and number, and the method that replaces the paper's, if any.
        question: the research question.
        claim: the paper's claim, in our words.
        measured: the measured quantity.
        rule: the condition on it, margins included.
        needs: keys of the variants.
        checks: computes the quantity from results.
        any_of_them: whether one check that holds is enough.
        note: what limits the answer.
    """

    id: str
    question: str
    claim: str
    measured: str
    rule: str
    needs: tuple[str, ...]
    checks: Callable[[Results], list[Check]]
    any_of_them: bool = False
    note: str = ""

    def of(self, results: Results) -> Claim:
        """The claim with its outcome in the results."""
        checks, reason = self._measure(results)
        outcome = combined(checks, self.any_of_them)
        if outcome == OPEN and not reason:
            reason = _why_open([check for check in checks if check.decides])
        return Claim(
            self.id,
            self.question,
            self.claim,
            self.measured,
            f"{TEST} {self.rule} {WIDENED}",
            self.needs,
            outcome,
            reason,
            self.note,
            tuple(checks),
        )

    def _measure(self, results: Results) -> tuple[list[Check], str]:
        """The checks; or none, and the reason."""
        missing = [key for key in self.needs if key not in results.methods]
        if missing:
            return [], NOT_RUN + ", ".join(missing)
        try:
            return self.checks(results), ""
        except (InputError, Undecidable) as error:
            return [], str(error)


def _why_open(deciding: Sequence[Check]) -> str:
    """Why the checks together decide nothing."""
    undecided = "; ".join(check.reason for check in deciding if check.outcome == OPEN)
    return undecided or (
        f"one of {len(deciding)} numbers contradicts the others, but not after Bonferroni "
        "correction"
    )
