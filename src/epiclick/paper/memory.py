"""Memory that this process holds, and has held at most."""

import resource
import sys
from pathlib import Path

_PROCESS = Path("/proc/self")


def forget_peak() -> None:
    """Count the peak from now on; on Linux only."""
    try:
        (_PROCESS / "clear_refs").write_text("5")
    except OSError:
        return


def peak_memory() -> int:
    """Bytes held at most, since `forget_peak` on Linux, else since the process began."""
    told = _status("VmHWM")
    if told is not None:
        return told
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def held_memory() -> int:
    """Bytes held now; the peak where the system does not tell."""
    told = _status("VmRSS")
    return peak_memory() if told is None else told


def _status(name: str) -> int | None:
    """A line of the kernel's account of this process, in bytes."""
    try:
        lines = (_PROCESS / "status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), None)
