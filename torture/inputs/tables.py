"""Campaign: counted logs, databases, files without a header, several files, known bias."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from torture.campaign import Campaign, Case, Result
from torture.inputs import mutations, oracle, tiny_model
from torture.inputs.click_log import content, random_log
from torture.inputs.event_values import Unsure
from torture.inputs.logs import judged
from torture.inputs.oracle import Bad, Counts, Reading
from torture.inputs.table_files import KINDS, stripped, write_changed
from torture.inputs.table_logs import (
    changed_log,
    counted_log,
    headerless,
    headerless_rows,
    parts_of,
    sums,
    write_duckdb,
    write_sqlite,
)
from torture.program import call

READING = Reading()
Log = tuple[list[str], Callable[[], Counts]]


class Tables(Campaign):
    """Every third log is sound, and must be counted; the others are counted right or refused."""

    name = "tables"
    floors: ClassVar = {
        f"count {kind}": 0.4
        for kind in ("counted", "sqlite", "duckdb", "headerless", "several", "added")
    } | {"fit --position-bias": 0.3}

    def __init__(self, cases: int) -> None:
        """Run this many cases."""
        self.cases = cases

    def prepare(self, stock: Path) -> None:
        """Write a log to fit with known bias."""
        tiny_model.write_csv(tiny_model.shown_log(Random(6), pages=60), stock / "log.csv")

    def size(self, stock: Path) -> int:
        """As asked for."""
        return self.cases

    def run(self, case: Case) -> Result:
        """Count one log, or fit with one table of known bias."""
        rng, sound = case.rng, case.rng.random() < 0.35
        names: list[str] = []
        kind = rng.choice((*WRITERS, "bias"))
        if kind == "bias":
            return known_bias(case, names, sound=sound)
        verb = f"count {kind}"
        expected: Counts | str | None
        try:
            arguments, counts = WRITERS[kind](case, names, sound)
        except (Bad, Unsure) as why:
            return Result(verb, f"not written: {why}", "refused")
        try:
            expected = counts()
        except Bad as bad:
            expected = str(bad)
        except Unsure:
            expected = None
        out = ["--out", "counts.parquet", "--json"]
        ended = call("count", *arguments, *out, folder=case.folder)
        what = f"{' '.join(arguments)}: {', '.join(names) or 'as it is'}"
        if expected is None:
            outcome = "accepted" if ended.code == 0 else "refused"
            return Result(verb, what, "failed" if ended.fault else outcome, ended.fault or "")
        outcome, why = judged(ended, case.folder / "counts.parquet", expected, READING)
        if outcome == "refused" and sound and not isinstance(expected, str):
            outcome, why = "failed", f"a sound log was refused: {ended.err[-400:]}"
        return Result(verb, what, outcome, why)


def odd_count(rng: Random, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One cell of a counted log is odd."""
    name = rng.choice(list(rows[0]))
    odd = mutations.ODD_IDS if name in ("query_id", "doc_id") else mutations.ODD_NUMBERS
    at = rng.randrange(len(rows))
    return [{**row, name: rng.choice(odd)} if n == at else row for n, row in enumerate(rows)]


