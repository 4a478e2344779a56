"""Files: found by path, folder or glob, classified by kind, checked for damage and for changes."""

import codecs
import glob
import gzip
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from glob import has_magic
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from epiclick.arguments import check_path
from epiclick.data.checked_tables import check_tables
from epiclick.data.connections import ConnectedTable
from epiclick.data.two_sources import TwoTables, without_role
from epiclick.errors import InputError, Problem, nearest


def did_you_mean_path(path: Path) -> str:
    """The nearest existing path, in brackets for the end of a message; "" if none is near."""
    near = None if path.exists() or has_magic(str(path)) else _nearest_path(path)
    return f" (did you mean '{near}'?)" if near else ""


def _nearest_path(path: Path) -> Path | None:
    """An existing path, with each missing part replaced by the nearest name."""
    if path.exists() or path == path.parent:
        return path
    folder = _nearest_path(path.parent)
    if folder is None or not folder.is_dir():
        return None
    if (folder / path.name).exists():
        return folder / path.name
    try:
        names = [each.name for each in folder.iterdir() if not each.name.startswith(".")]
    except OSError:  # a folder that must not be listed
        return None
    near = nearest(path.name, names)
    return None if near is None else folder / near


MAX_DEPTH = 1_000
MAX_LINE = 32 << 20  # bytes; DuckDB's limit
TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


class LongLines:
    """Checks lines that are long enough to be nested deeply, while a file is read in blocks.

    Shorter lines are skipped in large steps, at almost no cost.
    """

    def __init__(self) -> None:
        """Before the first block."""
        self._rest = b""

    def check(self, block: bytes) -> tuple[str, str] | None:
        """Code and description of a bad line that ends in the block, or at the file's end (b"")."""
        data = self._rest + (block or b"\n")
        start, near = 0, 2 * MAX_DEPTH
        while len(data) - start > near:
            end = data.rfind(b"\n", start, start + near)
            if end < 0:
                end = data.find(b"\n", start + near)
                if end < 0:
                    break
                if _depth(data[start:end]) > MAX_DEPTH:
                    what = f"a line is nested more than {MAX_DEPTH:,} levels deep"
                    return "nested-too-deeply", what
            start = end + 1
        self._rest = data[start:]
        if len(self._rest) > MAX_LINE:
            return "line-too-long", f"a line is longer than {MAX_LINE >> 20} MB"
        return None


def _depth(line: bytes) -> int:
    """How deeply a line's brackets are nested, not counting those inside strings."""
    letters = np.frombuffer(TEXT.sub(b"", line), np.uint8)
    opened = np.isin(letters, list(b"{[")).astype(np.int64)
    closed = np.isin(letters, list(b"}]")).astype(np.int64)
    return int(np.max(np.cumsum(opened - closed), initial=0))


def paths_in(source: Any) -> list[str | Path]:
    """The paths, globs and folders of a source; none if it is a table."""
    if isinstance(source, TwoTables):
        shown, clicked = paths_in(source.impressions), paths_in(source.clicks)
        return [*shown, *clicked] if shown and clicked else []
    several = source if isinstance(source, list | tuple) else [source]
    several = [each for each in several if not isinstance(each, ConnectedTable)]
    named = all(isinstance(path, str | Path) for path in several)
    return [check_path("the source", path) for path in several] if named else []


def find_files(sources: Sequence[str | Path]) -> list[Path]:
    """The files of paths, globs and folders (searched to any depth), each sorted by name."""
    files: list[Path] = []
    lost: list[Problem] = []
    for source in (split_table(without_role(each)[1])[0] for each in sources):
        try:
            found = _files_at(source)
        except OSError as error:
            at = error.filename or source
            why = f"{at} cannot be accessed ({error.strerror or error})"
            remedy = "Check its name and permissions."
            lost.append(Problem(why, remedy=remedy, code="cannot-read"))
            continue
        if not found:
            why = f"no file at {source}{did_you_mean_path(Path(source))}"
            lost.append(Problem(why, remedy=f"Known kinds: {KNOWN}.", code="file-missing"))
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
        # Spark writes a log as a folder that is named like a file; skip other folders
        if match.is_dir():
            found += _files_below(match) if kind_of(match) else []
        else:
            found.append(match)
    return list(dict.fromkeys(found))  # `**` matches a folder and the files in it


