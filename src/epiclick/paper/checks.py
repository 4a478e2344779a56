"""One measured number held against a rule: inside a range, outside it, or not to be told.

A number is measured once a run, of two methods on the same run where it compares them, and its mean
over runs has a Student-t interval. A rule is a range that is fixed here and not by the data: it
holds where the whole interval lies inside the range, does not hold where the whole interval lies
outside, and cannot be told where the interval crosses an end, or where the runs were such that the
number could not have met the rule.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan
from typing import Any, Literal

import numpy as np
from scipy import stats

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
