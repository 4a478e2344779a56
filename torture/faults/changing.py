"""Campaign part: inputs that another process changes while they are read."""

import json
import os
import shutil
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

KINDS = ("csv", "jsonl", "parquet", "csv.gz", "tsv")
PAGES = 400


def at_a_moment(seconds: float, change: Callable[[], None]) -> Callable[[int], None]:
    """What another process does while a call runs."""

    def during(_: int) -> None:
        time.sleep(seconds)
        change()

    return during


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
    during = at_a_moment(rng.uniform(0, 0.5), change)
    ended = call(*call_of, folder=case.folder, during=during)
    what = f"{kind}: {how}"
    out = case.folder / "out.parquet"
    other.unlink(missing_ok=True)
    left = [each.name for each in case.folder.iterdir() if each not in (path, out)]
    if ended.fault or left:
        return Result("count", what, "failed", ended.fault or f"left: {left}")
    if ended.code:
        why = "refused, but there is an output" if out.exists() else ""
        return Result("count", what, "failed" if why else "refused", why)
    found = read_counts(out, Reading())
    if found not in states:
        return Result("count", what, "failed", "the counts are those of no state of the log")
    return Result("count", what, "accepted")


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
        during=at_a_moment(rng.uniform(0, 0.4), change),
    )
    verb, what = words[0], f"{name}: {how}"
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
