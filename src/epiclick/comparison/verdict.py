"""Two rankers on common samples: their difference, its uncertainty, and failed checks.

A probability of being better is only as good as the model behind it. Two kinds of failure matter:
evidence that the model mispredicts clicks, and evidence that its uncertainty is too small.

Other warnings of a fit do not matter for rankers:

- a position about whose bias the clicks say next to nothing: the probability accounts for that;
- an unidentified scale: values are sums of bias times relevance, in which the scale cancels;
- a bias at its bound, the anchor's: where the two biases are equal this also happens to a correct
  model; where the true one is larger, the backtest is the better check.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy import special

from epiclick.diagnostics.checks import BAD_TAIL, is_poor_fit
from epiclick.evaluation.backtest import Grade
from epiclick.fitted.clusters_used import ClustersUsed
from epiclick.fitted.state import FittedModel

NAMES = (
    *("backtest", "unseen", "robots", "fit", "positions", "randomised", "uncertainty"),
    *("queries", "posterior", "conversions", "confounding", "estimators"),
)
"""Of all checks."""

LITTLE_SEEN = 0.5
"""Share of a ranker's slots with clicks of their own below which its value is not trusted."""


@dataclass(frozen=True)
class Check:
    """A check that did not pass.

    Attributes:
        name: of the check, one of `NAMES` or of a report's own.
        state: failed, or only a warning.
        title: what is wrong, as a clause that completes "but ...".
        found: the figures, as a sentence; empty where the title has them.
        remedy: what to do, as a sentence; empty where `found` says it.
    """

    name: str
    state: Literal["failed", "warning"]
    title: str
    found: str
    remedy: str

    def sentence(self, *, titled: bool = False) -> str:
        """What was found; empty if the title says it all and was printed already (`titled`)."""
        return self.found or ("" if titled else f"{self.title[:1].upper()}{self.title[1:]}.")

    def to_dict(self) -> dict[str, str]:
        """A record for JSON."""
        return {"check": self.name, "found": self.sentence(), "remedy": self.remedy}


def backtest_check(grade: Grade | None, summary: str | None) -> tuple[Check, ...]:
    """The check of a backtest, unless the clicks lie inside its interval."""
    found = f"Backtest: {summary}."
    if grade == "far outside":
        remedy = (
            "`epiclick evaluate --by day,device` shows where the logs differ: find out why, and "
            "fit again."
        )
        return (Check("backtest", "failed", "the backtest failed", found, remedy),)
    if grade == "just outside":
        title = "observed clicks lie just outside the interval of the backtest"
        return (Check("backtest", "warning", title, found, ""),)  # the summary has the remedy
    return ()


def unseen_check(names: Sequence[str], seen: Sequence[float]) -> tuple[Check, ...]:
    """The check of what rankers show: a backtest says nothing about items that no log has shown."""
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
                f"{1 - share:.0%} of the slots of {name} contain items that the log never showed: "
                "their relevance is predicted without clicks."
                for name, share in little
            ),
            "Show some of these items on a slice of the traffic.",
        ),
    )


def model_checks(fitted: FittedModel, *, by_worth: bool = False) -> tuple[Check, ...]:
    """The checks of the fit that failed and matter for rankers.

    `by_worth`: whether rankers are compared by what follows from clicks.
    """
    conversions = _conversions(fitted) if by_worth else ()
    return (
        *_fit(fitted),
        *_positions(fitted),
        *_confounding(fitted),
        *_uncertainty(fitted),
        *conversions,
    )


def _conversions(fitted: FittedModel) -> Iterator[Check]:
    """Rankers move items between positions, so conversions must not depend on those."""
    position = (fitted.training.checks.get("conversion") or {}).get("position") or {}
    if position.get("violated"):
        title = "conversions depend on the position of the click"
        remedy = "Compare by clicks, or run an A/B test."
        yield Check("conversions", "failed", title, "", remedy)


def _fit(fitted: FittedModel) -> Iterator[Check]:
    checks = fitted.training.checks
    if robots := (checks.get("robots") or {}).get("found"):
        title = "some pages look like robot traffic"
        found = _sentences([robots["words"]])
        yield Check("robots", "failed", title, found, "Fit again without them.")
    ratio = checks.get("chi2_per_df")
    # at a ratio of 1.5 a probability of 0.97 is really one of 0.94, below what a verdict requires
    if is_poor_fit(ratio, int(checks.get("chi2_df") or 0)):
        title = (
            f"clicks are overdispersed, with {ratio:.1f} times the variance that the model allows"
        )
        remedy = (
            "Look for what changes how attractive an item is (devices, as another --context; "
            "robots), or run an A/B test."
        )
        yield Check("fit", "failed", title, "", remedy)


