"""What a test of one assumption of a click model consists of, and what it returns."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from epiclick.click_models.click_model import ClickModel
from epiclick.diagnostics.clustered_score import ClusteredScore
from epiclick.diagnostics.page_displays import PageDisplays


class Tested(NamedTuple):
    """The score of a test, and what it says if the assumption is wrong, as a sentence."""

    score: ClusteredScore
    words: str


@dataclass(frozen=True)
class Diagnostic:
    """A test of one assumption.

    Attributes:
        name: in records.
        excluded: what clicks do not depend on if the assumption is right, for a sentence.
        applies: whether a click model makes this assumption.
        allows: whether a click model allows what is seen where the assumption is wrong: clicks that
            rise (True) or fall with the property.
        test: the test; None where the pages say nothing about it.
        is_positive: whether the score can only be above 0 where the assumption is wrong, as that of
            a property that is learned from the same effect on other pages.
    """

    name: str
    excluded: str
    applies: Callable[[ClickModel], bool]
    allows: Callable[[ClickModel, bool], bool]
    test: Callable[[PageDisplays], Tested | None]
    is_positive: bool = False


def more_or_less(change: float) -> str:
    """A relative change in words."""
    return f"{abs(change):.0%} {'more' if change > 0 else 'less'} often"
