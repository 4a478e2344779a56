"""Files with a page per line: query TAB ids of its items TAB ids of the clicked ones."""

import gzip
from pathlib import Path

import numpy as np

from epiclick.benchmark.page_data import BenchmarkData, PageLog
from epiclick.data.files import damage
from epiclick.errors import InputError, Problem

PARTS = ("train", "test")
SUFFIX = ".tsv.gz"
COLUMNS = 3


def read_page_files(folder: Path) -> BenchmarkData:
    """The training and held-out pages in `train.tsv.gz` and `test.tsv.gz` of a folder."""
    missing = [name for name in PARTS if not (folder / f"{name}{SUFFIX}").is_file()]
    if missing:
        raise InputError(
            f"{folder} has no {' and no '.join(f'{name}{SUFFIX}' for name in missing)}. Give a "
            "folder with both, a page per line: query TAB ids of its items TAB ids of the clicked",
            code="file-missing",
        )
    paths = [folder / f"{name}{SUFFIX}" for name in PARTS]
    if problems := [found for path in paths if (found := damage(path, "page lines")) is not None]:
        raise InputError.of(str(folder), problems)
    numbers = _Numbers()
    train, test = (numbers.pages(path) for path in paths)
    settings = {"name": folder.name, "title": f"Pages of {folder.name}"}
    return BenchmarkData(settings, np.array(numbers.query_of), train, test)


class _Numbers:
    """Numbers of queries and pairs in the order in which they first appear."""

    def __init__(self) -> None:
        self.queries: dict[str, int] = {}
        self.pairs: dict[tuple[int, str], int] = {}
        self.query_of: list[int] = []

    def pages(self, path: Path) -> PageLog:
        """The pages of a file; new queries and pairs are numbered."""
        items: list[list[int]] = []
        clicks: list[list[bool]] = []
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                columns = line.rstrip("\n").split("\t")
                if len(columns) != COLUMNS or not columns[1].split():
                    raise _malformed(path, number, line)
                query = self.queries.setdefault(columns[0], len(self.queries))
                clicked = set(columns[2].split())
                shown = columns[1].split()
                items.append([self._pair(query, item) for item in shown])
                clicks.append([item in clicked for item in shown])
        if not items:
            raise InputError(f"{path} has no pages; give a file with some", code="no-rows")
        shape = (len(items), max(map(len, items)))
        pair, was_clicked = np.full(shape, -1, np.int32), np.zeros(shape, bool)
        for page, (row, marks) in enumerate(zip(items, clicks, strict=True)):
            pair[page, : len(row)], was_clicked[page, : len(row)] = row, marks
        return PageLog(pair, was_clicked)

    def _pair(self, query: int, item: str) -> int:
        number = self.pairs.setdefault((query, item), len(self.pairs))
        if number == len(self.query_of):
            self.query_of.append(query)
        return number


def _malformed(path: Path, number: int, line: str) -> InputError:
    problem = Problem(
        "every line must be query TAB ids of its items TAB ids of the clicked ones",
        1,
        "line",
        [f"(line {number}): {line.rstrip()[:60]!r}"],
        "Write an empty third column for pages without clicks.",
        code="malformed-line",
    )
    return InputError.of(str(path), [problem])
