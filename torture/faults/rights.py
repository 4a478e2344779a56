"""Rights of root, which a call gives up: else nothing is forbidden, and no limit counts."""

import ctypes
import os
from pathlib import Path

VERSION = 0x20080522
FILES = 0b110
"""The rights to read and write all files, whatever their permissions."""

KEEP_RIGHTS = 8
NOBODY = 65534


def obey_permissions() -> None:
    """From now on, this process obeys the permissions of files."""
    if os.geteuid() == 0:
        held = _held()
        _hold([held[0] & ~FILES, held[1]])


def obey_limits() -> None:
    """From now on, this process is of a user whose limits count, and who may use all files."""
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(KEEP_RIGHTS, 1, 0, 0, 0)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        _hold([FILES, 0])


def give_away(folder: Path) -> None:
    """Let that user own a folder and what is in it."""
    for path in (folder, *folder.rglob("*")) if os.geteuid() == 0 else ():
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


def _held() -> list[int]:
    status = Path("/proc/self/status").read_text().splitlines()
    held = int(next(line for line in status if line.startswith("CapPrm")).split()[1], 16)
    return [held & 0xFFFFFFFF, held >> 32]


def _hold(rights: list[int]) -> None:
    header = (ctypes.c_uint32 * 2)(VERSION, 0)
    low, high = rights
    data = (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)
    assert ctypes.CDLL(None, use_errno=True).capset(header, data) == 0
