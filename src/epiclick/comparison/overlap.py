"""What a comparison owes to the log: support of rankers, and estimators that use the log alone."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Self

import numpy as np
import pandas as pd

from epiclick.click_models.click_model import Emission
from epiclick.comparison.estimates import UNAVAILABLE, Estimate, estimates_of, not_available
from epiclick.comparison.factors import GoingOn
from epiclick.comparison.item_means import ItemMeans, Watch
from epiclick.comparison.logged_pairs import LoggedPairs
from epiclick.comparison.other_estimators import (
    DrawTotals,
    Outcome,
    is_position_based,
    lines_by,
    some_of,
)
from epiclick.comparison.shown_items import Items
from epiclick.comparison.slots import Slots, Traffic
from epiclick.comparison.support import (
    Support,
    clicks_on_supported,
    examined_by,
    live_exposure,
    supports_of,
)
from epiclick.comparison.verdict import Check
from epiclick.data.counts import ClickCounts
from epiclick.fitted.parameters import Parameters
from epiclick.fitted.state import FittedModel

ESTIMATOR_NAMES = {
    "ips": "inverse propensity",
    "snips": "self-normalised",
    "dr": "doubly robust",
}
"""Of the estimators, for tables and sentences."""

RARE = 0.01
"""Probability that any of these differences of a correct model is beyond chance."""

NEGLIGIBLE = 0.01
"""Difference relative to the model's value that is not worth a warning, however certain."""


@dataclass(frozen=True)
class Overlap:
    """Support and other estimates of all rankers.

    Attributes:
        support: one per ranker.
        estimates: one per ranker and estimator.
    """

    support: tuple[Support, ...] = ()
    estimates: tuple[Estimate, ...] = ()

    def support_table(self) -> pd.DataFrame:
        """A row per ranker."""
        columns = [each.name for each in fields(Support)]
        return pd.DataFrame([asdict(each) for each in self.support], columns=columns)

    def estimates_table(self) -> pd.DataFrame:
        """A row per ranker and estimator."""
        columns = [each.name for each in fields(Estimate) if each.name != "unavailable"]
        rows = [
            asdict(each) | {"available": each.available, "reason": reason_of(each)}
            for each in self.estimates
        ]
        return pd.DataFrame(rows, columns=[*columns, "available", "reason"])

    def checks(self, names: Sequence[str]) -> tuple[Check, ...]:
        """A warning where other estimators contradict the model about some of these rankers.

        The threshold is Bonferroni's, over all rankers and estimators of the comparison.
        """
        tested = [each for each in self.estimates if each.available]
        beyond = [
            each
            for each in tested
            if each.p_value < RARE / len(tested)
            and abs(each.difference) > NEGLIGIBLE * abs(each.model)
        ]
        # of one ranker, the estimator that is further away
        worst = {each.name: each for each in sorted(beyond, key=lambda each: -each.p_value)}
        found = [worst[name] for name in names if name in worst]
        if not found:
            return ()
        title = f"clicks contradict what the model expects of {' and '.join(e.name for e in found)}"
        remedy = (
            "Position bias is the same in both, so the model's prediction of relevance is off for "
            "such items, as where the live ranker knows more than the features say; of items that "
            "were never shown it may be further off. Add what the live ranker knows to the "
            "features, or run an A/B test."
        )
        return (Check("estimators", "warning", title, " ".join(map(_found, found)), remedy),)


def reason_of(estimate: Estimate) -> str:
    """Why there is no estimate, in words; empty if there is one."""
    return "" if estimate.available else UNAVAILABLE[estimate.unavailable]


def _found(each: Estimate) -> str:
    low, high = (end / each.model for end in (each.diff_low, each.diff_high))
    return (
        f"On items that the log has shown, {each.name} gets {each.difference / each.model:+.1%} "
        f"({low:+.1%} to {high:+.1%}) clicks by the {ESTIMATOR_NAMES[each.estimator]} estimator, "
        "compared with the model's value."
    )


class OverlapSums:
    """Sums over items, taken while a comparison passes through their moments."""

    def __init__(self, totals: DrawTotals | None, pairs: LoggedPairs | None) -> None:
        """Of no item yet; without totals, no estimator is available."""
        self.totals, self.pairs = totals, pairs

    @classmethod
    def of(
        cls,
        fitted: FittedModel,
        slots: Slots,
        items: Items,
        traffic: Traffic | None,
        draws: Sequence[Parameters],
    ) -> Self:
        """For the items of some slots; all draws of the comparison."""
        pairs = None if traffic is None else LoggedPairs.of(fitted, slots, items, traffic)
        if pairs is None or not is_position_based(fitted):
            return cls(None, pairs)
        drawn = some_of(len(draws))
        lines = lines_by(fitted, [draws[i] for i in drawn])
        return cls(DrawTotals(pairs, lines, Outcome.of(fitted, items), drawn), pairs)

    @property
    def watch(self) -> Watch | None:
        """What is to be shown the means of relevance."""
        return None if self.totals is None else self.totals.add

    def overlap(
        self,
        fitted: FittedModel,
        names: Sequence[str],
        slots: Slots,
        items: Items,
        traffic: Traffic,
        log: ClickCounts,
        emission: Emission,
        relevance: ItemMeans,
        going_on: GoingOn | None,
        level: float,
    ) -> Overlap:
        """Support and estimates, once all items have passed.

        Args:
            fitted: the model.
            names: of the rankers.
            slots: of all of them.
            items: in the slots.
            traffic: of the log.
            log: the log.
            emission: of reported relevance, (draws, contexts) each.
            relevance: of all items.
            going_on: whether users go on after a click, under all draws; None if always.
            level: probability of the intervals.
        """
        if fitted.features is not None and log.features is None and items.features is not None:
            log = log.with_features(items.features, missing="drop")
        mean = Emission(*(None if part is None else part.mean(axis=0) for part in emission))
        examined = examined_by(fitted, mean, log)
        clicks = clicks_on_supported(fitted, slots, items, mean, relevance.mean, _at_mean(going_on))
        live = live_exposure(fitted, slots, items, traffic, log, examined)
        support = supports_of(names, slots, self.pairs, traffic, examined, live, clicks)
        if not is_position_based(fitted):
            return Overlap(support, not_available(names, "click_model"))
        if self.totals is None:
            return Overlap(support, not_available(names, "no_overlap"))
        members = bool(fitted.members)
        return Overlap(support, estimates_of(names, self.totals, relevance, level, members=members))


def _at_mean(going_on: GoingOn | None) -> GoingOn | None:
    """Whether users go on, at the mean of all draws; satisfaction must have passed already."""
    if going_on is None:
        return None
    if going_on.by_context is not None:
        return GoingOn(going_on.by_context.mean(axis=0, keepdims=True))
    assert isinstance(going_on.satisfaction, ItemMeans)
    mean = going_on.satisfaction.mean[None]
    return GoingOn(satisfaction=[(mean, np.zeros_like(mean))])
