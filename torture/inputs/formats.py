"""Campaign: logs in other formats through `count`, against readers in plain Python."""

import gzip
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from torture.campaign import Campaign, Case, Result
from torture.inputs import click_log, mutations, oracle, records
from torture.inputs.event_logs import EventFormat
from torture.inputs.event_values import Unsure
from torture.inputs.ga4_logs import GA4
from torture.inputs.joined_tables import (
    joined_rows,
    open_bandit_rows,
    write_impressions,
    write_open_bandit,
)
from torture.inputs.list_logs import LISTS, page_line_rows, page_lines
from torture.inputs.logs import judged
from torture.inputs.metarank_logs import METARANK
from torture.inputs.oracle import Bad, Counts, Reading
from torture.inputs.page_views import random_views
from torture.inputs.snowplow_logs import SNOWPLOW
from torture.inputs.table_files import KINDS, write_changed
from torture.inputs.ubi_logs import UBI
from torture.program import call

EVENTS = (GA4, SNOWPLOW, METARANK, UBI, LISTS)


@dataclass(frozen=True)
class Written:
    """A log as it was written.

    Attributes:
        arguments: the log and options of its format.
        what: how it was changed.
        expected: its counts, or why it is bad; None if it may be counted in any way.
        reading: how it is read.
    """

    arguments: list[str]
    what: str
    expected: Counts | str | None
    reading: Reading


class Formats(Campaign):
    """Every third log is sound, and must be counted; the others are counted right or refused."""

    name = "formats"
    floors: ClassVar = {
        f"count {name}": 0.4
        for name in (
            *("ga4", "snowplow", "metarank", "ubi", "list-columns", "page-lines"),
            *("two-tables", "open-bandit"),
        )
    }

    def __init__(self, cases: int) -> None:
        """Run this many cases."""
        self.cases = cases

    def prepare(self, stock: Path) -> None:
        """Nothing: logs are made for each case."""

    def size(self, stock: Path) -> int:
        """As asked for."""
        return self.cases

    def run(self, case: Case) -> Result:
        """Count one log."""
        rng, sound = case.rng, case.rng.random() < 0.35
        reading = Reading(drop_bad=rng.random() < 0.35)
        number = rng.randrange(len(EVENTS) + 3)
        if number < len(EVENTS):
            name = EVENTS[number].name
            written = events(rng, case.folder, EVENTS[number], reading, sound=sound)
        else:
            name, write = (
                ("two-tables", two_tables),
                ("page-lines", lines),
                ("open-bandit", open_bandit),
            )[number - len(EVENTS)]
            written = write(rng, case.folder, reading, sound=sound)
        out, options = ["--out", "counts.parquet", "--json"], written.reading.arguments()
        ended = call("count", *written.arguments, *options, *out, folder=case.folder)
        file, expected = case.folder / "counts.parquet", written.expected
        what = f"{' '.join(written.arguments)} {' '.join(options)}: {written.what}"
        if expected is None:
            outcome, why = ("failed", ended.fault) if ended.fault else ("refused", "")
            if ended.code == 0:
                outcome = "accepted"
            return Result(f"count {name}", what, outcome, why or "")
        outcome, why = judged(ended, file, expected, written.reading)
        if outcome == "refused" and sound and not isinstance(expected, str):
            outcome, why = "failed", f"a sound log was refused: {ended.err[-400:]}"
        return Result(f"count {name}", what, outcome, why)


def expected_of(rows: Any, reading: Reading) -> Counts | str | None:
    """Counts of the rows that a function gives, or why they are bad."""
    try:
        return oracle.counted(rows(), reading)
    except Bad as bad:
        return str(bad)
    except Unsure:
        return None


