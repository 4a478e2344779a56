"""Campaign: every byte of small files of each kind that epiclick reads back, changed."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import ClassVar

from torture.campaign import Campaign, Case, Result
from torture.damage import readbacks, stretches, written
from torture.damage.readers import READERS, Reader
from torture.inputs import mutations
from torture.program import call

STRETCH = 250
"""Bytes of a file that one case changes, one at a time."""

LONGEST = 8_192
"""Bytes beyond which a file is not cut at every length."""


@dataclass(frozen=True)
class Attack:
    """A stretch of a file and what is done to each of its bytes.

    Attributes:
        reader: of the file.
        file: its name in the stock.
        change: number of the change in `mutations.PLACES`.
        start: the first byte.
        stop: the byte after the last.
    """

    reader: Reader
    file: str
    change: int
    start: int
    stop: int


FIRST = 5
"""Commands that write the first files: a world, counts, a model."""


class Damage(Campaign):
    """A damaged file is refused, or read as if it were whole."""

    name = "bytes"
    floors: ClassVar = dict.fromkeys(("position-bias", "relevance", "export", "evaluate"), 0.1)

    def __init__(self, calls: int) -> None:
        """Read every byte in a process of the library, and this many by whole commands.

        Without any, only the files that are made first.
        """
        self.calls = calls

    def prepare(self, stock: Path) -> None:
        """Write a file of each kind, and what is read from it."""
        written.make(written.COMMANDS[: None if self.calls else FIRST], stock)
        if not self.calls:
            return
        bias = written.succeeded(call("position-bias", "model", "--json", folder=stock), "bias")
        (stock / "bias.json").write_text(bias.out)
        tiny = ("--runs", 1, "--epochs", 1, "--methods", "pointwise", "--jobs", 1)
        written.succeeded(call("reproduce", "--out", "R", *tiny, folder=stock), "reproduce")
        written.make_page_files(stock / "pages")
        pages = ("--data", "pages", "--worlds", "none", "--models", "pbm")
        written.succeeded(call("benchmark", "--out", "B", *pages, folder=stock), "benchmark")
        shutil.copy(stock / "B/cells/pages/pbm-plain.json", stock / "cell.json")
        written.make_letor(stock / "letor.txt")
        stopped = ("fit", "counts.parquet", *written.FEATURED.split(), "--out", "stopped")
        call(*stopped, folder=stock, before=written.stop_after_first_checkpoint)
        assert (stock / "stopped.checkpoint").is_file()
        readbacks.prepare(stock)
        _write_answers(stock / "answers.npz")
        _write_cache(stock)

    def attacks(self, stock: Path) -> list[Attack]:
        """All stretches of all files."""
        found = []
        for reader in READERS:
            for file in reader.files(stock):
                size = (stock / file).stat().st_size
                for change, what in enumerate(mutations.PLACES):
                    if what is mutations.cut_at and size > LONGEST:
                        continue
                    for start in range(0, size, STRETCH):
                        stop = min(start + STRETCH, size)
                        found.append(Attack(reader, file, change, start, stop))
        return found

    def size(self, stock: Path) -> int:
        """As many as there are stretches, and the calls."""
        return len(self.attacks(stock)) + self.calls

    def run(self, case: Case) -> Result:
        """Read a file with each byte of a stretch changed."""
        attacks = self.attacks(case.stock)
        if case.number >= len(attacks):
            return readbacks.run(case.rng, case.stock, case.folder)
        attack = attacks[case.number]
        reader, change = attack.reader, mutations.PLACES[attack.change]
        reader.copy(case.stock, case.folder)
        file = case.folder / attack.file
        whole = file.read_bytes()
        versions = [("as it is", whole)]
        for at in range(attack.start, attack.stop):
            # a random number per place: a failed one can be repeated alone
            rng = Random(f"{attack.file}/{attack.change}/{at}/{case.rng.random()}")
            versions.append((f"{change.__name__} {at}", change(rng, whole, at)))
        read = stretches.read_each(file, versions, lambda: reader.read(case.folder))
        what = f"{change.__name__}, {attack.file} {attack.start}-{attack.stop}"
        return Result(
            reader.name,
            what,
            "failed" if read.failed else "accepted",
            f"{len(read.failed)} of {len(versions)}, such as {'; '.join(read.failed[:3])}"
            if read.failed
            else "",
            {"accepted": read.same, "refused": read.refused, "failed": len(read.failed)},
        )


def _write_answers(path: Path) -> None:
    """What `epiclick calibrate` keeps of a world, in a small one."""
    from epiclick.calibration.families import Family
    from epiclick.calibration.methods import find_methods
    from epiclick.calibration.runner import WORLDS, Task, run_world

    family = Family("tiny", (1.0, 0.6, 0.4), queries=20, docs=5, features=3, pages=400)
    task = Task(family, find_methods(["marginal"])[0], seed=0, index=0)
    folder = path.parent / "calibration"
    run_world([task], folder)
    task.path(folder / WORLDS).rename(path)


def _write_cache(stock: Path) -> None:
    """A parsed LETOR file."""
    from epiclick.data.letor import read_letor

    os.environ["EPICLICK_CACHE"] = str(stock / "used")
    read_letor(stock / "letor.txt")
    (entry,) = (stock / "used").iterdir()
    entry.rename(stock / "cache")
