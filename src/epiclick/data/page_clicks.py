"""Distribution of clicks per page, of a sample that is the same whether days are added or not.

Pages are sampled by a hash of their id, which gives each page a *level*: half of all pages have
level 0, a quarter level 1, and so on. A sample has all pages from some level
on, the higher the more pages a log has, and histograms are kept by level. Two logs are added by
dropping the levels that their sum is too large for, which gives the sample of both together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

MAX_LENGTH = 100
"""Displays and clicks per page are capped at this."""

LEVELS = 13
"""Higher levels are counted as the last one."""

SAMPLED_PAGES = 100_000
"""At least this many pages are counted, on average at most twice as many, where a log has more."""

SAMPLED_PAGES_OF_PART = 20_000
"""The same for each part, such as a day, of a log with parts."""

FIELDS = ("clicks", "displays", "everywhere")


def least_level(pages: int, *, of_part: bool = False) -> int:
    """The level from which on pages are counted, given their number in a log or a part of it."""
    times = pages // (SAMPLED_PAGES_OF_PART if of_part else SAMPLED_PAGES)
    return min(max(times.bit_length() - 1, 0), LEVELS - 1)


@dataclass(frozen=True, eq=False)
class PageClicks:
    """Histograms of clicks and displays per page, of a whole log or a sample of its pages.

    Attributes:
        least: the lowest level that was counted.
        levels: name of a histogram -> (levels, values) number of pages, by level from 0 on.
            `clicks`: with 0, 1, 2, ... clicks. `displays`: with 0, 1, 2, ... displays.
            `everywhere`: those of them on which everything was clicked.
    """

    least: int
    levels: Mapping[str, np.ndarray]

    @property
    def clicks(self) -> np.ndarray:
        """(clicks,) number of pages with 0, 1, 2, ... clicks."""
        return self.levels["clicks"].sum(axis=0)

    @property
    def displays(self) -> np.ndarray:
        """(displays,) number of pages with 0, 1, 2, ... displays."""
        return self.levels["displays"].sum(axis=0)

    @property
    def everywhere(self) -> np.ndarray:
        """(displays,) those of them on which everything was clicked."""
        return self.levels["everywhere"].sum(axis=0)

    @property
    def without_click(self) -> float:
        """Share of pages on which nothing was clicked."""
        return float(self.clicks[0] / self.pages) if self.pages else 0.0

    @property
    def pages(self) -> int:
        """Number of pages examined."""
        return int(self.clicks.sum())

    @classmethod
    def from_table(
        cls,
        displays: np.ndarray,
        clicks: np.ndarray,
        pages: np.ndarray,
        level: np.ndarray | None = None,
        least: int = 0,
    ) -> Self:
        """From (displays, clicks, level) of a page and the number of pages with each combination.

        Without a level, pages are never left out of a sum.
        """
        displays, clicks = (
            np.minimum(values, MAX_LENGTH).astype(np.int64) for values in (displays, clicks)
        )
        own = np.full(len(pages), LEVELS - 1) if level is None else level
        every = np.where(clicks == displays, pages, 0)
        found = {}
        for name, at, weight in (
            ("clicks", clicks, pages),
            ("displays", displays, pages),
            ("everywhere", displays, every),
        ):
            histogram = np.zeros((LEVELS, MAX_LENGTH + 1), np.int64)
            np.add.at(histogram, (own, at), weight)
            found[name] = histogram
        return cls(0, found).from_level(least)

    def from_level(self, least: int) -> Self:
        """The pages from a level on."""
        least = max(least, self.least)
        kept = np.arange(LEVELS)[:, None] >= least
        found = {name: np.where(kept, each, 0) for name, each in self.levels.items()}
        # pages that are left out may be the longest: as if they had never been counted
        sizes = {name: _size(found[name]) for name in ("clicks", "displays")}
        sizes["everywhere"] = sizes["displays"]
        return type(self)(least, {name: found[name][:, : sizes[name]] for name in FIELDS})

    @classmethod
    def sum(cls, several: "Sequence[PageClicks | None]", pages: int = 0) -> "PageClicks | None":
        """The sum over several logs, of this many pages together; None where one is unknown."""
        known = [each for each in several if each is not None]
        if not known or len(known) < len(several):
            return None
        total = {}
        for name in FIELDS:
            own = [each.levels[name] for each in known]
            size = max(each.shape[1] for each in own)
            total[name] = np.sum([np.pad(a, ((0, 0), (0, size - a.shape[1]))) for a in own], axis=0)
        return cls(0, total).from_level(max(least_level(pages), *(each.least for each in known)))

    def to_dict(self) -> dict[str, Any]:
        """A record for JSON."""
        found = {name: each[self.least :].tolist() for name, each in self.levels.items()}
        return {"least": self.least, **found}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """What `to_dict` recorded, or an earlier version of it, which kept no levels."""
        least = int(record.get("least", LEVELS - 1))
        if not 0 <= least < LEVELS:
            raise ValueError("a level that does not exist")
        found = {}
        for name in FIELDS:
            rows = np.atleast_2d(np.array(record[name], np.int64))
            found[name] = np.zeros((LEVELS, rows.shape[1]), np.int64)
            found[name][least:] = rows
        return cls(0 if "least" not in record else least, found)


def _size(histogram: np.ndarray) -> int:
    """Values up to the last that occurs; at least one."""
    return int(np.flatnonzero(histogram.any(axis=0)).max(initial=0)) + 1


@dataclass(frozen=True, eq=False)
class PartPages:
    """Pages of each part of a log, such as a day.

    Attributes:
        pages: (parts,) their number.
        clicks: one distribution of clicks per part.
    """

    pages: np.ndarray
    clicks: tuple[PageClicks, ...]

    def summed(self) -> PageClicks:
        """Clicks of the pages of all parts."""
        found = PageClicks.sum(self.clicks, int(self.pages.sum()))
        assert found is not None
        return found

    def at(self, parts: np.ndarray) -> Self:
        """Those of some parts, by index."""
        return type(self)(self.pages[parts], tuple(self.clicks[i] for i in parts))

    @classmethod
    def sum(cls, several: "Sequence[tuple[PartPages, np.ndarray]]", size: int) -> Self:
        """The sum over logs, each with the number of its parts in the total, of this many parts."""
        pages = np.zeros(size, np.int64)
        own: list[list[PageClicks]] = [[] for _ in range(size)]
        for each, numbers in several:
            pages[numbers] += each.pages
            for number, clicks in zip(numbers, each.clicks, strict=True):
                own[number].append(clicks)
        found = []
        for number, several_clicks in enumerate(own):
            added = PageClicks.sum(several_clicks)
            assert added is not None, "a part that is in no log"
            found.append(added.from_level(least_level(int(pages[number]), of_part=True)))
        return cls(pages, tuple(found))

    def to_list(self) -> list[dict[str, Any]]:
        """Records for JSON, one per part."""
        rows = zip(self.pages.tolist(), self.clicks, strict=True)
        return [{"pages": pages, **clicks.to_dict()} for pages, clicks in rows]

    @classmethod
    def from_list(cls, records: Sequence[Mapping[str, Any]]) -> Self:
        """What `to_list` recorded."""
        pages = np.array([record["pages"] for record in records], np.int64)
        return cls(pages, tuple(map(PageClicks.from_dict, records)))
