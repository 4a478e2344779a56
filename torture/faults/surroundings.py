"""What surrounds a call: variables, the current folder, the clock, the mask of permissions."""

import os
import sys
import time
from pathlib import Path
from random import Random

from torture.faults.attack import Attack
from torture.faults.fault import Fault, each

FOLDERS = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
PLACES = {
    "absent": None,
    "empty": "",
    "missing": "/proc/nowhere/at/all",
    "file": "/dev/null/x",
    "relative": "not/there",
}
VARIABLES = (
    *({"COLUMNS": "1"}, {"COLUMNS": "0"}, {"COLUMNS": "x"}, {"COLUMNS": "100000"}),
    *({"NO_COLOR": "1"}, {"FORCE_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": "nothing"}),
    *({"LANG": "C", "LC_ALL": "C"}, {"LC_ALL": "xx_YY.nothing"}, {"TZ": "Nowhere/None"}),
    *({"PATH": ""}, {"PYTHONWARNINGS": "error"}, {"OMP_NUM_THREADS": "x"}, {"USER": None}),
)


def folders(attack: Attack, value: str) -> None:
    """Variables that name folders are absent, or name what cannot be used."""
    attack.environment |= {"EPICLICK_CACHE": None, **dict.fromkeys(FOLDERS, PLACES[value])}
    attack.codes, attack.leaves = (0,), True


def unusable_cache(attack: Attack, value: str) -> None:
    """The folder of the cache cannot be used."""
    attack.environment["EPICLICK_CACHE"] = {**PLACES, "long": "x" * 300}[value]
    attack.codes, attack.leaves = (0,), True


def variables(attack: Attack, value: dict[str, str | None]) -> None:
    """Variables of the terminal and of Python."""
    attack.environment |= value
    attack.codes = (0,)


def no_current_folder(attack: Attack, value: str) -> None:
    """The current folder has been removed; paths are relative to it or absolute."""
    gone = attack.folder.with_name("gone")
    gone.mkdir()

    def before() -> None:
        os.chdir(gone)
        gone.rmdir()

    attack.before.append(before)
    if value == "absolute":
        attack.words = [word.replace("in/", f"{attack.folder}/in/") for word in attack.words]
        if attack.out is not None:
            attack.move(f"{attack.folder}/{attack.out}", attack.place)


def clock(attack: Attack, value: str) -> None:
    """The clock is wrong, goes backwards or jumps."""
    rng = Random(attack.rng.random())
    real = time.time
    start = real()

    def changed(now: float) -> float:
        if value == "back":
            return start - (now - start)
        if value == "1970":
            return now - start
        return now + rng.uniform(-1e6, 1e6) if value == "jumping" else now + 1e10

    def before() -> None:
        time.time = lambda: changed(real())
        time.time_ns = lambda: int(1e9 * changed(real()))

    attack.before.append(before)
    attack.codes = (0,)


def mask(attack: Attack, value: int) -> None:
    """The mask of permissions; the output has those that it leaves."""
    before = os.umask(value)
    os.umask(before)
    attack.before.append(lambda: os.umask(value) and None)
    attack.codes = (0,)


def recursion(attack: Attack) -> None:
    """Little room for nested calls."""
    attack.before.append(lambda: sys.setrecursionlimit(400))
    attack.codes = (0, 1, 2)


def many_arguments(attack: Attack) -> None:
    """An option that the verb lacks, with control characters."""
    attack.words = [*attack.words, "--\x1b[31mnone\x07"]
    attack.codes = (2,)


def own_links(attack: Attack) -> None:
    """The current folder is reached by a link."""
    link = attack.folder.with_name("link")
    link.symlink_to(attack.folder)
    attack.before.append(lambda: os.chdir(link))
    attack.codes = (0,)


def crowded(attack: Attack) -> None:
    """Files of somebody else that look like temporary ones, next to the output."""
    assert attack.place is not None
    names = (f".{attack.place.name}.part", f".{attack.place.name}.0-1-2.3.part", "tmp", ".tmp")
    for name in names:
        Path(attack.folder, name).write_text("mine")
    attack.codes = (0,)


FAULTS = [
    *each(folders, tuple(PLACES)),
    *each(unusable_cache, (*PLACES, "long")),
    *each(variables, VARIABLES),
    *each(no_current_folder, ("relative", "absolute")),
    *each(clock, ("back", "1970", "jumping", "future")),
    *each(mask, (0o077, 0, 0o777)),
    Fault("unknown option", many_arguments),
    Fault("current folder by a link", own_links),
    Fault("crowded", crowded, of_output=True),
]
