"""Which ratios of position bias a log identifies: contexts are compared through common items.

theta -> c theta, zeta -> zeta / c leaves every click probability unchanged, separately for each
group of contexts that no item links to the others. Within a group, ratios of biases are identified,
the better the more items link it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

from epiclick.data.counts import ClickCounts
from epiclick.errors import InputError

FEW_LINKS = 30
"""Fewer clicked items than this across a gap between contexts give a warning. Intervals come from
differences between items, which few items do not show: simulated 90 % intervals of a ratio of two
biases had a coverage of 46-55 % with 3 items, 71-79 % with 10, 82-86 % with 30."""

SHOWN = 12  # contexts named in one message


@dataclass(frozen=True)
class WeakLink:
    """Contexts that few items link to the rest of their group.

    Attributes:
        contexts: indices of the contexts on the side with fewer displays.
        pairs: number of clicked pairs shown on both sides.
    """

    contexts: tuple[int, ...]
    pairs: int


@dataclass(frozen=True, eq=False)
class Identifiability:
    """Which contexts the counts can compare, and how well.

    Attributes:
        contexts: the table of contexts.
        displays: (contexts,) displays of each.
        linked_share: share of displays of pairs shown in two or more contexts.
        groups: indices of contexts linked by common pairs, the group with most displays first.
        linking_pairs: (contexts,) pairs shown in the context and in another one.
        clicked_linking_pairs: (contexts,) those with a click anywhere: only they are informative.
        weak_links: where fewer than FEW_LINKS clicked pairs connect the largest group.
    """

    contexts: pa.Table
    displays: np.ndarray
    linked_share: float
    groups: tuple[tuple[int, ...], ...]
    linking_pairs: np.ndarray
    clicked_linking_pairs: np.ndarray
    weak_links: tuple[WeakLink, ...]

    @property
    def largest(self) -> tuple[int, ...]:
        """The contexts whose biases can be compared."""
        return self.groups[0]

    @property
    def not_comparable(self) -> tuple[int, ...]:
        """The contexts outside the largest group, including those without displays."""
        return tuple(k for k in range(len(self.contexts)) if k not in set(self.largest))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why biases may mislead, one sentence each."""
        found = []
        unshown = [k for k in self.not_comparable if not self.displays[k]]
        apart = [k for k in self.not_comparable if self.displays[k]]
        if unshown:
            found.append(
                f"{named(self.contexts, unshown)}: never shown, so nothing is known about it"
            )
        if apart:
            found.append(
                f"{named(self.contexts, apart)}: not comparable, as no item was shown both there "
                f"and in {named(self.contexts, self.largest)}"
            )
        if self.weak_links:
            links = "; ".join(
                f"{named(self.contexts, link.contexts)} ({link.pairs})" for link in self.weak_links
            )
            found.append(
                f"few clicked items (fewer than {FEW_LINKS}) link these to the rest, so the bias "
                f"there is uncertain and its interval may be too narrow: {links}"
            )
        return tuple(found)

    def summary(self) -> str:
        """The findings and warnings, one per line."""
        if len(self.contexts) == 1:
            return "There is only one context, so there is no position bias to learn."
        lines = [
            f"{self.linked_share:.1%} of displays are of items shown in two or more contexts, "
            "from which position bias is learned.",
            f"Comparable: {named(self.contexts, self.largest)}.",
            *(f"Warning: {warning}." for warning in self.warnings),
            "Assumed, because it cannot be checked: items change position for reasons unrelated to "
            "who sees them.",
        ]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """A record for JSON."""
        rows = self.contexts.to_pylist()
        return {
            "linked_share": self.linked_share,
            "groups": [[rows[k] for k in group] for group in self.groups],
            "not_comparable": [rows[k] for k in self.not_comparable],
            "weak_links": [
                {"contexts": [rows[k] for k in link.contexts], "pairs": link.pairs}
                for link in self.weak_links
            ],
            "by_position": [
                {
                    **row,
                    "displays": int(self.displays[k]),
                    "linking_pairs": int(self.linking_pairs[k]),
                    "clicked_linking_pairs": int(self.clicked_linking_pairs[k]),
                }
                for k, row in enumerate(rows)
            ],
            "warnings": list(self.warnings),
        }


