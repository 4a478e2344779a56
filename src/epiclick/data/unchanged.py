"""Files that stay as they are while they are read, however many passes that takes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from epiclick.data.files import find_files, paths_in
from epiclick.errors import InputError

State = list[list[Any]]
"""Per file: its path, size, times of change (of its content, of anything about it) and inode."""


@contextmanager
def unchanged(source: Any) -> Iterator[None]:
    """Refuse what was read inside if a file of the source was changed, added or removed meanwhile.

    A log is read in several passes, and numbers from two versions of it contradict each other. To
    be entered before anything of the files is read. A source that is no file is not checked.
    """
    paths = paths_in(source)
    if not paths:
        yield
        return
    before = state_of(find_files(paths))
    try:
        yield
    except Exception as error:
        # whatever went wrong, a file that changed under the reader is the reason to give
        if change := _change(_present(paths), before):
            raise _refusal(change) from error
        raise
    refuse_changed(_present(paths), before)


def refuse_changed(files: Sequence[Path], before: State) -> None:
    """Raise if some files are not, or no longer, those of a state."""
    if change := _change(files, before):
        raise _refusal(change)


def state_of(files: Sequence[Path]) -> State:
    """What distinguishes one version of the files from another."""
    state = []
    for file in files:
        try:
            stat = file.stat()
        except FileNotFoundError as error:
            raise _refusal(f"{file} (it is gone)") from error
        times = [stat.st_mtime_ns, stat.st_ctime_ns]
        state.append([str(file.absolute()), stat.st_size, *times, stat.st_ino])
    return state


def _present(paths: Sequence[str | Path]) -> list[Path]:
    """The files now behind some paths; without those of a path that has none any more."""
    files: list[Path] = []
    for path in paths:
        try:
            files += find_files([path])
        except InputError:
            continue
    return files


def _change(files: Sequence[Path], before: State) -> str:
    """The first file that is not as it was, and how; "" if all are."""
    earlier = {name: rest for name, *rest in before}
    now = {}
    for file in files:
        name = str(file.absolute())
        if name not in earlier:
            return f"{file} (it is new)"
        try:
            now[name] = state_of([file])[0][1:]
        except InputError:
            return f"{file} (it is gone)"
        if now[name] != earlier[name]:
            size, old = now[name][0], earlier[name][0]
            how = f"{old:,} bytes, then {size:,}" if size != old else "it was written again"
            return f"{file} ({how})"
    gone = [name for name in earlier if name not in now]
    return f"{gone[0]} (it is gone)" if gone else ""


def _refusal(change: str) -> InputError:
    return InputError(
        f"{change} changed while being read. Copy it, or read it again once it is complete."
    )