def _positions(fitted: FittedModel) -> Iterator[Check]:
    """Rankers move items between positions, so the biases of these must be comparable."""
    found = fitted.training.checks.get("identifiability") or {}
    if warnings := found.get("warnings"):
        title = "some positions cannot be compared, as items hardly ever moved between them"
        remedy = "Move some items between positions (swap two of them on a slice of the traffic)."
        yield Check("positions", "failed", title, _sentences(warnings), remedy)
    if (found.get("randomised") or {}).get("agrees") is False:
        title = "position bias differs from that of randomised pages"
        remedy = "Give the bias of the randomised pages with --position-bias."
        yield Check("randomised", "failed", title, "", remedy)


def _confounding(fitted: FittedModel) -> Iterator[Check]:
    """Items were placed for reasons that the model does not know."""
    record = fitted.training.checks.get("confounding") or {}
    if warnings := record.get("warnings"):
        title = "items were placed for reasons that the model does not know"
        state: Literal["failed", "warning"] = "failed" if record["large"] else "warning"
        yield Check("confounding", state, title, _sentences(warnings), "")


def _uncertainty(fitted: FittedModel) -> Iterator[Check]:
    """The probability is right only if the uncertainty is."""
    record = fitted.training.checks.get("posterior") or {}
    if not fitted.parameters.position.is_point:
        title = "the uncertainty of this estimator is not calibrated"
        remedy = "Fit with --estimator marginal, the default."
        yield Check("uncertainty", "failed", title, "", remedy)
        return
    used = ClustersUsed.stored(fitted)
    if record and used.are_few:
        verb = "is" if used.clusters == 1 else "are"
        title = f"{used.number} {verb} too few to estimate the uncertainty"
        remedy = (
            f"Fit to a log with more {used.plural}, or with other clusters, such as --cluster user."
        )
        yield Check("queries", "failed", title, "", remedy)
    tail = record.get("pareto_k")
    if record.get("how") == "laplace" and tail is not None and tail > BAD_TAIL:
        title = f"the posterior is far from Gaussian (Pareto k {tail:.2f})"
        yield Check("posterior", "failed", title, "", "Fit with --theta-posterior nuts.")


def _sentences(clauses: Sequence[str]) -> str:
    return " ".join(f"{each[:1].upper()}{each[1:].rstrip('.')}." for each in clauses)


SURE = 0.95
"""Least probability of being better at which the verdict prefers a ranker."""

FAR_MORE = 100
"""Multiple of the log's pages above which no number is given."""

FEW_MORE = 0.1
"""Least multiple of the log's pages that is given; the Gaussian behind it is no closer to the
samples."""


