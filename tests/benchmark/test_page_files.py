"""Files with a page per line."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from epiclick.benchmark.page_data import BenchmarkData
from epiclick.benchmark.page_files import read_page_files

from ..raising import raises_code

TRAIN = "a\tx y z\tx z\nb\tx w\t\n"
TEST = "b\tw v\tv\n"


def write(folder: Path, train: str, test: str = TEST) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in (("train", train), ("test", test)):
        with gzip.open(folder / f"{name}.tsv.gz", "wt") as file:
            file.write(text)
    return folder


def test_pages_are_read_and_numbered_across_both_files(tmp_path: Path) -> None:
    data = read_page_files(write(tmp_path / "pages", TRAIN))
    assert (data.name, data.queries, data.pairs) == ("pages", 2, 6)
    assert data.query_of.tolist() == [0, 0, 0, 1, 1, 1]
    assert data.train.pair.tolist() == [[0, 1, 2], [3, 4, -1]]
    assert data.train.clicked.tolist() == [[True, False, True], [False] * 3]
    assert data.test.pair.tolist() == [[4, 5]]
    table = data.train.to_table(data.query_of).to_pydict()
    assert table["page_id"] == [0, 0, 0, 1, 1]
    assert table["position"] == [1, 2, 3, 1, 2]
    assert table["click"] == [1, 0, 1, 0, 0]
    assert table["query_id"] == [0, 0, 0, 1, 1]


def test_what_is_saved_is_read_back(tmp_path: Path) -> None:
    data = read_page_files(write(tmp_path / "pages", TRAIN))
    data.save(tmp_path / "data.npz")
    back = BenchmarkData.load(tmp_path / "data.npz")
    assert back.settings == data.settings
    assert back.digest == data.digest
    assert np.array_equal(back.test.clicked, data.test.clicked)
    (tmp_path / "data.npz").write_bytes(b"no archive")
    with raises_code("damaged-file"):
        BenchmarkData.load(tmp_path / "data.npz")


@pytest.mark.parametrize(
    ("train", "code"),
    [("a\tx\n", "malformed-line"), ("a\t\t\n", "malformed-line"), ("", "no-rows")],
)
def test_malformed_files_are_refused(train: str, code: str, tmp_path: Path) -> None:
    with raises_code(code):
        read_page_files(write(tmp_path / "pages", train))


@pytest.mark.parametrize("damaged", ["truncated", "not compressed", "not UTF-8"])
def test_damaged_files_are_refused(damaged: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "pages", TRAIN)
    packed = gzip.compress(100 * TRAIN.encode())
    content = {
        "truncated": packed[: len(packed) // 2],
        "not compressed": TRAIN.encode(),
        "not UTF-8": gzip.compress(b"a\t\xff y\ty\n"),
    }
    (folder / "train.tsv.gz").write_bytes(content[damaged])
    with raises_code(("damaged-file", "not-utf8")[damaged == "not UTF-8"]):
        read_page_files(folder)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    (write(tmp_path / "pages", TRAIN) / "test.tsv.gz").unlink()
    with raises_code("file-missing") as caught:
        read_page_files(tmp_path / "pages")
    assert "test.tsv.gz" in str(caught.value)
    assert "train.tsv.gz" not in str(caught.value).split(". Give")[0]
