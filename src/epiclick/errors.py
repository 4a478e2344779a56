"""Errors a user can act on: bad input with its remedy, and failures of the operating system."""

import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from epiclick.spelling import spelled


def printable(text: str) -> str:
    r"""The text with control characters, which names and ids may contain, written as escapes.

    Printed as they are, they could move the cursor, change colours or reverse the text around them.

    >>> printable("red \x1b[31m\nnext line")
    'red \\x1b[31m\nnext line'
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each == "\n" else repr(each)[1:-1] for each in text
    )


@dataclass(frozen=True)
class Problem:
    """One kind of mistake in the input.

    Attributes:
        what: the rule that was broken, as a phrase.
        count: how many rows (or files, ...) break it; None where that does not apply.
        unit: what is counted, in the singular.
        examples: the first offenders, each with its place and value.
        remedy: what to do about it, as a sentence.
        droppable: whether the offenders can be dropped without affecting other rows.
        code: the rule's stable name, such as `clicks-exceed-displays`.
    """

    what: str
    count: int | None = None
    unit: str = "row"
    examples: Sequence[str] = ()
    remedy: str = ""
    droppable: bool = True
    code: str = field(kw_only=True)

    def __str__(self) -> str:
        """The problem in one line."""
        line = self.what
        if self.count is not None:
            line += f": {self.count:,} {self.unit}{'' if self.count == 1 else 's'}"
        if self.examples:
            line += f", first {'; '.join(self.examples)}"
        line += "."
        return f"{line} {self.remedy}" if self.remedy else line


class InputError(ValueError):
    """The input cannot be used; the message says why and what to do.

    The command line prints the message and exits with code 2.

    Attributes:
        code: stable name of the broken rule, such as `clicks-exceed-displays`. Messages may
            be reworded; programs should test the code.
        problems: one entry per kind of mistake, where several are reported together.
    """

    def __init__(self, message: str, *, code: str, problems: Sequence[Problem] = ()) -> None:
        """Store the code and the problems along with the message."""
        super().__init__(printable(message))
        self.code = code
        self.problems = tuple(problems)

    def __str__(self) -> str:
        """The message, with options as the reader writes them."""
        return spelled(super().__str__())

    @classmethod
    def of(cls, source: str, problems: Sequence[Problem]) -> "InputError":
        """One error for all problems of a source, a line for each, with the first one's code."""
        lines = [f"{source} cannot be used:", *(f"  - {problem}" for problem in problems)]
        return cls("\n".join(lines), code=problems[0].code, problems=problems)

    def with_message(self, message: str) -> "InputError":
        """The same error with another message, such as with a remedy that only the caller knows."""
        return InputError(message, code=self.code, problems=self.problems)