@dataclass(frozen=True)
class Spread:
    """Where the variance of a value or of a difference comes from; the parts add up.

    Attributes:
        seen: relevance of items given their own clicks.
        unseen: relevance of items that were never shown.
        position_bias: uncertain position bias.
        network: uncertain parameters of the network, which predicts relevance from features.
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
    """The value of one ranker minus that of another.

    Attributes:
        name: of the first ranker.
        against: of the second.
        difference: expected, in the measure's units.
        low: lower end of its interval.
        high: upper end.
        relative: expected, relative to the second ranker's value.
        relative_low: lower end of its interval.
        relative_high: upper end.
        prob_better: probability that the first ranker's value is higher; ties count half.
        spread: where the variance of the difference comes from.
        unit: what is counted per page.
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
    unit: str = "clicks"

    @classmethod
    def of_samples(
        cls,
        names: tuple[str, str],
        one: np.ndarray,
        other: np.ndarray,
        level: float,
        spread: Spread,
        unit: str = "clicks",
    ) -> "Difference":
        """From common samples of both values."""
        ends = [(1 - level) / 2, (1 + level) / 2]
        gain = one - other
        low, high = np.quantile(gain, ends)
        floor = np.maximum(other, np.finfo(float).tiny)
        relative_low, relative_high = np.quantile(gain / floor, ends)
        return cls(
            *names,
            difference=float(gain.mean()),
            low=float(low),
            high=float(high),
            relative=float(gain.mean() / max(other.mean(), np.finfo(float).tiny)),
            relative_low=float(relative_low),
            relative_high=float(relative_high),
            prob_better=float(np.mean(gain > 0) + np.mean(gain == 0) / 2),
            spread=spread,
            unit=unit,
        )

    def to_dict(self) -> dict[str, str | float]:
        """A record, with the shares of the variance in place of the spread."""
        plain = {name: value for name, value in vars(self).items() if name != "spread"}
        return plain | {f"{part}_share": share for part, share in self.spread.shares().items()}

    def reversed(self) -> "Difference":
        """The second ranker against the first, relative to the first one's value."""
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
            self.unit,
        )

    def verdict(self, pages: float | None, sure: float = SURE, checks: Sequence[Check] = ()) -> str:
        """Which ranker is better, or what it would take to find out.

        Args:
            pages: pages of the log, if known.
            sure: least probability of being better at which a ranker is preferred.
            checks: those that did not pass, which the verdict names.
        """
        if self.prob_better < 0.5:
            return self.reversed().verdict(pages, sure, checks)
        if self.spread.total == 0 and self.difference == 0:
            return f"{self.name} and {self.against} are worth the same: they show the same items."
        if self.spread.total == 0:
            return (
                f"{self.name} is expected to get {self.relative:+.1%} {self.unit} compared with "
                f"{self.against}; this is a point estimate from a model without uncertainty."
            )
        expect = (
            f"expect {self.relative:+.1%} {self.unit} ({self.relative_low:+.1%} to "
            f"{self.relative_high:+.1%})"
        )
        if self.prob_better >= sure and checks:
            failed = [check for check in checks if check.state == "failed"]
            advice = (
                f"do not choose {self.name} yet" if failed else f"check before choosing {self.name}"
            )
            return (
                f"{advice}: it is ahead of {self.against} with probability "
                f"{chance(self.prob_better)}; {expect}, but {titles(failed or checks)}."
            )
        if self.prob_better >= sure:
            return (
                f"{self.name} beats {self.against} with probability {chance(self.prob_better)}; "
                f"{expect}."
            )
        return (
            f"cannot tell {self.name} from {self.against}: {self.name} is better with probability "
            f"{chance(self.prob_better)}; {expect}. {self._data_needed(pages, sure)} "
            "Plan an experiment with epiclick plan."
        )

    def _data_needed(self, pages: float | None, sure: float) -> str:
        """What would settle it, if the difference is as large as expected."""
        more = pages_needed(self.difference, self.spread, sure)
        # if all items were shown: a tiny difference is not due to items that were never shown
        if_shown = pages_needed(self.difference, replace(self.spread, unseen=0.0), sure)
        if if_shown is None or max(more or 0, if_shown) > FAR_MORE:
            return f"Even {FAR_MORE} times the log's pages would hardly settle it."
        if more is None:
            share = self.spread.shares()["unseen"]
            if pages is None:
                return (
                    f"{share:.0%} of the variance comes from items without clicks of their own: "
                    "give the log, and if it never showed them, show some."
                )
            return (
                f"More pages like those in the log would not settle it: {share:.0%} of the "
                "variance comes from items that they never show. Show some of these items."
            )
        more = max(more, FEW_MORE)
        if pages is None:
            return f"About {more:.1f} times the log's pages in addition would settle it."
        return f"About {_rounded(more * pages):,} more pages would settle it."


def pages_needed(difference: float, spread: Spread, sure: float) -> float | None:
    """Additional pages, as a multiple of the log's, after which the lead has probability `sure`.

    The variance from items that were never shown stays; the rest falls as the log grows. None where
    no number of pages is enough.
    """
    allowed = (difference / special.ndtri(sure)) ** 2 - spread.unseen
    if allowed <= 0:
        return None
    return max((spread.total - spread.unseen) / allowed - 1, 0.0)


def titles(checks: Sequence[Check]) -> str:
    """What is wrong, as one clause."""
    *first, last = (check.title for check in checks)
    return f"{', '.join(first)} and {last}" if first else last


def chance(probability: float) -> str:
    """A probability with two digits, never rounded up to 1."""
    if probability > 0.995:
        return "above 0.99"
    return f"{probability:.2f}"


def _rounded(pages: float) -> int:
    """To two digits."""
    unit = 10 ** max(int(np.floor(np.log10(max(pages, 1)))) - 1, 0)
    return int(max(round(pages / unit), 1) * unit)
