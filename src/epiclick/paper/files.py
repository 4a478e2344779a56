"""Files of a cell: its rows when it is done, and what it takes to go on before that."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from epiclick.data.atomic import written_aside
from epiclick.data.checksums import DIGEST, check_record, with_digest
from epiclick.data.damage import MALFORMED
from epiclick.paper.record import Record
from epiclick.paper.results import Cost
from epiclick.paper.variants import Variant

CELLS = "cells"


@dataclass(frozen=True)
class CellFiles:
    """Where a cell is kept.

    Attributes:
        folder: of the reproduction.
        variant: what is trained.
        run: number of the run.
    """

    folder: Path
    variant: Variant
    run: int

    def _path(self, suffix: str) -> Path:
        return self.folder / CELLS / self.variant.folder / f"{self.run:02d}{suffix}"

    @property
    def rows(self) -> Path:
        """The rows; there is such a file when the cell is done."""
        return self._path(".parquet")

    @property
    def note(self) -> Path:
        """Time and memory it took."""
        return self._path(".json")

    @property
    def checkpoint(self) -> Path:
        """The state of training."""
        return self._path(".checkpoint")

    @property
    def partial(self) -> Path:
        """The rows up to that state."""
        return self._path(".rows")

    @property
    def done(self) -> bool:
        """Whether the cell is done."""
        return self.rows.is_file()

    def finish(self, record: Record, cost: Cost, **others: Any) -> None:
        """Keep a cell that is done: its cost and other remarks, then its rows, and nothing else."""
        note = {**asdict(cost), **others}
        with written_aside(self.note) as aside:
            aside.write_text(json.dumps(with_digest(note), indent=1) + "\n", encoding="utf-8")
        record.save(self.rows)
        self.clear()

    def clear(self) -> None:
        """Delete what it would take to go on."""
        for path in (self.checkpoint, self.partial):
            path.unlink(missing_ok=True)

    def load_note(self) -> dict[str, Any]:
        """Time and memory it took, nothing where that is lost or damaged: it decides nothing."""
        try:
            note = dict(json.loads(self.note.read_text("utf-8")))
            if DIGEST in note:  # there is none in files of before there were digests
                check_record(note)
        except (OSError, *MALFORMED):
            return {}
        return note
