"""Reasons not to choose the ranker named first, for scripts that act on a comparison."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from epiclick.arguments import check_choice, check_level
from epiclick.comparison.verdict import NAMES, Check, Difference
from epiclick.errors import InputError

if TYPE_CHECKING:
    from epiclick.comparison.result import Comparison


@dataclass(frozen=True)
class Reason:
    """A reason not to choose a ranker.

    Attributes:
        words: a clause.
        check: name of the check that failed; empty if the ranker is not clearly better.
    """

    words: str
    check: str = ""

    def __str__(self) -> str:
        """The words."""
        return self.words


def check_gate(found: "Comparison", sure: float | None, despite: Sequence[str]) -> None:
    """Refuse a gate that can neither be passed nor failed."""
    if sure is not None:
        check_level("sure", sure)
    if isinstance(despite, str):
        raise InputError(
            f"despite must be a list of checks, as in despite=['{despite}']", code="invalid-type"
        )
    for name in despite:
        check_choice("despite", name, NAMES)
    if len(found.names) < 2:
        raise InputError("a gate needs a second ranker to compare with", code="too-few-rankers")
    if not found.is_uncertain:
        raise InputError(
            "a gate needs probabilities, and this model has no uncertainty; fit an epistemic "
            "model, or one with members",
            code="no-uncertainty",
        )


def reasons_against(
    differences: Sequence[Difference],
    checks: Sequence[Check],
    level: float,
    sure: float | None,
    despite: Sequence[str],
) -> tuple[Reason, ...]:
    """Rankers that one ranker does not beat, and checks that failed.

    A probability from a model that failed a check is no reason to ship, however high it is.

    Args:
        differences: of the ranker from each other one.
        checks: that did not pass.
        level: probability of the differences' intervals.
        sure: least probability of being better; None if intervals must lie above 0.
        despite: names of checks that may fail.
    """
    unbeaten = [
        each.against
        for each in differences
        if (each.low <= 0 if sure is None else each.prob_better < sure)
    ]
    reasons = []
    if unbeaten:
        first, others = differences[0].name, " and ".join(unbeaten)
        words = f"the {level:.0%} interval of the difference of {first} from {others}"
        words += " is not above 0"
        if sure is not None:
            words = f"{first} does not beat {others} with probability {sure:g} or more"
        reasons.append(Reason(words))
    return (
        *reasons,
        *(
            Reason(check.title, check.name)
            for check in checks
            if check.state == "failed" and check.name not in despite
        ),
    )
