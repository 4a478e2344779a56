"""One call of every verb, with tiny inputs that are made once, and what it answers undisturbed."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torture.program import Ended, call

WORLD = ["--queries", 20, "--docs", 5, "--features", 2, "--pages", 200, "--positions", 3]
LOG, FEATURES = "in/world/clicks.parquet", ("--features", "in/world/features.parquet")
RANKINGS = ("--ranking", "new=in/new.csv", "--ranking", "live=in/live.csv")
FIT = ("--epochs", "3", "--hidden", "4", "--overwrite")
CALIBRATED = ("--methods", "control", "--families", "three-positions", "--jobs", "1")


@dataclass(frozen=True)
class Verb:
    """A call that works.

    Attributes:
        name: in tables.
        words: the arguments; inputs are in the folder `in`.
        out: what it writes, if it does.
        earlier: arguments that make another output of this kind, which the call replaces; the
            call goes on with its own output if there are none.
        slow: whether each call takes seconds.
        in_parts: whether finished parts of an output are kept if the call is stopped.
    """

    name: str
    words: tuple[str, ...]
    out: str | None = None
    earlier: tuple[str, ...] = ()
    slow: bool = False
    in_parts: bool = False

    @property
    def is_folder(self) -> bool:
        """Whether the output is a folder."""
        return self.out is not None and "." not in self.out

    @property
    def reads(self) -> bool:
        """Whether there are inputs."""
        return any("in/" in word for word in self.words)

    def arguments(self, out: str | None = None, words: Sequence[str] | None = None) -> list[str]:
        """The whole call, which prints JSON."""
        place = self.out if out is None else out
        target = [] if place is None else [f"--out={place}"]
        return [*(self.words if words is None else words), *target, "--json"]


def _export(to: str, out: str, *own: str) -> Verb:
    words = ("export", "in/net", "--to", to, *FEATURES)
    return Verb(f"export {to}", (*words, *own), out, ("export", "in/old", "--to", to, *FEATURES))


VERBS = (
    Verb("inspect", ("inspect", LOG)),
    Verb("count", ("count", LOG), "out.parquet", ("count", LOG, "--where", "position < 3")),
    Verb("count csv", ("count", "in/log.csv"), "out.parquet", ("count", LOG)),
    Verb(
        "simulate",
        ("simulate", *map(str, WORLD), "--seed", "5"),
        "out",
        ("simulate", *map(str, WORLD), "--seed", "6"),
    ),
    Verb("fit", ("fit", LOG, *FEATURES, *FIT), "out", ("fit", LOG, *FIT)),
    Verb("fit items", ("fit", LOG, *FIT), "out", ("fit", LOG, *FEATURES, *FIT)),
    Verb(
        "select",
        ("select", LOG, "--models", "pbm"),
        "out.json",
        ("select", LOG, "--models", "pbm", "--seed", "1"),
    ),
    Verb("position-bias", ("position-bias", "in/net")),
    Verb("drift", ("drift", "in/items", "in/old-items"), "out.parquet"),
    Verb(
        "relevance",
        ("relevance", "in/net", *FEATURES),
        "out.parquet",
        ("relevance", "in/old", *FEATURES),
    ),
    Verb("evaluate", ("evaluate", "in/net", LOG, *FEATURES)),
    Verb("compare", ("compare", "in/net", *RANKINGS, *FEATURES)),
    Verb(
        "plan",
        ("plan", "in/net", *RANKINGS, *FEATURES, "--samples", "200"),
        "out.json",
        ("plan", "in/old", *RANKINGS, *FEATURES, "--samples", "200"),
    ),
    Verb(
        "interleave",
        ("interleave", *RANKINGS),
        "out.parquet",
        ("interleave", *RANKINGS, "--seed", "4"),
    ),
    _export("lightgbm", "out.parquet"),
    _export("qrels", "out.txt"),
    _export("srw", "out.json"),
    Verb(
        "report",
        ("report", "in/net", LOG, *FEATURES),
        "out.html",
        ("report", "in/old", LOG, *FEATURES),
    ),
    Verb(
        "calibrate",
        ("calibrate", "--worlds", "1", *CALIBRATED),
        "out",
        slow=True,
        in_parts=True,
    ),
    Verb(
        "benchmark",
        ("benchmark", "--quick", "--worlds", "pbm", "--models", "pbm"),
        "out",
        slow=True,
        in_parts=True,
    ),
    Verb(
        "reproduce",
        ("reproduce", "--preset", "tiny", "--methods", "pointwise", "--jobs", "1"),
        "out",
        slow=True,
        in_parts=True,
    ),
    Verb(
        "demo",
        ("demo", "--queries", "50", "--pages", "300", "--epochs", "1"),
        "out",
        slow=True,
        in_parts=True,
    ),
)


def tiny_preset() -> None:
    """Add a reproduction that takes a second, in the process of a call."""
    from epiclick.paper import settings

    settings.PRESETS["tiny"] = settings.Settings(
        preset="tiny",
        queries=40,
        docs=6,
        features=5,
        pages=400,
        theta=(1.0, 0.5, 0.3),
        runs=2,
        epochs=3,
        samples=4,
        batch_size=60,
        pointwise_batch_size=120,
        every=2,
        ranker_samples=100,
        hidden=(8, 4),
        rates=dict.fromkeys(settings.RATES, 1e-3),
    )


def make_inputs(place: Path) -> None:
    """Make the inputs of all verbs, by the command line itself."""
    inputs = place / "in"
    inputs.mkdir()

    def made(*words: object) -> None:
        ended = call(*words, "--quiet", folder=place)
        assert ended.code == 0, (words, ended.err)

    made("simulate", "--out", "in/world", *WORLD)
    made("fit", LOG, *FEATURES, *FIT, "--out", "in/net")
    made("fit", LOG, *FEATURES, *FIT, "--seed", 1, "--out", "in/old")
    made("fit", LOG, *FIT, "--out", "in/items")
    made("fit", LOG, *FIT, "--where", "page_id < 150", "--out", "in/old-items")
    pairs = [(query, doc) for query in range(20) for doc in range(5)]
    for name, step in (("new", 1), ("live", -1)):
        lines = [f"{q},{d},{(d * step) % 5 + 1}\n" for q, d in pairs if (d * step) % 5 < 3]
        (inputs / f"{name}.csv").write_text("query_id,doc_id,position\n" + "".join(lines))
    import pyarrow.parquet as pq

    with pq.ParquetFile(inputs / "world" / "clicks.parquet", pre_buffer=False) as log:
        rows = log.read(use_threads=False).to_pylist()
    lines = [",".join(map(str, row.values())) for row in rows]
    (inputs / "log.csv").write_text("\n".join([",".join(rows[0]), *lines, ""]))


@dataclass(frozen=True)
class Answer:
    """What a call answers undisturbed.

    Attributes:
        out: the object that it prints.
        files: what it writes, by path in the output, as `contents` has it.
        seconds: how long it takes.
        events: how many things it does that Python's audit reports.
    """

    out: object
    files: dict[str, str]
    seconds: float
    events: int

    @classmethod
    def read(cls, path: Path) -> "Answer":
        """As `write` wrote it."""
        return cls(**json.loads(path.read_text()))

    def write(self, path: Path) -> None:
        """To a file."""
        path.write_text(json.dumps(self.__dict__))


VOLATILE = ("seconds", "created", "created_at", "finished", "peak", "digest", "wall", "started")


def scrubbed(value: object) -> object:
    """A JSON value without warnings, and what depends on the hour and the machine's speed."""
    if isinstance(value, dict):
        return {
            key: scrubbed(each)
            for key, each in value.items()
            if key != "warnings" and not any(word in key for word in VOLATILE)
        }
    return [*map(scrubbed, value)] if isinstance(value, list) else value


