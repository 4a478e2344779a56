"""Faults of the machine: full disks, limits, files that fail, threads that do not start."""

import errno
import os
import resource
import sys
import threading
from pathlib import Path

from torture.faults import mounts
from torture.faults.attack import GAVE_UP, Attack
from torture.faults.fault import Fault, each
from torture.faults.rights import give_away, obey_limits, obey_permissions
from torture.faults.stream_faults import through_pipes

FAILING = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.ESTALE)


def limit(name: str, most: int) -> None:
    """Limit a resource of this process."""
    number = getattr(resource, name)
    resource.setrlimit(number, (most, resource.getrlimit(number)[1]))


def file_size_limit(attack: Attack, value: int) -> None:
    """Files may not grow beyond a size."""
    attack.codes = (0, 1)
    through_pipes(attack)
    attack.before.append(lambda: limit("RLIMIT_FSIZE", value))


def open_files(attack: Attack, value: int) -> None:
    """Few files may be open."""
    attack.codes = (0, 1)
    attack.before.append(lambda: limit("RLIMIT_NOFILE", value))


def memory(attack: Attack, value: int) -> None:
    """Room for some more megabytes of addresses only.

    Compiled libraries end the process where they cannot allocate: no message is possible there.
    """

    def before() -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit("RLIMIT_AS", pages * resource.getpagesize() + value * 2**20)

    attack.codes = (0, 1, *GAVE_UP)
    attack.before.append(before)


def processes(attack: Attack, value: int) -> None:
    """No further processes or threads, which root may always start."""
    attack.codes = (0, 1)
    for place in (attack.folder, Path(f"{attack.folder}.tmp"), Path(f"{attack.folder}.cache")):
        place.mkdir(exist_ok=True)
        give_away(place)
    attack.before += [obey_limits, lambda: limit("RLIMIT_NPROC", value)]


def no_thread_starts(attack: Attack) -> None:
    """Threads of Python do not start."""

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    attack.codes = (0, 1)
    attack.before.append(lambda: setattr(threading.Thread, "start", start))


def full_disk(attack: Attack, value: str) -> None:
    """A disk with room for few pages, for the output, the cache or temporary files."""
    pages = attack.rng.choice((0, 0, 1, 2, 4, 8, 16))
    disk = attack.folder.with_name("disk") if value != "output" else attack.folder / "disk"
    attack.codes = (0, 1)
    if not mounts.are_allowed():  # the nearest to a full disk
        return file_size_limit(attack, pages * mounts.PAGE)
    disk.mkdir()
    mounts.mount_memory(disk, 16 * 2**20)
    attack.after.append(lambda: mounts.unmount(disk))
    if value == "output":
        assert attack.place is not None
        place = disk / attack.place.name
        if attack.place.exists():
            from torture.faults.verbs import copied

            copied(attack.place, place)
            _remove(attack.place)
        attack.move(f"disk/{place.name}", place)
        attack.codes = (0, 1, 2)
    elif value == "cache":
        attack.environment["EPICLICK_CACHE"] = str(disk / "cache")
    else:
        attack.environment["TMPDIR"] = str(disk)
    mounts.fill(disk, pages)
    return None


def _remove(path: Path) -> None:
    import shutil

    shutil.rmtree(path) if path.is_dir() else path.unlink()


def read_only_disk(attack: Attack, value: str) -> None:
    """A read-only folder for the output, the cache or temporary files."""
    folder = attack.folder / "fixed" if value == "output" else attack.folder.with_name("fixed")
    folder.mkdir()
    if value == "output":
        assert attack.place is not None
        if attack.place.exists():
            attack.place.rename(folder / attack.place.name)
        attack.move(f"fixed/{attack.place.name}", folder / attack.place.name)
        attack.codes, attack.named = (2,), ("fixed",)
    elif value == "cache":
        attack.environment["EPICLICK_CACHE"] = str(folder)
    else:
        attack.environment["TMPDIR"] = str(folder)
    if mounts.are_allowed():
        mounts.mount_read_only(folder)
        attack.after.append(lambda: mounts.unmount(folder))
    else:
        folder.chmod(0o500)
        attack.after.append(lambda: folder.chmod(0o700))


def no_permission(attack: Attack, value: str) -> None:
    """A folder of somebody else for the output, or an input that may not be read."""
    if value == "output":
        assert attack.place is not None
        folder = attack.folder / "locked"
        folder.mkdir()
        folder.chmod(0o555)
        attack.move(f"locked/{attack.place.name}", folder / attack.place.name)
        attack.named = ("locked",)
        attack.after.append(lambda: folder.chmod(0o755))
    else:
        from torture.faults.output_names import replaced_input

        path = replaced_input(attack)
        path.write_bytes(b"query_id,doc_id,position,click\n1,1,1,1\n")
        path.chmod(0)
    attack.before.append(obey_permissions)
    attack.codes = (2,)


def failing_operation(attack: Attack) -> None:
    """The n-th time that a file is opened, renamed or a folder is made fails."""
    number, at = attack.rng.choice(FAILING), int(attack.rng.expovariate(1 / 6))
    inside = (str(attack.folder), str(attack.folder.resolve()))
    at_most = [at]

    def fails(event: str, arguments: tuple) -> None:
        if event not in ("open", "os.rename", "os.mkdir") or not arguments:
            return
        try:
            path = os.path.abspath(os.fsdecode(arguments[0]))
        except TypeError:  # an open descriptor
            return
        if path.startswith(inside) and "Python" not in path:
            at_most[0] -= 1
            if at_most[0] == -1:
                raise OSError(number, os.strerror(number), path)

    attack.leaves = number == errno.EIO
    attack.before.append(lambda: sys.addaudithook(fails))


FAULTS = [
    *each(file_size_limit, (0, 100, 3_000, 20_000), of_output=True),
    *each(open_files, (4, 8, 12, 16, 24)),
    *each(memory, (0, 4, 16, 64, 128, 256)),
    *each(processes, (0, 1)),
    Fault("no thread starts", no_thread_starts),
    *each(full_disk, ("output",), of_output=True, times=4),
    *each(full_disk, ("cache", "temporary"), times=2),
    *each(read_only_disk, ("output",), of_output=True),
    *each(read_only_disk, ("cache", "temporary")),
    *each(no_permission, ("output",), of_output=True, earlier=False),
    *each(no_permission, ("input",), of_input=True),
    Fault("failing operation", failing_operation, times=8),
]
