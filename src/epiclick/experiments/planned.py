"""Experiments that would settle a comparison, what each needs, and the cheapest in words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from epiclick.comparison.result import Comparison
from epiclick.comparison.verdict import FAR_MORE, Difference, chance, titles
from epiclick.errors import InputError
from epiclick.experiments.credit import Lead
from epiclick.experiments.page_variance import PageVariance

Name = Literal["ab_test", "interleaving", "swap_positions", "show_items", "more_pages"]

ON_USERS = ("ab_test", "interleaving")
"""Experiments that do not rest on the model, once their size is chosen."""


TITLES: Mapping[Name, str] = {
    "ab_test": "A/B test",
    "interleaving": "interleaving",
    "swap_positions": "swap positions",
    "show_items": "show items",
    "more_pages": "more of the log",
}

WAYS: Mapping[Name, str] = {
    "ab_test": "show each ranker on half of the pages (an A/B test)",
    "interleaving": "interleave both rankers (epiclick interleave, analysed with --cluster page)",
    "swap_positions": "swap items between positions on a slice of the pages",
    "show_items": "show chosen items on a slice of the pages",
    "more_pages": "collect more pages like those of the log and fit again",
}
"""What to do, as clauses that complete "the cheapest experiment is to ..."."""


@dataclass(frozen=True)
class Experiment:
    """One way to find out which ranker is better.

    Attributes:
        name: of the kind of experiment.
        pages: needed in all; None if no number of them is enough.
        obstacle: why no number of pages is enough, as a clause; else empty.
        how: what to do, if more is known than `WAYS` says.
        pages_per_arm: of an A/B test.
        pages_by_query: needed if intervals are clustered by query, so as to speak for other queries
            as well; None if no number of them is enough, or for experiments that add to the log.
        traffic: pages of all queries until the rarest query of the experiment has its share.
        expected_power: probability that the test decides, on average over what the difference may
            be; for tests on users.
    """

    name: Name
    pages: int | None
    obstacle: str = ""
    how: str = ""
    pages_per_arm: int | None = None
    pages_by_query: int | None = None
    traffic: float | None = None
    expected_power: float | None = None

    @property
    def title(self) -> str:
        """For tables."""
        return TITLES[self.name]

    @property
    def way(self) -> str:
        """What to do, as a clause."""
        return self.how or WAYS[self.name]

    def days(self, pages_per_day: float | None) -> float | None:
        """How long it takes; None where that is unknown."""
        if pages_per_day is None or self.pages is None:
            return None
        return max(self.pages, self.traffic or 0.0) / pages_per_day

    def to_dict(self, pages_per_day: float | None) -> dict[str, Any]:
        """A record for JSON."""
        return {**vars(self), "how": self.way, "days": self.days(pages_per_day)}


@dataclass(frozen=True, eq=False)
class Plan:
    """What it takes to tell two rankers apart.

    Attributes:
        comparison: of the rankers, as `compare` finds it.
        experiments: all that were considered.
        lead: samples of the first ranker's lead in credited clicks on interleaved pages.
        variance: per page, of clicks and of the lead.
        pages: which queries and items `show_items` and `swap_positions` need: experiment, query_id,
            doc_id, positions, pages.
        power: probability with which an experiment is to decide.
        significance: of two-sided tests.
        sure: probability of being better at which a ranker is preferred.
        pages_per_day: of all traffic, if known.
        notes: what was assumed.
    """

    comparison: Comparison
    experiments: tuple[Experiment, ...]
    lead: Lead = field(repr=False)
    variance: PageVariance
    pages: pa.Table = field(repr=False)
    power: float
    significance: float
    sure: float
    pages_per_day: float | None
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The experiments, one per line, and the verdict."""
        rows = [
            f"{each.title}: " + (f"{each.pages:,} pages" if each.pages else each.obstacle)
            for each in self.experiments
        ]
        return "\n".join([*rows, self.verdict])

    def __getitem__(self, name: str) -> Experiment:
        """The experiment of that name."""
        found = [each for each in self.experiments if each.name == name]
        if not found:
            known = ", ".join(each.name for each in self.experiments)
            raise InputError(
                f"there is no experiment '{name}'; there are {known}", code="unknown-experiment"
            )
        return found[0]

    @property
    def difference(self) -> Difference:
        """The first ranker against the second."""
        return self.comparison.difference(*self.comparison.names)

    @property
    def is_certain(self) -> bool:
        """Whether the log has settled it, as far as the model can be trusted."""
        better = self.difference.prob_better
        return self.comparison.is_uncertain and max(better, 1 - better) >= self.sure

    @property
    def cheapest(self) -> Experiment | None:
        """The shortest or smallest experiment; None if no number of pages is enough.

        If a check of the model failed, only tests on users count.
        """
        wanted = [
            each
            for each in self.experiments
            if each.pages is not None
            and self._is_bearable(each.pages)
            and (each.name in ON_USERS or not self.comparison.checks_failed)
        ]
        return min(wanted, key=self._cost, default=None)

    def _cost(self, each: Experiment) -> float:
        days = each.days(self.pages_per_day)
        return float(each.pages or 0) if days is None else days

    def _is_bearable(self, pages: int) -> bool:
        logged = self.comparison.pages
        return logged is None or pages <= FAR_MORE * logged

    @property
    def verdict(self) -> str:
        """What to do next, in words."""
        found, failed = self.difference, self.comparison.checks_failed
        lead = found if found.prob_better >= 0.5 else found.reversed()
        if found.difference == 0:
            return (
                f"There is nothing to test: {found.name} and {found.against} are expected to get "
                "the same clicks."
            )
        expected = (
            f"{lead.name} is ahead of {lead.against} with probability {chance(lead.prob_better)}; "
            f"expect {lead.relative:+.1%} {lead.unit}"
        )
        if not self.comparison.is_uncertain:
            expected = f"{lead.name} is expected to get {lead.relative:+.1%} {lead.unit}"
        if self.is_certain and not failed:
            return f"No experiment is needed: {expected}. {self._next('To confirm it')}"
        if failed:
            expected = f"{expected}, but {titles(failed)}, so only a test on users can settle it"
        return f"{expected}. {self._next('The cheapest experiment is to')}"

    def _next(self, opening: str) -> str:
        best = self.cheapest
        if best is None:
            named = any(each.pages is not None for each in self.experiments)
            return (
                f"Even {FAR_MORE} times the log's pages would not settle it: a difference this "
                "small hardly matters."
                if named and self.comparison.pages is not None
                else "No number of pages settles it."
            )
        days = best.days(self.pages_per_day)
        during = "" if days is None else f", {_in_days(days)}"
        opening = opening if opening.endswith("to") else f"{opening},"
        each = "" if best.pages_per_arm is None else f", {best.pages_per_arm:,} per ranker"
        return (
            f"{opening} {best.way}: {best.pages:,} pages{each}{during}, for a power of "
            f"{self.power:.0%} if the difference is as expected."
        )

    def to_dict(self) -> Mapping[str, Any]:
        """Everything except samples and the table of pages, as a record for JSON."""
        low, high = self.comparison.interval(self.lead.lead)
        best = self.cheapest
        return {
            "names": list(self.comparison.names),
            "difference": self.difference.to_dict(),
            "certain": self.is_certain,
            "experiments": [each.to_dict(self.pages_per_day) for each in self.experiments],
            "cheapest": None if best is None else best.name,
            "verdict": self.verdict,
            "lead": {
                "mean": self.lead.mean,
                "low": float(low),
                "high": float(high),
                "agreement": self.lead.agreement,
            },
            "variance_per_page": vars(self.variance),
            "power": self.power,
            "significance": self.significance,
            "sure": self.sure,
            "pages_per_day": self.pages_per_day,
            "queries": self.comparison.queries,
            "pages": self.comparison.pages,
            "level": self.comparison.level,
            "checks_failed": [check.to_dict() for check in self.comparison.checks_failed],
            "notes": [*self.comparison.notes, *self.notes],
        }


def _in_days(days: float) -> str:
    if days < 1:
        return "less than a day"
    return f"about {days:,.0f} day{'' if round(days) == 1 else 's'}"
