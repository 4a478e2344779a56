"""A claim of the paper as stated before the measurement, and what the measurement says of it.

A number is measured once a run, of two methods on the same run where it compares them, and its mean
over runs has a Student-t interval. A rule is a range that is fixed here and not by the data: it
holds where the whole interval lies inside the range, does not hold where the whole interval lies
outside, and cannot be told where the interval crosses an end, or where the runs were such that the
number could not have met the rule.
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
    """What was measured cannot answer a claim; the message says why."""


@dataclass(frozen=True)
class Interval:
    """A mean over runs with the interval of its Student-t test; NaN where there is none."""

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
    """A number of every run, and the range that its mean has to lie in.

    Attributes:
        quantity: what was measured, in words.
        by_run: (runs,) the number.
        above: lower end of the range.
        below: upper end.
        outside: whether the mean has to lie outside the range instead.
        decides: whether the claim's outcome depends on it; the others stand beside.
        unfit: why these runs cannot answer, if they cannot; the number is still shown.
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
        """The range in words; empty where there is none, and the number is only shown."""
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
        """Whether the whole interval lies inside the range, or outside."""
        return self.outcome_at(LEVEL)

    def outcome_at(self, level: float) -> Outcome:
        """The same with an interval of another level."""
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
        """Why it cannot be told; empty where it can."""
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
        return f"{self.quantity}: the interval {low:.4g} to {high:.4g} crosses an end of the range"

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
    """A number that JSON can hold."""
    return float(value) if isfinite(value) else None


def combined(checks: Sequence[Check], any_of_them: bool = False) -> Outcome:
    """The outcome of the checks that decide: all of them have to hold, or any.

    Where one of several decides alone (it does not hold though all should, or holds where any is
    enough), its interval is widened for their number, after Bonferroni; where all agree, none is.
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

# Nats per display (per pair, for that metric). A thousandth changes perplexity by 0.1 %: less is no
# difference that a reader of the paper's curves could see.
LIKELIHOOD_MARGIN = 0.001
FINAL = "Test log-likelihood after the last epoch, as published (the other two metrics beside)."


def final(results: Results, method: str, quantity: str) -> np.ndarray:
    """(runs,) a quantity after the last epoch."""
    return results.last(method, quantity)[:, 0]


def bias(results: Results, method: str) -> Beta:
    """(runs, positions) the Betas of position bias after the last epoch."""
    alpha, beta = results.last(method, "theta_alpha"), results.last(method, "theta_beta")
    sound = np.isfinite(alpha) & np.isfinite(beta) & (alpha > 0) & (beta > 0)
    if not sound.all():
        broken = int((~sound.all(axis=1)).sum())
        raise Undecidable(f"{method} has no position bias in {broken} of {len(alpha)} runs")
    return Beta(alpha, beta)


def bias_mean(results: Results, method: str) -> np.ndarray:
    """(runs, positions) expected position bias after the last epoch, also of point estimates."""
    if results.has(method, "theta_alpha"):
        return bias(results, method).mean
    return results.last(method, "theta")


def bias_error(results: Results, method: str) -> np.ndarray:
    """(runs,) mean absolute error of expected position bias, over positions."""
    return np.abs(bias_mean(results, method) - results.truth).mean(axis=1)


def epoch_near_best(results: Results, method: str, metric: str = PUBLISHED) -> np.ndarray:
    """(runs,) the first recorded epoch with a likelihood within the margin of the run's best."""
    epochs, values = results.of(method, metric)
    return _first(epochs, values >= values.max(axis=1, keepdims=True) - LIKELIHOOD_MARGIN)


def epoch_near_last(results: Results, method: str) -> np.ndarray:
    """(runs,) the first recorded epoch with a likelihood within the margin of the last one's."""
    epochs, values = results.of(method, PUBLISHED)
    return _first(epochs, _near_last(values))


def epoch_stays_near_last(results: Results, method: str) -> np.ndarray:
    """(runs,) the first recorded epoch from which on all are within the margin of the last."""
    epochs, values = results.of(method, PUBLISHED)
    backwards = np.logical_and.accumulate(_near_last(values)[:, ::-1], axis=1)
    return _first(epochs, backwards[:, ::-1])


def _near_last(values: np.ndarray) -> np.ndarray:
    return np.abs(values - values[:, -1:]) <= LIKELIHOOD_MARGIN


def _first(epochs: np.ndarray, found: np.ndarray) -> np.ndarray:
    """(runs,) the first epoch of each run; NaN where there is none, as after a divergence."""
    return np.where(found.any(axis=1), epochs[found.argmax(axis=1)].astype(float), np.nan)


def flat_bias(method: str) -> Checks:
    """Whether even the narrowest of the position-bias distributions is all but flat."""
    return lambda r: [
        Check(f"least standard deviation over positions, {method}",
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
    """Differences of final likelihood, better - worse, in all three metrics."""
    return [
        Check(
            f"log-likelihood ({words}), {better} - {worse}",
            runs_of(final(results, better, metric) - final(results, worse, metric)),
            above=above,
            below=below,
            decides=metric in deciding,
        )
        for metric, words in METRICS.items()
    ]


def runs_of(values: np.ndarray) -> tuple[float, ...]:
    """Values of the runs as plain numbers."""
    return tuple(np.asarray(values, float).tolist())


TEST = "Mean over runs, paired by run, with its 95 % Student-t interval."
NOT_RUN = "not run: "
WIDENED = "Where one of several numbers decides alone, its interval is widened for their number."


@dataclass(frozen=True)
class Claim:
    """A claim with its outcome; `reason` says why it cannot be told, `note` what limits it."""

    id: str
    question: str
    claim: str
    measured: str
    test: str
    needs: tuple[str, ...]
    checks: tuple[Check, ...]
    outcome: Outcome
    reason: str
    note: str

    @property
    def was_asked(self) -> bool:
        """Whether the methods that it is about were run."""
        return not self.reason.startswith(NOT_RUN)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "id": self.id,
            "question": self.question,
            "claim": self.claim,
            "measured": self.measured,
            "test": self.test,
            "needs": list(self.needs),
            "outcome": self.outcome,
            "reason": self.reason,
            "note": self.note,
            "checks": [check.to_dict() for check in self.checks],
        }


@dataclass(frozen=True)
class Statement:
    """A claim and how it will be decided.

    Attributes:
        id: question and number, and the method that stands in for the paper's, if any.
        question: the research question.
        claim: what the paper says, in our words.
        measured: the quantity.
        rule: what has to be true of it, margins included.
        needs: keys of the variants.
        checks: measures it.
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
        """What results say of it."""
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
            tuple(checks),
            outcome,
            reason,
            self.note,
        )

    def _measure(self, results: Results) -> tuple[list[Check], str]:
        """The checks, or none and the reason."""
        missing = [key for key in self.needs if key not in results.methods]
        if missing:
            return [], NOT_RUN + ", ".join(missing)
        try:
            return self.checks(results), ""
        except (InputError, Undecidable) as error:
            return [], str(error)


def _why_open(deciding: Sequence[Check]) -> str:
    """Why checks together tell nothing."""
    unsure = "; ".join(check.reason for check in deciding if check.outcome == OPEN)
    return unsure or (
        f"one of {len(deciding)} numbers speaks against the others, by no more than chance allows "
        "one of so many"
    )
