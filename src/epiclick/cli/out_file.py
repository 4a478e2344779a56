"""A place to write to, checked before any work is done."""

import os
from collections.abc import Sequence
from pathlib import Path

from epiclick.errors import InputError

PARQUET = (".parquet", ".pq")


def check_writable(out: Path) -> None:
    """Refuse a path in which no file can be made."""
    parent = next(p for p in out.absolute().parents if p.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(f"--out {out} cannot be written: {parent} is no folder for new files")


def check_folder(out: Path) -> None:
    """Refuse a folder in which no file can be made."""
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file; name a folder")
    check_writable(out / "file")


def check_taken(out: Path, names: Sequence[str], verb: str, *, begun: bool) -> None:
    """Refuse to replace files in a folder that this verb has not begun; others there stay.

    Args:
        out: the folder.
        names: what is to be written into it.
        verb: who writes.
        begun: whether the folder shows that the verb has written there before.
    """
    taken = [name for name in names if os.path.lexists(out / name)]
    if taken and not begun:
        from epiclick.data.replacing import named

        raise InputError(
            f"--out {out} holds {named(taken)}, which epiclick {verb} did not write, and is left "
            "as it is; name a new folder, or move what is there elsewhere"
        )


def check_file(
    out: Path, suffixes: Sequence[str], called: str, example: str, inputs: Sequence[str] = ()
) -> None:
    """Refuse a file that cannot be written, is of another kind, or is itself read.

    Args:
        out: the file.
        suffixes: ends that its name may have; any if none.
        called: what it is, in words.
        example: name of such a file.
        inputs: files, folders and globs that are read.
    """
    if out.is_dir():
        raise InputError(f"--out {out} is a folder; name a file, such as {out / example}")
    if suffixes and out.suffix.lower() not in suffixes:
        raise InputError(
            f"--out {out}: this is written as {called}; name a {suffixes[0]} file, such as "
            f"{example}"
        )
    check_writable(out)
    if inputs and out.exists():
        from epiclick.data.files import find_files

        if any(out.samefile(file) for file in find_files(inputs)):
            raise InputError(f"--out {out} is a file that is read; name another")
