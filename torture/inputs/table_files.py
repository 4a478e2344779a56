"""Tables that are changed and written to a file of some kind, and what they then hold."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from torture.inputs import mutations, oracle
from torture.inputs.click_log import content, write

Row = dict[str, Any]
KINDS = ("csv", "tsv", "jsonl", "parquet")


def write_changed(
    rng: Random,
    rows: list[Row],
    path: Path,
    *,
    sound: bool,
    names: list[str],
    changes: Mapping[bool, Sequence[mutations.RowChange]] | None = None,
) -> Callable[[], list[Row]]:
    """Write a table after some changes; a function that reads it, or raises Bad.

    Args:
        rng: random numbers.
        rows: of the table.
        path: file, of one of KINDS.
        sound: only changes that keep what the table says.
        names: receives the names of the changes.
        changes: of rows, by whether they are sound; by default those of logs.
    """
    kind = path.suffix[1:]
    known = changes or {True: mutations.SOUND_ROWS, False: mutations.ROWS}
    of_rows = [*known[True], *(() if sound else known[False] * 2)]
    for change in rng.choices(of_rows, k=rng.choice((0, 1, 1, 2))):
        if rows:
            rows = change(rng, rows)
            names.append(f"{change.__name__} in {path.name}")
    write(rows, path, kind)
    if kind == "parquet":
        return lambda: rows
    own = content(rows, kind)
    if rng.random() < 0.2 and not (sound and kind == "jsonl"):
        of_bytes = rng.choice(mutations.SOUND_BYTES if sound else mutations.BYTES)
        own = of_bytes(rng, own)
        path.write_bytes(own)
        names.append(f"{of_bytes.__name__} in {path.name}")
    return lambda: stripped(oracle.parsed(own, kind), kind)


def stripped(rows: list[Row], kind: str) -> list[Row]:
    """Rows whose columns are named without outer spaces, as a header line is read."""
    if kind == "jsonl":
        return rows
    names = [name.strip() for name in rows[0]] if rows else []
    if len({name.lower() for name in names}) < len(names):
        raise oracle.Bad("column twice")
    return [dict(zip(names, row.values(), strict=True)) for row in rows]
