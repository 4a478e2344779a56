"""How many clicks pages got: the one fact about whole pages that counts keep."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Self

import numpy as np

MOST = 100
"""Displays and clicks of a page are counted up to here; a longer page counts as one so long."""


@dataclass(frozen=True, eq=False)
class PageClicks:
    """Pages by their clicks, of a whole log or of a sample of its pages.

    Attributes:
        clicks: (clicks,) pages with 0, 1, 2, ... clicks.
        displays: (displays,) pages with 0, 1, 2, ... displays.
        everywhere: (displays,) those of them on which everything was clicked.
    """

    clicks: np.ndarray
    displays: np.ndarray
    everywhere: np.ndarray

    @property
    def pages(self) -> int:
        """Number of pages looked at."""
        return int(self.clicks.sum())

    @property
    def without_click(self) -> float:
        """Share of pages on which nothing was clicked."""
        return float(self.clicks[0] / self.pages) if self.pages else 0.0

    @classmethod
    def from_table(cls, displays: np.ndarray, clicks: np.ndarray, pages: np.ndarray) -> Self:
        """From rows of displays and clicks of a page, and how many pages had them."""
        displays, clicks = (
            np.minimum(values, MOST).astype(np.int64) for values in (displays, clicks)
        )
        every = np.where(clicks == displays, pages, 0)
        by_clicks, by_displays, everywhere = (
            np.bincount(at, weight).astype(np.int64)
            for at, weight in ((clicks, pages), (displays, pages), (displays, every))
        )
        return cls(by_clicks, by_displays, everywhere)

    @classmethod
    def sum(cls, several: "Sequence[PageClicks | None]") -> "PageClicks | None":
        """Those of several logs together; None where one of them is unknown."""
        known = [each for each in several if each is not None]
        if not known or len(known) < len(several):
            return None
        return cls(
            *(
                reduce(_added, (getattr(each, name) for each in known))
                for name in ("clicks", "displays", "everywhere")
            )
        )

    def to_dict(self) -> dict[str, list[int]]:
        """A record for JSON."""
        return {name: getattr(self, name).tolist() for name in ("clicks", "displays", "everywhere")}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """What `to_dict` recorded."""
        return cls(
            *(np.array(record[name], np.int64) for name in ("clicks", "displays", "everywhere"))
        )


def _added(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    size = max(len(one), len(other))
    return np.pad(one, (0, size - len(one))) + np.pad(other, (0, size - len(other)))
