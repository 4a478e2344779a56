r"""Does relevance depend on where the ranker placed an item, beyond what its features say?

The weight b of exposure (`fitted.exposure`) in the mean of relevance is 0 where the features tell
all that the ranker knows. With :math:`\tau^2` the variance of the ranker's scores that the features
leave open, what it knows beyond them moves relevance by

.. math:: |b| \, \tau

logits between items of the same features: one standard deviation.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from epiclick.fitted.state import FittedModel

LEVEL = 0.005
"""P-value below which the slope is a finding, as for the contrasts of `confounding`."""

LEAST_EFFECT = 0.1
"""Logits by which the ranker's knowledge must move relevance to be a finding."""


@dataclass(frozen=True)
class PlacementSlope:
    """The slope of relevance in exposure.

    Attributes:
        slope: in logits per standard deviation of the ranker's scores.
        low: lower end of its interval.
        high: upper end.
        p_value: of the hypothesis that it is 0.
        effect: by how many logits the ranker's knowledge moves relevance.
        unexplained: share of the variance of the ranker's scores that features leave open.
        noise: share that varies from page to page.
        deterministic: whether the ranker has next to no noise.
    """

    slope: float
    low: float
    high: float
    p_value: float
    effect: float
    unexplained: float
    noise: float
    deterministic: bool

    @classmethod
    def of(cls, fitted: FittedModel, level: float) -> "PlacementSlope | None":
        """Of a fit; None where relevance does not depend on exposure."""
        if fitted.features is None or fitted.features.exposure is None or fitted.posterior is None:
            return None
        model, posterior = fitted.features.exposure, fitted.posterior
        free = len(fitted.clicks.free(len(fitted.contexts), fitted.anchor))
        place = free + 2 * len(fitted.features.names)  # two outputs; exposure follows the features
        slope = float(posterior.mean[place])
        error = float(np.sqrt(posterior.robust[place, place]))
        reach = ndtri((1 + level) / 2) * error
        return cls(
            slope=slope,
            low=slope - reach,
            high=slope + reach,
            p_value=float(2 * ndtr(-abs(slope) / max(error, 1e-300))),
            effect=abs(slope) * float(np.sqrt(model.left)),
            unexplained=model.left,
            noise=model.noise,
            deterministic=model.is_deterministic,
        )

    @property
    def is_finding(self) -> bool:
        """Whether the slope differs from 0, by more than chance and by enough to matter."""
        return self.p_value < LEVEL and self.effect >= LEAST_EFFECT

    def sentence(self) -> str:
        """The finding, or that there is none, in words."""
        if not self.is_finding:
            return (
                "Relevance does not depend on where the ranker placed items, beyond their features "
                f"(slope {self.slope:+.2f}, {self.low:+.2f} to {self.high:+.2f} logits); this says "
                "nothing about what it knows of items never shown."
            )
        better = "better" if self.slope > 0 else "worse"
        return (
            f"The ranker of the log knows more than the features: items that it places higher than "
            f"their features suggest are {better}, by {abs(self.slope):.2f} logits per standard "
            f"deviation of its scores ({self.low:+.2f} to {self.high:+.2f}). The model accounts "
            "for it, and for items never shown continues the same line"
        ) + (
            ", although nothing shows where it ends: the ranker has next to no noise."
            if self.deterministic
            else "."
        )

    def to_dict(self) -> dict[str, Any]:
        """A record for JSON."""
        return {**vars(self), "found": self.is_finding, "words": self.sentence()}
