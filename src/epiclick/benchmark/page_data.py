"""The pages of a benchmark: training and held-out pages with clicks, and what is known of items."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from epiclick.data.checksums import digest_arrays, from_archive, reading, to_archive
from epiclick.data.page_lists import PageLists
from epiclick.data.writing import written_aside

SETTINGS = "settings"


@dataclass(frozen=True, eq=False)
class PageLog:
    """Pages from top to bottom.

    Attributes:
        pair: (pages, depth) number of the pair at each place; -1 past the end of a page.
        clicked: (pages, depth) whether it was clicked.
    """

    pair: np.ndarray
    clicked: np.ndarray

    def __len__(self) -> int:
        """Number of pages."""
        return len(self.pair)

    @property
    def depth(self) -> int:
        """Positions of the longest page."""
        return self.pair.shape[1]

    @property
    def shown(self) -> np.ndarray:
        """(pages, depth) whether there is an item at the place."""
        return self.pair >= 0

    @cached_property
    def place(self) -> np.ndarray:
        """(pages, depth) position from 0."""
        return np.broadcast_to(np.arange(self.depth), self.pair.shape)

    @cached_property
    def lists(self) -> PageLists:
        """The distinct pages with their numbers; positions are the given contexts."""
        return PageLists.distinct(self.pair, np.where(self.shown, self.place, 0), self.clicked)

    def to_lists(self) -> PageLists:
        """All pages in their order, each as a list of its own."""
        given = np.where(self.shown, self.place, 0)
        return PageLists(self.pair, given, self.clicked, np.ones(len(self), np.int64))

    def to_table(self, query_of: np.ndarray) -> pa.Table:
        """A log that `read_log` reads, whose ids are the numbers of queries and pairs."""
        shown = self.shown
        page, place = np.nonzero(shown)
        pair = self.pair[shown].astype(np.int64)
        return pa.table(
            {
                "page_id": page,
                "query_id": query_of[pair],
                "doc_id": pair,
                "position": place + 1,
                "click": self.clicked[shown].astype(np.int8),
            }
        )


@dataclass(frozen=True, eq=False)
class BenchmarkData:
    """One data set of a benchmark.

    Attributes:
        settings: what it was made from, in JSON types; has its `name` and a `title`.
        query_of: (pairs,) query of each pair, numbered from 0.
        train: pages to fit to.
        test: held-out pages of the same queries.
        gain: (pairs,) gain of each item in a ranking, from known relevance or from labels; None
            where nothing is known.
        features: (pairs, features), or None.
    """

    settings: Mapping[str, Any]
    query_of: np.ndarray
    train: PageLog
    test: PageLog
    gain: np.ndarray | None = None
    features: np.ndarray | None = None

    @property
    def name(self) -> str:
        """For files and options."""
        return str(self.settings["name"])

    @property
    def title(self) -> str:
        """For headings."""
        return str(self.settings["title"])

    @property
    def pairs(self) -> int:
        """Number of pairs."""
        return len(self.query_of)

    @property
    def queries(self) -> int:
        """Number of queries."""
        return int(self.query_of.max()) + 1

    @cached_property
    def digest(self) -> str:
        """Of all pages and of what is known of the items."""
        return digest_arrays(self._arrays())

    def _arrays(self) -> dict[str, np.ndarray]:
        arrays = {"query_of": self.query_of}
        for part, pages in (("train", self.train), ("test", self.test)):
            arrays |= {f"{part}_pair": pages.pair, f"{part}_clicked": pages.clicked}
        known = {"gain": self.gain, "features": self.features}
        return arrays | {name: each for name, each in known.items() if each is not None}

    def save(self, path: Path) -> None:
        """Write everything to a file, atomically."""
        settings = np.frombuffer(json.dumps(dict(self.settings)).encode(), np.uint8)
        with written_aside(path) as aside:
            aside.write_bytes(to_archive({SETTINGS: settings, **self._arrays()}))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read back what `save` wrote."""
        with reading(path, "Delete it and start again."):
            known = from_archive(path.read_bytes())
            return cls(
                json.loads(known[SETTINGS].tobytes()),
                known["query_of"],
                PageLog(known["train_pair"], known["train_clicked"]),
                PageLog(known["test_pair"], known["test_clicked"]),
                known.get("gain"),
                known.get("features"),
            )
