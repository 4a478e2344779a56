"""Checks that speak against a verdict between rankers: what failed, and what to do about it.

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
from dataclasses import dataclass
from typing import Literal

from epiclick.evaluation.backtest import Grade
from epiclick.evaluation.checks import BAD_TAIL, FEW_QUERIES, is_poor_fit
from epiclick.models.fitted import FittedModel

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
