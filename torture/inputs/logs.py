"""Campaign: mutated logs through `count` and `inspect`, against the second implementation."""

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import ClassVar

from torture.campaign import Campaign, Case, Result
from torture.inputs import mutations, oracle
from torture.inputs.click_log import KINDS, content, random_log, write
from torture.inputs.oracle import Bad, Counts, Reading
from torture.program import Ended, call

CONDITIONS = (
    "position <= 2",
    "device = 'phone'",
    "day >= '2026-01-02' AND click = 0 OR position = 1",
    "doc_id IN (1, 2, 3)",
    "NOT (ad = 1)",
    "position BETWEEN 1 AND 2",
    "device LIKE 'ph%'",
)


class Logs(Campaign):
    """Every third log is sound, and must be counted; the others are counted right or refused."""

    name = "logs"
    floors: ClassVar = {"count": 0.4, "inspect": 0.4}

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
        rng = case.rng
        rows, kind = random_log(rng), rng.choice(KINDS)
        reading = random_reading(rng) if rng.random() < 0.6 else Reading()
        if reading.position_base == 0:
            rows = [{**row, "position": row["position"] - 1} for row in rows]
        must_count, names = rng.random() < 0.35, []
        changes = mutations.SOUND_ROWS if must_count else mutations.ROWS + mutations.SOUND_ROWS
        for change in rng.choices(changes, k=rng.choice((0, 1, 1, 2)) if rows else 0):
            if rows:
                rows = change(rng, rows)
                names.append(change.__name__)
        path = case.folder / f"log.{kind}"
        write(rows, path, kind)
        own: bytes | None = None
        if kind != "parquet":
            own = content(rows, kind) if kind != "csv.gz" else content(rows, "csv")
            byte_changes = mutations.SOUND_BYTES if must_count else mutations.BYTES
            if rng.random() < 0.35 and not (kind == "jsonl" and must_count):
                change = rng.choice(byte_changes)
                own = change(rng, own)
                names.append(change.__name__)
                _write_bytes(path, own, kind)
        expected = self._expected(rows, own, kind, reading)
        verb = rng.choice(("count", "count", "count", "inspect"))
        what = f"{kind}: {', '.join(names) or 'as it is'} {' '.join(reading.arguments())}".strip()
        out = [] if verb == "inspect" else ["--out", "counts.parquet"]
        options = inspectable(reading) if verb == "inspect" else reading
        ended = call(verb, path.name, *options.arguments(), *out, "--json", folder=case.folder)
        if verb == "inspect":
            return Result(verb, what, *judged_inspection(ended, expected))
        outcome, why = judged(ended, case.folder / "counts.parquet", expected, reading)
        if outcome == "refused" and must_count and not isinstance(expected, str):
            outcome, why = "failed", f"a sound log was refused: {ended.err[-400:]}"
        return Result(verb, what, outcome, why)

    def _expected(
        self, rows: list[dict], own: bytes | None, kind: str, reading: Reading
    ) -> Counts | str:
        """Counts of the log, or why it is bad."""
        try:
            if own is not None:
                text = "csv" if kind == "csv.gz" else kind
                rows = oracle.parsed(own, text, drop_bad=reading.drop_bad)
            return oracle.counted(rows, reading)
        except Bad as bad:
            return str(bad)


def _write_bytes(path: Path, own: bytes, kind: str) -> None:
    import gzip

    path.write_bytes(gzip.compress(own, mtime=0) if kind == "csv.gz" else own)


def random_reading(rng: Random) -> Reading:
    """Some options, of those that go together."""
    reading = Reading()
    if rng.random() < 0.3:
        reading = replace(
            reading, context=rng.choice((("device", "position"), ("position", "device")))
        )
    if rng.random() < 0.2:
        reading = replace(reading, part=rng.choice(("day", "device")))
    if rng.random() < 0.3:
        reading = replace(reading, where=rng.choice(CONDITIONS))
    if rng.random() < 0.2:
        reading = replace(reading, viewed=True)
    if rng.random() < 0.2:
        reading = replace(reading, sponsored=rng.choice(("drop", "context")))
    if rng.random() < 0.2:
        reading = replace(reading, page_size=rng.choice((3, 10)))
    elif rng.random() < 0.2 and reading.where is None:
        reading = replace(reading, position_base=0)
    if rng.random() < 0.2:
        reading = replace(reading, normalise_queries=True)
    if rng.random() < 0.2:
        reading = replace(reading, most_clicks=rng.choice((1, 2)))
    if rng.random() < 0.4:
        reading = replace(reading, drop_bad=True)
    return reading


def inspectable(reading: Reading) -> Reading:
    """The options that `inspect` has."""
    return replace(reading, part=None, most_clicks=None, drop_bad=False)


def judged(ended: Ended, file: Path, expected: Counts | str, reading: Reading) -> tuple[str, str]:
    """Outcome of a call of `count`, and why it failed."""
    if ended.fault:
        return "failed", ended.fault
    if ended.code == 2:
        if file.exists():
            return "failed", "refused, but a file was written"
        return "refused", ""
    if ended.code:
        return "failed", f"exit code {ended.code}: {ended.err[-300:]}"
    if isinstance(expected, str):
        return "failed", f"a bad log was counted: {expected}"
    found = read_counts(file, reading)
    if found != expected:
        missing = {key: n for key, n in expected.items() if found.get(key) != n}
        more = {key: n for key, n in found.items() if expected.get(key) != n}
        return "failed", f"expected {list(missing.items())[:3]}, counted {list(more.items())[:3]}"
    record = json.loads(ended.out)
    sums = [sum(column) for column in zip(*expected.values(), strict=True)]
    if [record["displays"], record["clicks"]] != sums:
        return "failed", f"printed {record['displays']}, {record['clicks']} instead of {sums}"
    return "accepted", ""


def read_counts(file: Path, reading: Reading) -> Counts:
    """Counts of a file, by keys as text."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(file, pre_buffer=False) as opened:
        rows = opened.read(use_threads=False).to_pylist()
    names = ["query_id", "doc_id", *reading.context]
    names += ["sponsored"] if reading.sponsored == "context" else []
    names += ["part"] if reading.part is not None else []
    return {
        tuple(str(row[name]) for name in names): (row["displays"], row["clicks"]) for row in rows
    }


def judged_inspection(ended: Ended, expected: Counts | str) -> tuple[str, str]:
    """Outcome of a call of `inspect`: it reports what is wrong instead of refusing it."""
    if ended.fault:
        return "failed", ended.fault
    if ended.code == 2:
        return "refused", ""
    if ended.code:
        return "failed", f"exit code {ended.code}: {ended.err[-300:]}"
    record = json.loads(ended.out)
    if isinstance(expected, str) and not (record["problems"] or record["warnings"]):
        return "failed", f"nothing was reported, but {expected}"
    return "accepted", ""
