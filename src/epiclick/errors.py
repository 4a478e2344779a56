"""Bad input, said so that it can be mended: what, the rule, where, how many, the remedy."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches


@dataclass(frozen=True)
class Problem:
    """One kind of mistake in the input.

    Attributes:
        what: the rule that was broken, in words.
        count: how many rows (or files, ...) break it; None where the words say it all.
        unit: what is counted, in the singular.
        examples: the first offenders, each naming its place and value.
        remedy: what to do about it.
        droppable: going on without the offenders loses no more than them.
    """

    what: str
    count: int | None = None
    unit: str = "row"
    examples: Sequence[str] = ()
    remedy: str = ""
    droppable: bool = True

    def __str__(self) -> str:
        """Say the problem in one line."""
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
    """

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        """Keep the problems beside the message that tells them."""
        super().__init__(message)
        self.problems = tuple(problems)

    @classmethod
    def of(cls, source: str, problems: Sequence[Problem]) -> "InputError":
        """All problems of one source together, one line each."""
        lines = [f"{source} cannot be used:", *(f"  - {problem}" for problem in problems)]
        return cls("\n".join(lines), problems)


class InputWarning(UserWarning):
    """The input can be used, but its answers may mislead."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The nearest known name, in brackets for the end of a message; "" if none is near.

    >>> did_you_mean("positon", ["query_id", "position"])
    " (did you mean 'position'?)"
    """
    near = nearest(name, known)
    return f" (did you mean '{near}'?)" if near else ""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like another, capitals aside; None if none is."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None
