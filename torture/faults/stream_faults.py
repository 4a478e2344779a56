"""Standard streams that are closed, full, broken, or of another encoding."""

import os
import select
import sys
import time
from collections.abc import Callable
from pathlib import Path

from torture.faults.attack import Attack
from torture.faults.fault import Fault, each
from torture.program import ERR, LIMIT, OUT


def _reopened(number: int, encoding: str = "utf-8") -> None:
    """Give Python a standard stream anew, as it would find it at its start."""
    name = ("stdin", "stdout", "stderr")[number]
    try:
        os.fstat(number)
        options = {"encoding": encoding, "errors": "strict" if number == 1 else "backslashreplace"}
        stream = os.fdopen(number, "w", closefd=False, **options)
    except OSError:
        stream = None
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)


def _to_file(*numbers: int, name: str) -> Callable[[], None]:
    def before() -> None:
        file = os.open(name, os.O_WRONLY)
        for number in numbers:
            os.dup2(file, number)
            _reopened(number)
        os.close(file)

    return before


def closed(attack: Attack, value: str) -> None:
    """Some of the streams are closed."""
    numbers = [("stdin", "stdout", "stderr").index(name) for name in value.split("+")]

    def before() -> None:
        for number in numbers:
            os.close(number)
            if number:
                _reopened(number)
            else:
                sys.stdin = sys.__stdin__ = None

    attack.before.append(before)
    attack.hears, attack.sees = 2 not in numbers, 1 not in numbers
    attack.codes = (2,) if 1 in numbers else (0,)


def full(attack: Attack, value: str) -> None:
    """Some of the streams are on a full disk."""
    numbers = [("stdin", "stdout", "stderr").index(name) for name in value.split("+")]
    attack.before.append(_to_file(*numbers, name="/dev/full"))
    attack.hears, attack.sees = 2 not in numbers, 1 not in numbers
    attack.codes = (1,) if 1 in numbers else (0,)
    attack.named = ("standard output",)


def to_null(attack: Attack) -> None:
    """Standard output is thrown away."""
    attack.before.append(_to_file(1, name=os.devnull))
    attack.sees, attack.codes = False, (0,)


def broken_pipe(attack: Attack) -> None:
    """Nobody reads what is printed."""

    def before() -> None:
        read, write = os.pipe()
        os.close(read)
        os.dup2(write, 1)
        os.close(write)
        _reopened(1)

    attack.before.append(before)
    attack.sees, attack.codes = False, (141,)


def early_end(attack: Attack, value: int) -> None:
    """The reader of what is printed goes away after some bytes."""
    read, write = os.pipe()

    def before() -> None:
        os.dup2(write, 1)
        os.close(write)
        os.close(read)
        _reopened(1)

    def during(_: int) -> None:
        os.close(write)
        os.read(read, value)
        os.close(read)

    attack.before.append(before)
    attack.during = during
    attack.sees, attack.codes = False, (0, 141)


def through_pipes(attack: Attack) -> None:
    """Read what is printed by pipes, which are not bound to what files are."""
    pipes = [os.pipe(), os.pipe()]

    def before() -> None:
        for number, (read, write) in enumerate(pipes, 1):
            os.dup2(write, number)
            _reopened(number)
            os.close(read)
            os.close(write)

    def during(_: int) -> None:
        found: dict[int, bytes] = {}
        for read, write in pipes:
            os.close(write)
            found[read] = b""
        is_open, deadline = set(found), time.monotonic() + LIMIT
        while is_open and time.monotonic() < deadline:
            for read in select.select([*is_open], [], [], 1)[0]:
                part = os.read(read, 65_536)
                found[read] += part
                if not part:
                    is_open.remove(read)
        for read, name in zip(found, (OUT, ERR), strict=True):
            os.close(read)
            Path(f"{attack.folder}{name}").write_bytes(found[read])

    attack.before.append(before)
    attack.during = during


def encoding(attack: Attack, value: str) -> None:
    """A terminal that lacks most characters."""
    attack.environment |= {"LANG": "C", "LC_ALL": "C", "PYTHONIOENCODING": value}
    attack.before += [lambda: _reopened(1, value), lambda: _reopened(2, value)]
    attack.codes = (0,)


FAULTS = [
    *each(
        closed,
        ("stdin", "stdout", "stderr", "stdin+stderr", "stdout+stderr", "stdin+stdout+stderr"),
    ),
    *each(full, ("stdout", "stderr", "stdout+stderr")),
    Fault("to null", to_null),
    Fault("broken pipe", broken_pipe),
    *each(early_end, (1, 100)),
    *each(encoding, ("ascii", "latin-1")),
]
