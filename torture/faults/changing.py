"""Campaign part: inputs that another process changes while they are read."""

import ctypes
import json
import os
import select
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path

from torture.campaign import Case, Result
from torture.faults.verbs import FEATURES, LOG, copied, printed_by
from torture.inputs import oracle
from torture.inputs.click_log import content, random_log, write
from torture.inputs.logs import read_counts
from torture.inputs.oracle import Bad, Counts, Reading
from torture.program import call

LOG_CHANGED = "count, log changed"
"""What these cases are counted as: most of them must be refused."""

KINDS = ("csv", "jsonl", "parquet", "csv.gz", "tsv")
PAGES = 400


CLOSED, READ = 0x10, 0x01
"""Events of inotify: a file that was read was closed, or some of it was read."""

MOST_EVENTS = 4
"""A log is opened a few times: for its columns, its rows, its pages."""

NEVER = 10**9

WAIT = 60.0
"""Seconds after which a file is changed even if the event has not come."""


def at_an_event(
    path: Path, event: int, number: int, change: Callable[[], None]
) -> Callable[[int], None]:
    """What another process does between two passes: the change follows the event at once.

    Args:
        path: the file that is watched; files of a folder, if it is one.
        event: `CLOSED` or `READ`.
        number: of the event, from 1.
        change: what to do then.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_CLOEXEC)
    if watch < 0 or libc.inotify_add_watch(watch, os.fsencode(path), event) < 0:
        raise OSError(ctypes.get_errno(), f"cannot watch {path}")

    def during(process: int) -> None:
        seen, end = 0, time.monotonic() + WAIT
        while seen < number and time.monotonic() < end and not has_ended(process):
            if select.select([watch], [], [], 0.05)[0]:
                data, place = os.read(watch, 65_536), 0
                while place < len(data):
                    seen += 1
                    (length,) = struct.unpack_from("I", data, place + 12)  # of the name
                    place += 16 + length
        os.close(watch)
        change()

    return during


def has_ended(process: int) -> bool:
    """Whether a child has ended, without collecting it."""
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def some_event(case: Case, path: Path, change: Callable[[], None]) -> Callable[[int], None]:
    """A change after a few events, mostly between passes; sometimes when the call has ended."""
    event = case.rng.choice((CLOSED, CLOSED, READ))
    number = case.rng.randint(1, MOST_EVENTS) if case.rng.random() < 0.85 else NEVER
    return at_an_event(path, event, number, change)


def changed_log(case: Case) -> Result:
    """Count a log that changes: the counts are those of one of its states, or it is refused."""
    rng = case.rng
    kind = rng.choice(KINDS)
    path, other = case.folder / f"log.{kind}", case.folder / f".other.{kind}"
    rows, more = random_log(rng, PAGES), random_log(rng, PAGES // 2)
    more = [{**row, "page_id": row["page_id"] + PAGES} for row in more]
    write(rows, path, kind)
    states = [counted(rows)]
    how = rng.choice(("grow", "truncate", "replace", "rewrite", "remove", "swap"))
    if how == "grow" and kind in ("csv", "tsv", "jsonl"):
        states.append(counted(rows + more))
        text = content(rows + more, kind)[path.stat().st_size :]
        change = lambda: appended(path, text)  # noqa: E731
    elif how == "truncate":
        size = rng.randrange(path.stat().st_size)
        states += states_of(path.read_bytes()[:size], kind)
        change = lambda: os.truncate(path, size)  # noqa: E731
    elif how == "remove":
        change = path.unlink
    elif how == "swap":  # away and back: what was read before is there again
        change = lambda: swapped(path, other)  # noqa: E731
    else:
        write(more, other, kind)
        states.append(counted(more))
        change = lambda: replaced(other, path, in_place=how == "rewrite")  # noqa: E731
    call_of = ("count", path.name, "--out", "out.parquet", "--json")
    during = some_event(case, path, change)
    ended = call(*call_of, folder=case.folder, during=during)
    what = f"{kind}: {how}"
    out = case.folder / "out.parquet"
    other.unlink(missing_ok=True)
    left = [each.name for each in case.folder.iterdir() if each not in (path, out)]
    if ended.fault or left:
        return Result(LOG_CHANGED, what, "failed", ended.fault or f"left: {left}")
    if ended.code:
        why = "refused, but there is an output" if out.exists() else ""
        return Result(LOG_CHANGED, what, "failed" if why else "refused", why)
    found = read_counts(out, Reading())
    if found not in states:
        return Result(LOG_CHANGED, what, "failed", "the counts are those of no state of the log")
    return Result(LOG_CHANGED, what, "accepted")


def counted(rows: list[dict]) -> Counts:
    """Counts by the second implementation."""
    return oracle.counted(rows, Reading())


def states_of(data: bytes, kind: str) -> list[Counts]:
    """Counts of a file that was cut off; none if it is bad."""
    if kind == "parquet":
        return []
    try:
        return [counted(oracle.parsed(data, kind))]
    except Bad:
        return []


def appended(path: Path, text: bytes) -> None:
    """Append by one write."""
    with path.open("ab", buffering=0) as file:
        file.write(text)


def swapped(path: Path, other: Path) -> None:
    """Move a file away and back."""
    path.rename(other)
    time.sleep(0.02)
    other.rename(path)


def replaced(source: Path, target: Path, *, in_place: bool) -> None:
    """Put a file in the place of another: at once, or by writing into it."""
    if in_place:
        target.write_bytes(source.read_bytes())
    else:
        source.rename(target)


INPUTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "model": ("in/net", "in/old", ("position-bias", "own")),
    "features": (
        "in/world/features.parquet",
        "in/features.parquet",
        ("evaluate", "in/net", LOG, "--features", "own"),
    ),
    "ranking": (
        "in/new.csv",
        "in/live.csv",
        ("compare", "in/net", "--ranking=a=own", "--ranking=b=in/live.csv", *FEATURES),
    ),
    "counts": ("in/counts.parquet", "in/early.parquet", ("fit", "own", "--epochs", "2")),
}
"""Inputs, what they are replaced by, and verbs that read them."""


def words_of(name: str, own: str) -> list[str]:
    """The call that reads an input."""
    words = [word.replace("own", own) for word in INPUTS[name][2]]
    return [*words, *(["--out", "out"] if words[0] == "fit" else []), "--json"]


def prepare_inputs(stock: Path) -> None:
    """What calls answer with either of the inputs."""
    log, early = "in/world/clicks.parquet", "page_id < 150"
    other = ("simulate", "--out", "in/second", "--queries", 20, "--docs", 5, "--features", 2)
    for words in (
        ("count", log, "--out", "in/counts.parquet"),
        ("count", log, "--where", early, "--out", "in/early.parquet"),
        (*other, "--seed", 7, "--pages", 100),
    ):
        assert call(*words, folder=stock).code == 0, words
    (stock / "in/second/features.parquet").rename(stock / "in/features.parquet")
    answers = {}
    for name, (first, second, _) in INPUTS.items():
        both = []
        for source in (first, second):
            ended = call(*words_of(name, source), folder=stock)
            shutil.rmtree(stock / "out", ignore_errors=True)
            assert ended.code == 0, (name, ended.err)
            both.append(without_names(printed_by(ended)))
        assert both[0] != both[1], name
        answers[name] = both
    (stock / "answers.json").write_text(json.dumps(answers))


def without_names(record: object) -> object:
    """What was printed, without names of inputs and outputs."""
    assert isinstance(record, dict)
    return {key: each for key, each in record.items() if key not in ("model", "out", "path")}


def changed_input(case: Case) -> Result:
    """A model, features, a ranking or counts that are replaced or removed while they are read."""
    rng = case.rng
    name = rng.choice(sorted(INPUTS))
    (case.folder / "in").symlink_to(case.stock / "in")
    first, second, words = INPUTS[name]
    suffix = Path(first).suffix
    own, other = case.folder / f"own{suffix}", case.folder / f"next{suffix}"
    copied(case.stock / first, own)
    copied(case.stock / second, other)
    how = rng.choice(("replace", "replace", "remove", "files", "truncate"))

    def change() -> None:
        if how == "replace":
            own.rename(case.folder / f"before{suffix}")
            other.rename(own)
        elif how == "remove":
            shutil.rmtree(own) if own.is_dir() else own.unlink()
        elif how == "truncate":
            os.truncate(next(iter(sorted(own.iterdir()))) if own.is_dir() else own, 10)
        elif own.is_dir():  # file by file, as a copy of a folder does
            for each in sorted(other.iterdir()):
                (own / each.name).write_bytes(each.read_bytes())
        else:
            own.write_bytes(other.read_bytes())

    ended = call(
        *words_of(name, own.name),
        folder=case.folder,
        during=some_event(case, own, change),
    )
    verb, what = f"{words[0]}, input changed", f"{name}: {how}"
    if ended.fault:
        return Result(verb, what, "failed", ended.fault)
    if ended.code:
        return Result(verb, what, "refused")
    if (
        without_names(printed_by(ended))
        not in json.loads((case.stock / "answers.json").read_text())[name]
    ):
        return Result(verb, what, "failed", f"the answer of neither state: {ended.out[:300]}")
    return Result(verb, what, "accepted")
