"""TREC run files: lines of `qid Q0 docid rank score tag`, as retrieval systems write them."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from epiclick.comparison.order import is_numbered
from epiclick.comparison.ranking_rows import RankingRows, context_problems, settle
from epiclick.data.arrays import distinct
from epiclick.data.engine import CANONICAL_INTEGER
from epiclick.data.files import damage, is_zipped
from epiclick.data.log import LogColumns, LogOptions
from epiclick.data.nearest_path import did_you_mean_path
from epiclick.errors import InputError, Problem

FIELDS = ("query_id", "Q0", "doc_id", "rank", "score", "tag")
SUFFIXES = (".run", ".trec", ".res")
DECIMAL = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


def is_run(source: Any) -> bool:
    """Whether a source is a TREC run file, by its name; .txt may be anything, so by its columns."""
    if not isinstance(source, str | Path):
        return False
    path = Path(source)
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(".txt") and path.is_file() and damage(path, "TREC run") is None:
        with gzip.open(path) if is_zipped(path) else path.open("rb") as file:
            return len(file.readline().split()) == len(FIELDS)
    return name.endswith(SUFFIXES)


def run_rows(source: str | Path, options: LogOptions) -> RankingRows:
    """Rows of a TREC run: by rank where ranks number each query's documents, else by score."""
    path = Path(source)
    if not path.is_file():
        raise InputError(f"no file at {path}{did_you_mean_path(Path(path))}.")
    flaw = damage(path, "TREC run")
    if problems := [*([flaw] if flaw else []), *context_problems(options.context, FIELDS)]:
        raise InputError.of(str(path), problems)
    fields, problems = _fields(path)
    names = {name: name for name in ("query_id", "doc_id")}
    keys = pa.table({name: pa.chunked_array([fields[name]]) for name in names})
    rank = fields["rank"].cast(pa.int64()).to_numpy()
    score = fields["score"].cast(pa.float64()).to_numpy()
    # the ranks left of a file with bad lines have gaps, which are not what is wrong with it
    by_rank, notes = (None, []) if problems else _positions(keys, rank, score)
    keys, unsettled = settle(keys, LogColumns(names, {}, counted=False), options, text=True)
    return RankingRows(
        source=str(path),
        keys=keys,
        by="score" if by_rank is None else "position",
        value=score if by_rank is None else by_rank.astype(np.float64),
        written=fields["score" if by_rank is None else "rank"],
        problems=(*problems, *unsettled),
        notes=tuple(notes),
    )


def _fields(path: Path) -> tuple[dict[str, pa.Array], list[Problem]]:
    """The well-formed lines as (lines,) columns of text, and a word on the others."""
    with gzip.open(path) if is_zipped(path) else path.open("rb") as file:
        text = file.read().removeprefix(b"\xef\xbb\xbf")
    lines = pc.ascii_trim_whitespace(_lines(text))
    words = pc.ascii_split_whitespace(lines)
    width = pc.list_value_length(words).to_numpy()
    blank = pc.equal(lines, "").to_numpy(zero_copy_only=False)
    six = width == len(FIELDS)
    values = pc.list_flatten(words if six.all() else words.filter(pa.array(six)))
    at = np.arange(0, len(values), len(FIELDS))
    fields = {name: values.take(at + i) for i, name in enumerate(FIELDS)}
    whole_rank = _holds(fields["rank"], pa.int64(), CANONICAL_INTEGER)
    finite = _holds(fields["score"], pa.float64(), DECIMAL)
    number = np.flatnonzero(six) + 1

    def named(column: str, good: np.ndarray) -> list[str]:
        return [
            f"line {number[i]}: {column} '{fields[column][int(i)]}'"
            for i in np.flatnonzero(~good)[:1]
        ]

    other = np.flatnonzero(~six & ~blank)
    short = [f"line {i + 1}: {width[i]} column{'' if width[i] == 1 else 's'}" for i in other[:1]]
    form = "A run has lines of: qid Q0 docid rank score tag."
    found = [
        Problem("lines without the six columns of a TREC run", len(other), "line", short, form),
        Problem("rank must be a whole number", _no(whole_rank), "line", named("rank", whole_rank)),
        Problem("score must be a finite number", _no(finite), "line", named("score", finite)),
    ]
    if not (whole_rank & finite).all():
        good = pa.array(whole_rank & finite)
        fields = {name: column.filter(good) for name, column in fields.items()}
    return fields, [problem for problem in found if problem.count]


def _lines(text: bytes) -> pa.Array:
    """The lines of a text that is known to be UTF-8, each with its end; nothing is copied."""
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + 1
    # a last line of nothing is blank, and blank lines are passed over
    offsets = np.concatenate([[0], ends, [len(text)]])
    return pa.LargeStringArray.from_buffers(
        len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(text)
    )


def _positions(
    keys: pa.Table, rank: np.ndarray, score: np.ndarray
) -> tuple[np.ndarray | None, list[str]]:
    """(rows,) position of each document, None if scores must order them; with what to tell."""
    queries, page = distinct({"query_id": keys["query_id"].combine_chunks()})
    total, notes = f"{len(queries):,} queries", []
    position = rank
    if len(rank) and is_numbered(page, rank + 1):
        position = rank + 1
        notes.append("ranks begin at 0 in all queries, so 1 was added to each")
    if not is_numbered(page, position):
        wrong = (
            "ranks do not number the documents of each query 1, 2, 3 ...; as trec_eval does, "
            "documents were ordered by score"
        )
        return None, [wrong]
    order = np.lexsort((position, page))
    rises = (np.diff(page[order]) == 0) & (np.diff(score[order]) > 0)
    if rises.any():
        differing = len(np.unique(page[order][1:][rises]))
        notes.append(
            f"in {differing:,} of {total} the order by score is another one than by rank; "
            "the rank was taken"
        )
    return position, notes


def _holds(column: pa.Array, kind: pa.DataType, pattern: str) -> np.ndarray:
    """(lines,) whether the text is a finite number of a kind."""
    try:
        # almost always all of it is, and then no pattern need be tried
        return np.isfinite(column.cast(kind).to_numpy())
    except pa.ArrowInvalid:
        good = np.array(pc.match_substring_regex(column, pattern).to_numpy(zero_copy_only=False))
        # 1e999 is written like a number, but is none that can be sorted by
        good[good] = np.isfinite(column.filter(pa.array(good)).cast(kind).to_numpy())
        return good


def _no(mask: np.ndarray) -> int:
    return int((~mask).sum())
