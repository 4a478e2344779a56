"""Two rankers on common samples: how much better one is, how sure that is, what speaks against it.

A probability of being better is as good as the model it comes from. Two kinds of failure bear on
it: evidence that the model mispredicts clicks, and evidence that its uncertainty is too small.

Of what a fit warns of beside these, nothing bears on rankers by itself:

- a position of whose bias the clicks say next to nothing: the probability holds that already;
- a scale that clicks leave open: a ranker is worth sums of bias times relevance, in which the scale
  cancels;
- a bias at its bound, which is the anchor's: where both are equally large, that happens in
  sound logs, too; where it is larger, the backtest has more to say.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.stats import norm

from epiclick.diagnostics.checks import BAD_TAIL, FEW_QUERIES, is_poor_fit
from epiclick.evaluation.backtest import Grade
from epiclick.fitted.state import FittedModel

NAMES = (
    *("backtest", "unseen", "robots", "fit", "positions", "randomised", "uncertainty"),
    *("queries", "posterior"),
)
"""Of all checks."""

LITTLE_SEEN = 0.5
"""Share of a ranker's slots judged by their own clicks below which its value is a guess."""


@dataclass(frozen=True)
class Check:
    """A check that did not pass.

    Attributes:
        name: of the check, one of `NAMES`, or of those that a report makes beside them.
        state: it failed, or is in doubt.
        title: what is wrong, in a few words that complete "but ...".
        found: the figures, as a sentence; empty where the title has them.
        remedy: what to do, as a sentence; empty where `found` says it.
    """

    name: str
    state: Literal["failed", "doubtful"]
    title: str
    found: str
    remedy: str

    def words(self, *, named: bool = False) -> str:
        """What was found, as a sentence; empty if there is nothing beyond a title named before."""
        return self.found or ("" if named else f"{self.title[:1].upper()}{self.title[1:]}.")

    def to_dict(self) -> dict[str, str]:
        """A record for JSON."""
        return {"check": self.name, "found": self.words(), "remedy": self.remedy}


def backtest_check(grade: Grade | None, words: str | None) -> tuple[Check, ...]:
    """The check of a backtest, unless the clicks lie inside its interval."""
    found = f"Backtest: {words}."
    if grade == "far outside":
        remedy = (
            "`epiclick evaluate --by day,device` shows where the logs differ: find out why, and "
            "fit again."
        )
        return (Check("backtest", "failed", "the backtest failed", found, remedy),)
    if grade == "just outside":
        title = "the backtest lies just outside its interval"
        return (Check("backtest", "doubtful", title, found, ""),)  # its words say what to do
    return ()


def unseen_check(names: Sequence[str], seen: Sequence[float]) -> tuple[Check, ...]:
    """The check of what rankers show: a model is not tested on items that no page of a log has."""
    little = [(n, s) for n, s in zip(names, seen, strict=True) if s < LITTLE_SEEN]
    if not little:
        return ()
    return (
        Check(
            "unseen",
            "failed",
            f"most of what {' and '.join(name for name, _ in little)} "
            f"{'shows' if len(little) == 1 else 'show'} was never shown in the log",
            " ".join(
                f"{1 - share:.0%} of the slots of {name} hold items that the log never showed: "
                "their relevance is the network's guess."
                for name, share in little
            ),
            "Show some of these items on a slice of the traffic.",
        ),
    )


def model_checks(fitted: FittedModel) -> tuple[Check, ...]:
    """The checks of the fit that failed and bear on rankers."""
    found = [*_fit(fitted), *_positions(fitted), *_uncertainty(fitted)]
    return tuple(Check(name, "failed", *words) for name, words in found)


Found = Iterator[tuple[str, tuple[str, str, str]]]


def _fit(fitted: FittedModel) -> Found:
    checks = fitted.training.checks
    if robots := (checks.get("robots") or {}).get("found"):
        title = "some pages look like those of robots"
        yield "robots", (title, _sentences([robots["words"]]), "Fit again without them.")
    ratio = checks.get("chi2_per_df")
    # at a ratio of 1.5 a probability of 0.97 is one of 0.94, and no longer enough for a verdict
    if is_poor_fit(ratio, int(checks.get("chi2_df") or 0)):
        title = f"clicks vary {ratio:.1f} times as much as the model allows"
        remedy = (
            "Look for what makes the same items attract differently (devices as another "
            "--context, robots), or test on users."
        )
        yield "fit", (title, "", remedy)


