"""The cascade model: users read from the top, and leave at their first click."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from epiclick.click_models.click_model import (
    CLICK,
    Channel,
    Emission,
    PageStates,
    StraightMoves,
    given_contexts,
    given_names,
)
from epiclick.click_models.page_effects import NobodyStops

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from epiclick.click_models.priors import ParameterPrior

CLICKED_ABOVE = "clicked_above"


@dataclass(frozen=True)
class Cascade(NobodyStops, StraightMoves):
    r"""P(click) = zeta down to the first click, and 0 below it (Craswell et al. 2008).

    .. math:: A_{k0} = 1, \qquad A_{k1} = 0, \qquad B = 0

    The log shows where a page's first click is, so everything above it was certainly examined and
    nothing below it was. There is no parameter to learn besides relevance, and items need not have
    been shown at several positions. A page with two clicks has probability 0: its displays down to
    the first click are used, and those below it are not explained.

    Contexts come in pairs: for every given context, before the first click and after it. So even
    numbers are examined.
    """

    name: ClassVar[str] = "cascade"
    title: ClassVar[str] = "cascade model"
    parameter: ClassVar[str] = "examination"
    history: ClassVar[tuple[str, ...]] = (CLICKED_ABOVE,)
    channels: ClassVar[tuple[Channel, ...]] = (CLICK,)
    knows_examination: ClassVar[bool] = True
    is_affine: ClassVar[bool] = False

    def history_columns(self, log: "ir.Table") -> Mapping[str, "ir.Value"]:
        """1 if there is a click above a display on its page, else 0."""
        import ibis

        # by position, not by row: of two rows at the same position neither is above the other
        above = ibis.range_window(
            group_by=log.page_id, order_by=log.position, preceding=(None, 1), following=None
        )
        return {CLICKED_ABOVE: log.clicked.cast("int64").max().over(above).fill_null(0)}

    def complete(self, contexts: pa.Table) -> pa.Table:
        """Every given context, without and with a click above."""
        given, _ = given_contexts(contexts, self.history)
        rows = [{**row, CLICKED_ABOVE: above} for row in given.to_pylist() for above in (0, 1)]
        names = (*given_names(contexts, self.history), CLICKED_ABOVE)
        return pa.Table.from_pylist(rows, pa.schema([contexts.schema.field(n) for n in names]))

    def states(self, contexts: pa.Table) -> PageStates:
        """Reading, or gone after a click."""
        given, _ = given_contexts(contexts, self.history)
        number = np.arange(len(given))[:, None]
        gone, stay = np.ones((len(given), 2), np.int64), np.tile([0, 1], (len(given), 1))
        return PageStates(2 * number + [0, 1], gone, stay)

    def size(self, contexts: int) -> int:
        """One for each context, all of them known."""
        return contexts

    def free(self, contexts: int, anchor: int | None) -> np.ndarray:
        """None."""
        return np.zeros(0, np.int64)

    def emission(self, parameters: Any, anchor: int | None, xp: ModuleType) -> Emission:
        """1 before the first click, 0 after it."""
        examined = xp.arange(len(parameters)) % 2 == 0
        return Emission(xp.where(examined, 1.0, 0.0), xp.where(examined, 0.0, 1.0))

    def logit_jacobian(self, parameters: np.ndarray, anchor: int | None) -> np.ndarray:
        """Nothing depends on the parameters."""
        return np.zeros((len(parameters), len(parameters)))

    def logit_bend(
        self, parameters: np.ndarray, anchor: int | None, slope: np.ndarray
    ) -> np.ndarray:
        """Nothing depends on the parameters."""
        return np.zeros((len(parameters), len(parameters)))

    def start(self, click_rate: np.ndarray, anchor: int | None) -> np.ndarray:
        """Zeros, which have no meaning."""
        return np.zeros(len(click_rate))

    def prior(self, contexts: pa.Table, anchor: int | None) -> "ParameterPrior":
        """Of no parameter."""
        from epiclick.click_models.priors import UniformPrior  # loading must not need its scipy

        return UniformPrior.of(0)

    def anchors(self, contexts: pa.Table) -> np.ndarray:
        """The first position before any click, where relevance is measured."""
        return first_examined(contexts)

    def world(self, theta: np.ndarray) -> tuple[pa.Table, Emission]:
        """Users read on until they click, whatever the position bias of the world."""
        position = np.arange(1, len(theta) + 1)
        first = pa.table({"position": position, CLICKED_ABOVE: np.zeros_like(position)})
        contexts = self.complete(first)
        return contexts, self.emission(np.zeros(len(contexts)), None, np)


def first_examined(contexts: pa.Table) -> np.ndarray:
    """Contexts of the first position without a click above; of any, if positions are no context."""
    before = np.array(contexts[CLICKED_ABOVE].to_pylist()) == 0
    if "position" in contexts.column_names:
        position = np.array(contexts["position"].to_pylist())
        before &= position == position.min()
    return np.flatnonzero(before)
