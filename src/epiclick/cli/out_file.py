"""A place to write to: checked before any work is done, named where writing to it fails."""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from epiclick.errors import InputError
from epiclick.system_errors import cannot_write, shortened

OF_THE_PROCESS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EPIPE)
"""Errors that no other place would mend."""

PARQUET = (".parquet", ".pq")
ASIDE = ".12345678.checkpoint.part"
"""What the names of files that are written beside the target may have more than its own."""


@contextmanager
def written_to(out: Path, kept: str = "") -> Iterator[None]:
    """Name --out where the system refuses to write it; what it refuses elsewhere is left alone.

    Args:
        out: the file or folder.
        kept: what is not lost by it, a sentence.
    """
    try:
        yield
    except OSError as error:
        named = error.filename
        elsewhere = named is not None and not _beside(Path(os.fsdecode(named)), out)
        if elsewhere or error.errno in OF_THE_PROCESS:
            raise
        raise InputError(f"{cannot_write(f'--out {out}', error)} {kept}".rstrip()) from error


def check_writable(out: Path) -> None:
    """Refuse a path in which no file can be made."""
    with written_to(out):
        place = out.absolute()
        with suppress(FileNotFoundError, NotADirectoryError):
            os.lstat(f"{place}{ASIDE}")  # names may be too long
        parent = next(p for p in place.parents if p.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(
            f"--out {shortened(str(out))} cannot be written: {shortened(str(parent))} is no folder "
            "for new files. Name another place."
        )


def check_folder(out: Path) -> None:
    """Refuse a folder in which no file can be made."""
    check_writable(out)
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
    check_writable(out)
    if out.is_dir():
        raise InputError(f"--out {out} is a folder; name a file, such as {out / example}")
    if suffixes and out.suffix.lower() not in suffixes:
        raise InputError(
            f"--out {out}: this is written as {called}; name a {suffixes[0]} file, such as "
            f"{example}"
        )
    if inputs and out.exists():
        from epiclick.data.files import find_files

        if any(out.samefile(file) for file in find_files(inputs)):
            raise InputError(f"--out {out} is a file that is read; name another")


def _beside(path: Path, out: Path) -> bool:
    """Whether a path is the target, in it, beside it, or a folder above it."""
    place, path = (Path(os.path.abspath(each)) for each in (out, path))
    return path.is_relative_to(place.parent) or place.is_relative_to(path)