def _positions(fitted: FittedModel) -> Found:
    """Rankers move items between positions, so the biases of these must be comparable."""
    found = fitted.training.checks.get("identifiability") or {}
    if warnings := found.get("warnings"):
        title = "some positions cannot be compared, as items hardly ever changed between them"
        remedy = "Let some items change position (swap two of them on a slice of the traffic)."
        yield "positions", (title, _sentences(warnings), remedy)
    if (found.get("randomised") or {}).get("agrees") is False:
        title = "position bias differs from that of randomised pages"
        remedy = "Give the bias of the randomised pages with --position-bias."
        yield "randomised", (title, "", remedy)


def _uncertainty(fitted: FittedModel) -> Found:
    """The probability is right only if the uncertainty is."""
    record = fitted.training.checks.get("posterior") or {}
    if not fitted.parameters.position.is_point:
        title = "the uncertainty of this estimator is not calibrated"
        yield "uncertainty", (title, "", "Fit with --estimator marginal, the default.")
        return
    queries = len(fitted.queries.train) + len(fitted.queries.held_out)
    if record and queries < FEW_QUERIES:
        title = f"{queries} queries are too few to learn how sure this is"
        yield "queries", (title, "", "Fit to a log with more queries.")
    tail = record.get("pareto_k")
    if record.get("how") == "laplace" and tail is not None and tail > BAD_TAIL:
        title = f"the posterior is far from a Gaussian (Pareto k {tail:.2f})"
        yield "posterior", (title, "", "Fit with --theta-posterior nuts.")


def _sentences(said: Sequence[str]) -> str:
    return " ".join(f"{each[:1].upper()}{each[1:].rstrip('.')}." for each in said)


SURE = 0.95
"""Probability of being better from which a verdict is given."""

FAR_MORE = 100
"""Times the log's pages beyond which no number is told."""

FEW_MORE = 0.1
"""Times the log's pages that are needed at least; a Gaussian, by which they are told, is no nearer
to the samples."""


@dataclass(frozen=True)
class Spread:
    """Where the variance of a value or of a difference comes from; the parts add up.

    Attributes:
        seen: relevance of items given their own clicks.
        unseen: relevance of items that were never shown.
        position_bias: not knowing position bias.
        network: not knowing what features say of relevance.
    """

    seen: float
    unseen: float
    position_bias: float
    network: float

    @property
    def total(self) -> float:
        """The variance."""
        return self.seen + self.unseen + self.position_bias + self.network

    def shares(self) -> dict[str, float]:
        """Each part's share of the variance; all 0 where there is none."""
        parts = vars(self).items()
        return {name: part / self.total if self.total > 0 else 0.0 for name, part in parts}


