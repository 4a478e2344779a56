"""What clicks do to the rest of their page, where that is nothing; click models inherit these."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from epiclick.click_models.click_model import PageStates

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa


@dataclass(frozen=True)
class WithoutHistory:
    """Contexts do not depend on clicks: a display's context is its given one."""

    history: ClassVar[tuple[str, ...]] = ()

    def history_columns(self, log: "ir.Table") -> Mapping[str, "ir.Value"]:
        """No history columns."""
        return {}

    def complete(self, contexts: "pa.Table") -> "pa.Table":
        """The contexts unchanged."""
        return contexts

    def states(self, contexts: "pa.Table") -> PageStates:
        """A single state."""
        stay = np.zeros((len(contexts), 1), np.int64)
        return PageStates(np.arange(len(contexts))[:, None], stay, stay)


@dataclass(frozen=True)
class NobodyStops:
    """Clicks end no page, unless contexts say so: nothing about a page is latent."""

    has_latent_state: ClassVar[bool] = False

    def going_on(self, parameters: np.ndarray) -> np.ndarray | None:
        """None: users always go on."""
        return None

    def world_going_on(self, theta: np.ndarray) -> np.ndarray | None:
        """None."""
        return None
