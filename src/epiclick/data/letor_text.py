"""One file of LETOR text, parsed in blocks of whole lines, by several processes if it is large."""

import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from epiclick.data.letor_block import BAD_LINES, Block, Flaw, Piece, parse_block
from epiclick.errors import Problem

BLOCK = 1 << 19  # bytes of text parsed at once; the parser slows with the square of the rows
MAX_LINE = 16 << 20
PARALLEL = 48 << 20  # bytes of text from which starting worker processes pays
GZ_RATIO = 5  # how much smaller LETOR text is when compressed, roughly
SHOWN = 5


@dataclass(frozen=True, eq=False)
class ParsedFile:
    """The blocks of a file, in its order, and what stopped the reading, if anything did."""

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
        """All that is wrong with the file."""
        found = [*self.stopped, *self._malformed(), *self._not_finite()]
        if not found and not len(self.labels):
            found.append(Problem(f"{self.path.name} holds no rows", 1, "file"))
        if not found and self._is_cut():
            found.append(
                Problem(
                    f"{self.path.name} is truncated: its last line ends without a newline, at "
                    f"feature {self.reach[-1]}, where all others go to {self.reach[0]}",
                    1,
                    "line",
                    remedy="Copy the file again, or remove the line.",
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
                + (" (not all of many wrong ones were counted)" if capped else ""),
                len(flaws),
                "line",
                [f"{place}: {flaw.what}" for place, flaw in flaws[:SHOWN]],
                "Correct or remove them.",
            )

    def _not_finite(self) -> Iterator[Problem]:
        """Features that hold NaN or infinity."""
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
            )

    def _place(self, block: int, flaw: Flaw) -> str:
        """File and line (from 1) of a flaw."""
        before = sum(b.lines for b in self.blocks[:block])
        return f"{self.path.name} line {before + flaw.line + 1}"

    def _is_cut(self) -> bool:
        """Whether the last line breaks off in a file whose lines all name the last feature."""
        others, last = self.reach[:-1], self.reach[-1]
        ended = self.blocks[-1].ended
        return not ended and len(others) > 0 and others.min() == others.max() > last


def parse_file(path: Path, folder: Path) -> ParsedFile:
    """Parse a file; the feature values go to one file a block in `folder`."""
    # slow to load, and a cached start never needs it
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
    """A file in pieces of whole lines; what stops the reading is noted, not raised.

    The pieces are drawn by a thread of the process pool, where an error would be lost.
    """
    try:
        yield from _texts(path) if _is_gzip(path) else _ranges(path)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        what = f"{path.name} is truncated or damaged ({error})"
        stopped.append(Problem(what, 1, "file", remedy="Download or compress it again."))
    except _LineTooLong:
        what = f"{path.name} has a line of more than {MAX_LINE:,} bytes"
        stopped.append(Problem(what, 1, "file", remedy="Is it LETOR text?"))


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
