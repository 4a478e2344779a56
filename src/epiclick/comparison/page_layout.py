"""Where on a model's pages the lists of a ranking are shown: in which slots, and on which devices.

A list has positions 1, 2, ...; a model knows contexts. They differ where pages are grids, where
sponsored slots are between the results, and where examination depends on more than the slot.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from epiclick.data.arrays import distinct, locate_rows
from epiclick.data.placement import kinds_of, positions_in
from epiclick.data.schema import GRID, LogOptions
from epiclick.errors import InputError, Problem
from epiclick.fitted.state import FittedModel, given_of


class Copies(NamedTuple):
    """Slots of lists that are repeated; (new slots,) each unless noted.

    Attributes:
        slot: of the original list.
        page: number of the new list.
        kind: of the new list, a row of `PageLayout.kinds`.
        cut: (scalar) slots that the kind of their list does not have.
    """

    slot: np.ndarray
    page: np.ndarray
    kind: np.ndarray
    cut: int


@dataclass(frozen=True, eq=False)
class PageLayout:
    """The slots that rankings can fill on the pages of a model's log.

    Attributes:
        contexts: the model's given contexts.
        options: how its log was read.
    """

    contexts: pa.Table
    options: LogOptions

    @classmethod
    def of(cls, fitted: FittedModel) -> "PageLayout":
        """The layout of a model; refuses one whose contexts do not determine a slot."""
        contexts, names = given_of(fitted)[0], given_of(fitted)[0].column_names
        if not set(fitted.options.slot) <= set(names):
            remedy = ""
            if set(GRID) <= set(names):
                remedy = "; if pages are grids, fit it with --grid N, the results per row"
            raise InputError(
                f"context {', '.join(names)}: rankings can only be compared by a model whose "
                f"contexts include the position{remedy}",
                code="context-without-position",
            )
        return cls(contexts, fitted.options)

    @property
    def names(self) -> list[str]:
        """The model's contexts."""
        return self.contexts.column_names

    @property
    def others(self) -> list[str]:
        """Its contexts other than the slot, such as a device: lists may differ by them."""
        return [name for name in self.names if name not in self.options.slot]

    @cached_property
    def position(self) -> np.ndarray:
        """(contexts,) position on the page."""
        return self.position_of(self.contexts)

    @cached_property
    def depth(self) -> int:
        """The last position that the model knows."""
        return int(self.position.max())

    @cached_property
    def kinds(self) -> tuple[pa.Table, np.ndarray]:
        """Kinds of lists, by the other contexts, and (contexts,) the kind of each context."""
        return kinds_of(self.contexts, self.options.slot)

    @cached_property
    def kind_depth(self) -> np.ndarray:
        """(kinds,) the last position of each kind of list."""
        kinds, kind = self.kinds
        depth = np.zeros(len(kinds), np.int64)
        np.maximum.at(depth, kind, self.position)
        return depth

    def position_of(self, contexts: pa.Table) -> np.ndarray:
        """(rows,) position on the page of some contexts."""
        position = positions_in(contexts, self.options)
        assert position is not None
        return position

    def cells(self, position: np.ndarray) -> dict[str, pa.Array]:
        """The slot columns of contexts at some positions on the page, not sponsored."""
        columns: dict[str, np.ndarray] = {"position": position}
        if self.options.grid is not None:
            place = position - 1
            cells = (place // self.options.grid + 1, place % self.options.grid + 1)
            columns = dict(zip(GRID, cells, strict=True))
        if "sponsored" in self.options.slot:
            columns["sponsored"] = np.zeros_like(position)
        return {
            name: pa.array(values).cast(self.contexts[name].type)
            for name, values in columns.items()
        }

    @cached_property
    def _organic(self) -> np.ndarray:
        """Positions on the page that the log gives to results that were not sponsored, ordered."""
        position = self.position
        if "sponsored" in self.options.slot:
            position = position[np.asarray(self.contexts["sponsored"]) == 0]
        return np.unique(position)

    def on_page(self, position: np.ndarray) -> tuple[np.ndarray, list[str]]:
        """Positions on the page of positions in a list, and a note where these differ.

        Where sponsored slots are always at the top, lists start below them.
        """
        if self.options.sponsored is None or not len(self._organic):
            return position, []
        slots, last = self._organic, len(self._organic)
        on_page = slots[np.minimum(position, last) - 1] + np.maximum(position - last, 0)
        if np.array_equal(on_page, position):
            return position, []
        first = ", ".join(map(str, slots[:3]))
        note = (
            f"results are placed in the slots that the log does not give to sponsored ones "
            f"(positions {first}, ...)"
        )
        return on_page, [note]

    def repeated(self, page: np.ndarray, given: Mapping[str, pa.Array]) -> Copies:
        """Each list once in every kind that agrees with the contexts it has.

        Slots below the last position of a kind are left out, unless no kind has deeper ones.

        Args:
            page: (slots,) number of each slot's list; the slots of a list are consecutive.
            given: (slots,) the contexts that the lists have, of `others`.
        """
        length = np.bincount(page)
        start = np.cumsum(length) - length
        kinds = self.kinds[0]
        group, of_kind = np.zeros(len(length), np.int64), np.zeros(len(kinds), np.int64)
        if given:
            known, of_kind = distinct({name: kinds[name].combine_chunks() for name in given})
            lists = {name: values.take(pa.array(start)) for name, values in given.items()}
            group = locate_rows(lists, {name: known[name] for name in given})
            if np.any(group < 0):
                raise unknown_contexts(lists, np.flatnonzero(group < 0))
        copies = np.bincount(of_kind)[group]  # of each list
        by_group = np.argsort(of_kind, kind="stable")
        first = np.cumsum(np.bincount(of_kind)) - np.bincount(of_kind)
        of_list = np.repeat(np.arange(len(length)), copies)
        turn = np.arange(len(of_list)) - np.repeat(np.cumsum(copies) - copies, copies)
        kind = by_group[first[group[of_list]] + turn]
        most = np.where(self.kind_depth < self.depth, self.kind_depth, length.max(initial=0))
        slots = np.minimum(length[of_list], most[kind])
        new = np.repeat(np.arange(len(of_list)), slots)
        place = np.arange(len(new)) - np.repeat(np.cumsum(slots) - slots, slots)
        cut = int((length[of_list] - slots).sum())
        return Copies(start[of_list[new]] + place, new, kind[new], cut)


def unknown_contexts(
    columns: Mapping[str, pa.Array], rows: Sequence[int] | np.ndarray
) -> InputError:
    """The error that lists have contexts that the model does not know."""
    first = ", ".join(f"{name} {values[int(rows[0])]}" for name, values in columns.items())
    problem = Problem(
        "lists have contexts that the model does not know",
        len(rows),
        "list",
        [first],
        "Fit the model to a log that has them, or leave these lists out.",
        code="unknown-context",
    )
    return InputError.of("the ranking", [problem])
