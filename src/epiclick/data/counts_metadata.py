"""Metadata of a Parquet file of counts: what the rows do not contain, and checksums of both."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

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
from epiclick.data.page_clicks import PageClicks, PartPages
from epiclick.data.schema import LogOptions
from epiclick.errors import InputError

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
        part_pages: the same as `pages` and `page_clicks` for each part, or None.
    """

    context: tuple[str, ...]
    pages: int | None
    page_clicks: PageClicks | None
    options: LogOptions
    rows: str = ""
    clusters: dict[str, Any] | None = None
    part_pages: PartPages | None = None

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
                "part_pages": None if self.part_pages is None else self.part_pages.to_list(),
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
            # files of earlier versions have neither of these
            record = {"clusters": None, "part_pages": None, **record}
            parts = get(record, "part_pages", list, type(None))
            return cls(
                texts(record, "context"),
                get(record, "pages", int, type(None)),
                None if clicks is None else PageClicks.from_dict(clicks),
                LogOptions.from_dict(get(record, "options", dict)),
                get(record, "rows", str),
                get(record, "clusters", dict, type(None)),
                None if parts is None else PartPages.from_list(parts),
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
