"""Parse one block of LETOR text to dense float32 rows; in a worker process for large files."""

import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix

from epiclick.data.cache import MatrixWriter

MAX_INDEX = 65_535  # features are stored dense: a larger index is a mistake or other data
MAX_FLOAT = float(np.finfo(np.float32).max)
SLICE_BYTES = 32 << 20  # dense rows in memory at once
BAD_LINES = 200  # malformed lines reported per block


@dataclass(frozen=True)
class Piece:
    """Whole lines of a file: a range of bytes to read, or the text itself (of a gz file)."""

    path: Path
    start: int = 0
    stop: int = 0
    text: bytes | None = None

    def read(self) -> bytes:
        """The lines."""
        if self.text is not None:
            return self.text
        with self.path.open("rb") as file:
            file.seek(self.start)
            return file.read(self.stop - self.start)


@dataclass(frozen=True)
class Flaw:
    """A mistake in a line (from 0 in its block), in the feature `index` (-1 for none)."""

    line: int
    what: str
    index: int = -1
    count: int = 1


@dataclass(frozen=True, eq=False)
class Block:
    """The content of a block of text; its feature values are in the file `part`.

    Attributes:
        part: `.npy` file, (rows, largest index + 1) float32; column i is the feature of index i.
        lines: number of newlines in the text.
        ended: whether the last line ends with a newline.
        labels: (rows,) float64.
        queries: (rows,) int64.
        reach: (rows,) largest index in each row, -1 for none.
        lowest: smallest index in the block, -1 for none.
        clipped: feature index -> number of values beyond float32's range.
        malformed: lines that are not LETOR text, at most `BAD_LINES`.
        not_finite: one flaw per feature with NaN or infinite values.
    """

    part: Path
    lines: int
    ended: bool
    labels: np.ndarray = field(default_factory=lambda: np.empty(0))
    queries: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    reach: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    lowest: int = -1
    clipped: Counter[int] = field(default_factory=Counter)
    malformed: Sequence[Flaw] = ()
    not_finite: Sequence[Flaw] = ()


def parse_block(piece: Piece, part: Path) -> Block:
    """Parse the lines of a piece and write their feature values, dense, to `part`."""
    text = piece.read()
    lines, ended = text.count(b"\n"), text.endswith(b"\n")
    try:
        features, labels, queries = _load(text)
    except (ValueError, OverflowError):
        malformed = tuple(islice(_malformed(io.BytesIO(text).readlines(), 0), BAD_LINES))
        if not malformed:  # every line parses, so the parser itself failed
            raise
        return Block(part, lines, ended, malformed=malformed)
    values, indices = features.data, features.indices
    not_finite = tuple(_not_finite(text, features))
    beyond = np.abs(values) > MAX_FLOAT
    clipped = Counter(indices[beyond].tolist())
    values = np.clip(values, -MAX_FLOAT, MAX_FLOAT).astype(np.float32)
    rows = csr_matrix((values, indices, features.indptr), shape=features.shape)
    with MatrixWriter(part, features.shape[1]) as writer:
        step = max(1, SLICE_BYTES // (4 * features.shape[1]))
        for start in range(0, len(labels), step):
            writer.append(rows[start : start + step].toarray())
    reach = np.full(len(labels), -1)
    filled = np.diff(features.indptr) > 0
    reach[filled] = indices[features.indptr[1:][filled] - 1]  # indices ascend within a row
    lowest = int(indices.min()) if len(indices) else -1
    return Block(part, lines, ended, labels, queries, reach, lowest, clipped, (), not_finite)


def _load(text: bytes) -> tuple[csr_matrix, np.ndarray, np.ndarray]:
    """Features (column i for index i, float64), labels and queries; ValueError if invalid.

    Parsed as float64 to distinguish values beyond float32's range from infinity.
    """
    from sklearn.datasets import load_svmlight_file  # slow to import; not needed with a cache

    features, labels, queries = load_svmlight_file(io.BytesIO(text), zero_based=True, query_id=True)
    if len(queries) != len(labels):
        raise ValueError("no qid:NUMBER after the label")
    if not np.all(np.isfinite(labels)):
        raise ValueError("the label is not a finite number")
    if features.shape[1] > MAX_INDEX + 1:
        raise ValueError(f"feature index {features.shape[1] - 1} is above {MAX_INDEX}")
    return features, labels, queries


def _malformed(lines: list[bytes], first: int) -> Iterator[Flaw]:
    """The lines that the parser refuses, found by bisection."""
    try:
        _load(b"".join(lines))
    except (ValueError, OverflowError) as error:
        if len(lines) == 1:
            yield Flaw(first, _why(lines[0], error))
        else:
            middle = len(lines) // 2
            yield from _malformed(lines[:middle], first)
            yield from _malformed(lines[middle:], first + middle)


def _why(line: bytes, error: Exception) -> str:
    """What is wrong with a line, in terms of the format where the parser's message is obscure."""
    label, *fields = line.split(b"#")[0].split()
    try:
        float(label)
    except ValueError:
        return f"the label {_quote(label)} is not a number"
    for number, pair in enumerate(fields):
        index, colon, value = pair.partition(b":")
        if index == b"qid" and number == 0:
            if not value.removeprefix(b"-").isdigit():
                return f"{_quote(pair)} is not qid:NUMBER"
            continue
        if not colon or not index.isdigit():
            return f"{_quote(pair)} is not INDEX:VALUE"
        if int(index) > MAX_INDEX:
            return f"feature index {_quote(index)} is above {MAX_INDEX}"
        try:
            float(value)
        except ValueError:
            return f"{_quote(pair)} has no number after the colon"
    return str(error)


def _not_finite(text: bytes, features: csr_matrix) -> Iterator[Flaw]:
    """One flaw per feature with NaN or infinite values: how many, and the first line."""
    places = np.flatnonzero(~np.isfinite(features.data))
    if not len(places):
        return
    rows = np.searchsorted(features.indptr, places, side="right") - 1
    filled = [i for i, line in enumerate(text.split(b"\n")) if line.split(b"#")[0].strip()]
    _, first, count = np.unique(features.indices[places], return_index=True, return_counts=True)
    for at, number in zip(first, count, strict=True):
        index, value = int(features.indices[places[at]]), features.data[places[at]]
        yield Flaw(filled[rows[at]], f"{value}", index, int(number))


def _quote(text: bytes) -> str:
    """The beginning of some bytes, for a message."""
    return repr(text[:40])[1:] + ("..." if len(text) > 40 else "")
