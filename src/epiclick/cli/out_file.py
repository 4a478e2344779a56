"""A place to write to, checked before any work is done."""

import os
from collections.abc import Sequence
from pathlib import Path

from epiclick.errors import InputError


def check_writable(out: Path) -> None:
    """Refuse a path in which no file can be made."""
    parent = next(p for p in out.absolute().parents if p.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(f"--out {out} cannot be written: {parent} is no folder for new files")


def check_parquet(out: Path, inputs: Sequence[str]) -> None:
    """Refuse a file that cannot be written as Parquet or is itself read."""
    from epiclick.data.files import find_files

    if out.is_dir():
        raise InputError(f"--out {out} is a folder; name a file, such as {out / 'out.parquet'}")
    if out.suffix.lower() not in (".parquet", ".pq"):
        raise InputError(f"--out {out}: the result is written as Parquet; name a .parquet file")
    check_writable(out)
    if out.exists() and any(out.samefile(file) for file in find_files(inputs)):
        raise InputError(
            f"--out {out} is the log itself or another file that is read; name another"
        )
