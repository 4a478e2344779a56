r"""Models of users who read from the top and may stop after each click.

An item that is read is clicked with probability zeta. After a click the user goes on with a
probability c, after a skip always. What is at or above the last click of a page was certainly read;
below it the user has either stopped, or gone on and skipped everything. With L the place of the
last click, a page has the probability

.. math:: \prod_{j \le L} \zeta_j^{y_j} (1 - \zeta_j)^{1 - y_j}\, \prod_{j < L, y_j = 1} c_j\;
          \Big(1 - c_L + c_L \prod_{j > L} (1 - \zeta_j)\Big),

and without a click that of skipping everything. The last factor couples the items below a click.
Given whether each user went on, all items are independent: that is how these models are fitted
(`epiclick.reading`).
"""

from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from epiclick.click_models.click_model import (
    CLICK,
    SATISFACTION,
    Channel,
    Emission,
    StraightMoves,
)
from epiclick.click_models.page_effects import WithoutHistory

if TYPE_CHECKING:
    from epiclick.click_models.priors import ParameterPrior

START = 0.5
"""Initial probability of going on."""

LEAST_GOING_ON, SHARE_GOING_ON = 0.2, 0.6
"""In simulated worlds the probability of going on is 0.2 + 0.6 theta."""


@dataclass(frozen=True)
class Reading(WithoutHistory, StraightMoves):
    """Base of these models: items that are read are examined, wherever they are."""

    has_latent_state: ClassVar[bool] = True
    knows_examination: ClassVar[bool] = True
    is_affine: ClassVar[bool] = False

    def size(self, contexts: int) -> int:
        """One for each context."""
        return contexts

    def emission(self, parameters: Any, anchor: int | None, xp: ModuleType) -> Emission:
        """1 in all contexts, for who is still reading."""
        return Emission(xp.ones(len(parameters)), xp.zeros(len(parameters)))

    def logit_jacobian(self, parameters: np.ndarray, anchor: int | None) -> np.ndarray:
        """The emission does not depend on the parameters."""
        return np.zeros((len(parameters), len(parameters)))

    def logit_bend(
        self, parameters: np.ndarray, anchor: int | None, slope: np.ndarray
    ) -> np.ndarray:
        """The emission does not depend on the parameters."""
        return np.zeros((len(parameters), len(parameters)))

    def prior(self, contexts: pa.Table, anchor: int | None) -> "ParameterPrior":
        """Uniform."""
        from epiclick.click_models.priors import UniformPrior  # loading must not need its scipy

        return UniformPrior.of(len(self.free(len(contexts), anchor)))

    def free(self, contexts: int, anchor: int | None) -> np.ndarray:
        """None."""
        return np.zeros(0, np.int64)

    def start(self, click_rate: np.ndarray, anchor: int | None) -> np.ndarray:
        """Logits of going on."""
        return np.full(len(click_rate), np.log(START / (1 - START)))

    def anchors(self, contexts: pa.Table) -> np.ndarray:
        """The first position: relevance is the probability of a click on an item that is read."""
        if "position" not in contexts.column_names:
            return np.arange(1)
        position = np.array(contexts["position"].to_pylist())
        return np.flatnonzero(position == position.min())

    def world(self, theta: np.ndarray) -> tuple[pa.Table, Emission]:
        """Everything that is read is examined, whatever the position bias of the world."""
        contexts = pa.table({"position": np.arange(1, len(theta) + 1)})
        return contexts, self.emission(np.zeros(len(theta)), None, np)


@dataclass(frozen=True)
class DependentClicks(Reading):
    """The dependent click model: going on after a click depends on its position (Guo et al. 2009).

    The parameter of a context is the logit of lambda_c, the probability of going on after a click
    there.
    """

    name: ClassVar[str] = "dcm"
    title: ClassVar[str] = "dependent click model"
    parameter: ClassVar[str] = "continuation"
    channels: ClassVar[tuple[Channel, ...]] = (CLICK,)

    def free(self, contexts: int, anchor: int | None) -> np.ndarray:
        """All contexts."""
        return np.arange(contexts)

    def going_on(self, parameters: np.ndarray) -> np.ndarray | None:
        """lambda."""
        return 1 / (1 + np.exp(-parameters))

    def world_going_on(self, theta: np.ndarray) -> np.ndarray | None:
        """Less likely further down."""
        return LEAST_GOING_ON + SHARE_GOING_ON * theta


@dataclass(frozen=True)
class SimplifiedDBN(Reading):
    """The simplified dynamic Bayesian network: a click may satisfy (Chapelle and Zhang 2009).

    After a click on an item the user is satisfied, and stops, with a probability of the item's own,
    which is a second relevance: of those who read the item, how many does it satisfy?
    """

    name: ClassVar[str] = "sdbn"
    title: ClassVar[str] = "simplified dynamic Bayesian network"
    parameter: ClassVar[str] = "examination"
    channels: ClassVar[tuple[Channel, ...]] = (CLICK, SATISFACTION)

    def going_on(self, parameters: np.ndarray) -> np.ndarray | None:
        """None: it depends on the item."""
        return None

    def world_going_on(self, theta: np.ndarray) -> np.ndarray | None:
        """None: items of a world have a satisfaction."""
        return None
