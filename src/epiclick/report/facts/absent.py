"""What the page cannot tell, and what would let it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Absent:
    """A part of the page that is missing.

    Attributes:
        words: why, as a sentence.
        remedy: what to add to the command, as it is typed; empty where nothing would help.
    """

    words: str
    remedy: str = ""
