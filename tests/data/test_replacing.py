"""Only what epiclick wrote is ever replaced; everything else is named and kept."""

import json
import os
from pathlib import Path

import pytest

from epiclick.data.checksums import listed, to_json
from epiclick.data.writing import FolderKind, check_replaceable, replacing

from ..raising import raises_code

KIND = FolderKind("thing", "thing.json", "a thing")


def write(folder: Path, text: str = "first") -> None:
    contents = {"a.bin": text.encode(), "b.bin": b"more"}
    with replacing(folder, KIND) as aside:
        for name, content in contents.items():
            (aside / name).write_bytes(content)
        (aside / "thing.json").write_bytes(
            to_json({"format": "a thing", "files": listed(contents)})
        )


def tree(folder: Path) -> dict[str, bytes | str | None]:
    """Everything below a folder: files by content, links by target, folders as None."""
    found: dict[str, bytes | str | None] = {}
    for path in sorted(folder.rglob("*")):
        content = (
            os.readlink(path)
            if path.is_symlink()
            else path.read_bytes()
            if path.is_file()
            else None
        )
        found[str(path.relative_to(folder))] = content
    return found


@pytest.fixture
def thing(tmp_path: Path) -> Path:
    write(tmp_path / "t")
    return tmp_path / "t"


def assert_kept(folder: Path, code: str, named: str = "") -> None:
    before = tree(folder.parent)
    for attempt in (lambda: check_replaceable(folder, KIND), lambda: write(folder, "second")):
        with raises_code(code) as caught:
            attempt()
        assert str(folder) in str(caught.value)
        assert named in str(caught.value)
    assert tree(folder.parent) == before


def test_an_absent_or_empty_folder_and_our_own_are_replaced(tmp_path: Path) -> None:
    assert check_replaceable(tmp_path / "new", KIND) is False
    (tmp_path / "new").mkdir()
    assert check_replaceable(tmp_path / "new", KIND) is False
    write(tmp_path / "new")
    assert check_replaceable(tmp_path / "new", KIND) is True
    write(tmp_path / "new", "second")
    assert (tmp_path / "new" / "a.bin").read_bytes() == b"second"
    assert os.listdir(tmp_path) == ["new"]


@pytest.mark.parametrize(
    ("names", "named"),
    [
        (["notes.txt"], "also notes.txt,"),
        ([".git/config"], "also .git,"),
        ([".hidden"], "also .hidden,"),
        (["e", "d", "c", "b", "a"], "also a, b, c and 2 more,"),
    ],
)
def test_foreign_files_are_named_and_kept(names: list[str], named: str, thing: Path) -> None:
    for name in names:
        (thing / name).parent.mkdir(exist_ok=True)
        (thing / name).write_text("precious")
    assert_kept(thing, "foreign-files", named)


def test_a_link_or_folder_with_the_name_of_our_file_is_kept(thing: Path, tmp_path: Path) -> None:
    content = (thing / "a.bin").read_bytes()
    (tmp_path / "own.bin").write_bytes(content)
    (thing / "a.bin").unlink()
    (thing / "a.bin").symlink_to(tmp_path / "own.bin")
    assert_kept(thing, "foreign-files", "also a.bin,")
    (thing / "a.bin").unlink()
    (thing / "a.bin").mkdir()
    (thing / "a.bin" / "precious").write_text("kept")
    assert_kept(thing, "foreign-files", "also a.bin,")
    (thing / "dangling").symlink_to("nowhere")
    assert_kept(thing, "foreign-files", "also a.bin, dangling,")


def test_a_file_of_ours_that_was_changed_is_the_users(thing: Path) -> None:
    (thing / "a.bin").write_text("FIRST")
    assert_kept(thing, "changed-files", "a.bin")
    (thing / "a.bin").write_text("longer than before")
    assert_kept(thing, "changed-files", "a.bin")


def test_a_lost_file_is_no_reason_to_refuse(thing: Path) -> None:
    (thing / "a.bin").unlink()
    write(thing, "second")
    assert (thing / "a.bin").read_bytes() == b"second"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"format": "other"}',
        '{"format": "a thing", "files": {}}',
        "[" * 9999,
    ],
)
def test_a_record_that_is_not_ours_means_a_foreign_folder(content: str, thing: Path) -> None:
    (thing / "thing.json").write_text(content)
    assert_kept(thing, "foreign-folder", "(a.bin, b.bin, thing.json)")


def test_a_record_changed_by_hand_is_the_users(thing: Path) -> None:
    record = json.loads((thing / "thing.json").read_text())
    (thing / "thing.json").write_text(json.dumps({**record, "comment": "mine"}))
    assert_kept(thing, "foreign-folder")


def test_a_record_that_is_a_link_is_not_ours(thing: Path, tmp_path: Path) -> None:
    os.rename(thing / "thing.json", tmp_path / "elsewhere.json")
    (thing / "thing.json").symlink_to(tmp_path / "elsewhere.json")
    assert_kept(thing, "foreign-folder")


def test_a_file_in_the_folders_place_is_kept(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("precious")
    assert_kept(tmp_path / "t", "foreign-folder", "(t)")


def test_a_file_that_appears_while_writing_is_kept(thing: Path) -> None:
    def write_slowly() -> None:
        with replacing(thing, KIND) as aside:
            (aside / "a.bin").write_text("second")
            (thing / "late.txt").write_text("precious")

    with raises_code("foreign-files") as caught:
        write_slowly()
    assert "late.txt" in str(caught.value)
    assert (thing / "late.txt").read_text() == "precious"
    assert (thing / "a.bin").read_text() == "first"
    assert os.listdir(thing.parent) == ["t"]


def test_the_folder_behind_a_link_is_the_one_replaced(thing: Path) -> None:
    (thing.parent / "latest").symlink_to("t")
    write(thing.parent / "latest", "second")
    assert (thing.parent / "latest").is_symlink()
    assert (thing / "a.bin").read_text() == "second"
    (thing / "notes.txt").write_text("precious")
    assert_kept(thing.parent / "latest", "foreign-files", "also notes.txt,")
