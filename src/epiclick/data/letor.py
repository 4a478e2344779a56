"""Learning-to-rank data sets in LETOR text (MSLR-WEB, Istella, Yahoo, ...) as feature tables."""

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa

from epiclick.arguments import check_path
from epiclick.data.cache import MatrixWriter, stored, write_entry
from epiclick.data.features import FeatureTable, warn_clipped
from epiclick.data.letor_text import ParsedFile, parse_file
from epiclick.data.nearest_path import did_you_mean_path
from epiclick.errors import InputError, Problem

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

    `path` is a file, or a folder with the splits as files (`train.txt`, `vali.txt`, `test.txt` and
    the like, or Yahoo's `set1.train.txt`), or one that holds `Fold1`. The keys are `query_id` (the
    qid), `doc_id` (0, 1, ... within the query, in file order), `split` (train, vali, test) and
    `label`; the features are named by their index in the file, f1, f2, ...; one that a line does
    not mention is 0. The parsed values are kept in the cache folder unless `cache` is false.
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
            "Check the disk and the permissions."
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
            f"{source} is not there{near}. Give a LETOR file or a folder with its splits."
        )
    for folder in (source, *(source / name for name in SUBFOLDERS)):
        if found := _splits_in(folder):
            return found
    raise InputError(
        f"{source} holds no LETOR files. Expected train.txt, vali.txt and test.txt (also .tsv, "
        ".svm, .letor, .gz), in the folder or in its Fold1; or give the path of a file."
    )


def _splits_in(folder: Path) -> dict[str, Path]:
    """The file of each split in a folder itself."""
    files = sorted(file for file in folder.glob("*") if file.is_file())
    found = {}
    for split, name in SPLITS.items():
        pattern = re.compile(f"(set1[._-])?({name}){SUFFIX}", re.I)
        matches = [file for file in files if pattern.fullmatch(file.name)]
        if len(matches) > 1:
            names = " and ".join(file.name for file in matches)
            raise InputError(
                f"{folder}: {names} could each be the {split} split. Keep one of them there, or "
                "give the path of a file."
            )
        if matches:
            found[split] = matches[0]
    return found


def _build(source: str, files: Mapping[str, Path], folder: Path) -> None:
    """Parse the files into a cache entry; all that is wrong with them is told at once."""
    parsed = {split: parse_file(file, folder) for split, file in files.items()}
    problems = [problem for file in parsed.values() for problem in file.problems()]
    problems += _overlaps(parsed)
    width = max(int(file.reach.max(initial=-1)) for file in parsed.values()) + 1
    if not problems and width == 0:
        problems.append(Problem("no line has a feature", len(files), "file"))
    if problems:
        raise InputError.of(source, problems)

    blocks = [block for file in parsed.values() for block in file.blocks]
    # indices count from 0 if any file says so; a single block or file could not tell
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
    """Queries in two splits; their documents would be taken for those of one query."""
    for one, other in combinations(parsed, 2):
        both = np.intersect1d(parsed[one].queries, parsed[other].queries)
        if len(both):
            yield Problem(
                f"a query must be in one split, but is in {one} and {other}",
                len(both),
                "query id",
                [f"qid:{query}" for query in both[:5]],
                "Number the queries of each split apart, or read one file alone.",
            )


def _append(writer: MatrixWriter, part: Path, first: int, width: int) -> None:
    """Add a block's rows, filled with zeros up to the features of the whole data set."""
    values = np.load(part)
    step = max(1, COPY_BYTES // (4 * width))
    for start in range(0, len(values), step):
        rows = values[start : start + step, first:]
        filled = np.zeros((len(rows), width - first), np.float32)
        filled[:, : rows.shape[1]] = rows
        writer.append(filled)


def _keys(parsed: Mapping[str, ParsedFile]) -> pa.Table:
    """query_id, doc_id, split and label of all rows, split after split."""
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
    """0, 1, 2, ... within each query, in row order, whether or not its rows stand together."""
    order = np.argsort(queries, kind="stable")
    starts = np.flatnonzero(np.diff(queries[order], prepend=queries[order[0]] - 1))
    sizes = np.diff(starts, append=len(queries))
    number = np.empty(len(queries), np.int64)
    number[order] = np.arange(len(queries)) - np.repeat(starts, sizes)
    return number
