"""Atomic output that never replaces files which epiclick did not write.

A folder written by epiclick has a JSON file that lists the other files with their checksums
(`data.checksums`). Files that are not listed, or do not match, belong to the user.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epiclick.data.checksums import MALFORMED, check_file, check_record, from_json, get
from epiclick.data.leftovers import clean_up, exchange, temporary
from epiclick.errors import InputError, cannot_write


@contextmanager
def written_aside(path: str | Path) -> Iterator[Path]:
    """A temporary file next to `path` that replaces it when the block ends without an error.

    An error or Ctrl-C inside the block leaves `path` unchanged and removes the temporary file. What
    a killed process left of it is removed by the next one.
    """
    target = Path(path)
    refuse_device(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    clean_up(target)
    aside = temporary(target)
    aside.touch(mode=0o600, exist_ok=False)
    try:
        yield aside
        aside.chmod(0o666 & ~_umask())
        os.replace(aside, target)
    finally:
        aside.unlink(missing_ok=True)


def refuse_device(target: Path) -> None:
    """Refuse a device or a pipe, such as /dev/null: renaming a file to it would remove it."""
    if target.exists() and not (target.is_file() or target.is_dir()):
        raise InputError(
            f"{target} is a device or a pipe, which a file would replace. Name a file.",
            code="not-a-file",
        )


@contextmanager
def folder_aside(path: str | Path) -> Iterator[Path]:
    """The same for a folder; an existing one is replaced when the new one is complete."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    clean_up(target)
    aside = temporary(target)
    aside.mkdir(mode=0o700)
    try:
        yield aside
        aside.chmod(0o777 & ~_umask())
        _put(aside, target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _put(aside: Path, target: Path) -> None:
    """Move a folder to its target; what was there before is at `aside` afterwards, or removed."""
    # a folder cannot be renamed onto one that is not empty
    if not target.exists():
        os.replace(aside, target)
        return
    if exchange(aside, target):
        return
    # between these two renames there is no folder at the target: `clean_up` moves it back
    old = temporary(target, "old")
    os.replace(target, old)
    try:
        os.replace(aside, target)
    except BaseException:
        os.replace(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _umask() -> int:
    """The process's umask; temporary files are private until they are complete."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


StrPath = str | os.PathLike[str]
NAMED = 3


@dataclass(frozen=True)
class FolderKind:
    """A kind of folder that epiclick writes.

    Attributes:
        called: its name in messages, such as "model".
        record: name of the JSON file that lists the other files.
        format: value of its key `format`.
    """

    called: str
    record: str
    format: str


def check_replaceable(path: StrPath, kind: FolderKind) -> bool:
    """Whether a folder of this kind exists; refuses a path with anything else.

    To be called before long work. A link is followed.
    """
    folder = Path(os.path.realpath(path))
    try:
        clean_up(folder)
        if not folder.exists():
            return False
        entries = sorted(folder.iterdir()) if folder.is_dir() else [folder]
        if not entries:
            return False
        record = _record(folder, kind)
        if record is None:
            raise InputError(
                f"{os.fspath(path)} contains something other than a {kind.called} "
                f"({named([entry.name for entry in entries])}) and is not replaced. "
                "Name a new folder, or remove this one first.",
                code="foreign-folder",
            )
        files = get(record, "files", dict)
        own = [entry for entry in entries if entry.name in (kind.record, *files)]
        own = [entry for entry in own if entry.is_file() and not entry.is_symlink()]
        if foreign := [entry.name for entry in entries if entry not in own]:
            raise InputError(
                f"{os.fspath(path)} contains a {kind.called}, but also {named(foreign)}, and is "
                "not replaced. Name a new folder, or move the other files elsewhere.",
                code="foreign-files",
            )
        changed = [e.name for e in own if e.name != kind.record and not _as_written(e, record)]
    except OSError as error:
        raise _not_written(path, error) from error
    if changed:
        raise InputError(
            f"{os.fspath(path)} contains a {kind.called}, but {named(changed)} changed since it "
            "was written, and is not replaced. Name a new folder, or remove this one first.",
            code="changed-files",
        )
    return True


@contextmanager
def replacing(path: StrPath, kind: FolderKind) -> Iterator[Path]:
    """A folder to write into, which replaces `path` when the block ends without an error.

    `path` must be replaceable both before and at the end.
    """
    check_replaceable(path, kind)
    try:
        # the folder that a link points to is replaced, not the link
        with folder_aside(os.path.realpath(path)) as aside:
            yield aside
            check_replaceable(path, kind)
    except OSError as error:
        raise _not_written(path, error) from error


def _not_written(path: StrPath, error: OSError) -> InputError:
    return InputError(cannot_write(os.fspath(path), error), code="cannot-write")


def named(names: Sequence[str]) -> str:
    """The first three names, and the number of others."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"


def _record(folder: Path, kind: FolderKind) -> dict[str, Any] | None:
    """The verified record of a folder; None if epiclick did not write it."""
    path = folder / kind.record
    if not folder.is_dir() or path.is_symlink() or not path.is_file():
        return None
    try:
        record = from_json(path.read_bytes())
        if get(record, "format", str) != kind.format:
            return None
        check_record(record)
        get(record, "files", dict)
    except MALFORMED:
        return None
    return dict(record)


def _as_written(path: Path, record: dict[str, Any]) -> bool:
    try:
        check_file(path, record)
    except ValueError:
        return False
    return True
