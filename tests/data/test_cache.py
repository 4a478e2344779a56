"""The cache: reused, rebuilt when necessary, never half-written, never in the way."""

import errno
import gc
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epiclick.data import cache
from epiclick.data.cache import MatrixWriter, cache_folder, stored, write_entry
from epiclick.errors import InputError, InputWarning


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EPICLICK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "source.txt"
    file.write_text("1 2 3")
    return file


class Reader:
    """Reads a file of numbers as a column of features; counts how often it had to."""

    def __init__(self, file: Path, after: Callable[[], None] = lambda: None) -> None:
        self.file, self.after, self.times = file, after, 0

    def build(self, folder: Path) -> None:
        self.times += 1
        values = np.array(self.file.read_text().split(), np.float32)[:, None]
        with MatrixWriter(folder / "matrix.npy", 1) as writer:
            writer.append(values)
        self.after()
        write_entry(folder, pa.table({"query_id": np.arange(len(values))}), {"note": "é"})

    def read(self, **options: bool) -> cache.Stored:
        return stored(str(self.file), [self.file], {"a": 1}, self.build, **options)


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_the_folder_is_the_given_one_or_the_users(monkeypatch, tmp_path) -> None:
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("EPICLICK_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "epiclick"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "epiclick"


@given(st.lists(st.integers(0, 130), max_size=6), st.integers(1, 5))
def test_a_matrix_written_in_blocks_is_their_concatenation(tmp_path_factory, rows, columns) -> None:
    path = tmp_path_factory.mktemp("matrix") / "matrix.npy"
    rng = np.random.default_rng(sum(rows))
    blocks = [rng.normal(size=(n, columns)).astype(np.float32) for n in rows]
    with MatrixWriter(path, columns) as writer:
        for block in blocks:
            writer.append(block)
    expected = np.concatenate([np.empty((0, columns), np.float32), *blocks])
    np.testing.assert_array_equal(np.load(path), expected)


def test_the_second_read_maps_what_the_first_built(source: Path, folder: Path) -> None:
    reader = Reader(source)
    first, second = reader.read(), reader.read()
    assert reader.times == 1
    assert isinstance(second.matrix, np.memmap)
    assert not second.matrix.flags.writeable
    for entry in (first, second):
        np.testing.assert_array_equal(entry.matrix, [[1], [2], [3]])
        assert entry.keys.column("query_id").to_pylist() == [0, 1, 2]
        assert entry.meta == {"note": "é"}
    assert len(entries(folder)) == 1


def test_a_changed_file_is_read_again_and_its_old_entry_removed(source, folder) -> None:
    other = source.with_name("other.txt")
    other.write_text("9")
    Reader(other).read()
    (folder / "not-ours").mkdir()
    before = set(entries(folder))
    reader = Reader(source)
    old = reader.read()
    source.write_text("4 5 6 7")
    new = reader.read()
    assert reader.times == 2
    np.testing.assert_array_equal(new.matrix[:, 0], [4, 5, 6, 7])
    np.testing.assert_array_equal(old.matrix[:, 0], [1, 2, 3])  # a reader's map outlives its entry
    assert len(entries(folder)) == 3
    assert before <= set(entries(folder))


def test_other_options_make_another_entry(source: Path, folder: Path) -> None:
    reader = Reader(source)
    reader.read()
    stored(str(source), [source], {"a": 2}, reader.build)
    assert reader.times == 2
    assert len(entries(folder)) == 2


@pytest.mark.parametrize("name", ["matrix.npy", "keys.arrow", "meta.json"])
@pytest.mark.parametrize("damage", ["cut", "empty", "gone", "noise"])
def test_a_damaged_entry_is_rebuilt(source: Path, folder: Path, name: str, damage: str) -> None:
    reader = Reader(source)
    reader.read()
    file = folder / entries(folder)[0] / name
    content = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        changed = {"cut": content[:-2], "empty": b"", "noise": b"\xff" * len(content)}
        file.write_bytes(changed[damage])
    np.testing.assert_array_equal(reader.read().matrix[:, 0], [1, 2, 3])
    assert reader.times == 2
    np.testing.assert_array_equal(reader.read().matrix[:, 0], [1, 2, 3])
    assert reader.times == 2


@pytest.mark.parametrize("stop", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("kept", [True, False])
def test_an_interrupted_build_leaves_nothing(source, folder, tmp_path, monkeypatch, stop, kept):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()

    def interrupt() -> None:
        raise stop

    with pytest.raises(stop):
        Reader(source, interrupt).read(cache=kept)
    assert entries(folder) == []
    assert entries(tmp_path / "tmp") == []


def test_a_full_disk_is_reported_with_the_remedy(source: Path, folder: Path) -> None:
    def fill() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(InputError, match="EPICLICK_CACHE") as caught:
        Reader(source, fill).read()
    assert caught.value.code == "disk-full"
    assert entries(folder) == []


def test_a_file_that_changes_meanwhile_is_refused(source: Path, folder: Path) -> None:
    with pytest.raises(InputError, match=re.escape(str(source))) as caught:
        Reader(source, lambda: source.write_text("1 2 3 4 5") and None).read()
    assert caught.value.code == "changed-while-reading"
    assert entries(folder) == []


def test_a_folder_that_cannot_be_written_is_replaced_for_this_run(
    source: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder.write_text("a file where the folder should be")
    with pytest.warns(InputWarning, match=r"cannot be written.*Set EPICLICK_CACHE"):
        entry = Reader(source).read()
    np.testing.assert_array_equal(entry.matrix[:, 0], [1, 2, 3])
    assert len(list(tmp_path.glob("epiclick-*"))) == 1
    del entry
    gc.collect()
    assert list(tmp_path.glob("epiclick-*")) == []


def test_a_folder_with_too_long_a_name_is_replaced_for_this_run(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPICLICK_CACHE", "x" * 300)
    with pytest.warns(InputWarning, match=r"cannot be written.*Set EPICLICK_CACHE"):
        entry = Reader(source).read()
    np.testing.assert_array_equal(entry.matrix[:, 0], [1, 2, 3])


def test_without_the_cache_nothing_is_kept(source, folder, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    reader = Reader(source)
    first, second = reader.read(cache=False), reader.read(cache=False)
    assert reader.times == 2
    assert entries(folder) == []
    assert len(list(tmp_path.glob("epiclick-*"))) == 2
    np.testing.assert_array_equal(first.matrix, second.matrix)
    del first, second
    gc.collect()
    assert list(tmp_path.glob("epiclick-*")) == []


@pytest.mark.slow
def test_temporary_values_are_removed_at_exit(source: Path, tmp_path: Path) -> None:
    script = f"""
import sys, tempfile
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
tempfile.tempdir = {str(tmp_path)!r}
from test_cache import Reader
kept = Reader(Path({str(source)!r})).read(cache=False)
print(len(list(Path({str(tmp_path)!r}).glob("epiclick-*"))), kept.matrix.sum())
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["1", "6.0"]
    assert list(tmp_path.glob("epiclick-*")) == []


def test_two_concurrent_builds_both_get_the_entry(source: Path, folder: Path) -> None:
    inner = Reader(source)
    outer = Reader(source, lambda: inner.read() and None)
    np.testing.assert_array_equal(outer.read().matrix[:, 0], [1, 2, 3])
    assert (inner.times, outer.times) == (1, 1)
    assert len(entries(folder)) == 1


def test_the_loser_of_a_race_takes_the_winners_entry(source, folder, monkeypatch) -> None:
    replace = os.replace

    def beaten(old: Path, new: Path) -> None:
        # the other process creates its entry just before ours is renamed
        monkeypatch.setattr(os, "replace", replace)
        shutil.copytree(old, new)
        raise OSError(errno.ENOTEMPTY, "Directory not empty")

    monkeypatch.setattr(os, "replace", beaten)
    np.testing.assert_array_equal(Reader(source).read().matrix[:, 0], [1, 2, 3])
    assert len(entries(folder)) == 1


def test_remains_of_killed_processes_are_removed_after_a_day(source: Path, folder: Path) -> None:
    name = f".{'a' * 20}-{'b' * 20}.xyz.part"
    fresh = f".{'a' * 20}-{'c' * 20}.xyz.part"
    for left in (name, fresh, ".of-somebody.else"):
        (folder / left).mkdir(parents=True)
    for left in (name, ".of-somebody.else"):
        os.utime(folder / left, (0, 0))
    Reader(source).read()
    assert not (folder / name).exists()
    assert (folder / fresh).exists()
    assert (folder / ".of-somebody.else").exists()
