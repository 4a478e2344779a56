r"""What a click model is: contexts, emissions, a prior, and how a page's history moves on.

A page's clicks factor, given the page's own history, into displays. Each display has a *context* c
that can be read off the log, and within a context the probability of a click is affine in one
relevance:

.. math:: P(\text{click} \mid c, \zeta) = A_c\, \zeta + B_c\, (1 - \zeta).

Contexts have columns of two kinds. *Given* ones (position, device) are fixed when the page is made;
*history* ones (the last click) are outcomes of the page itself. Only given ones may describe where
an item was shown (exposure, traffic, reach, page rules, rankings); history ones enter the
likelihood alone.

A click model is one file that says what this module's `ClickModel` asks for, and a line in
`registry.py`. It imports nothing of the house but this folder, and no jax: functions of arrays take
the array module.
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
        attractive: A, the probability of a click on an item that attracts.
        attractive_rest: 1 - A, given apart so that it is exact near 1.
        unattractive: B, of an item that does not; None where it is 0 everywhere, which spares half
            of the work.
        unattractive_rest: 1 - B, likewise.
    """

    attractive: Any
    attractive_rest: Any
    unattractive: Any = None
    unattractive_rest: Any = None

    @property
    def is_affine(self) -> bool:
        """Whether items that do not attract are clicked, too."""
        return self.unattractive is not None

    def at(self, context: Any) -> "Emission":
        """The emission in given contexts, an index array: (..., *context.shape)."""
        return Emission(*(None if part is None else part[..., context] for part in self))

    def click_probability(self, relevance: Any) -> Any:
        """Probability of a click, of arrays that broadcast with the emission's."""
        clicked = self.attractive * relevance
        return (
            clicked if self.unattractive is None else clicked + self.unattractive * (1 - relevance)
        )


class PageStates(NamedTuple):
    """How the history of a page moves on, as a machine of few states.

    The given context of a slot and the state before it decide the context of its display, and the
    state after it, with a click or without.

    Attributes:
        context: (given contexts, states) index of the context; -1 where the state cannot be.
        clicked: (given contexts, states) state after a click.
        skipped: (given contexts, states) state after none.
        start: state at the top of a page.
    """

    context: np.ndarray
    clicked: np.ndarray
    skipped: np.ndarray
    start: int = 0


@dataclass(frozen=True)
class Channel:
    """An outcome of a display, with a relevance of its own.

    Attributes:
        name: of the outcome; "click" for all models so far.
        given: the outcome without which there is none: a conversion needs a click. "" for none.
    """

    name: str
    given: str = ""


CLICK = Channel("click")


class ClickModel(Protocol):
    """What shared code asks of a click model; contexts come as an Arrow table, a row each.

    Attributes:
        name: in the registry, on the command line and in files.
        title: in a sentence, after "a".
        history: names of the history columns, in the order of the contexts' last columns.
        channels: the outcomes that it explains; each has a relevance head of its own.
        has_latent_state: whether pages have a state that the log does not show, such as a reader
            who stopped; None of the inference here can handle one yet.
        parameter: what one of its parameters is called, in tables: "position bias".
    """

    name: ClassVar[str]
    title: ClassVar[str]
    history: ClassVar[tuple[str, ...]]
    channels: ClassVar[tuple[Channel, ...]]
    has_latent_state: ClassVar[bool]
    parameter: ClassVar[str]

    def history_columns(self, log: "ir.Table") -> Mapping[str, "ir.Value"]:
        """The history columns, as Ibis expressions over a log.

        The log has `page_id`, `position` (whole numbers from 1) and `clicked` (true or false).
        """
        ...

    def complete(self, contexts: "pa.Table") -> "pa.Table":
        """The contexts and all that pages with the same given ones could have, in order."""
        ...

    def states(self, contexts: "pa.Table") -> PageStates:
        """How history moves on; given contexts are numbered as by `given_contexts`."""
        ...

    def size(self, contexts: int) -> int:
        """Number of parameters of so many contexts."""
        ...

    def free(self, contexts: int, anchor: int | None) -> np.ndarray:
        """Indices of the parameters that are learned, among those of so many contexts."""
        ...

    def emission(self, parameters: Any, anchor: int | None, xp: ModuleType) -> Emission:
        """From parameters, (parameters,), to the emission in each context, float64.

        Written with `xp`, numpy or jax.numpy, and differentiated by jax.
        """
        ...

    def start(self, click_rate: np.ndarray, anchor: int | None) -> np.ndarray:
        """First parameters, from clicks per display (contexts,), NaN where there is none."""
        ...

    def prior(self, contexts: "pa.Table", anchor: int | None) -> "ParameterPrior":
        """What is assumed of the free parameters before any click."""
        ...

    def anchors(self, contexts: "pa.Table") -> np.ndarray:
        """Indices of the contexts that may be the anchor where it is to be found."""
        ...

    def world(self, theta: np.ndarray) -> "tuple[pa.Table, Emission]":
        """Contexts of a simulated world, all of them and in order, and their true emission.

        Args:
            theta: (positions,) position bias, of positions 1, 2, ... on pages without a click.
        """
        ...


def given_names(contexts: "pa.Table", history: Sequence[str]) -> list[str]:
    """The columns of contexts that are fixed when a page is made."""
    return [name for name in contexts.column_names if name not in history]


def given_contexts(contexts: "pa.Table", history: Sequence[str]) -> tuple["pa.Table", np.ndarray]:
    """The distinct given contexts, in order, and (contexts,) which of them each context has."""
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
