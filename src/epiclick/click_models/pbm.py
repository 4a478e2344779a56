"""The position-based model: examination depends on the position, not on clicks above it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from epiclick.click_models.click_model import CLICK, Channel, Emission
from epiclick.click_models.examination import Examination
from epiclick.click_models.page_effects import WithoutHistory

if TYPE_CHECKING:
    import pyarrow as pa

    from epiclick.click_models.priors import ParameterPrior


@dataclass(frozen=True)
class PositionBased(WithoutHistory, Examination):
    r"""P(click) = theta_c zeta: a probability of examination for every given context.

    .. math:: A_c = \theta_c = \sigma(x_c), \qquad B_c = 0, \qquad \theta_{\text{anchor}} = 1
    """

    name: ClassVar[str] = "pbm"
    title: ClassVar[str] = "position-based model"
    parameter: ClassVar[str] = "position bias"
    channels: ClassVar[tuple[Channel, ...]] = (CLICK,)
    knows_examination: ClassVar[bool] = False

    def prior(self, contexts: "pa.Table", anchor: int | None) -> "ParameterPrior":
        """Uniform."""
        from epiclick.click_models.priors import UniformPrior  # loading must not need its scipy

        return UniformPrior.of(len(self.free(len(contexts), anchor)))

    def anchors(self, contexts: "pa.Table") -> np.ndarray:
        """Any context."""
        return np.arange(len(contexts))

    def world(self, theta: np.ndarray) -> tuple["pa.Table", Emission]:
        """Position bias theta at every position."""
        import pyarrow as pa

        position = np.arange(1, len(theta) + 1)
        return pa.table({"position": position}), Emission(theta, 1 - theta)
