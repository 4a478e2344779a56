"""Files: found by path, folder or glob, told apart by kind, checked for damage."""

import codecs
import glob
import gzip
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from glob import has_magic
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from epiclick.arguments import check_path
from epiclick.errors import InputError, Problem, nearest


def did_you_mean_path(path: Path) -> str:
    """The nearest path that is there, in brackets for the end of a message; "" if none is near."""
    near = None if path.exists() or has_magic(str(path)) else _nearest_path(path)
    return f" (did you mean '{near}'?)" if near else ""


def _nearest_path(path: Path) -> Path | None:
    """A path that is there, each missing part of it replaced by the nearest name."""
    if path.exists() or path == path.parent:
        return path
    folder = _nearest_path(path.parent)
    if folder is None or not folder.is_dir():
        return None
    if (folder / path.name).exists():
        return folder / path.name
    try:
        names = [each.name for each in folder.iterdir() if not each.name.startswith(".")]
    except OSError:  # a folder that may not be looked into
        return None
    near = nearest(path.name, names)
    return None if near is None else folder / near


MAX_DEPTH = 1_000
LONGEST = 32 << 20  # bytes; DuckDB takes no longer line
TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


class LongLines:
    """Looks at lines that are long enough to be nested deeply, while a file's blocks pass by.

    All others are passed over by looking for their end from afar, which takes next to no time.
    """

    def __init__(self) -> None:
        """Before the first block."""
        self._rest = b""

    def problem(self, block: bytes) -> str:
        """What is wrong with a line that ends in the block, or at the file's end (b"")."""
        data = self._rest + (block or b"\n")
        start, near = 0, 2 * MAX_DEPTH
        while len(data) - start > near:
            end = data.rfind(b"\n", start, start + near)
            if end < 0:
                end = data.find(b"\n", start + near)
                if end < 0:
                    break
                if _depth(data[start:end]) > MAX_DEPTH:
                    return f"a line is nested more than {MAX_DEPTH:,} levels deep"
            start = end + 1
        self._rest = data[start:]
        if len(self._rest) > LONGEST:
            return f"a line is longer than {LONGEST >> 20} MB"
        return ""


def _depth(line: bytes) -> int:
    """How deeply a line's brackets are nested, those within texts aside."""
    letters = np.frombuffer(TEXT.sub(b"", line), np.uint8)
    opened = np.isin(letters, list(b"{[")).astype(np.int64)
    closed = np.isin(letters, list(b"}]")).astype(np.int64)
    return int(np.max(np.cumsum(opened - closed), initial=0))


def paths_in(source: Any) -> list[str | Path]:
    """The paths, globs and folders that a source names; none if it is a table."""
    several = source if isinstance(source, list | tuple) else [source]
    named = all(isinstance(path, str | Path) for path in several)
    return [check_path("the source", path) for path in several] if named else []


def find_files(sources: Sequence[str | Path]) -> list[Path]:
    """The files behind paths, globs and folders (searched to any depth), each name in order."""
    files: list[Path] = []
    lost: list[Problem] = []
    for source in sources:
        try:
            found = _files_at(source)
        except OSError as error:
            at = error.filename or source
            why = f"{at} cannot be looked up ({error.strerror or error})"
            lost.append(Problem(why, remedy="Check its name and permissions."))
            continue
        if not found:
            near = did_you_mean_path(Path(source))
            lost.append(Problem(f"no file at {source}{near}", remedy=f"Known kinds: {KNOWN}."))
        files += found
    lost += _unusable(files)
    if lost:
        raise InputError.of("the input", lost)
    return files


def _files_at(source: str | Path) -> list[Path]:
    """The files of one path, folder or glob."""
    path = Path(source)
    if path.is_dir():
        return _files_below(path)
    if path.exists():
        return [path]
    found: list[Path] = []
    for match in map(Path, sorted(glob.glob(str(source), recursive=True))):
        # Spark writes a log as a folder that is named like a file; other folders are not meant
        if match.is_dir():
            found += _files_below(match) if kind_of(match) else []
        else:
            found.append(match)
    return list(dict.fromkeys(found))  # `**` matches a folder and the files in it


def _files_below(folder: Path) -> list[Path]:
    """The files of known kinds in a folder, at any depth; a part that is closed to us raises."""

    def closed(error: OSError) -> None:
        raise error

    return sorted(
        Path(where, name)
        for where, _, names in os.walk(folder, onerror=closed)
        for name in names
        if kind_of(Path(name)) and not name.startswith((".", "_"))
    )


def _unusable(files: Sequence[Path]) -> Iterator[Problem]:
    """What was found but cannot be read as a log, by its name or nature."""
    regular: list[Path] = []
    irregular: list[Path] = []
    for file in files:
        (regular if file.is_file() else irregular).append(file)
    if odd := [str(file) for file in irregular]:
        what = "pipes, devices or links that lead nowhere, but a log is read more than once"
        yield Problem(what, len(odd), "path", odd[:3], "Write it to a file first.")
    if odd := [str(file) for file in regular if not kind_of(file)]:
        remedy = f"Known kinds: {KNOWN}."
        yield Problem("files of no known kind", len(odd), "file", odd[:3], remedy)
    if odd := [ascii(str(file)) for file in regular if not _is_unicode(str(file))]:
        yield Problem("files whose names are not UTF-8", len(odd), "file", odd[:3], "Rename them.")


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


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
    by_name = SUFFIXES.get(Path(plain).suffix, "")
    return "" if plain != stem and by_name == "Parquet" else by_name


def is_zipped(file: Path) -> bool:
    """Whether a file is compressed, by its name."""
    return file.name.lower().endswith(".gz")


def damage(file: Path, written_as: str) -> Problem | None:
    """What makes a file unreadable as a whole, if anything does."""
    try:
        if written_as == "Parquet":
            pq.read_metadata(file)
        elif file.stat().st_size == 0:
            return Problem(f"{file} is empty", remedy="Leave it out or write it again.")
        else:
            # DuckDB reads a cut-off archive up to the cut without a word
            opened = gzip.open if is_zipped(file) else open
            with opened(file, "rb") as stream:
                lines = LongLines() if written_as == "JSON lines" else None
                return _text_problem(file, stream, lines)
    except PermissionError:
        return Problem(f"{file} may not be read", remedy="Ask for permission, or copy it.")
    except (pa.ArrowException, EOFError, zlib.error, OSError, UnicodeError) as error:
        reason = str(error).split("\n")[0].rstrip(".")
        return Problem(
            f"{file} is damaged or cut off ({reason})", remedy="Copy or write it again, whole."
        )
    return None


def _text_problem(
    file: Path, stream: BufferedIOBase, long_lines: LongLines | None
) -> Problem | None:
    """Read a text file to its end; what is wrong with its first bad line, if there is one."""
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
        if long_lines is not None and (wrong := long_lines.problem(block)):
            return Problem(f"{file}: {wrong}", remedy="Keep what a log needs, one object per line.")
        line += block.count(b"\n")
    return None
