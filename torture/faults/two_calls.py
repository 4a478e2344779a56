"""Campaign part: two calls at the same time with one output, cache, checkpoint or folder."""

import os
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from torture.campaign import Case, Result
from torture.faults.attack import files_of
from torture.faults.verbs import (
    FEATURES,
    FIT,
    LOG,
    VERBS,
    Answer,
    Verb,
    contents,
    copied,
    printed_by,
    tiny_preset,
)
from torture.program import Ended, call, start, wait

WRITERS = [verb for verb in VERBS if verb.out is not None and verb.name != "demo"]
LONG_FIT = ("fit", LOG, *FEATURES, *FIT[2:], "--epochs", "40", "--patience", "0")


def both(case: Case, calls: Sequence[Sequence[str]], **environment: str) -> list[Ended]:
    """The ends of two calls, the second of which begins a moment after the first."""
    places, processes = [], []
    for name, words in zip("ab", calls, strict=True):
        place = case.folder / name
        place.mkdir(exist_ok=True)
        if not (place / "in").is_symlink():
            (place / "in").symlink_to(case.stock / "in")
        places.append(place)
        processes.append(start(words, place, before=frequent, environment=environment))
        time.sleep(case.rng.choice((0, case.rng.uniform(0, 0.3))))
    return [wait(process, place) for process, place in zip(processes, places, strict=True)]


def frequent() -> None:
    """Small reproductions, and a checkpoint in every epoch."""
    from epiclick.training import checkpoint

    tiny_preset()
    checkpoint.SECONDS_BETWEEN = 0.0


def is_one_message(ended: Ended) -> bool:
    """Whether there is a single message, of failure."""
    return ended.err.count("epiclick: ") - ended.err.count("epiclick: warning: ") == 1


def judged(case: Case, ends: Sequence[Ended], allowed: Sequence[str]) -> tuple[str, str]:
    """Outcome of two calls, apart from what they wrote: faults, messages, what is left."""
    for ended in ends:
        if ended.fault:
            return "failed", ended.fault
        if ended.code and not is_one_message(ended):
            return "failed", f"code {ended.code}: {ended.err[-300:]}"
    for name in files_of(case.folder):
        top = name.split("/")[0]
        is_part = any(part.endswith((".part", ".old", ".tmp")) for part in name.split("/"))
        if is_part or (top not in allowed and name.split("/")[-1] != "in"):
            return "failed", f"left: {name}"
    if all(ended.code for ended in ends):
        return "failed", f"neither did its work: {ends[0].err[-200:]} {ends[1].err[-200:]}"
    return ("refused" if any(ended.code for ended in ends) else "accepted"), ""


PRINTED = ("a", "b", "a.stdout", "a.stderr", "b.stdout", "b.stderr", "a.cache", "b.cache")


def one_output(case: Case) -> Result:
    """Two calls write one output: afterwards it is that of one of them."""
    verb: Verb = case.rng.choice([verb for verb in WRITERS if not verb.slow])
    out = f"../{verb.out}"
    calls = [verb.arguments(out), verb.arguments(out, verb.earlier)]
    case.rng.shuffle(calls)
    ends = both(case, calls)
    outcome, why = judged(case, ends, (*PRINTED, str(verb.out)))
    answer = Answer.read(case.stock / f"{verb.name}.json").files
    kept = case.folder / "a" / str(verb.out)
    copied(case.stock / "earlier" / verb.name, kept)
    earlier = contents(kept)
    has = contents(case.folder / str(verb.out))
    if not why and verb.name == "report":  # it quotes the name of the output
        why = "" if has and not has[""].startswith("damaged") else f"the page is {has}"
    elif not why and has not in (answer, earlier):
        why = f"the output is that of neither call: {sorted(has)}"
    return Result(verb.name, "one output", "failed" if why else outcome, why)