def printed_by(ended: Ended) -> object:
    """The object that a call printed."""
    return scrubbed(json.loads(ended.out))


def contents(path: Path) -> dict[str, str]:
    """What does not vary in an output: files by path in it; none if it is not there."""
    if path.is_dir():
        inside = sorted(each for each in path.rglob("*") if not each.is_dir())
        return {str(each.relative_to(path)): _content(each) for each in inside}
    return {"": _content(path)} if path.exists() or path.is_symlink() else {}


def _content(path: Path) -> str:
    import hashlib
    import re

    import pyarrow.parquet as pq

    if not path.is_file():
        return "no file"
    try:
        if path.suffix == ".parquet":
            with pq.ParquetFile(path, pre_buffer=False) as opened:
                data = repr(opened.read(use_threads=False).to_pydict()).encode()
        elif path.suffix == ".json":
            data = json.dumps(scrubbed(json.loads(path.read_bytes()))).encode()
        elif path.suffix in (".html", ".md"):
            text = path.read_text()
            if path.suffix == ".html" and not text.rstrip().endswith("</html>"):
                return "damaged: the page is cut off"
            data = re.sub(
                r"\d{4}-\d\d-\d\d[T ]?[\d:.+]*Z?|[\d.,]+ (s|seconds|MB)\b", "", text
            ).encode()
        else:
            data = path.read_bytes()
    except (ValueError, OSError) as error:
        return f"damaged: {error}"
    return hashlib.sha256(data).hexdigest()[:16]


def copied(source: Path, target: Path) -> None:
    """Copy a file or a folder."""
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copyfile(source, target)