def identifiability(counts: ClickCounts) -> Identifiability:
    """Find which given contexts are linked by common pairs, and by how many.

    Contexts of a page's history are left to the click model's own prior.
    """
    counts = counts.by_given()
    size = len(counts.contexts)
    displays = np.bincount(counts.context, counts.displays, size)
    from scipy.sparse.csgraph import connected_components  # slow to import, needed to fit only

    seen = csr_array(
        (np.ones(len(counts.pair), np.int64), (counts.pair, counts.context)),
        shape=(len(counts), size),
    )
    seen.sum_duplicates()  # the parts of an entry
    seen.data[:] = 1
    links = seen.sum(axis=1) >= 2  # (pairs,)
    clicked = links & (np.bincount(counts.pair, counts.clicks, len(counts)) > 0)

    common = (seen[links].T @ seen[links]).tocsr()  # (contexts, contexts) number of pairs in both
    both_clicked = (seen[clicked].T @ seen[clicked]).toarray()
    count, group = connected_components(common, directed=False)
    groups = [tuple(map(int, np.flatnonzero(group == i))) for i in range(count)]
    groups = [members for members in groups if displays[list(members)].any()]
    groups.sort(key=lambda members: -displays[list(members)].sum())
    return Identifiability(
        contexts=counts.contexts,
        displays=displays.astype(np.int64),
        linked_share=float(counts.displays[links[counts.pair]].sum() / counts.total_displays),
        groups=tuple(groups),
        linking_pairs=common.diagonal(),
        clicked_linking_pairs=both_clicked.diagonal(),
        weak_links=tuple(_weak_links(common, both_clicked, seen[clicked], groups[0], displays)),
    )


def check_anchor(counts: ClickCounts, anchor_index: int) -> None:
    """Refuse an anchor that most displays cannot be compared with, and name the candidates."""
    found = identifiability(counts)
    if 0 <= anchor_index < len(counts.contexts):
        anchor_index = int(counts.given[1][anchor_index])
    if anchor_index in found.largest:
        return
    candidates = named(found.contexts, found.largest)
    if not 0 <= anchor_index < len(found.contexts):
        raise InputError(
            f"the anchor must be one of {candidates}, not context {anchor_index}",
            code="anchor-out-of-range",
        )
    raise InputError(
        f"the anchor {named(found.contexts, [anchor_index])} shares no item, directly or through "
        f"others, with the contexts of most displays; choose one of {candidates}",
        code="anchor-not-comparable",
    )


def named(contexts: pa.Table, indices: Iterable[int]) -> str:
    """Contexts as text: "position 1, 2" or "(device, position) (phone, 1), (phone, 2)"."""
    names = contexts.column_names
    rows = [row.values() for row in contexts.take(list(indices)).to_pylist()]
    shown = [", ".join(map(str, row)) for row in rows[:SHOWN]]
    more = f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else ""
    if len(names) == 1:
        return f"{names[0]} {', '.join(shown)}{more}"
    return f"({', '.join(names)}) {', '.join(f'({row})' for row in shown)}{more}"


def _weak_links(
    common: csr_array,
    both_clicked: np.ndarray,
    seen: csr_array,
    group: Sequence[int],
    displays: np.ndarray,
) -> Iterable[WeakLink]:
    """The gaps within a group that fewer than FEW_LINKS clicked pairs bridge.

    Only gaps along a spanning tree of the strongest links: removing one of its edges splits the
    group where no single link is stronger than that edge.

    Args:
        common: (contexts, contexts) number of pairs shown in both.
        both_clicked: the same for clicked pairs.
        seen: (clicked linking pairs, contexts) 1 where shown.
        group: the contexts to check.
        displays: (contexts,).
    """
    from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

    weakness = common.tocoo()
    weakness.data = 1 / (1.0 + both_clicked[weakness.row, weakness.col])
    tree = minimum_spanning_tree(weakness.tocsr()).tolil()
    by_context, everywhere = seen.tocsc(), seen.sum(axis=1)
    for one, other in zip(*tree.nonzero(), strict=True):
        if one not in group or both_clicked[one, other] >= FEW_LINKS:
            continue
        length = tree[one, other]
        tree[one, other] = 0
        _, side = connected_components(tree.tocsr(), directed=False)
        tree[one, other] = length
        sides = [np.flatnonzero(side == side[k]) for k in (one, other)]
        smaller = min(sides, key=lambda members: displays[members].sum())
        inside = by_context[:, smaller].sum(axis=1)
        pairs = int(np.sum((inside > 0) & (inside < everywhere)))
        if pairs < FEW_LINKS:
            yield WeakLink(tuple(map(int, smaller)), pairs)
