"""What a Parquet file of counts says about itself beside its rows."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from epiclick.data.log import LogOptions
from epiclick.errors import InputError

SCHEMA_VERSION = 1
KEY = b"epiclick"


@dataclass(frozen=True)
class CountsNote:
    """The facts about counts that their rows do not tell.

    Attributes:
        context: the context columns.
        pages: number of pages counted, None where the log did not tell.
        options: how the log was read.
    """

    context: tuple[str, ...]
    pages: int | None
    options: LogOptions

    def attach(self, table: pa.Table) -> pa.Table:
        """The table with this note in its schema."""
        record = {"schema_version": SCHEMA_VERSION, **asdict(self)}
        record["options"] = self.options.to_dict()
        return table.replace_schema_metadata({KEY: json.dumps(record)})

    @classmethod
    def of(cls, path: str | Path) -> Self | None:
        """The note in a Parquet file, None if it has none."""
        text = (pq.read_schema(path).metadata or {}).get(KEY)
        if text is None:
            return None
        record = json.loads(text)
        if record["schema_version"] > SCHEMA_VERSION:
            raise InputError(f"{path} was written by a newer epiclick; upgrade to read it")
        options = LogOptions.from_dict(record["options"])
        return cls(tuple(record["context"]), record["pages"], options)