@dataclass(frozen=True, eq=False)
class Difference:
    """What one ranker is worth beyond another.

    Attributes:
        name: of the one.
        against: of the other.
        difference: expected, in the measure's units.
        low: lower end of its interval.
        high: upper end.
        relative: expected, as a share of the other's value.
        relative_low: lower end of its interval.
        relative_high: upper end.
        prob_better: probability that the one is worth more; ties count half.
        spread: where the variance of the difference comes from.
    """

    name: str
    against: str
    difference: float
    low: float
    high: float
    relative: float
    relative_low: float
    relative_high: float
    prob_better: float
    spread: Spread

    @classmethod
    def of_samples(
        cls,
        names: tuple[str, str],
        one: np.ndarray,
        other: np.ndarray,
        level: float,
        spread: Spread,
    ) -> "Difference":
        """From common samples of both values."""
        ends = [(1 - level) / 2, (1 + level) / 2]
        away = one - other
        low, high = np.quantile(away, ends)
        floor = np.maximum(other, np.finfo(float).tiny)
        relative_low, relative_high = np.quantile(away / floor, ends)
        return cls(
            *names,
            difference=float(away.mean()),
            low=float(low),
            high=float(high),
            relative=float(away.mean() / max(other.mean(), np.finfo(float).tiny)),
            relative_low=float(relative_low),
            relative_high=float(relative_high),
            prob_better=float(np.mean(away > 0) + np.mean(away == 0) / 2),
            spread=spread,
        )

    def to_dict(self) -> dict[str, str | float]:
        """A record, with the shares of the variance in place of the spread."""
        plain = {name: value for name, value in vars(self).items() if name != "spread"}
        return plain | {f"{part}_share": share for part, share in self.spread.shares().items()}

    def turned(self) -> "Difference":
        """The other ranker against the one; the share is then of the one's value."""
        base = 1 + np.array([self.relative, self.relative_high, self.relative_low])
        relative, low, high = 1 / np.maximum(base, np.finfo(float).tiny) - 1
        return Difference(
            self.against,
            self.name,
            -self.difference,
            -self.high,
            -self.low,
            float(relative),
            float(low),
            float(high),
            1 - self.prob_better,
            self.spread,
        )

    def words(self, pages: float | None, sure: float = SURE, checks: Sequence[Check] = ()) -> str:
        """The verdict.

        Args:
            pages: pages of the log, where they are known.
            sure: probability from which it is given.
            checks: that did not pass; a verdict names them.
        """
        if self.prob_better < 0.5:
            return self.turned().words(pages, sure, checks)
        if self.spread.total == 0 and self.difference == 0:
            return f"{self.name} and {self.against} are worth the same: they show the same items."
        if self.spread.total == 0:
            return (
                f"{self.name} is expected to get {self.relative:+.1%} clicks against "
                f"{self.against}, by a model without uncertainty, which cannot tell how sure that "
                "is."
            )
        expect = (
            f"expect {self.relative:+.1%} clicks ({self.relative_low:+.1%} to "
            f"{self.relative_high:+.1%})"
        )
        if self.prob_better >= sure and checks:
            failed = [check for check in checks if check.state == "failed"]
            what = (
                f"do not choose {self.name} yet"
                if failed
                else f"check before {self.name} is chosen"
            )
            return (
                f"{what}: it is ahead of {self.against} with probability "
                f"{chance(self.prob_better)}; {expect}, but {titles(failed or checks)}."
            )
        if self.prob_better >= sure:
            return (
                f"{self.name} beats {self.against} with probability {chance(self.prob_better)}; "
                f"{expect}."
            )
        return (
            f"cannot tell {self.name} from {self.against}: {self.name} is better with probability "
            f"{chance(self.prob_better)}; {expect}. {self._more(pages, sure)}"
        )

    def _more(self, pages: float | None, sure: float) -> str:
        """What would tell them apart, if the difference is as large as is expected."""
        more = pages_needed(self.difference, self.spread, sure)
        # were all items shown: a difference of next to nothing is not for lack of showing them
        if_shown = pages_needed(self.difference, replace(self.spread, unseen=0.0), sure)
        if if_shown is None or max(more or 0, if_shown) > FAR_MORE:
            return f"Even {FAR_MORE} times the log's pages would hardly tell."
        if more is None:
            share = self.spread.shares()["unseen"]
            if pages is None:
                return (
                    f"{share:.0%} of the variance is from items that are not judged by their own "
                    "clicks: give the log, and if it never showed them, show some."
                )
            return (
                f"More pages like those of the log would not tell: {share:.0%} of the variance is "
                "from items they never show. Show some of these."
            )
        more = max(more, FEW_MORE)
        if pages is None:
            return f"About {more:.1f} times the log's pages on top of them would."
        return f"About {_rounded(more * pages):,} more pages would."


def pages_needed(difference: float, spread: Spread, sure: float) -> float | None:
    """Pages on top of the log's, as a multiple of these, that would make the better ranker sure.

    What is not known of items that were never shown stays; the rest of the variance falls as the
    log grows. None where no number would do.
    """
    allowed = (difference / norm.ppf(sure)) ** 2 - spread.unseen
    if allowed <= 0:
        return None
    return max((spread.total - spread.unseen) / allowed - 1, 0.0)


def titles(checks: Sequence[Check]) -> str:
    """What is wrong, in one clause."""
    *first, last = (check.title for check in checks)
    return f"{', '.join(first)} and {last}" if first else last


def chance(probability: float) -> str:
    """Two digits, but never a 1.00 that is none."""
    if probability > 0.995:
        return "above 0.99"
    return f"{probability:.2f}"


def _rounded(pages: float) -> int:
    """To two digits."""
    unit = 10 ** max(int(np.floor(np.log10(max(pages, 1)))) - 1, 0)
    return int(max(round(pages / unit), 1) * unit)
