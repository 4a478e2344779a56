"""Learning-to-rank data sets in LETOR text (MSLR-WEB, Istella, Yahoo, ...) as feature tables."""

import gzip
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa

from epiclick.arguments import check_path, require_extra
from epiclick.data.cache import MatrixWriter, stored, write_entry
from epiclick.data.features import FeatureTable, warn_clipped
from epiclick.data.files import did_you_mean_path
from epiclick.data.letor_block import BAD_LINES, Block, Flaw, Piece, parse_block
from epiclick.errors import InputError, Problem

BLOCK = 1 << 19  # bytes of text parsed at once; the parser slows with the square of the rows
MAX_LINE = 16 << 20
PARALLEL = 48 << 20  # bytes of text from which starting worker processes pays
GZ_RATIO = 5  # how much smaller LETOR text is when compressed, roughly
SHOWN = 5


@dataclass(frozen=True, eq=False)
class ParsedFile:
    """The blocks of a file, in order, and the problems that stopped reading it."""

    path: Path
    blocks: Sequence[Block]
    stopped: Sequence[Problem]

    @cached_property
    def queries(self) -> np.ndarray:
        """(rows,) query of each row."""
        return np.concatenate([np.empty(0, np.int64), *(b.queries for b in self.blocks)])

    @cached_property
    def labels(self) -> np.ndarray:
        """(rows,) label of each row."""
        return np.concatenate([np.empty(0), *(b.labels for b in self.blocks)])

    @cached_property
    def reach(self) -> np.ndarray:
        """(rows,) largest feature index of each row, -1 for none."""
        return np.concatenate([np.empty(0, np.int64), *(b.reach for b in self.blocks)])

    def problems(self) -> list[Problem]:
        """All problems of the file."""
        found = [*self.stopped, *self._malformed(), *self._not_finite()]
        if not found and not len(self.labels):
            found.append(
                Problem(f"{self.path.name} has no rows", remedy="Leave it out.", code="no-rows")
            )
        if not found and self._is_cut():
            found.append(
                Problem(
                    f"{self.path.name} is truncated: its last line ends without a newline, at "
                    f"feature {self.reach[-1]}, where all others go to {self.reach[0]}",
                    1,
                    "line",
                    remedy="Copy the file again, or remove the line.",
                    code="truncated-file",
                )
            )
        return found

    def _malformed(self) -> Iterator[Problem]:
        """Lines that are not LETOR text."""
        flaws = [(self._place(i, f), f) for i, b in enumerate(self.blocks) for f in b.malformed]
        if flaws:
            capped = any(len(block.malformed) == BAD_LINES for block in self.blocks)
            yield Problem(
                "lines must read LABEL qid:NUMBER INDEX:VALUE ..., with ascending indices"
                + (" (counting stopped early)" if capped else ""),
                len(flaws),
                "line",
                [f"{place}: {flaw.what}" for place, flaw in flaws[:SHOWN]],
                "Correct or remove them.",
                code="malformed-line",
            )

    def _not_finite(self) -> Iterator[Problem]:
        """Features with NaN or infinite values."""
        first: dict[int, str] = {}
        count: dict[int, int] = {}
        for i, block in enumerate(self.blocks):
            for flaw in block.not_finite:
                first.setdefault(flaw.index, f"{flaw.what} in {self._place(i, flaw)}")
                count[flaw.index] = count.get(flaw.index, 0) + flaw.count
        if count:
            yield Problem(
                "features must be finite numbers",
                sum(count.values()),
                "value",
                [f"f{index}: {count[index]:,} ({first[index]})" for index in sorted(count)],
                "Replace them, or leave the feature out of the line: it is then 0.",
                code="feature-not-finite",
            )

    def _place(self, block: int, flaw: Flaw) -> str:
        """File and line (from 1) of a flaw."""
        before = sum(b.lines for b in self.blocks[:block])
        return f"{self.path.name} line {before + flaw.line + 1}"

    def _is_cut(self) -> bool:
        """Whether the last line ends early in a file whose other lines all have all features."""
        others, last = self.reach[:-1], self.reach[-1]
        ended = self.blocks[-1].ended
        return not ended and len(others) > 0 and others.min() == others.max() > last


