"""Commands to be killed: what they read, what they write, and how their files are judged whole."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from torture.damage import written

INPUTS = (
    *written.COMMANDS[:2],
    "count world/clicks.parquet --out counts.parquet",
    "count shop/clicks.parquet --out others.parquet",
    "fit counts.parquet --out model",
    "fit others.parquet --out another",
)
FEATURED = written.FEATURED
RANKERS = f"{written.RANKERS} --depth 3"
REPRODUCE = "--runs 1 --epochs 1 --methods pointwise --jobs 1"
CALIBRATE = "calibrate --worlds 2 --families sparse --jobs 1"
FINISHED = f"{CALIBRATE} --out finished"
"""A run whose worlds are reused: each takes ten seconds."""


@dataclass(frozen=True)
class Recipe:
    """A command and what it writes.

    Attributes:
        name: of the recipe.
        command: the call.
        earlier: a call that writes the same files with other contents; None where the command
            continues what it finds.
        outputs: files and folders that it writes.
        needs: of the inputs.
        overwrites: whether it needs --overwrite to replace an output.
        resumes: whether it continues with --resume if there is a checkpoint.
        begins: of the inputs, the state of the output before the first call; none if empty.
        volatile: endings of names whose contents are different in every run, such as times.
        most: kills at full size; the others are cut out evenly.
        timed: kills at random times.
    """

    name: str
    command: str
    earlier: str | None
    outputs: tuple[str, ...]
    needs: tuple[str, ...]
    overwrites: bool = False
    resumes: bool = False
    begins: str = ""
    volatile: tuple[str, ...] = ()
    most: int = 60
    timed: int = 0

    @property
    def is_one(self) -> bool:
        """Whether all files that it writes are replaced at once."""
        return self.verb in ("count", "fit", "simulate")

    @property
    def verb(self) -> str:
        """The verb."""
        return self.command.split()[0]

    def words(self, *, overwrite: bool = False, resume: bool = False) -> list[str]:
        """The arguments of the call."""
        more = ["--overwrite"] * (overwrite and self.overwrites) + ["--resume"] * resume
        return [*self.command.split(), *more, "--quiet"]

    def written(self, folder: Path) -> dict[str, str]:
        """Digest of each output file, by name; without temporary and volatile ones."""
        return {name: _digest(path) for name, path in self.files(folder)}

    def files(self, folder: Path, *, volatile: bool = False) -> list[tuple[str, Path]]:
        """Output files by name, with their paths; those that are volatile or those that are not."""
        found = []
        for output in self.outputs:
            root = folder / output
            for path in [root] if root.is_file() else sorted(root.rglob("*")):
                name = str(path.relative_to(folder))
                hidden = any(part.startswith(".") for part in Path(name).parts)
                if path.is_file() and not hidden and name.endswith(self.volatile) == volatile:
                    found.append((name, path))
        return found if self.volatile or not volatile else []


MEASURED = ("seconds", "digest")
"""Keys of JSON files that depend on the clock."""


def _digest(path: Path) -> str:
    """Digest of a file, of JSON without what was measured."""
    content = path.read_bytes()
    if path.suffix == ".json":
        with suppress(ValueError):  # a damaged one differs from all others as it is
            content = json.dumps(_unmeasured(json.loads(content))).encode()
    return sha256(content).hexdigest()


def _unmeasured(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unmeasured(each) for key, each in value.items() if key not in MEASURED}
    return [_unmeasured(each) for each in value] if isinstance(value, list) else value


def is_whole(path: Path) -> bool:
    """Whether a file whose content cannot be predicted ends as one of its kind."""
    content = path.read_bytes()
    if path.suffix == ".json":
        try:
            json.loads(content)
        except ValueError:
            return False
        return content.endswith(b"\n")
    if path.suffix == ".npz":
        try:
            with ZipFile(path) as archive:
                return archive.testzip() is None
        except BadZipFile:
            return False
    return content.rstrip().endswith(ENDS[path.suffix])


ENDS: Mapping[str, bytes] = {
    ".html": b"</html>",
    ".md": b"",
    ".png": b"IEND\xaeB\x60\x82",
    ".pdf": b"%%EOF",
}

RECIPES: tuple[Recipe, ...] = (
    Recipe(
        "count",
        "count world/clicks.parquet --out out.parquet",
        "count shop/clicks.parquet --out out.parquet",
        ("out.parquet",),
        ("world", "shop"),
        timed=90,
    ),
    Recipe(
        "fit",
        "fit counts.parquet --out out",
        "fit others.parquet --out out",
        ("out",),
        ("counts.parquet", "others.parquet"),
        overwrites=True,
        most=90,
        timed=90,
    ),
    Recipe(
        "fit with features",
        f"fit counts.parquet --out out {FEATURED}",
        f"fit counts.parquet --out out {FEATURED} --seed 7",
        ("out",),
        ("counts.parquet", "world"),
        overwrites=True,
        resumes=True,
        most=120,
        timed=120,
    ),
    Recipe(
        "fit of conversions",
        "fit shop/clicks.parquet --out out --conversion purchase --value revenue",
        "fit counts.parquet --out out",
        ("out",),
        ("counts.parquet", "shop"),
        overwrites=True,
        most=60,
    ),
    Recipe(
        "simulate",
        f"simulate --out out {written.WORLD}",
        f"simulate --out out {written.WORLD} --seed 7",
        ("out",),
        (),
        most=90,
        timed=90,
    ),
    Recipe(
        "select",
        "select world/clicks.parquet --models pbm --out out.json",
        "select shop/clicks.parquet --models pbm --out out.json",
        ("out.json",),
        ("world", "shop"),
    ),
    Recipe(
        "relevance",
        "relevance model --out out.parquet",
        "relevance another --out out.parquet",
        ("out.parquet",),
        ("model", "another"),
    ),
    Recipe(
        "report",
        "report model counts.parquet --out out.html",
        "report another others.parquet --out out.html",
        ("out.html",),
        ("model", "another", "counts.parquet", "others.parquet"),
        volatile=("out.html",),
        timed=90,
    ),
    *(
        Recipe(
            f"export --to {kind}",
            f"export model --to {kind} --out out{suffix}{more}",
            f"export another --to {kind} --out out{suffix}{other}",
            (f"out{suffix}",),
            ("model", "another", "counts.parquet", "others.parquet"),
            most=40,
        )
        for kind, suffix, more, other in (
            ("qrels", ".txt", "", ""),
            ("run", ".txt", "", ""),
            ("quepid", ".csv", "", ""),
        )
    ),
    Recipe(
        "interleave",
        f"interleave {RANKERS} --out out.parquet",
        f"interleave {RANKERS} --out out.parquet --seed 7",
        ("out.parquet",),
        ("world",),
    ),
    Recipe(
        "plan",
        f"plan model {RANKERS} --clicks counts.parquet --samples 200 --out out.json"
        " --pages-out pages.parquet",
        f"plan another {RANKERS} --clicks others.parquet --samples 200 --out out.json"
        " --pages-out pages.parquet",
        ("out.json", "pages.parquet"),
        ("model", "another", "world", "counts.parquet", "others.parquet"),
    ),
    Recipe(
        "calibrate",
        f"{CALIBRATE} --out out",
        f"{CALIBRATE} --out out --methods marginal,control",
        ("out",),
        (),
        begins="finished",
        most=40,
        timed=20,
    ),
    Recipe(
        "calibrate a world",
        f"{CALIBRATE} --worlds 3 --out out",
        None,
        ("out",),
        (),
        begins="finished",
        most=10,
        timed=10,
    ),
    Recipe(
        "reproduce",
        f"reproduce --out out {REPRODUCE}",
        None,
        ("out",),
        (),
        volatile=("00.json", ".html", ".pdf", ".png"),
        most=40,
        timed=20,
    ),
    Recipe(
        "benchmark",
        "benchmark --out out --data pages --worlds none --models pbm",
        None,
        ("out",),
        ("pages",),
        volatile=(".json", ".md", ".npz"),
        most=20,
    ),
    Recipe(
        "demo",
        "demo --out out --queries 50 --pages 300 --epochs 1",
        "demo --out out --queries 50 --pages 300 --epochs 1 --seed 7",
        ("out",),
        (),
        volatile=(".html",),
        most=30,
    ),
)
