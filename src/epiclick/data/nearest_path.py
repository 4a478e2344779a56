"""The file or folder that was meant, where the one named is not there."""

from glob import has_magic
from pathlib import Path

from epiclick.errors import nearest


def did_you_mean_path(path: Path) -> str:
    """The nearest path that is there, in brackets for the end of a message; "" if none is near."""
    near = None if path.exists() or has_magic(str(path)) else _nearest_path(path)
    return f" (did you mean '{near}'?)" if near else ""


def _nearest_path(path: Path) -> Path | None:
    """A path that is there, each missing part of it replaced by the nearest name."""
    if path.exists() or path == path.parent:
        return path
    folder = _nearest_path(path.parent)
    if folder is None or not folder.is_dir():
        return None
    if (folder / path.name).exists():
        return folder / path.name
    try:
        names = [each.name for each in folder.iterdir() if not each.name.startswith(".")]
    except OSError:  # a folder that may not be looked into
        return None
    near = nearest(path.name, names)
    return None if near is None else folder / near
