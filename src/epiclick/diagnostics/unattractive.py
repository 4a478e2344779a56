"""What clicks say about clicks on unattractive items, and what rests on the prior."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from epiclick.diagnostics.contraction import PriorContraction
from epiclick.fitted.prior_share import NOTHING, unattractive_sds
from epiclick.fitted.state import FittedModel
from epiclick.fitted.tables import click_table
from epiclick.identification.identifiability import named

WHAT = "how often unattractive items are clicked, compared with attractive ones,"


@dataclass(frozen=True, eq=False)
class UnattractiveClicks:
    """Clicks on unattractive items of a model with an anchor or without one.

    Attributes:
        share: contraction of the prior of B / A in every context, in logits.
        at_anchor: mean, low and high of B at the anchor; None without an anchor.
        level: probability of that interval.
    """

    share: PriorContraction
    at_anchor: tuple[float, float, float] | None
    level: float

    @property
    def warnings(self) -> tuple[str, ...]:
        """Where the posterior is nearly the prior."""
        unknown = np.flatnonzero(self.share.left >= NOTHING)
        if not len(unknown):
            return ()
        return (
            f"{named(self.share.contexts, unknown)}: cannot tell {WHAT} there; what is reported is "
            "nearly the prior",
        )

    def sentences(self) -> list[str]:
        """What is identified, and what is not; warnings included."""
        found = [
            "The clicks identify the probability of a click on items that were shown, values of "
            "rankers that show such items, and slopes and offsets of clicks in relevance. Items "
            "never shown rest on how relevance is modelled, too."
        ]
        if self.at_anchor is not None:
            anchor = named(self.share.contexts, [self.share.anchor or 0])
            mean, low, high = self.at_anchor
            found.append(
                "Attraction itself is not identified: that the most attractive items are always "
                f"clicked at {anchor} is an assumption, and that unattractive ones are clicked "
                f"there with probability {mean:.2f} ({low:.2f} to {high:.2f}, {self.level:.0%}) is "
                "only bounded by the clicks, and rests on the prior and on the shape of the "
                "distribution of relevance. The same probability elsewhere moves with it."
            )
        left = self.share.left[np.isfinite(self.share.left)]
        if len(left):
            found.append(
                f"The clicks have narrowed the prior of {WHAT} to {left.min():.0%} to "
                f"{left.max():.0%} of its width."
            )
        return [*found, *(f"Warning: {warning}." for warning in self.warnings)]

    def to_records(self) -> list[dict[str, Any]]:
        """A record for each context."""
        return self.share.to_records()


def unattractive_clicks(fitted: FittedModel, level: float) -> UnattractiveClicks:
    """What a fit with a posterior found about clicks on unattractive items."""
    contexts = len(fitted.contexts)
    before, after = unattractive_sds(fitted)
    nothing_given = np.zeros(contexts, bool)
    share = PriorContraction(fitted.contexts, fitted.anchor, before, after, nothing_given)
    at_anchor = None
    if fitted.anchor is not None:
        row = click_table(fitted, level).iloc[fitted.anchor]
        names = ("unattractive", "unattractive_low", "unattractive_high")
        mean, low, high = (float(row[name]) for name in names)
        at_anchor = (mean, low, high)
    return UnattractiveClicks(share, at_anchor, level)
