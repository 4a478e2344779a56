"""Output is complete or absent."""

import os
from pathlib import Path

import pytest

from epiclick.data.writing import folder_aside, written_aside

from ..raising import raises_code


def test_a_file_appears_only_when_done(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "out.txt"
    with written_aside(target) as aside:
        aside.write_text("new")
        assert not target.exists()
    assert target.read_text() == "new"
    assert [p.name for p in target.parent.iterdir()] == ["out.txt"]


@pytest.mark.parametrize("stop", [RuntimeError, KeyboardInterrupt])
def test_an_interrupted_file_leaves_the_old_one(stop: type[BaseException], tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    target.write_text("old")

    def interrupted() -> None:
        with written_aside(target) as aside:
            aside.write_text("half")
            raise stop

    with pytest.raises(stop):
        interrupted()
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["out.txt"]


def test_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        with raises_code("not-a-file"), written_aside(tmp_path / name):
            pytest.fail("it was written")
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "link").is_symlink()


def test_a_folder_is_replaced_whole(tmp_path: Path) -> None:
    target = tmp_path / "world"
    for name in ("first", "second"):
        with folder_aside(target) as aside:
            (aside / name).touch()
    assert [p.name for p in target.iterdir()] == ["second"]
    assert [p.name for p in tmp_path.iterdir()] == ["world"]


@pytest.mark.parametrize("stop", [RuntimeError, KeyboardInterrupt])
def test_an_interrupted_folder_leaves_the_old_one(
    stop: type[BaseException], tmp_path: Path
) -> None:
    target = tmp_path / "world"
    target.mkdir()
    (target / "old").touch()

    def interrupted() -> None:
        with folder_aside(target) as aside:
            (aside / "half").touch()
            raise stop

    with pytest.raises(stop):
        interrupted()
    assert [p.name for p in target.iterdir()] == ["old"]
    assert [p.name for p in tmp_path.iterdir()] == ["world"]


def test_new_files_have_the_permissions_of_the_umask(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with written_aside(tmp_path / "ours") as aside:
        aside.touch()
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode
