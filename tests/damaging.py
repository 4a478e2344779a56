"""Files damaged in many ways: each must be rejected or read as if it were intact."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from epiclick.errors import InputError

FLIPS = 250
CUTS = 40


def flipped(content: bytes, flips: int = FLIPS, seed: int = 0) -> Iterator[bytes]:
    """One bit flipped in places spread over all of the content; in every byte if they suffice."""
    rng = np.random.default_rng(seed)
    edges = np.linspace(0, len(content), min(flips, len(content)) + 1).astype(int)
    for start, stop in pairwise(edges):
        at, bit = int(rng.integers(start, stop)), int(rng.integers(8))
        yield content[:at] + bytes([content[at] ^ (1 << bit)]) + content[at + 1 :]


def cut(content: bytes, cuts: int = CUTS) -> Iterator[bytes]:
    """Beginnings of the content, from none of it to all but a byte."""
    for length in np.unique(np.linspace(0, len(content) - 1, cuts).astype(int)):
        yield content[:length]


def damaged(content: bytes, flips: int = FLIPS, seed: int = 0) -> Iterator[bytes]:
    """The content with flips, cut, and with something added."""
    yield from flipped(content, flips, seed)
    yield from cut(content)
    yield content + b"\0"


def assert_damage_is_found(
    file: Path, check_same: Callable[[], None], flips: int = FLIPS, seed: int = 0
) -> tuple[int, int]:
    """Damage a file in many ways; reading it must raise InputError or find the same content.

    `check_same` reads and compares. Returns how often the file was refused, and how often not.
    """
    content = file.read_bytes()
    refused = same = 0
    for broken in damaged(content, flips, seed):
        file.write_bytes(broken)
        try:
            check_same()
            same += 1
        except InputError as error:
            assert str(error).strip()  # noqa: PT017
            refused += 1
    file.unlink()
    file.mkdir()
    try:
        check_same()
        raise AssertionError("a folder in place of the file was read")
    except InputError:
        refused += 1
    file.rmdir()
    file.write_bytes(content)
    check_same()
    return refused, same
