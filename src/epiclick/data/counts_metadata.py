"""Metadata of a Parquet file of counts: what the rows do not contain, and checksums of both."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from epiclick.click_models.registry import click_model
from epiclick.data.checksums import (
    CHANGED,
    check_record,
    damaged,
    digest_rows,
    from_json,
    get,
    reading,
    texts,
    with_digest,
)
from epiclick.data.schema import LogOptions
from epiclick.errors import InputError

MAX_LENGTH = 100
"""Displays and clicks per page are capped at this."""

FIELDS = ("clicks", "displays", "everywhere")


@dataclass(frozen=True, eq=False)
class PageClicks:
    """Histograms of clicks and displays per page, of a whole log or a sample of its pages.

    Attributes:
        clicks: (clicks,) number of pages with 0, 1, 2, ... clicks.
        displays: (displays,) number of pages with 0, 1, 2, ... displays.
        everywhere: (displays,) those of them on which everything was clicked.
    """

    clicks: np.ndarray
    displays: np.ndarray
    everywhere: np.ndarray

    @property
    def without_click(self) -> float:
        """Share of pages on which nothing was clicked."""
        return float(self.clicks[0] / self.pages) if self.pages else 0.0

    @property
    def pages(self) -> int:
        """Number of pages examined."""
        return int(self.clicks.sum())

    @classmethod
    def from_table(cls, displays: np.ndarray, clicks: np.ndarray, pages: np.ndarray) -> Self:
        """From (displays, clicks) of a page and the number of pages with each combination."""
        displays, clicks = (
            np.minimum(values, MAX_LENGTH).astype(np.int64) for values in (displays, clicks)
        )
        every = np.where(clicks == displays, pages, 0)
        by_clicks, by_displays, everywhere = (
            np.bincount(at, weight).astype(np.int64)
            for at, weight in ((clicks, pages), (displays, pages), (displays, every))
        )
        return cls(by_clicks, by_displays, everywhere)

    @classmethod
    def sum(cls, several: "Sequence[PageClicks | None]") -> "PageClicks | None":
        """The sum over several logs; None where one of them is unknown."""
        known = [each for each in several if each is not None]
        if not known or len(known) < len(several):
            return None
        return cls(*(reduce(_added, (getattr(each, name) for each in known)) for name in FIELDS))

    def to_dict(self) -> dict[str, list[int]]:
        """A record for JSON."""
        return {name: getattr(self, name).tolist() for name in FIELDS}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """What `to_dict` recorded."""
        return cls(*(np.array(record[name], np.int64) for name in FIELDS))


def _added(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    size = max(len(one), len(other))
    return np.pad(one, (0, size - len(one))) + np.pad(other, (0, size - len(other)))


SCHEMA_VERSION = 2
"""Version 1 had no checksums."""

REMEDY = "Copy it again from where it was written, or count the log again."
KEY = b"epiclick"
FIELD_ID = b"PARQUET:field_id"
OWN_FIELD_ID = 0x65706900
"""Field ids of our columns start here: they identify our files even without their metadata."""


@dataclass(frozen=True)
class CountsMetadata:
    """Facts about counts that are not in their rows.

    Attributes:
        context: the context columns.
        pages: number of pages counted, None where unknown.
        page_clicks: distribution of clicks per page, None where unknown.
        options: how the log was read.
        rows: digest of the rows.
        clusters: what is known about clusters that the rows have, or None.
    """

    context: tuple[str, ...]
    pages: int | None
    page_clicks: PageClicks | None
    options: LogOptions
    rows: str = ""
    clusters: dict[str, Any] | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """The context columns that are known before a page is shown."""
        history = click_model(self.options.click_model).history
        return tuple(name for name in self.context if name not in history)

    def attach(self, table: pa.Table) -> pa.Table:
        """The table with these metadata and the digest of its rows in its schema."""
        record = with_digest(
            {
                "schema_version": SCHEMA_VERSION,
                "context": list(self.context),
                "pages": self.pages,
                "page_clicks": None if self.page_clicks is None else self.page_clicks.to_dict(),
                "options": self.options.to_dict(),
                "clusters": self.clusters,
                "rows": digest_rows(table),
            }
        )
        fields = [
            field.with_metadata({FIELD_ID: str(OWN_FIELD_ID + i)})
            for i, field in enumerate(table.schema)
        ]
        return table.cast(pa.schema(fields, {KEY: json.dumps(record)}))

    @classmethod
    def of(cls, path: str | Path) -> Self | None:
        """The verified metadata of a Parquet file; None if epiclick did not write the file."""
        path = Path(path)
        with reading(path, REMEDY):
            metadata = pq.read_metadata(path).metadata or {}
        if KEY not in metadata:
            if _has_own_ids(path):
                raise damaged(path, "its metadata are lost", REMEDY)
            return None
        with reading(path, REMEDY):
            record = from_json(metadata[KEY])
            version = get(record, "schema_version", int)
        if version > SCHEMA_VERSION:
            raise InputError(
                f"{path} was written by a newer epiclick; upgrade to read it",
                code="unsupported-version",
            )
        if version < SCHEMA_VERSION:
            raise InputError(
                f"{path} was written by an older epiclick, without checksums; count the log again",
                code="unsupported-version",
            )
        with reading(path, REMEDY):
            check_record(record)
            clicks = get(record, "page_clicks", dict, type(None))
            return cls(
                texts(record, "context"),
                get(record, "pages", int, type(None)),
                None if clicks is None else PageClicks.from_dict(clicks),
                LogOptions.from_dict(get(record, "options", dict)),
                get(record, "rows", str),
                # files of earlier versions have none
                get({"clusters": None, **record}, "clusters", dict, type(None)),
            )

    def read_rows(self, path: str | Path) -> pa.Table:
        """The verified rows of the file that these metadata come from."""
        with reading(Path(path), REMEDY):
            table = pq.read_table(path, partitioning=None)
            if digest_rows(table) != self.rows:
                raise ValueError(CHANGED)
        return table.replace_schema_metadata(None)


def _has_own_ids(path: Path) -> bool:
    """Whether a file has a column with a field id that only epiclick assigns."""
    try:
        fields = pq.read_schema(path)
    except (OSError, ValueError, pa.ArrowException):
        return False  # unknown; whatever reads the rows reports the damage
    ids = [(field.metadata or {}).get(FIELD_ID, b"") for field in fields]
    own = range(OWN_FIELD_ID, OWN_FIELD_ID + len(ids))
    return any(each.isdigit() and int(each) in own for each in ids)