def one_folder(case: Case) -> Result:
    """Two runs share a folder, each of which resumes: both have the answer."""
    verb: Verb = case.rng.choice([verb for verb in WRITERS if verb.slow])
    answer = Answer.read(case.stock / f"{verb.name}.json")
    ends = both(case, [verb.arguments(f"../{verb.out}")] * 2)
    outcome, why = judged(case, ends, (*PRINTED, str(verb.out)))
    has = contents(case.folder / str(verb.out))
    missing = [name for name in answer.files if name not in has]
    if not why and missing:
        why = f"files are missing: {missing}"
    if not why:
        again = call(*verb.arguments(f"../{verb.out}"), folder=case.folder / "a", before=frequent)
        if again.code or printed_by(again) != answer.out:
            why = f"the folder cannot be used afterwards: {again.err[-300:] or again.out[-300:]}"
    return Result(verb.name, "one folder", "failed" if why else outcome, why)


def one_cache(case: Case) -> Result:
    """Two calls parse the same LETOR data into one cache."""
    letor = str(case.stock / "in" / "letor.txt")
    words = ["simulate", "--dataset", letor, "--pages", "50", "--positions", "2"]
    ends = both(case, [[*words, "--out", "out", "--json"]] * 2, EPICLICK_CACHE="../cache")
    ends.append(
        call(
            *words,
            *("--out", "again", "--json"),
            folder=case.folder / "a",
            environment={"EPICLICK_CACHE": "../cache"},
        )
    )
    outcome, why = judged(case, ends, (*PRINTED, "cache"))
    written = [case.folder / name for name in ("a/out", "b/out", "a/again")]
    found = [contents(path) for path, ended in zip(written, ends, strict=True) if not ended.code]
    entries = [path for path in (case.folder / "cache").iterdir() if path.is_dir()]
    if not why and any(each != found[0] or len(each) != 4 for each in found):
        why = "the worlds differ"
    if not why and len(entries) != 1:
        why = f"{len(entries)} entries in the cache"
    return Result("simulate", "one cache", "failed" if why else outcome, why)


def one_checkpoint(case: Case) -> Result:
    """A fit is stopped and resumed twice at once: the model is that of a fit without a stop."""
    place = case.folder / "a"
    place.mkdir()
    (place / "in").symlink_to(case.stock / "in")
    words = [*LONG_FIT, "--out", "../out", "--json"]
    process = start(words, place, before=frequent)
    deadline = time.monotonic() + 60
    while not checkpoints(case.folder) and time.monotonic() < deadline:
        time.sleep(0.002)
    time.sleep(case.rng.uniform(0, 0.1))
    os.kill(process, signal.SIGTERM)
    first = wait(process, place)
    if not checkpoints(case.folder):  # the fit was done before the signal came
        return Result(
            "fit", "one checkpoint: done before", *judged(case, [first], ("a", "out", *PRINTED))
        )
    ends = both(case, [[*words, "--resume"]] * 2)
    outcome, why = judged(case, ends, (*PRINTED, "out"))
    if not why and contents(case.folder / "out") != contents(case.stock / "long"):
        why = "the model differs from that of a fit without a stop"
    return Result("fit", "one checkpoint", "failed" if why else outcome, why)


def checkpoints(folder: Path) -> list[Path]:
    """Checkpoints in a folder."""
    return [
        path for path in folder.iterdir() if "checkpoint" in path.name and path.suffix != ".part"
    ]


def prepare_calls(stock: Path) -> None:
    """The model of a fit that is not stopped, and LETOR data."""
    ended = call(*LONG_FIT, "--out", "long", folder=stock)
    assert ended.code == 0, ended.err
    lines = [f"{(q + d) % 5} qid:{q} 1:{d / 7} 2:{q / 3}\n" for q in range(60) for d in range(6)]
    (stock / "in" / "letor.txt").write_text("".join(lines))
    shutil.rmtree(stock / "out", ignore_errors=True)