def parse_file(path: Path, folder: Path) -> ParsedFile:
    """Parse a file; the feature values are written to `folder`, one file per block."""
    require_extra("reading LETOR text", ["sklearn"], "letor")
    # slow to import, and not needed when reading from the cache
    from sklearn.utils.parallel import Parallel, delayed

    stopped: list[Problem] = []
    size = path.stat().st_size * (GZ_RATIO if _is_gzip(path) else 1)
    # joblib's workers, unlike those of multiprocessing, do not run the user's script again
    run = Parallel(n_jobs=-1 if size >= PARALLEL else 1, return_as="generator")
    jobs = (
        delayed(parse_block)(piece, folder / f"{path.name}.{number}.npy")
        for number, piece in enumerate(_pieces(path, stopped))
    )
    return ParsedFile(path, list(run(jobs)), stopped)


def _pieces(path: Path, stopped: list[Problem]) -> Iterator[Piece]:
    """A file in pieces of whole lines; problems that stop reading go to `stopped`, not raised.

    A thread of the process pool iterates over the pieces, where an error would be lost.
    """
    try:
        yield from _texts(path) if _is_gzip(path) else _ranges(path)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        what = f"{path.name} is truncated or damaged ({error})"
        remedy = "Download or compress it again."
        stopped.append(Problem(what, remedy=remedy, code="damaged-file"))
    except _LineTooLong:
        what = f"{path.name} has a line of more than {MAX_LINE:,} bytes"
        stopped.append(Problem(what, remedy="Is it LETOR text?", code="line-too-long"))


class _LineTooLong(Exception):
    """No line end within `MAX_LINE` bytes."""


def _ranges(path: Path) -> Iterator[Piece]:
    """Ranges of bytes that end at line ends; the workers read them."""
    size, start = path.stat().st_size, 0
    with path.open("rb") as file:
        while start < size:
            file.seek(min(start + BLOCK, size))
            if len(file.readline(MAX_LINE)) == MAX_LINE:
                raise _LineTooLong
            yield Piece(path, start, file.tell())
            start = file.tell()


def _texts(path: Path) -> Iterator[Piece]:
    """The decompressed text in whole lines."""
    with gzip.open(path) as file:
        while text := file.read(BLOCK):
            rest = file.readline(MAX_LINE)
            if len(rest) == MAX_LINE:
                raise _LineTooLong
            yield Piece(path, text=text + rest)


def _is_gzip(path: Path) -> bool:
    """Whether a file is compressed, by its first bytes rather than its name."""
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


SPLITS = {
    "train": r"train(ing)?(set)?",
    "vali": r"vali(d(ation)?)?(set)?|dev",
    "test": r"test(set)?",
}
SUFFIX = r"\.(txt|tsv|svm|svmlight|libsvm|letor|dat)(\.gz)?"
SUBFOLDERS = ("Fold1", "sample", "full")  # of MSLR-WEB and LETOR, Istella-S, Istella
COPY_BYTES = 32 << 20


def read_letor(path: str | os.PathLike[str], *, cache: bool = True) -> FeatureTable:
    """Read LETOR text: lines of `label qid:7 1:0.5 2:3 ... # comment`, compressed with gzip or not.

    `path` is a file, or a folder with one file per split (`train.txt`, `vali.txt`, `test.txt` or
    similar, or Yahoo's `set1.train.txt`), or a folder that contains `Fold1`. The keys are
    `query_id` (the qid), `doc_id` (0, 1, ... within the query, in file order), `split` (train,
    vali, test) and `label`; features are named by their index in the file, f1, f2, ..., and are 0
    where a line does not list them. The parsed values are cached on disk unless `cache` is false.
    """
    source = check_path("the LETOR data", path)
    files = find_splits(source)
    try:
        entry = stored(
            str(source.absolute()),
            list(files.values()),
            {"reader": "letor", "splits": list(files)},
            partial(_build, str(source), files),
            cache=cache,
        )
    except OSError as error:
        raise InputError(
            f"{error.filename or source} cannot be read ({error.strerror}). "
            "Check the disk and the permissions.",
            code="cannot-read",
        ) from error
    warn_clipped(str(source), entry.meta["clipped"])
    return FeatureTable(entry.keys, tuple(entry.meta["names"]), entry.matrix)


def find_splits(source: Path) -> dict[str, Path]:
    """The file of each split, in the order train, vali, test.

    >>> find_splits(Path("MSLR-WEB10K"))  # doctest: +SKIP
    {'train': PosixPath('MSLR-WEB10K/Fold1/train.txt'), 'vali': ..., 'test': ...}
    """
    if source.is_file():
        word = r"(?<![a-z0-9])({})(?![a-z0-9])"
        named = [s for s, name in SPLITS.items() if re.search(word.format(name), source.name, re.I)]
        return {named[0] if named else "train": source}
    if not source.is_dir():
        near = did_you_mean_path(Path(source))
        raise InputError(
            f"no file or folder at {source}{near}. Give a LETOR file or a folder with its splits.",
            code="file-missing",
        )
    for folder in (source, *(source / name for name in SUBFOLDERS)):
        if found := _splits_in(folder):
            return found
    raise InputError(
        f"{source} contains no LETOR files. Expected train.txt, vali.txt and test.txt (also .tsv, "
        ".svm, .letor, .gz), in the folder or in its Fold1; or give the path of a file.",
        code="no-letor-files",
    )


