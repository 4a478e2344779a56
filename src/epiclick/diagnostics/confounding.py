"""Does the log show that its ranker knew more than the model is given?

Two contrasts of position bias, each between estimates that agree where items change position for
reasons unrelated to how good they are:

- *items that moved against the model*. Clicks on the same item of the same query at several
  positions compare it with itself, whatever the ranker knew about it. The model also compares items
  with others of the same features. If the ranker knew more, those on top are better than their
  features say, and the model's bias falls too fast: the ratio is above 1. If it knew who likes
  what, items are on top for users who like them, and the bias of items that moved falls too fast:
  the ratio is below 1. The model must not know how often items were shown: with that in its prior
  of relevance it agrees with items that moved.
- *moves within a day against moves between days*. On one day, items move between users; from one
  day to the next also because the ranker was updated, which is unrelated to who sees them. Below 1,
  rankings are personal; above 1, relevance changed between days and the ranker followed. Where the
  ranker is the same on all days, both kinds of moves have the same causes and always agree.

No contrast says anything about items that were never shown.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from epiclick.data.counts import ClickCounts
from epiclick.diagnostics.bias_contrast import BiasContrast
from epiclick.fitted.state import FittedModel
from epiclick.identification.bias_estimate import BiasEstimate
from epiclick.identification.identifiability import named
from epiclick.identification.swaps import swaps_by_part
from epiclick.identification.unbounded import UnboundedBias
from epiclick.posterior.density import MOST_CLUSTERS

FALSE_ALARMS = 0.01
"""Share of well-specified fits with a finding, by both contrasts together (Bonferroni)."""

LEAST_EFFECT = 0.02
"""Mean absolute difference of log biases, weighted by displays, from which a finding matters."""

LARGE_EFFECT = 0.1
"""The same from which values of rankers are not trusted: biases are off by 10 %."""

Name = Literal["moved_items", "days"]


class Contrasted(NamedTuple):
    """What a contrast is called, and what it says.

    Attributes:
        name: in records.
        estimates: names of both estimates, in records.
        words: the same in sentences.
        lower: what is wrong where the first bias is below the second, as a clause, and its remedy.
        higher: the same where it is above.
    """

    name: Name
    estimates: tuple[str, str]
    words: tuple[str, str]
    lower: tuple[str, str]
    higher: tuple[str, str]


RANDOMISE = "Only pages with a random ranking separate taste from position (fit --randomised)"
MOVED_ITEMS = Contrasted(
    "moved_items",
    ("moved", "model"),
    ("by items that moved between positions", "by the model"),
    (
        "items seem to be shown higher to users who like them, or users do not follow the click "
        "model",
        RANDOMISE,
    ),
    (
        "the ranker of the log seems to know more about items than the model is given, so that "
        "rankers that show other items may be valued too high, or users do not follow the click "
        "model",
        "Add what it knows to the features",
    ),
)
DAYS = Contrasted(
    "days",
    ("within_days", "between_days"),
    ("by items that moved within a day", "by items that moved between days"),
    ("items seem to be shown higher to users who like them", RANDOMISE),
    (
        "items seem to be shown higher on days on which they are better",
        "Fit to fewer days at a time, or add what changes to the features",
    ),
)
CONTRASTS = (MOVED_ITEMS, DAYS)

LEVEL = FALSE_ALARMS / len(CONTRASTS)
"""P-value below which a contrast is a finding."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of one contrast.

    Attributes:
        about: which one.
        contrast: both estimates; None where they were not compared.
        reason: why they were not, as a clause.
    """

    about: Contrasted
    contrast: BiasContrast | None
    reason: str = ""

    @property
    def is_finding(self) -> bool:
        """Whether the estimates differ, by more than chance and by enough to matter."""
        found = self.contrast
        return found is not None and found.p_value < LEVEL and found.size >= LEAST_EFFECT

    def sentence(self, contexts: pa.Table) -> str:
        """The finding in one sentence: what, how big, the remedy."""
        found = self.contrast
        assert found is not None
        what, remedy = self.about.higher if found.effect > 0 else self.about.lower
        k = found.widest
        place = named(contexts, [int(found.context[k])])
        first, second = (f"{np.exp(each[k]):.2f}" for each in (found.first, found.second))
        likely = "p < 0.0001" if found.p_value < 1e-4 else f"p = {found.p_value:.4f}"
        return (
            f"{what}: the bias at {place} is {first} {self.about.words[0]}, and {second} "
            f"{self.about.words[1]} ({likely}). {remedy}"
        )

    def to_dict(self, contexts: pa.Table) -> dict[str, Any]:
        """A record for JSON."""
        found = self.contrast
        if found is None:
            return {"available": False, "reason": self.reason}
        return {
            "available": True,
            "found": self.is_finding,
            "p_value": found.p_value,
            "effect": found.effect,
            "size": found.size,
            "freedom": found.freedom,
            "queries": found.queries,
            "by_position": found.to_records(contexts, self.about.estimates),
        }


@dataclass(frozen=True, eq=False)
class Confounding:
    """Both contrasts.

    Attributes:
        contexts: the table of contexts.
        outcomes: of both contrasts.
    """

    contexts: pa.Table
    outcomes: tuple[Outcome, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """One for each finding."""
        return tuple(each.sentence(self.contexts) for each in self.outcomes if each.is_finding)

    def sentences(self) -> list[str]:
        """What was compared, and what was not; findings are warnings."""
        found = []
        for each in self.outcomes:
            both = f"position bias {' and '.join(each.about.words)}"
            if each.contrast is None:
                found.append(f"Not compared, as {each.reason}: {both}.")
            elif not each.is_finding:
                found.append(
                    f"No difference that matters between {both} (p = {each.contrast.p_value:.2f}); "
                    "this says nothing about items never shown."
                )
        return found

    def to_dict(self) -> dict[str, Any]:
        """A record for JSON."""
        records: dict[str, Any] = {
            each.about.name: each.to_dict(self.contexts) for each in self.outcomes
        }
        sizes = [each.contrast.size for each in self.outcomes if each.contrast and each.is_finding]
        return {
            **records,
            "large": max(sizes, default=0.0) >= LARGE_EFFECT,
            "warnings": list(self.warnings),
        }


TOO_FEW = "too few queries have clicked items that moved"


def check_confounding(
    fitted: FittedModel,
    counts: ClickCounts,
    unbounded: UnboundedBias,
    model: BiasEstimate | None,
    not_compared: str = "",
) -> Confounding:
    """Contrast the position bias of a fit with that of items that moved.

    Args:
        fitted: the model, whose clicks are in proportion to a bias of each context.
        counts: the log that it was fitted to.
        unbounded: position bias by items that moved in this log.
        model: position bias of the model, with the influence of groups of queries.
        not_compared: why the model's is not compared, as a clause.
    """
    reference = fitted.anchor or 0
    moved = unbounded.estimate(reference, groups_of(counts))
    first = Outcome(MOVED_ITEMS, None, not_compared or "this estimator has no posterior")
    if model is not None and not not_compared:
        contrast = BiasContrast.of(moved, model, _displays(counts), moved.information)
        first = Outcome(MOVED_ITEMS, contrast, TOO_FEW)
    return Confounding(counts.contexts, (first, contrast_of_days(counts, moved, reference)))


def contrast_of_days(counts: ClickCounts, moved: BiasEstimate, reference: int) -> Outcome:
    """Moves within a day against moves between days.

    Args:
        counts: the log.
        moved: position bias by all items that moved, relative to that of the reference.
        reference: a context.
    """
    if counts.part is None or counts.parts is None or counts.options.page_parts is not None:
        return Outcome(DAYS, None, "the log was read without days (--part day)")
    if len(counts.parts) < 2:
        return Outcome(DAYS, None, "the log has a single day")
    within, between = swaps_by_part(counts, moved.log_bias, reference, len(moved.influence))
    if within is None or between is None:
        return Outcome(DAYS, None, "no clicked items moved within a day, or none between days")
    # the difference is no better known than the worse of the two
    information = min(within.information, between.information, key=_effective)
    return Outcome(DAYS, BiasContrast.of(within, between, _displays(counts), information), TOO_FEW)


def groups_of(counts: ClickCounts) -> int:
    """Number of groups of queries whose influence is known."""
    return min(counts.num_queries, MOST_CLUSTERS)


def _displays(counts: ClickCounts) -> np.ndarray:
    return np.bincount(counts.context, counts.displays, len(counts.contexts))


def _effective(information: np.ndarray) -> float:
    """Effective number of groups; 0 where nothing is known."""
    squares = np.square(information).sum()
    return float(information.sum() ** 2 / squares) if squares > 0 else 0.0
