r"""The interface of click models: contexts, emissions, a prior, and transitions within a page.

A page's clicks factor, given the page's own history, into displays. Each display has a *context* c
that can be read off the log, and within a context the probability of a click is affine in one
relevance:

.. math:: P(\text{click} \mid c, \zeta) = A_c\, \zeta + B_c\, (1 - \zeta).

Contexts have columns of two kinds. *Given* ones (position, device) are fixed when the page is
composed; *history* ones (the last click) are outcomes of the page itself. Only given ones may
describe where an item was shown (exposure, traffic, reach, page rules, rankings); history ones
enter only the likelihood.

A click model is one file that implements `ClickModel`, and a line in `registry.py`. It imports only
this folder and `epiclick.errors`, and no jax: functions of arrays take the array module.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

    from epiclick.click_models.priors import ParameterPrior


class Emission(NamedTuple):
    """Probability of a click on an attractive and on an unattractive item; (..., contexts) each.

    Attributes:
        attractive: A, the probability of a click on an attractive item.
        attractive_rest: 1 - A, separate so that it is exact for A near 1.
        unattractive: B, the same for an unattractive item; None where it is 0 everywhere, which
            saves half of the work.
        unattractive_rest: 1 - B.
    """

    attractive: Any
    attractive_rest: Any
    unattractive: Any = None
    unattractive_rest: Any = None

    @property
    def is_affine(self) -> bool:
        """Whether unattractive items can be clicked."""
        return self.unattractive is not None

    def at(self, context: Any) -> "Emission":
        """The emission in given contexts, an index array: (..., *context.shape)."""
        return Emission(*(None if part is None else part[..., context] for part in self))

    def click_probability(self, relevance: Any) -> Any:
        """Probability of a click; relevance broadcasts against the emission."""
        clicked = self.attractive * relevance
        return (
            clicked if self.unattractive is None else clicked + self.unattractive * (1 - relevance)
        )


class PageStates(NamedTuple):
    """The history of a page as a finite-state machine.

    The given context of a slot and the state before it determine the context of its display, and
    the state after it, with and without a click.

    Attributes:
        context: (given contexts, states) index of the context; -1 where the state is impossible.
        clicked: (given contexts, states) next state after a click.
        skipped: (given contexts, states) next state without a click.
        start: state at the top of a page.
    """

    context: np.ndarray
    clicked: np.ndarray
    skipped: np.ndarray
    start: int = 0


@dataclass(frozen=True)
class Channel:
    """An outcome of a display, with its own relevance.

    Attributes:
        name: of the outcome.
        given: the outcome it requires, as a conversion requires a click; "" for none.
    """

    name: str
    given: str = ""


CLICK = Channel("click")
SATISFACTION = Channel("satisfaction", given="click")
CONVERSION = Channel("conversion", given="click")
"""Of any click model, if the log shows conversions; not among its own channels."""


class ClickModel(Protocol):
    """What shared code needs from a click model; contexts are an Arrow table, one per row.

    Attributes:
        name: in the registry, on the command line and in files.
        title: for sentences, after "a".
        history: names of the history columns, in the order of the contexts' last columns.
        channels: the outcomes that it explains, each with its own relevance head.
        has_latent_state: whether the log does not show if users stopped reading after their last
            click on a page; then counts need the lists of pages.
        parameter: name of one of its parameters, for tables: "position bias".
        knows_examination: whether a page's clicks determine which of its items were examined, so
            that nothing has to be learned from items that were shown in several contexts.
        is_affine: whether unattractive items can be clicked, so that emissions have B.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    history: ClassVar[tuple[str, ...]]
    channels: ClassVar[tuple[Channel, ...]]
    has_latent_state: ClassVar[bool]
    parameter: ClassVar[str]
    knows_examination: ClassVar[bool]
    is_affine: ClassVar[bool]

    def history_columns(self, log: "ir.Table") -> Mapping[str, "ir.Value"]:
        """The history columns, as Ibis expressions over a log.

        The log has `page_id`, `position` (integers from 1) and `clicked` (boolean).
        """
        ...

    def complete(self, contexts: "pa.Table") -> "pa.Table":
        """All contexts that are possible on pages with the same given contexts, in order."""
        ...

    def states(self, contexts: "pa.Table") -> PageStates:
        """Transitions within a page; given contexts are numbered as by `given_contexts`."""
        ...

    def size(self, contexts: int) -> int:
        """Number of parameters for this number of contexts."""
        ...

    def free(self, contexts: int, anchor: int | None) -> np.ndarray:
        """Indices of the parameters that are learned, for this number of contexts."""
        ...

    def emission(self, parameters: Any, anchor: int | None, xp: ModuleType) -> Emission:
        """The emission in each context, float64, from the parameters, (parameters,).

        Written with `xp`, numpy or jax.numpy. Affine models accept draws, too: (draws, parameters).
        """
        ...

    def logit_jacobian(self, parameters: np.ndarray, anchor: int | None) -> np.ndarray:
        """(logits, parameters) derivatives of the emission's logits.

        Logits are logit(A) of all contexts, then, if the emission is affine, logit(B). Where a
        probability is 0 or 1 by definition, its derivatives are 0.
        """
        ...

    def logit_bend(
        self, parameters: np.ndarray, anchor: int | None, slope: np.ndarray
    ) -> np.ndarray:
        """(parameters, parameters) sum over logits of slope, (logits,), times their Hessians."""
        ...

    def moved(
        self, parameters: np.ndarray, moves: np.ndarray, covariance: np.ndarray
    ) -> np.ndarray:
        """Parameters (draws, parameters) after moves, on paths along which clicks change evenly.

        Args:
            parameters: (draws, parameters) where the moves begin.
            moves: (draws, parameters) steps.
            covariance: (parameters, parameters) of the moves.
        """
        ...

    def start(self, click_rate: np.ndarray, anchor: int | None) -> np.ndarray:
        """Initial parameters, from clicks per display (contexts,), NaN without displays."""
        ...

    def prior(self, contexts: "pa.Table", anchor: int | None) -> "ParameterPrior":
        """Prior of the free parameters."""
        ...

    def anchors(self, contexts: "pa.Table") -> np.ndarray:
        """Indices of the contexts that are candidates for an automatic anchor."""
        ...

    def going_on(self, parameters: np.ndarray) -> np.ndarray | None:
        """(contexts,) probability of reading on after a click there.

        None where users always do, or where it depends on the item (a channel "satisfaction").
        """
        ...

    def world_going_on(self, theta: np.ndarray) -> np.ndarray | None:
        """(positions,) the same in a simulated world."""
        ...

    def world(self, theta: np.ndarray) -> "tuple[pa.Table, Emission]":
        """All contexts of a simulated world, in order, and their true emission.

        Args:
            theta: (positions,) position bias at positions 1, 2, ... before any click.
        """
        ...


class StraightMoves:
    """Parameters whose draws are Gaussian as they are; click models inherit this."""

    def moved(
        self, parameters: np.ndarray, moves: np.ndarray, covariance: np.ndarray
    ) -> np.ndarray:
        """The sum."""
        return parameters + moves


def given_names(contexts: "pa.Table", history: Sequence[str]) -> list[str]:
    """The columns of contexts that are fixed when a page is composed."""
    return [name for name in contexts.column_names if name not in history]


def given_contexts(contexts: "pa.Table", history: Sequence[str]) -> tuple["pa.Table", np.ndarray]:
    """The distinct given contexts, in order, and the index of each context's own, (contexts,)."""
    if not history:
        return contexts, np.arange(len(contexts))
    given = contexts.select(given_names(contexts, history))
    rows = [tuple(row.values()) for row in given.to_pylist()]
    place: dict[tuple[Any, ...], int] = {}
    for row in sorted(set(rows)):
        place[row] = len(place)
    index = np.array([place[row] for row in rows], dtype=np.int64)
    first = {int(k): i for i, k in reversed(list(enumerate(index)))}
    return given.take([first[k] for k in range(len(place))]), index
