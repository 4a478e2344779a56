"""What the operating system refuses, by its error number: why, the remedy, the exit code."""

import errno
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

MACHINE_FAILED = 1
"""Exit code where the command and its input were fine: a full disk, too little memory, a limit."""

BAD_INPUT = 2
"""Exit code of input, options or places that cannot be used as they are."""


@dataclass(frozen=True)
class Refusal:
    """One kind of refusal.

    Attributes:
        why: in words, after a colon.
        remedy: what to do about it, a sentence.
        code: the exit code.
    """

    why: str
    remedy: str
    code: int


FULL = Refusal("the disk is full", "Free some space, or name another place.", MACHINE_FAILED)
DENIED = Refusal("permission denied", "Name another place, or ask for the permission.", BAD_INPUT)
NO_FOLDER = Refusal("a file stands where a folder is needed", "Name another place.", BAD_INPUT)
MANY_FILES = Refusal(
    "too many files are open", "Raise the limit, such as with ulimit -n 1024.", MACHINE_FAILED
)

REFUSALS: Mapping[int, Refusal] = {
    errno.ENOSPC: FULL,
    errno.EDQUOT: FULL,
    errno.EFBIG: Refusal(
        "the file would exceed the limit on the size of files",
        "Raise the limit, such as with ulimit -f unlimited, or name a place on another disk.",
        MACHINE_FAILED,
    ),
    errno.EMFILE: MANY_FILES,
    errno.ENFILE: MANY_FILES,
    errno.ENOMEM: Refusal("out of memory", "Free some, or use less data.", MACHINE_FAILED),
    errno.EIO: Refusal(
        "reading or writing failed", "Check the disk, then give the command again.", MACHINE_FAILED
    ),
    errno.EROFS: Refusal("the file system is read-only", "Name another place.", BAD_INPUT),
    errno.EACCES: DENIED,
    errno.EPERM: DENIED,
    errno.ENAMETOOLONG: Refusal("the name is too long", "Choose a shorter one.", BAD_INPUT),
    errno.ENOTDIR: NO_FOLDER,
    errno.EEXIST: NO_FOLDER,
    errno.EISDIR: Refusal("it is a folder", "Name a file.", BAD_INPUT),
    errno.ENOENT: Refusal("there is no such file or folder", "Check the path.", BAD_INPUT),
    errno.ELOOP: Refusal("its symbolic links lead in a circle", "Check the path.", BAD_INPUT),
}
LONGEST = 120  # characters of a path in a message


def refusal_of(error: BaseException) -> Refusal | None:
    """The refusal behind an error, its causes included; None if the system refused nothing.

    Engines write the system's words into errors of their own, and keep no number.
    """
    for each in _causes(error):
        # Arrow and gzip raise OSErrors without a number for damage: not the system's words
        if isinstance(each, OSError) and (each.errno is not None or each is error):
            own = each.strerror or str(each) or type(each).__name__
            return REFUSALS.get(each.errno or 0, Refusal(own, "", MACHINE_FAILED))
    for each in _causes(error):
        for number, refusal in REFUSALS.items():
            if refusal.code == MACHINE_FAILED and os.strerror(number) in str(each):
                return refusal
    return None


def cannot_write(place: str, error: OSError) -> str:
    """That a place cannot be written, why, and what to do."""
    return _sentence(f"{shortened(place)} cannot be written", error)


def cannot_use(error: OSError) -> str:
    """The same of an error that nobody said more about."""
    place = "a file" if error.filename is None else shortened(os.fsdecode(error.filename))
    return _sentence(f"{place} cannot be used", error)


def shortened(path: str) -> str:
    """A path that fits a message."""
    return path if len(path) <= LONGEST else f"{path[: LONGEST // 2]}...{path[-LONGEST // 2 :]}"


def _sentence(what: str, error: OSError) -> str:
    if error.errno == errno.ENOENT and not _folder_stands():
        return "the current folder no longer exists. Change to one that does, such as with cd ~."
    refusal = refusal_of(error)
    assert refusal is not None
    return f"{what}: {refusal.why}. {refusal.remedy}".rstrip()


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _folder_stands() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True
