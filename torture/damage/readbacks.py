"""Whole commands that read back a file that epiclick wrote, one byte of which is another."""

import json
import shutil
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from random import Random

from torture.campaign import Result
from torture.damage import written
from torture.inputs import mutations
from torture.program import Ended, call

UNDAMAGED = 0.25
"""Share of the calls whose file is left as it is: these must succeed."""

EXPECTED = "expected.json"
FEATURES = "--features world/features.parquet"


@dataclass(frozen=True)
class Readback:
    """A command and the file it reads back.

    Attributes:
        command: the call; what it prints and writes does not depend on the clock.
        damaged: file or folder in the stock whose bytes are changed.
        needs: what else it reads.
        out: a file that it writes, if any.
    """

    command: str
    damaged: str
    needs: tuple[str, ...] = ()
    out: str = ""

    def copy(self, stock: Path, folder: Path) -> None:
        """Copy what it reads."""
        for place in (self.damaged, *self.needs):
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (stock / place).is_dir() else shutil.copy2
            copy(stock / place, folder / place)

    def answer(self, ended: Ended, folder: Path) -> str:
        """What it printed and wrote."""
        content = (folder / self.out).read_bytes() if self.out else b""
        return sha256(ended.out.encode() + content).hexdigest()


READBACKS: tuple[Readback, ...] = (
    Readback("evaluate model counts.parquet --json", "counts.parquet", ("model",)),
    Readback("position-bias model --json", "model"),
    Readback("position-bias buying --json", "buying"),
    Readback("relevance dcm --out out.parquet --json", "dcm", (), "out.parquet"),
    Readback("export sdbn --to qrels --out out.txt --json", "sdbn", (), "out.txt"),
    Readback(
        f"export featured {FEATURES} --to run --out out.txt --json",
        "featured",
        ("world",),
        "out.txt",
    ),
    Readback(
        f"evaluate featured counts.parquet {FEATURES} --truth world --json",
        "world/relevance.parquet",
        ("featured", "counts.parquet", "world/features.parquet", "world/truth.json"),
    ),
    Readback(
        f"compare featured {FEATURES} --ranking new=relevance.parquet:mean"
        " --ranking old=world/features.parquet:f1 --depth 3 --samples 100 --json",
        "relevance.parquet",
        ("featured", "world"),
    ),
    Readback(
        "interleave --clicks seen.csv --pages pages.parquet --json", "pages.parquet", ("seen.csv",)
    ),
)


def prepare(stock: Path) -> None:
    """Make a log of the interleaved pages, and note what the undamaged files give."""
    import pyarrow.parquet as pq

    rng, lines = Random(0), ["page_id,query_id,doc_id,position,click"]
    for row in pq.read_table(stock / "pages.parquet").to_pylist():
        names = ("page_id", "query_id", "doc_id", "position")
        click = int(rng.random() < 0.6 / row["position"])
        lines.append(",".join(str(value) for value in (*(row[name] for name in names), click)))
    (stock / "seen.csv").write_text("\n".join(lines) + "\n")
    answers = []
    for number, readback in enumerate(READBACKS):
        folder = stock / "readbacks" / str(number)
        folder.mkdir(parents=True)
        readback.copy(stock, folder)
        ended = written.succeeded(call(*readback.command.split(), folder=folder), readback.command)
        answers.append(readback.answer(ended, folder))
    shutil.rmtree(stock / "readbacks")
    (stock / EXPECTED).write_text(json.dumps(answers))


def run(rng: Random, stock: Path, folder: Path) -> Result:
    """Call one of the commands."""
    number = rng.randrange(len(READBACKS))
    readback = READBACKS[number]
    verb, name = readback.command.split()[0], ""
    readback.copy(stock, folder)
    if rng.random() >= UNDAMAGED:
        name = _damage(rng, folder, readback.damaged)
    what = f"{readback.command}: {name or 'as it is'}"
    ended = call(*readback.command.split(), folder=folder)
    if ended.fault:
        return Result(verb, what, "failed", ended.fault)
    if ended.code == 2 and name:
        if readback.out and (folder / readback.out).exists():
            return Result(verb, what, "failed", "refused, but a file was written")
        return Result(verb, what, "refused")
    if ended.code:
        return Result(verb, what, "failed", f"exit code {ended.code}: {ended.err[-300:]}")
    if readback.answer(ended, folder) != json.loads((stock / EXPECTED).read_text())[number]:
        return Result(verb, what, "failed", "accepted, with another answer")
    return Result(verb, what, "accepted")


def _damage(rng: Random, folder: Path, place: str) -> str:
    """Change a file at a random place; what was done."""
    root = folder / place
    files = [root] if root.is_file() else sorted(path for path in root.rglob("*") if path.is_file())
    file, change = rng.choice(files), rng.choice(mutations.PLACES)
    content = file.read_bytes()
    at = rng.randrange(len(content))
    file.write_bytes(change(rng, content, at))
    return f"{change.__name__} {file.relative_to(folder)} {at}"
