"""What a killed process leaves is removed or brought back by the next one, and nothing else is."""

import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from epiclick.data import leftovers, writing
from epiclick.data.leftovers import AS_LONG_AS, OWNER, bring_back, exchange, temporary
from epiclick.data.writing import folder_aside, written_aside
from epiclick.errors import InputWarning

KILLED = """
import os, signal, sys
from pathlib import Path
from epiclick.data import writing
target, how = Path(sys.argv[1]), sys.argv[2]
if how == "file":
    with writing.written_aside(target) as aside:
        aside.write_text("half")
        os.kill(os.getpid(), signal.SIGKILL)
if how == "folder":
    with writing.folder_aside(target) as aside:
        (aside / "new").touch()
        os.kill(os.getpid(), signal.SIGKILL)
# dies after the n-th rename or exchange
left = int(how)
def counted(call):
    def run(*arguments):
        global left
        result = call(*arguments)
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return run
if sys.argv[3] == "renames":
    writing.exchange = lambda one, other: False
else:
    writing.exchange = counted(writing.exchange)
os.replace = counted(os.replace)
with writing.folder_aside(target) as aside:
    (aside / "new").touch()
"""


def killed(target: Path, *how: str) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(target), *how], check=False)
    assert done.returncode == -signal.SIGKILL


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_half_written_file_is_removed_by_the_next_write(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    target.write_text("old")
    killed(target, "file")
    assert target.read_text() == "old"
    assert len(names(tmp_path)) == 2
    with written_aside(target) as aside:
        aside.write_text("new")
    assert names(tmp_path) == ["out.txt"]
    assert target.read_text() == "new"


def test_a_half_written_folder_is_removed_by_the_next_write(tmp_path: Path) -> None:
    target = tmp_path / "model"
    killed(target, "folder")
    assert not target.exists()
    assert len(names(tmp_path)) == 1
    with folder_aside(target) as aside:
        (aside / "other").touch()
    assert names(tmp_path) == ["model"]
    assert names(target) == ["other"]


def test_a_kill_after_an_exchange_leaves_the_new_folder(tmp_path: Path) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / "old").touch()
    killed(target, "1", "exchange")
    assert names(target) == ["new"]
    writing.clean_up(target)
    assert names(tmp_path) == ["model"]


@pytest.mark.parametrize(("renames", "found"), [("1", ["old"]), ("2", ["new"])])
def test_a_kill_between_renames_loses_nothing(
    renames: str, found: list[str], tmp_path: Path
) -> None:
    """Where the system cannot exchange folders; after the first of two renames there is none."""
    target = tmp_path / "model"
    target.mkdir()
    (target / "old").touch()
    killed(target, renames, "renames")
    assert target.exists() == (renames == "2")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bring_back(target)
    assert names(target) == found
    assert [each.category for each in caught] == ([InputWarning] if renames == "1" else [])
    writing.clean_up(target)
    assert names(tmp_path) == ["model"]


def test_what_belongs_to_running_processes_and_to_others_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    running = temporary(target)
    machine, pid, start, _ = OWNER.fullmatch(running.name, len(target.name) + 1).groups()
    dead = f".out.txt.{machine}-{pid}-{int(start) + 1}.00000000.part"
    kept = [
        running.name,
        f".out.txt.00000000-{pid}-{start}.00000000.part",  # another machine, fresh
        ".out.txt.part",
        ".out.txt.notes",
        f".out.txt.more.{machine}-{pid}-{int(start) + 1}.00000000.part",  # of out.txt.more
        f"out.txt.{machine}-{pid}-1.00000000.part",
    ]
    old = f".out.txt.00000000-{pid}-{start}.11111111.part"  # another machine, days ago
    for name in (*kept, dead, old):
        (tmp_path / name).touch()
    os.utime(tmp_path / old, (0, 0))
    with written_aside(target) as aside:
        aside.touch()
    assert names(tmp_path) == sorted([*kept, "out.txt"])


def test_folders_are_exchanged_in_one_step(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / folder.name).touch()
    if not exchange(one, other):
        pytest.skip("this system cannot exchange folders")
    assert (names(one), names(other)) == (["other"], ["one"])
    with pytest.raises(FileNotFoundError):
        exchange(one, tmp_path / "absent")


def test_names_are_as_long_as_they_say(tmp_path: Path) -> None:
    assert len(temporary(tmp_path / "x").name) <= len(".x" + AS_LONG_AS)
    assert OWNER.fullmatch(AS_LONG_AS)
    assert leftovers._start(os.getpid())
    assert leftovers._start(2**22 + 1) is None