def other_names(rng: Random, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Columns have other names that are known."""
    names = {"displays": "impressions", "query_id": "Query", "doc_id": "url", "clicks": "CLICKS"}
    chosen = set(rng.sample(list(names), 2))
    return [{names[k] if k in chosen else k: v for k, v in row.items()} for row in rows]


COUNTED = {
    True: (mutations.another_order, mutations.columns_in_another_order, other_names),
    False: (odd_count, odd_count, mutations.lost_rows, mutations.repeated_row),
}


def counted(case: Case, names: list[str], sound: bool) -> Log:
    """Sums of displays and clicks."""
    rng = case.rng
    path = case.folder / f"log.{rng.choice(KINDS)}"
    rows, clip = counted_log(rng), rng.random() < 0.3
    if rng.random() < 0.2:
        rows = [{**row, "clicks": row["clicks"] + rng.choice((0, 0, 3))} for row in rows]
    clip = clip or (sound and any(row["clicks"] > row["displays"] for row in rows))
    read = write_changed(rng, rows, path, sound=sound, names=names, changes=COUNTED)
    return [path.name, *(["--clip-clicks"] if clip else [])], lambda: sums(read(), clip=clip)


def in_database(case: Case, names: list[str], sound: bool, suffix: str) -> Log:
    """A table of a database."""
    rows = changed_log(case.rng, names, sound=sound)
    table = case.rng.choice(("log", "a b", "ünï", "select", "it's"))
    path = case.folder / f"shop.{suffix}"
    (write_duckdb if suffix == "duckdb" else write_sqlite)(rows, path, table)
    if not sound and case.rng.random() < 0.3:
        change = case.rng.choice(mutations.BYTES)
        names.append(change.__name__)
        path.write_bytes(change(case.rng, path.read_bytes()))

        def damaged() -> Counts:
            raise Unsure("a page that is not read may be damaged")

        return [f"{path.name}:{table}"], damaged
    return [f"{path.name}:{table}"], lambda: oracle.counted(rows, READING)


def without_header(case: Case, names: list[str], sound: bool) -> Log:
    """A file without a header line."""
    own, columns = headerless(changed_log(case.rng, names, sound=sound))
    if not sound and case.rng.random() < 0.5:
        change = case.rng.choice(mutations.BYTES)
        own = change(case.rng, own)
        names.append(change.__name__)
    (case.folder / "log.csv").write_bytes(own)
    arguments = ["log.csv", "--columns", columns]
    return arguments, lambda: oracle.counted(headerless_rows(own, columns), READING)


def several(case: Case, names: list[str], sound: bool) -> Log:
    """A log in several files."""
    rng, kind = case.rng, case.rng.choice(("csv", "tsv", "jsonl"))
    parts = parts_of(rng, changed_log(rng, names, sound=sound), kind)
    if parts and not sound and rng.random() < 0.4:
        change, at = rng.choice(mutations.BYTES), rng.randrange(len(parts))
        parts[at] = change(rng, parts[at])
        names.append(change.__name__)
    paths = [f"part-{number}.{kind}" for number in range(len(parts))]
    for path, own in zip(paths, parts, strict=True):
        (case.folder / path).write_bytes(own)

    def counts() -> Counts:
        rows = [row for own in parts for row in stripped(oracle.parsed(own, kind), kind)]
        return oracle.counted(rows, READING)

    return paths if rng.random() < 0.5 or not paths else [f"*.{kind}"], counts


def added(case: Case, names: list[str], sound: bool) -> Log:
    """Counts of days, added up, perhaps with a day that is not counted yet."""
    rng, days = case.rng, days_of(case.rng)
    arguments = []
    for number, rows in enumerate(days):
        path = f"day-{number}.csv"
        (case.folder / path).write_bytes(content(rows, "csv"))
        if number and rng.random() < 0.3:
            arguments.append(path)
            continue
        out = f"day-{number}.parquet"
        tiny_model.done(call("count", path, "--out", out, "--json", folder=case.folder))
        arguments.append(out)
    if not sound and rng.random() < 0.7:
        path = case.folder / rng.choice([each for each in arguments if each.endswith(".parquet")])
        change = rng.choice(mutations.BYTES)
        path.write_bytes(change(rng, path.read_bytes()))
        names.append(change.__name__)

    def counts() -> Counts:
        total: dict[Any, list[int]] = {}
        for rows in days:
            for key, (shown, clicked) in oracle.counted(rows, READING).items():
                own = total.setdefault(key, [0, 0])
                own[0] += shown
                own[1] += clicked
        return {key: (shown, clicked) for key, (shown, clicked) in total.items()}

    return arguments, counts


def days_of(rng: Random) -> list[list[dict[str, Any]]]:
    """Logs of some days, with pages of their own."""
    return [
        [{**row, "page_id": f"{day}-{row['page_id']}"} for row in random_log(rng, pages=12)]
        for day in range(rng.choice((2, 3)))
    ]


WRITERS: dict[str, Callable[[Case, list[str], bool], Log]] = {
    "counted": counted,
    "sqlite": lambda case, names, sound: in_database(case, names, sound, "sqlite"),
    "duckdb": lambda case, names, sound: in_database(case, names, sound, "duckdb"),
    "headerless": without_header,
    "several": several,
    "added": added,
}


def odd_bias(rng: Random, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One cell is odd."""
    name, at = rng.choice(list(rows[0])), rng.randrange(len(rows))
    odd = rng.choice((*mutations.ODD_NUMBERS, "0.5", "2", "1e-9", "0.3", "4"))
    return [{**row, name: odd} if n == at else row for n, row in enumerate(rows)]


BIAS = {
    True: (mutations.another_order, mutations.columns_in_another_order),
    False: (odd_bias, odd_bias, mutations.repeated_row, mutations.lost_rows),
}


def known_bias(case: Case, names: list[str], *, sound: bool) -> Result:
    """Fit with a table of known bias: what is fixed must be reported as it was given."""
    rng = case.rng
    rows = [{"position": place, "mean": round(1 / place, 3)} for place in (1, 2, 3)]
    path = case.folder / f"bias.{rng.choice(KINDS)}"
    read = write_changed(rng, rows, path, sound=sound, names=names, changes=BIAS)
    given = ["--position-bias", path.name, "--anchor", "1", "--out", "model", "--json"]
    ended = call("fit", case.stock / "log.csv", *given, folder=case.folder)
    what = f"{path.name}: {', '.join(names) or 'as it is'}"
    return Result("fit --position-bias", what, *_judged_bias(case, ended, read, sound))


def _judged_bias(case: Case, ended: Any, read: Any, sound: bool) -> tuple[str, str]:
    if ended.fault:
        return "failed", ended.fault
    try:
        expected: dict[int, float] | str = bias_of(read())
    except Bad as bad:
        expected = str(bad)
    except Unsure:
        return ("accepted" if ended.code == 0 else "refused"), ""
    if ended.code == 2:
        if (case.folder / "model").exists():
            return "failed", "refused, but a model was written"
        if sound:
            return "failed", f"refused: {ended.err[-300:]}"
        return "refused", ""
    if ended.code:
        return "failed", f"exit code {ended.code}: {ended.err[-300:]}"
    if isinstance(expected, str):
        return "failed", f"a bad table was used: {expected}"
    found = {row["position"]: row["mean"] for row in json.loads(ended.out)["position_bias"]}
    for place, mean in expected.items():
        if not math.isclose(found[place], mean, abs_tol=2e-3):
            return "failed", f"position {place}: {found[place]} instead of {mean}"
    return "accepted", ""


def bias_of(rows: list[dict[str, Any]]) -> dict[int, float]:
    """Known bias by position, relative to the first; or Bad."""
    if not rows or not all("mean" in row and "position" in row for row in rows):
        raise Bad("no rows, or no columns")
    found: dict[int, float] = {}
    for row in rows:
        place = oracle.whole(row["position"])
        if place in found:
            raise Bad("a position twice")
        if isinstance(row["mean"], bool) or "_" in str(row["mean"]):
            raise Unsure("whether this is a number")
        try:
            mean = float(str(row["mean"]))
        except ValueError as error:
            raise Bad("no number") from error
        if not (math.isfinite(mean) and mean > 0):
            raise Bad("not above 0")
        found[place] = mean
    top = found.get(1, 1.0)
    relative = {place: mean / top for place, mean in found.items() if place in (1, 2, 3)}
    if not relative or any(mean > 1 + 1e-9 for mean in relative.values()):
        raise Bad("above 1, or of no position of the log")
    return {place: mean for place, mean in relative.items() if place > 1}