def events(
    rng: Random, folder: Path, kind: EventFormat, reading: Reading, *, sound: bool
) -> Written:
    """A log of nested records."""
    log = kind.write(rng, random_views(rng))
    names = []
    changes = records.SOUND_RECORDS if sound else records.RECORDS * 2 + records.SOUND_RECORDS
    for change in rng.choices(changes, k=rng.choice((0, 1, 1, 2) if sound else (1, 1, 1, 2))):
        if log:
            log = change(rng, log)
            names.append(change.__name__)
    file = rng.choice(("jsonl", "jsonl", "jsonl.gz", "parquet"))
    if kind.name == "list-columns" and all(isinstance(v, str) for r in log for v in r.values()):
        file = rng.choice((file, "csv"))
    path = folder / f"log.{file}"
    if file == "parquet":
        typed = as_parquet(log, path)
        file, path = ("parquet", path) if typed is not None else ("jsonl", folder / "log.jsonl")
        log = log if typed is None else typed
    if file != "parquet":
        as_lines = file.removesuffix(".gz")
        own = click_log.content(log, as_lines)
        if rng.random() < 0.25 and not (sound and as_lines == "jsonl"):
            change = rng.choice(mutations.SOUND_BYTES if sound else mutations.BYTES)
            own = change(rng, own)
            names.append(change.__name__)
        path.write_bytes(gzip.compress(own, mtime=0) if file.endswith(".gz") else own)
    window = (
        float(rng.choice((1, 2))) if kind.name != "list-columns" and rng.random() < 0.2 else None
    )
    options = ["--click-window", f"{window:.0f}s"] if window else []
    if kind.contexts and rng.random() < 0.25:
        reading = replace(reading, context=(rng.choice(kind.contexts), "position"))
    if rng.random() < 0.15:
        reading = replace(reading, position_base=0)
    if rng.random() < 0.3:
        options += ["--format", kind.name]

    def rows() -> list[dict[str, Any]]:
        found = log
        if file != "parquet":
            found = oracle.parsed(own, as_lines, drop_bad=reading.drop_bad)
        return kind.rows(found, reading.position_base, window)

    what = ", ".join(names) or "as it is"
    return Written([path.name, *options], what, expected_of(rows, reading), reading)


def as_parquet(log: list[dict[str, Any]], path: Path) -> list[dict[str, Any]] | None:
    """Write records as Parquet, and give them as they then are; None if their types differ."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = list(dict.fromkeys(name for record in log for name in record))
    try:
        table = pa.table({name: pa.array([each.get(name) for each in log]) for name in names})
        pq.write_table(table, path)
    except (pa.ArrowException, OverflowError):
        return None
    return table.to_pylist()


def two_tables(rng: Random, folder: Path, reading: Reading, *, sound: bool) -> Written:
    """Impressions and clicks, each in a file of some kind."""
    names: list[str] = []
    tables = dict(
        zip(("impressions", "clicks"), write_impressions(rng, random_views(rng)), strict=True)
    )
    read, arguments = {}, []
    for role, rows in tables.items():
        path = folder / f"{role}.{rng.choice(KINDS)}"
        read[role] = write_changed(rng, rows, path, sound=sound, names=names)
        arguments += [f"--{role}", path.name]
    reading = replace(reading, drop_bad=False)
    window = float(rng.choice((1, 2))) if rng.random() < 0.2 else None
    arguments += ["--click-window", f"{window:.0f}s"] if window else []

    def rows_of() -> list[dict[str, Any]]:
        return joined_rows(read["impressions"](), read["clicks"](), window)

    return Written(arguments, ", ".join(names), expected_of(rows_of, reading), reading)


def open_bandit(rng: Random, folder: Path, reading: Reading, *, sound: bool) -> Written:
    """The columns of the Open Bandit Dataset."""
    names: list[str] = []
    path, log = folder / f"log.{rng.choice(KINDS)}", write_open_bandit(rng, random_views(rng))
    read = write_changed(rng, log, path, sound=sound, names=names)
    reading = replace(reading, drop_bad=False)
    expected = expected_of(lambda: open_bandit_rows(read()), reading)
    return Written([path.name, "--format", "open-bandit"], ", ".join(names), expected, reading)


def lines(rng: Random, folder: Path, reading: Reading, *, sound: bool) -> Written:
    """Page lines."""
    own, what, path = page_lines(random_views(rng)), "as it is", folder / "log.tsv"
    if rng.random() < (0.5 if sound else 0.9):
        change = rng.choice(mutations.SOUND_BYTES if sound else mutations.BYTES)
        own, what = change(rng, own), change.__name__
    path.write_bytes(own)
    expected = expected_of(lambda: page_line_rows(own), reading)
    return Written([path.name], what, expected, reading)
