"""Many damaged versions of one file, read one after the other in a forked process."""

import json
import os
import resource
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torture.damage.fingerprint import fingerprint

MEMORY = 6 << 30
"""Bytes of addresses that a reader may have: a damaged size must not take the machine's."""

LIMIT = 30.0
"""Seconds after which the reading of one file hangs."""

Version = tuple[str, bytes]
"""What was done to a file, and its bytes then."""


@dataclass
class Stretch:
    """What became of the versions: how many were refused and read as before, and what failed."""

    refused: int = 0
    same: int = 0
    failed: list[str] = field(default_factory=list)


def read_each(file: Path, versions: Sequence[Version], read: Callable[[], Any]) -> Stretch:
    """Read each version of a file; a process that dies is followed by one for the rest.

    Args:
        file: where each version is written before it is read.
        versions: of the file, the first of which is undamaged.
        read: reads it; a result of None says that the file was dropped, a refusal.
    """
    found, answers = Stretch(), []
    while len(answers) < len(versions):
        answers += list(_answers(file, versions[len(answers) :], read))
    expected = answers[0]["answer"]
    for (name, _), line in zip(versions, answers, strict=True):
        if "error" in line:
            found.failed.append(f"{name}: {line['error']}")
        elif expected is None:
            found.failed.append(f"{name}: the undamaged file was refused")
        elif line["answer"] is None:
            found.refused += 1
        elif line["answer"] == expected:
            found.same += 1
        else:
            found.failed.append(f"{name}: accepted, and read as something else")
    return found


def _answers(
    file: Path, versions: Sequence[Version], read: Callable[[], Any]
) -> Iterator[dict[str, Any]]:
    """An answer for each version; the last one is an error if the process dies or hangs."""
    out, into = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if not process:
        os.close(out)
        try:
            _read_in_child(file, versions, read, into)
        finally:
            os._exit(0)
    os.close(into)
    count = 0
    with os.fdopen(out, "rb") as lines:
        text, deadline = b"", time.monotonic() + LIMIT
        while count < len(versions):
            ready, _, _ = select.select([lines], [], [], max(deadline - time.monotonic(), 0))
            part = os.read(lines.fileno(), 1 << 16) if ready else None
            if not part:
                break
            *whole, text = (text + part).split(b"\n")
            for line in whole:
                count += 1
                yield json.loads(line)
            deadline = time.monotonic() + LIMIT
    if count < len(versions):
        os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    if count < len(versions):
        how = f"no end after {LIMIT:.0f} s" if part is None else f"the process died ({status})"
        yield {"answer": None, "error": how}


def _read_in_child(
    file: Path, versions: Sequence[Version], read: Callable[[], Any], into: int
) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    for _, content in versions:
        file.write_bytes(content)
        os.write(into, json.dumps(_answer(read)).encode() + b"\n")


def _answer(read: Callable[[], Any]) -> dict[str, Any]:
    """The fingerprint of what was read, None if it was refused; anything else is an error."""
    from epiclick.errors import InputError

    try:
        found = read()
        return {"answer": None if found is None else fingerprint(found)}
    except InputError as error:
        text = str(error)
        if not text.strip() or any(not c.isprintable() and c != "\n" for c in text):
            return {"answer": None, "error": f"an unusable message: {text!r}"}
        return {"answer": None}
    except BaseException as error:  # noqa: BLE001 - what the command line would end with
        lines = traceback.format_exc().splitlines()
        return {"answer": None, "error": f"{type(error).__name__}: {error} {lines[-4:-1]}"[:500]}
