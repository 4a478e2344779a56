"""Output that is whole or absent: write beside the target, rename when done."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_aside(path: str | Path) -> Iterator[Path]:
    """A temporary file beside `path` that takes its place when the block ends without an error.

    An error or Ctrl-C inside the block leaves `path` as it was and removes the temporary file.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    os.close(handle)
    aside = Path(name)
    try:
        yield aside
        aside.chmod(0o666 & ~_umask())
        os.replace(aside, target)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def folder_aside(path: str | Path) -> Iterator[Path]:
    """The same for a folder; one that stands there is replaced when the new one is done."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent))
    try:
        yield aside
        aside.chmod(0o777 & ~_umask())
        # a folder cannot be renamed onto a full one: the old one steps aside first
        old = aside.with_suffix(".old")
        if target.exists():
            os.replace(target, old)
        try:
            os.replace(aside, target)
        except BaseException:
            if old.exists():
                os.replace(old, target)
            raise
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _umask() -> int:
    """The process's umask; mkstemp ignores it, so that its files would stay private."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