def _files_below(folder: Path) -> list[Path]:
    """The files of known kinds in a folder, at any depth; an unreadable subfolder raises."""

    def fail(error: OSError) -> None:
        raise error

    return sorted(
        Path(where, name)
        for where, _, names in os.walk(folder, onerror=fail)
        for name in names
        if kind_of(Path(name))
        and not name.startswith((".", "_"))
        and kind_of(Path(name)) not in DATABASES  # which need the name of a table
    )


def _unusable(files: Sequence[Path]) -> Iterator[Problem]:
    """Paths that exist but cannot be read as a log, because of their name or type."""
    regular: list[Path] = []
    irregular: list[Path] = []
    for file in files:
        (regular if file.is_file() else irregular).append(file)
    if odd := [str(file) for file in irregular]:
        what = "pipes, devices or broken links, but a log is read more than once"
        remedy = "Write it to a file first."
        yield Problem(what, len(odd), "path", odd[:3], remedy, code="not-a-regular-file")
    if odd := [str(file) for file in regular if not kind_of(file)]:
        what, remedy = "files of no known kind", f"Known kinds: {KNOWN}."
        yield Problem(what, len(odd), "file", odd[:3], remedy, code="unknown-file-kind")
    if odd := [ascii(str(file)) for file in regular if not _is_unicode(str(file))]:
        what, remedy = "files whose names are not UTF-8", "Rename them."
        yield Problem(what, len(odd), "file", odd[:3], remedy, code="name-not-utf8")


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def repeated_files(files: Sequence[Path]) -> list[str]:
    """A warning for each file that is given more than once."""
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
    ".duckdb": "DuckDB",
    ".sqlite": "SQLite",
    ".sqlite3": "SQLite",
}
DATABASES: Mapping[str, tuple[int, bytes]] = {"DuckDB": (8, b"DUCK"), "SQLite": (0, b"SQLite form")}
"""Kinds that hold several tables -> what their files have at which byte."""

CHUNK = 1 << 22
KNOWN = (
    ".parquet, .csv, .tsv, .jsonl, .ndjson, .json, the text kinds also as .gz, and tables of "
    "databases, as in shop.duckdb:TABLE or shop.sqlite:TABLE"
)


def kind_of(file: Path) -> str:
    """The kind of a file by its suffix, "" if unknown."""
    stem = file.name.lower()
    plain = stem.removesuffix(".gz")
    by_name = SUFFIXES.get(Path(plain).suffix, "")
    return "" if plain != stem and by_name in ("Parquet", *DATABASES) else by_name


TABLE = re.compile(r"(.+?\.(?:duckdb|sqlite3?)):(.*)", re.DOTALL | re.IGNORECASE)


def split_table(source: str | Path) -> tuple[str | Path, str]:
    """The file of FILE:TABLE and the table; "" where no table of a database is named.

    >>> split_table("day=1/shop.duckdb:web.searches")
    ('day=1/shop.duckdb', 'web.searches')
    >>> split_table("shop.duckdb")
    ('shop.duckdb', '')
    """
    found = TABLE.fullmatch(str(source))
    if found is None or Path(source).exists():
        return source, ""
    return found[1], found[2]


def is_zipped(file: Path) -> bool:
    """Whether a file is compressed, by its name."""
    return file.name.lower().endswith(".gz")