def _splits_in(folder: Path) -> dict[str, Path]:
    """The file of each split directly in a folder."""
    files = sorted(file for file in folder.glob("*") if file.is_file())
    found = {}
    for split, name in SPLITS.items():
        pattern = re.compile(f"(set1[._-])?({name}){SUFFIX}", re.I)
        matches = [file for file in files if pattern.fullmatch(file.name)]
        if len(matches) > 1:
            names = " and ".join(file.name for file in matches)
            raise InputError(
                f"{folder}: {names} could each be the {split} split. Keep one of them there, or "
                "give the path of a file.",
                code="ambiguous-split",
            )
        if matches:
            found[split] = matches[0]
    return found


def _build(source: str, files: Mapping[str, Path], folder: Path) -> None:
    """Parse the files into a cache entry; problems of all files are reported together."""
    parsed = {split: parse_file(file, folder) for split, file in files.items()}
    problems = [problem for file in parsed.values() for problem in file.problems()]
    problems += _overlaps(parsed)
    width = max(int(file.reach.max(initial=-1)) for file in parsed.values()) + 1
    if not problems and width == 0:
        problems.append(Problem("no line has a feature", len(files), "file", code="no-features"))
    if problems:
        raise InputError.of(source, problems)

    blocks = [block for file in parsed.values() for block in file.blocks]
    # indices count from 0 if any block has index 0; a single block or file may not
    first = 0 if any(block.lowest == 0 for block in blocks) else 1
    clipped: Counter[int] = Counter()
    with MatrixWriter(folder / "matrix.npy", width - first) as writer:
        for block in blocks:
            _append(writer, block.part, first, width)
            block.part.unlink()
            clipped.update(block.clipped)
    meta = {
        "names": [f"f{index}" for index in range(first, width)],
        "clipped": {f"f{index}": count for index, count in sorted(clipped.items())},
    }
    write_entry(folder, _keys(parsed), meta)


def _overlaps(parsed: Mapping[str, ParsedFile]) -> Iterator[Problem]:
    """Queries in two splits, whose documents would be merged into one query."""
    for one, other in combinations(parsed, 2):
        both = np.intersect1d(parsed[one].queries, parsed[other].queries)
        if len(both):
            yield Problem(
                f"a query must be in one split, but is in {one} and {other}",
                len(both),
                "query id",
                [f"qid:{query}" for query in both[:5]],
                "Give each split its own query ids, or read one file alone.",
                code="query-in-two-splits",
            )


def _append(writer: MatrixWriter, part: Path, first: int, width: int) -> None:
    """Add a block's rows, padded with zeros to the features of the whole data set."""
    values = np.load(part)
    step = max(1, COPY_BYTES // (4 * width))
    for start in range(0, len(values), step):
        rows = values[start : start + step, first:]
        filled = np.zeros((len(rows), width - first), np.float32)
        filled[:, : rows.shape[1]] = rows
        writer.append(filled)


def _keys(parsed: Mapping[str, ParsedFile]) -> pa.Table:
    """query_id, doc_id, split and label of all rows, one split after the other."""
    rows = [len(file.labels) for file in parsed.values()]
    queries = np.concatenate([file.queries for file in parsed.values()])
    labels = np.concatenate([file.labels for file in parsed.values()])
    graded = np.all((labels >= 0) & (labels <= 127) & (labels % 1 == 0))
    split = pa.DictionaryArray.from_arrays(np.repeat(np.arange(len(rows)), rows), list(parsed))
    return pa.table(
        {
            "query_id": queries,
            "doc_id": _running_number(queries),
            "split": split.cast(pa.string()),
            "label": labels.astype(np.int8 if graded else np.float32),
        }
    )


def _running_number(queries: np.ndarray) -> np.ndarray:
    """0, 1, 2, ... within each query, in row order, whether or not its rows are contiguous."""
    order = np.argsort(queries, kind="stable")
    starts = np.flatnonzero(np.diff(queries[order], prepend=queries[order[0]] - 1))
    sizes = np.diff(starts, append=len(queries))
    number = np.empty(len(queries), np.int64)
    number[order] = np.arange(len(queries)) - np.repeat(starts, sizes)
    return number
