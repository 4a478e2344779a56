"""Memory of this process."""

import resource
import sys
from pathlib import Path

_PROCESS = Path("/proc/self")


def reset_peak_memory() -> None:
    """Restart the measurement of peak memory; on Linux only."""
    try:
        (_PROCESS / "clear_refs").write_text("5")
    except OSError:
        return


def peak_memory() -> int:
    """Peak memory in bytes, since `reset_peak_memory` on Linux, else since the process began."""
    resident = _status("VmHWM")
    if resident is not None:
        return resident
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def current_memory() -> int:
    """Memory in use, in bytes; its peak where the system reports nothing else."""
    resident = _status("VmRSS")
    return peak_memory() if resident is None else resident


def _status(name: str) -> int | None:
    """A field of the kernel's status of this process, in bytes; None where there is none."""
    try:
        lines = (_PROCESS / "status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), None)
