"""A claim of the paper as stated before the measurement, and what the measurement says of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from epiclick.errors import InputError
from epiclick.paper.checks import OPEN, Check, Outcome, Undecidable, combined
from epiclick.paper.results import Results

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
