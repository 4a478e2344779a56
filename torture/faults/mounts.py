"""File systems that only this process and its children see: small, full, or read-only."""

import ctypes
import os
from functools import cache
from pathlib import Path

NEW_NAMESPACE = 0x00020000
READ_ONLY, REMOUNT, BIND, PRIVATE = 1, 32, 4096, (1 << 18) | (1 << 14)
PAGE = 4096


@cache
def are_allowed() -> bool:
    """Whether this process may mount; from then on, its mounts are its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.unshare(NEW_NAMESPACE) == 0 and _mount("none", Path("/"), None, PRIVATE)


def mount_memory(folder: Path, size: int) -> None:
    """An empty file system of this many bytes at a folder."""
    assert _mount("none", folder, "tmpfs", 0, f"size={size}")


def mount_read_only(folder: Path) -> None:
    """Make a folder read-only."""
    assert _mount(str(folder), folder, None, BIND)
    assert _mount("none", folder, None, BIND | REMOUNT | READ_ONLY)


def unmount(folder: Path) -> None:
    """Remove what was mounted at a folder."""
    assert ctypes.CDLL(None, use_errno=True).umount2(os.fsencode(folder), 2) == 0


def fill(folder: Path, pages: int) -> Path:
    """Fill a file system except for some pages; the file that does."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(PAGE)) == PAGE:
                pass
        except OSError:
            pass
        file.truncate(max(file.tell() - pages * PAGE, 0))
    return filler


def _mount(source: str, folder: Path, kind: str | None, flags: int, data: str = "") -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    words = (source.encode(), os.fsencode(folder), kind and kind.encode())
    return libc.mount(*words, ctypes.c_ulong(flags), data.encode()) == 0
