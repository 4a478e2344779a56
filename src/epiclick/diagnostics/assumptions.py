"""Do the pages of a log contradict the assumptions of its click model?

Every diagnostic tests one assumption on a sample of the log's pages, without the fitted
parameters. A finding needs a small p-value, so that well-specified fits are rarely warned about,
and an effect that matters, so that huge logs are not warned about trifles.
"""

from dataclasses import dataclass
from typing import Any

from epiclick.click_models.click_model import ClickModel
from epiclick.click_models.registry import CLICK_MODELS
from epiclick.data.counts import ClickCounts
from epiclick.diagnostics.clicked_items import CLICKED_ITEMS
from epiclick.diagnostics.clicked_positions import CLICKED_POSITIONS
from epiclick.diagnostics.clicks_above import CLICKS_ABOVE
from epiclick.diagnostics.diagnostic import Diagnostic, Tested
from epiclick.diagnostics.first_clicks import FIRST_CLICKS
from epiclick.diagnostics.page_displays import page_displays
from epiclick.diagnostics.relevance_slopes import RELEVANCE_SLOPES
from epiclick.diagnostics.skipped_items import SKIPPED_ITEMS

DIAGNOSTICS: tuple[Diagnostic, ...] = (
    CLICKS_ABOVE,
    FIRST_CLICKS,
    SKIPPED_ITEMS,
    CLICKED_ITEMS,
    CLICKED_POSITIONS,
    RELEVANCE_SLOPES,
)

FALSE_ALARMS = 0.01
"""Share of well-specified fits with a finding, by all diagnostics together (Bonferroni)."""

LEAST_EFFECT = 0.02
"""Relative change of the click rate, per standard deviation of what it should not depend on, from
which a finding matters. With a click above on half of the displays that is a ratio of 1.04."""

NOT_CHECKED = (
    "Not checked, as the pages of the log are unknown (it needs page_id and one row per display): "
    "whether its users follow a {}."
)


@dataclass(frozen=True)
class AssumptionCheck:
    """The outcome of one diagnostic.

    Attributes:
        diagnostic: the diagnostic.
        tested: its score; None where the pages say nothing about it.
        level: p-value below which it is a finding.
    """

    diagnostic: Diagnostic
    tested: Tested | None
    level: float

    @property
    def is_finding(self) -> bool:
        """Whether the assumption is wrong, by more than chance and by enough to matter."""
        if self.tested is None:
            return False
        return self.p_value < self.level and abs(self.tested.score.effect) >= LEAST_EFFECT

    @property
    def p_value(self) -> float:
        """Probability of such a score if the assumption is right."""
        assert self.tested is not None
        return self.tested.score.p_value(is_positive=self.diagnostic.is_positive)

    def to_dict(self) -> dict[str, Any]:
        """A record for JSON."""
        record: dict[str, Any] = {"name": self.diagnostic.name, "found": self.is_finding}
        if self.tested is not None:
            score = self.tested.score
            record |= {"change": score.change, "error": score.error, "effect": score.effect}
            record |= {"p_value": self.p_value, "words": self.tested.words}
        return record


@dataclass(frozen=True)
class Assumptions:
    """The outcome of all diagnostics of a click model.

    Attributes:
        model: the click model.
        checks: one for each diagnostic that applies; empty where pages are unknown.
        displays: number of displays of the pages that were looked at.
    """

    model: ClickModel
    checks: tuple[AssumptionCheck, ...]
    displays: int

    @property
    def findings(self) -> tuple[AssumptionCheck, ...]:
        """Assumptions that are wrong."""
        return tuple(check for check in self.checks if check.is_finding)

    @property
    def warnings(self) -> tuple[str, ...]:
        """One on all findings, if there are any."""
        if not self.findings:
            return ()
        seen = "; ".join(_in_words(self.model, check) for check in self.findings)
        return (
            f"users do not follow a {self.model.title}: {seen}. Compare click models with epiclick "
            "select (in Python: select)",
        )

    def sentences(self) -> list[str]:
        """What was checked; findings are warnings."""
        if not self.displays:
            return [NOT_CHECKED.format(self.model.title)]
        passed = [
            check.diagnostic.excluded
            for check in self.checks
            if check.tested is not None and not check.is_finding
        ]
        if not passed:
            return []
        return [
            f"No sign, on {self.displays:,} displays of whole pages, that clicks depend on "
            f"{', or on '.join(passed)}, as a {self.model.title} assumes."
        ]

    def to_dict(self) -> dict[str, Any]:
        """A record for JSON."""
        return {
            "displays": self.displays,
            "tests": [check.to_dict() for check in self.checks],
            "warnings": list(self.warnings),
        }


def check_assumptions(counts: ClickCounts, model: ClickModel) -> Assumptions:
    """Test the assumptions of a click model on the pages of a log.

    Args:
        counts: the log, by the contexts of the click model.
        model: the click model.
    """
    displays = page_displays(counts, model)
    if displays is None:
        return Assumptions(model, (), 0)
    own = [each for each in DIAGNOSTICS if each.applies(model)]
    checks = (AssumptionCheck(each, each.test(displays), FALSE_ALARMS / len(own)) for each in own)
    return Assumptions(model, tuple(checks), len(displays))


def _in_words(model: ClickModel, check: AssumptionCheck) -> str:
    """A finding, how sure it is, and which click models allow it."""
    assert check.tested is not None
    p_value, diagnostic = check.p_value, check.diagnostic
    likely = "p < 0.0001" if p_value < 1e-4 else f"p = {p_value:.4f}"
    others = [
        name
        for name, other in CLICK_MODELS.items()
        if diagnostic.allows(other, check.tested.score.change > 0) and other is not model
    ]
    allowed = "no click model here allows it"
    if others:
        allowed = f"{', '.join(others)} allow{'s' if len(others) == 1 else ''} it"
    return f"{check.tested.words} ({likely}; {allowed})"