class InputWarning(UserWarning):
    """The input can be used, but results may be misleading."""

    def __str__(self) -> str:
        """The message, with options as the reader writes them."""
        return spelled(super().__str__())


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The most similar known name, in parentheses for the end of a message; "" if none is similar.

    >>> did_you_mean("positon", ["query_id", "position"])
    " (did you mean 'position'?)"
    """
    near = nearest(name, known)
    return f" (did you mean '{near}'?)" if near else ""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most similar to `name`, ignoring case; None if none is similar."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


MACHINE_FAILED = 1
"""Exit code for failures of the machine, such as a full disk, too little memory, a limit."""

BAD_INPUT = 2
"""Exit code for invalid input, options or paths."""


@dataclass(frozen=True)
class Refusal:
    """An operation that the operating system refuses.

    Attributes:
        why: the reason, a phrase to follow a colon.
        remedy: what to do about it, as a sentence.
        code: the exit code.
    """

    why: str
    remedy: str
    code: int


FULL = Refusal("the disk is full", "Free some space, or name another place.", MACHINE_FAILED)
DENIED = Refusal("permission denied", "Name another place, or change its permissions.", BAD_INPUT)
NO_FOLDER = Refusal("a file is where a folder is needed", "Name another place.", BAD_INPUT)
MANY_FILES = Refusal(
    "too many files are open", "Raise the limit, such as with ulimit -n 1024.", MACHINE_FAILED
)

NO_TEMPORARY = Refusal(
    "no folder for temporary files can be written",
    "Free some space, or set TMPDIR to a folder with some.",
    MACHINE_FAILED,
)

NO_THREAD = Refusal(
    "no further thread or process can be started",
    "Raise the limit, such as with ulimit -u 4096, or end other programs.",
    MACHINE_FAILED,
)

REFUSALS: Mapping[int, Refusal] = {
    errno.EAGAIN: NO_THREAD,
    errno.ENOSPC: FULL,
    errno.EDQUOT: FULL,
    errno.EFBIG: Refusal(
        "the file would exceed the limit on the size of files",
        "Raise the limit, such as with ulimit -f unlimited, or name a place on another disk.",
        MACHINE_FAILED,
    ),
    errno.EMFILE: MANY_FILES,
    errno.ENFILE: MANY_FILES,
    errno.ENOMEM: Refusal("out of memory", "Free some memory, or use less data.", MACHINE_FAILED),
    errno.EIO: Refusal(
        "reading or writing failed", "Check the disk, then run the command again.", MACHINE_FAILED
    ),
    errno.EROFS: Refusal("the file system is read-only", "Name another place.", BAD_INPUT),
    errno.EACCES: DENIED,
    errno.EPERM: DENIED,
    errno.ENAMETOOLONG: Refusal("the name is too long", "Choose a shorter one.", BAD_INPUT),
    errno.ENOTDIR: NO_FOLDER,
    errno.EEXIST: NO_FOLDER,
    errno.EISDIR: Refusal("it is a folder", "Name a file.", BAD_INPUT),
    errno.ENOENT: Refusal("there is no such file or folder", "Check the path.", BAD_INPUT),
    errno.ELOOP: Refusal("its symbolic links form a loop", "Check the path.", BAD_INPUT),
}
OUT_OF_MEMORY = (
    *("RESOURCE_EXHAUSTED", "Out of Memory Error", "bad allocation", "bad_alloc"),
    "failed to map segment from shared object",
)
"""How jax, DuckDB, C++ and the loader of libraries report it, each with an error of its own."""

LONGEST = 120  # characters of a path in a message


def refusal_of(error: BaseException) -> Refusal | None:
    """The refusal behind an error or one of its causes; None if the system refused nothing.

    Query engines raise their own errors, with the system's message but without its errno.
    """
    for each in _causes(error):
        # Arrow and gzip raise OSErrors without errno for damaged files: no refusal
        if isinstance(each, OSError) and (each.errno is not None or each is error):
            if "No usable temporary directory" in (each.strerror or ""):  # in the words of tempfile
                return NO_TEMPORARY
            own = each.strerror or str(each) or type(each).__name__
            return REFUSALS.get(each.errno or 0, Refusal(own, "", MACHINE_FAILED))
    for each in _causes(error):
        if any(phrase in str(each) for phrase in OUT_OF_MEMORY):
            return REFUSALS[errno.ENOMEM]
        if "can't start new thread" in str(each):  # in the words of Python
            return NO_THREAD
        for number, refusal in REFUSALS.items():
            if refusal.code == MACHINE_FAILED and os.strerror(number) in str(each):
                return refusal
    return None


def cannot_write(place: str, error: OSError) -> str:
    """A message that a path cannot be written, with the reason and the remedy."""
    return _sentence(f"{shortened(place)} cannot be written", error)


def cannot_use(error: OSError) -> str:
    """A message for an error whose operation is not known."""
    place = "a file" if error.filename is None else shortened(os.fsdecode(error.filename))
    return _sentence(f"{place} cannot be used", error)


def shortened(path: str) -> str:
    """The path, abbreviated in the middle if it is too long for a message."""
    return path if len(path) <= LONGEST else f"{path[: LONGEST // 2]}...{path[-LONGEST // 2 :]}"


def _sentence(what: str, error: OSError) -> str:
    if error.errno == errno.ENOENT and not _current_folder_exists():
        return "the current folder no longer exists. Change to one that does, such as with cd ~."
    refusal = refusal_of(error)
    assert refusal is not None
    return f"{what}: {refusal.why}. {refusal.remedy}".rstrip()


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _current_folder_exists() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True