def damage(file: Path, written_as: str) -> Problem | None:
    """Why a file cannot be read at all; None if it can."""
    try:
        if written_as == "Parquet":
            check_tables(file)
        elif written_as in DATABASES and file.stat().st_size:
            return _not_a_database(file, written_as)
        elif file.stat().st_size == 0:
            return Problem(
                f"{file} is empty", remedy="Leave it out or write it again.", code="empty-file"
            )
        else:
            # DuckDB silently reads a truncated archive up to the cut
            opened = gzip.open if is_zipped(file) else open
            with opened(file, "rb") as stream:
                lines = LongLines() if written_as == "JSON lines" else None
                return _text_problem(file, stream, lines)
    except PermissionError:
        return Problem(
            f"{file} cannot be read (permission denied)",
            remedy="Ask for permission, or copy it.",
            code="cannot-read",
        )
    except (pa.ArrowException, EOFError, zlib.error, OSError, ValueError) as error:
        reason = str(error).split("\n")[0].rstrip(".")
        return Problem(
            f"{file} is damaged or truncated ({reason})",
            remedy="Copy or write it again, complete.",
            code="damaged-file",
        )
    return None


def _not_a_database(file: Path, written_as: str) -> Problem | None:
    """The problem that a file does not begin like a database of its kind."""
    at, expected = DATABASES[written_as]
    with file.open("rb") as stream:
        start = stream.read(at + len(expected))
    if start[at:] == expected:
        return None
    return Problem(
        f"{file} is no {written_as} database, or is damaged",
        remedy="Copy or write it again, complete, and name it by its kind.",
        code="damaged-file",
    )


def _text_problem(
    file: Path, stream: BufferedIOBase, long_lines: LongLines | None
) -> Problem | None:
    """Read a text file to its end; the problem with its first bad line, if there is one."""
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
                f"{file} is not encoded in UTF-8 (line {line})",
                remedy="Convert it, such as with iconv -t utf-8.",
                code="not-utf8",
            )
        if long_lines is not None and (found := long_lines.check(block)):
            code, what = found
            remedy = "Write one object per line, with only the columns that a log needs."
            return Problem(f"{file}: {what}", remedy=remedy, code=code)
        line += block.count(b"\n")
    return None


State = list[list[Any]]
"""Per file: path, size, times of modification and of status change, inode."""


@contextmanager
def unchanged(source: Any) -> Iterator[None]:
    """Refuse what was read in the block if a file of the source changed, appeared or disappeared.

    A log is read in several passes, and numbers from two versions of it contradict each other. To
    be entered before any file is read. Tables are not checked.
    """
    paths = paths_in(source)
    if not paths:
        yield
        return
    before = state_of(find_files(paths))
    try:
        yield
    except Exception as error:
        # whatever the error, report a file that changed as its cause
        if change := _change(_present(paths), before):
            raise _changed_error(change) from error
        raise
    refuse_changed(_present(paths), before)


def refuse_changed(files: Sequence[Path], before: State) -> None:
    """Raise if the files differ from an earlier state."""
    if change := _change(files, before):
        raise _changed_error(change)


def state_of(files: Sequence[Path]) -> State:
    """The state of the files, which distinguishes one version from another."""
    state = []
    for file in files:
        try:
            stat = file.stat()
        except FileNotFoundError as error:
            raise _changed_error(f"{file} (it is gone)") from error
        times = [stat.st_mtime_ns, stat.st_ctime_ns]
        state.append([str(file.absolute()), stat.st_size, *times, stat.st_ino])
    return state


def _present(paths: Sequence[str | Path]) -> list[Path]:
    """The files that some paths have now, skipping paths that no longer have any."""
    files: list[Path] = []
    for path in paths:
        try:
            files += find_files([path])
        except InputError:
            continue
    return files


def _change(files: Sequence[Path], before: State) -> str:
    """The first file that changed, and how; "" if none did."""
    earlier = {name: rest for name, *rest in before}
    now = {}
    for file in files:
        name = str(file.absolute())
        if name not in earlier:
            return f"{file} (it is new)"
        try:
            now[name] = state_of([file])[0][1:]
        except InputError:
            return f"{file} (it is gone)"
        if now[name] != earlier[name]:
            size, old = now[name][0], earlier[name][0]
            how = f"{old:,} bytes, then {size:,}" if size != old else "it was written again"
            return f"{file} ({how})"
    gone = [name for name in earlier if name not in now]
    return f"{gone[0]} (it is gone)" if gone else ""


def _changed_error(change: str) -> InputError:
    return InputError(
        f"{change} changed while being read. Copy it, or read it again once it is complete.",
        code="changed-while-reading",
    )
