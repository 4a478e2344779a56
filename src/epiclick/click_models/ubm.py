"""The user browsing model: examination depends on the position of the last click."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from epiclick.click_models.click_model import (
    CLICK,
    Channel,
    Emission,
    PageStates,
    given_contexts,
    given_names,
)
from epiclick.click_models.examination import Examination
from epiclick.errors import InputError

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from epiclick.click_models.priors import ParameterPrior

LAST_CLICK = "last_click"


@dataclass(frozen=True)
class UserBrowsing(Examination):
    r"""P(click) = theta_{k l} zeta at position k with the last click above it at l, 0 for none.

    .. math:: A_{kl} = \theta_{kl} = \sigma(x_{kl}), \qquad B_{kl} = 0, \qquad
              \theta_{\text{first}, 0} = 1

    The log shows the last click, so a page's likelihood is the product over its displays (Dupret
    and Piwowarski 2008). Deep contexts are rarely shown: their logits are shrunk towards the
    effects of their position and of their distance from the click (`EffectsPrior`). Further given
    columns, such as a device, have separate effects at every position.
    """

    name: ClassVar[str] = "ubm"
    title: ClassVar[str] = "user browsing model"
    parameter: ClassVar[str] = "examination"
    history: ClassVar[tuple[str, ...]] = (LAST_CLICK,)
    channels: ClassVar[tuple[Channel, ...]] = (CLICK,)
    knows_examination: ClassVar[bool] = False

    def history_columns(self, log: "ir.Table") -> Mapping[str, "ir.Value"]:
        """Position of the last click above a display on its page; 0 for none."""
        import ibis

        # by position, not by row: of two rows at the same position neither is above the other
        above = ibis.range_window(
            group_by=log.page_id, order_by=log.position, preceding=(None, 1), following=None
        )
        clicked_at = ibis.ifelse(log.clicked, log.position, ibis.null(log.position.type()))
        return {LAST_CLICK: clicked_at.max().over(above).fill_null(0).cast("int64")}

    def complete(self, contexts: pa.Table) -> pa.Table:
        """Every position with no last click, and with one at every position above it.

        Last clicks of the contexts are included: a click may be on a row that was not counted.
        """
        names = given_names(contexts, self.history)
        if "position" not in names:
            raise InputError(
                "the user browsing model needs the position among the contexts, not "
                f"{', '.join(names)} alone; add it with --context (in Python: context=...)",
                code="position-not-in-context",
            )
        given, _ = given_contexts(contexts, self.history)
        known, rows = contexts.to_pylist(), []
        for row in given.to_pylist():
            page = [each for each in known if _same_page(each, row, names)]
            above = {each[key] for each in page for key in ("position", LAST_CLICK)}
            before = sorted(k for k in above if 0 < k < row["position"])
            rows += [{**row, LAST_CLICK: last} for last in (0, *before)]
        fields = [contexts.schema.field(name) for name in (*names, LAST_CLICK)]
        return pa.Table.from_pylist(rows, pa.schema(fields))

    def states(self, contexts: pa.Table) -> PageStates:
        """No click yet, or the last click at each of the positions."""
        given, index = given_contexts(contexts, self.history)
        position = given["position"].to_pylist()
        places = sorted({*position, *contexts[LAST_CLICK].to_pylist()} - {0})
        state_of = {0: 0, **{k: i + 1 for i, k in enumerate(places)}}
        context = np.full((len(given), len(places) + 1), -1)
        for c, (g, last) in enumerate(zip(index, contexts[LAST_CLICK].to_pylist(), strict=True)):
            context[g, state_of[last]] = c
        clicked = np.repeat([[state_of[k]] for k in position], len(places) + 1, axis=1)
        skipped = np.tile(np.arange(len(places) + 1), (len(given), 1))
        return PageStates(context, clicked, skipped)

    def prior(self, contexts: pa.Table, anchor: int | None) -> "ParameterPrior":
        """Effects of the position (on its device) and of the distance from the last click."""
        from epiclick.click_models.priors import EffectsPrior  # loading must not need its scipy

        _, place = given_contexts(contexts, self.history)
        position = np.array(contexts["position"].to_pylist())
        last = np.array(contexts[LAST_CLICK].to_pylist())
        distance = np.where(last > 0, position - last, 0)
        free = self.free(len(contexts), anchor)
        return EffectsPrior.of({"position": place[free], "distance": distance[free]})

    def anchors(self, contexts: pa.Table) -> np.ndarray:
        """The first position before any click; elsewhere relevance would refer to rare displays."""
        position = np.array(contexts["position"].to_pylist())
        last = np.array(contexts[LAST_CLICK].to_pylist())
        return np.flatnonzero((last == 0) & (position == position.min()))

    def world(self, theta: np.ndarray) -> tuple[pa.Table, Emission]:
        r"""Users examine more right after a click, and less with the distance from it.

        .. math:: \theta_{kl} = \theta_k^{d / (d + 1)}, \quad d = k - l, \qquad
                  \theta_{k0} = \theta_k
        """
        position = np.arange(1, len(theta) + 1)
        first = pa.table({"position": position, LAST_CLICK: np.zeros_like(position)})
        contexts = self.complete(first)
        k, last = (contexts[name].to_numpy() for name in ("position", LAST_CLICK))
        distance = k - last
        power = np.where(last > 0, distance / (distance + 1), 1.0)
        examination = theta[k - 1] ** power
        return contexts, Emission(examination, 1 - examination)


def _same_page(one: Mapping[str, Any], other: Mapping[str, Any], names: Sequence[str]) -> bool:
    """Whether two contexts can be on one page: given columns differ only in the position."""
    return all(one[name] == other[name] for name in names if name != "position")
