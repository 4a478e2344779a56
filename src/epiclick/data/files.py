"""Files: found by path, folder or glob, told apart by kind, checked for damage."""

import codecs
import glob
import gzip
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from io import BufferedIOBase
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from epiclick.data.nearest_path import did_you_mean_path
from epiclick.errors import InputError, Problem


def find_files(sources: Sequence[str | Path]) -> list[Path]:
    """The files behind paths, globs and folders (searched to any depth), each name in order."""
    files: list[Path] = []
    lost: list[Problem] = []
    for source in sources:
        path = Path(source)
        if path.is_dir():
            below = sorted(p for p in path.rglob("*") if p.is_file())
            found = [p for p in below if kind_of(p) and not p.name.startswith((".", "_"))]
        elif path.is_file():
            found = [path]
        else:
            matches = sorted(glob.glob(str(source), recursive=True))
            found = [Path(match) for match in matches if Path(match).is_file()]
        if not found:
            near = did_you_mean_path(path)
            lost.append(Problem(f"no file at {source}{near}", remedy=f"Known kinds: {KNOWN}."))
        files += found
    if unknown := [file for file in files if not kind_of(file)]:
        examples = [str(file) for file in unknown[:3]]
        remedy = f"Known kinds: {KNOWN}."
        lost.append(Problem("files of no known kind", len(unknown), "file", examples, remedy))
    if lost:
        raise InputError.of("the input", lost)
    return files


def repeated_files(files: Sequence[Path]) -> list[str]:
    """A word on each file that is named more than once."""
    times = Counter(file.resolve() for file in files)
    return [
        f"{file} was given {n} times and counts {n} times" for file, n in times.items() if n > 1
    ]


SUFFIXES: Mapping[str, str] = {
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".csv": "CSV",
    ".tsv": "CSV",
    ".jsonl": "JSON lines",
    ".ndjson": "JSON lines",
    ".json": "JSON lines",
}
CHUNK = 1 << 22
KNOWN = ".parquet, .csv, .tsv, .jsonl, .ndjson, .json, the text kinds also as .gz"


def kind_of(file: Path) -> str:
    """The kind of a file by its name, "" if unknown."""
    stem = file.name.lower()
    plain = stem.removesuffix(".gz")
    kind = SUFFIXES.get(Path(plain).suffix, "")
    return "" if plain != stem and kind == "Parquet" else kind


def is_zipped(file: Path) -> bool:
    """Whether a file is compressed, by its name."""
    return file.name.lower().endswith(".gz")


def damage(file: Path, kind: str) -> Problem | None:
    """What makes a file unreadable as a whole, if anything does."""
    try:
        if kind == "Parquet":
            pq.read_metadata(file)
        elif file.stat().st_size == 0:
            return Problem(f"{file} is empty", remedy="Leave it out or write it again.")
        else:
            # DuckDB reads a cut-off archive up to the cut without a word
            opened = gzip.open if is_zipped(file) else open
            with opened(file, "rb") as stream:
                return _encoding_problem(file, stream)
    except (pa.ArrowException, UnicodeError, EOFError, zlib.error, OSError) as error:
        reason = str(error).split("\n")[0].rstrip(".")
        return Problem(
            f"{file} is damaged or cut off ({reason})", remedy="Copy or write it again, whole."
        )
    return None


def _encoding_problem(file: Path, stream: BufferedIOBase) -> Problem | None:
    """Read a text file to its end; the first line that is not UTF-8, if there is one."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    line, ended = 1, False
    while not ended:
        block = stream.read(CHUNK)
        ended = not block
        try:
            decoder.decode(block, final=ended)
        except UnicodeDecodeError as error:
            line += block.count(b"\n", 0, error.start)
            return Problem(
                f"{file} is not written in UTF-8 (line {line})",
                remedy="Convert it, such as with iconv -t utf-8.",
            )
        line += block.count(b"\n")
    return None
