"""A damaged cache entry is rebuilt without removing any file of the user."""

from pathlib import Path

import numpy as np
import pytest

from epiclick.errors import InputWarning

from ..damaging import damaged
from .test_cache import Reader, entries


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EPICLICK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "source.txt"
    file.write_text("1 2 3")
    return file


@pytest.mark.slow
@pytest.mark.parametrize("name", ["matrix.npy", "keys.arrow", "meta.json"])
def test_no_flip_or_cut_changes_what_is_read(source: Path, folder: Path, name: str) -> None:
    """The entry is rebuilt, or is exactly the same."""
    source.write_text(" ".join(str(i / 7) for i in range(40)))
    reader = Reader(source)
    first = reader.read()
    values, keys = np.array(first.matrix), first.keys
    file = folder / entries(folder)[0] / name
    content = file.read_bytes()
    for broken in damaged(content, flips=300):
        file.write_bytes(broken)
        found = reader.read()
        np.testing.assert_array_equal(found.matrix, values)
        assert found.keys.equals(keys)
        assert found.meta == {"note": "é"}
    # only whitespace in the JSON does not matter
    assert reader.times > (300 if name != "meta.json" else 150)


def test_a_header_that_claims_a_huge_matrix_is_not_believed(source: Path, folder: Path) -> None:
    reader = Reader(source)
    reader.read()
    file = folder / entries(folder)[0] / "matrix.npy"
    content = file.read_bytes()
    huge = content.replace(b"(3, 1)", b"(3, 1" + b"0" * 12 + b")")[: len(content)]
    assert huge != content
    file.write_bytes(huge)
    np.testing.assert_array_equal(reader.read().matrix[:, 0], [1, 2, 3])
    assert reader.times == 2


def test_files_of_the_user_in_an_entry_are_kept(source: Path, folder: Path) -> None:
    reader = Reader(source)
    reader.read()
    entry = folder / entries(folder)[0]
    (entry / "notes.txt").write_text("precious")
    np.testing.assert_array_equal(reader.read().matrix[:, 0], [1, 2, 3])
    assert reader.times == 1
    (entry / "matrix.npy").write_bytes(b"damaged")
    with pytest.warns(InputWarning, match=r"\(notes\.txt\).*Set EPICLICK_CACHE"):
        np.testing.assert_array_equal(reader.read().matrix[:, 0], [1, 2, 3])
    source.write_text("4 5")
    np.testing.assert_array_equal(reader.read().matrix[:, 0], [4, 5])
    assert (entry / "notes.txt").read_text() == "precious"
