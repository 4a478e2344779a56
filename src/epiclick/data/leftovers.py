"""Temporary names that say whose they are, so that what a killed process left can be removed.

A temporary file or folder lies next to its target and is named

    .TARGET.MACHINE-PID-START.RANDOM.part

with the process that writes it. If that process no longer runs, it is a leftover. `.old` is a
folder that was moved out of the way of its replacement, on systems that cannot exchange the two: if
the process was killed in between, it is the only copy, and is moved back.
"""

import ctypes
import errno
import os
import platform
import re
import secrets
import shutil
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

from epiclick.errors import InputWarning

AS_LONG_AS = ".0123abcd-4194304-123456789012.01234567.part"
"""A name is longer by at most this than that of its target."""

ELSEWHERE = 86_400.0
"""Seconds after which a leftover of another machine, whose processes are unknown, is removed."""

OWNER = re.compile(r"\.([0-9a-f]{8})-(\d+)-(\d+)\.[0-9a-f]{8}\.(part|old)")


def temporary(target: Path, kind: str = "part") -> Path:
    """A new name next to the target."""
    owner = f"{_machine()}-{os.getpid()}-{_start(os.getpid()) or 0}"
    return target.with_name(f".{target.name}.{owner}.{secrets.token_hex(4)}.{kind}")


def clean_up(target: Path) -> None:
    """Remove what killed processes left of a target that is about to be written."""
    bring_back(target)
    for left, _ in _leftovers(target):
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)
        else:
            with suppress(OSError):  # in nobody's way, and may belong to another user
                left.unlink()


def bring_back(target: Path) -> None:
    """Move a folder back that a killed process had moved away, with a warning; if there is one."""
    if os.path.lexists(target):
        return
    copies = [left for left, kind in _leftovers(target) if kind == "old"]
    if not copies:
        return
    os.replace(max(copies, key=lambda copy: copy.lstat().st_mtime_ns), target)
    warnings.warn(
        f"{target} was missing, as a command that replaced it was killed; its previous contents "
        "are back",
        InputWarning,
        stacklevel=3,
    )


def exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step; False if the system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if rename(here, os.fsencode(one), here, os.fsencode(other), swap) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
        return False
    raise OSError(number, os.strerror(number), str(other))


def _leftovers(target: Path) -> Iterator[tuple[Path, str]]:
    """Temporary files and folders of a target whose process has ended, and their kind."""
    try:
        names = os.listdir(target.parent)
    except OSError:  # a folder that must not be listed, or is not there
        return
    for name in names:
        if not name.startswith(f".{target.name}."):
            continue
        found = OWNER.fullmatch(name, len(target.name) + 1)
        if found is None:
            continue
        machine, pid, start, kind = found.groups()
        path = target.with_name(name)
        if machine == _machine():
            is_left = _start(int(pid)) != int(start)
        else:
            is_left = _age(path) > ELSEWHERE
        if is_left:
            yield path, kind


def _age(path: Path) -> float:
    try:
        return time.time() - path.lstat().st_mtime
    except FileNotFoundError:  # its process has just finished
        return 0.0


@cache
def _machine() -> str:
    """A short name of what process numbers are unique in: a machine since its start, or a part."""
    parts = [platform.node()]
    for read in (
        lambda: Path("/proc/sys/kernel/random/boot_id").read_text(),
        lambda: os.readlink("/proc/self/ns/pid"),
    ):
        try:
            parts.append(read())
        except OSError:  # not Linux
            parts.append("")
    return sha256("\n".join(parts).encode()).hexdigest()[:8]


def _start(pid: int) -> int | None:
    """When a process started, in ticks of the system; 0 if that is unknown, None if it has ended.

    A number alone may have been given to another process since.
    """
    if not os.path.isdir("/proc/self"):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return None
        except PermissionError:  # it runs, for another user
            return 0
        return 0
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # the name of the program, in brackets, may contain anything
    return int(stat.rpartition(")")[2].split()[19])
