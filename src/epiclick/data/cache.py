"""Cache of parsed features on disk: later reads map it into memory instead of parsing again."""

import errno
import hashlib
import json
import os
import shutil
import tempfile
import time
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
import pyarrow as pa

from epiclick.data.checksums import (
    MALFORMED,
    check_blocks,
    check_record,
    from_json,
    get,
    listed_blocks,
    to_json,
)
from epiclick.data.files import State, refuse_changed, state_of
from epiclick.data.writing import folder_aside, named
from epiclick.errors import InputError, InputWarning

FORMAT = 3  # increment whenever the same file would be stored differently
ABANDONED = 24 * 3600  # seconds after which a half-written entry belongs to a killed process
DIGITS = 20
DIGEST = "[0-9a-f]" * DIGITS  # as a glob: only folders named like ours are ever removed
MATRIX, KEYS, META = "matrix.npy", "keys.arrow", "meta.json"


@dataclass(frozen=True, eq=False)
class Stored:
    """One cache entry, mapped into memory.

    Attributes:
        keys: Arrow table with one row per feature vector.
        matrix: (rows, features) float32, a read-only memory map.
        meta: metadata from the reader.
    """

    keys: pa.Table
    matrix: np.ndarray  # (rows, features) float32
    meta: Mapping[str, Any]


def cache_folder() -> Path:
    """Where parsed files are kept: $EPICLICK_CACHE, else epiclick in the user's cache folder."""
    if chosen := os.environ.get("EPICLICK_CACHE"):
        return Path(chosen).expanduser().absolute()
    user = os.environ.get("XDG_CACHE_HOME")
    return (Path(user) if user else Path.home() / ".cache") / "epiclick"


def stored(
    source: str,
    files: Sequence[Path],
    options: Mapping[str, Any],
    build: Callable[[Path], None],
    *,
    cache: bool = True,
) -> Stored:
    """The cache entry for some files: opened if it exists, otherwise built and stored.

    `build` writes an entry (`MatrixWriter`, `write_entry`) into the folder it is given. The key of
    an entry is the source's name, the files' sizes and modification times, and the options.
    """
    state = state_of(files)
    folder = cache_folder()
    if cache:
        entry = folder / _entry_name(source, state, options)
        if (found := _find(entry)) is not None:
            return found
        writable = _writable(folder)
        foreign = _foreign(entry) if writable else []
        if writable and not foreign:
            return _build_entry(entry, files, state, build)
        why = f"the cache folder {folder} cannot be written"
        if foreign:
            why = f"the cache entry {entry} contains files of other origin ({named(foreign)})"
        warnings.warn(
            f"{why}, so {source} will be parsed again next time. Set EPICLICK_CACHE to a writable "
            "folder.",
            InputWarning,
            stacklevel=3,
        )
    return _build_temporary(files, state, build)


def find_stored(source: str, files: Sequence[Path], options: Mapping[str, Any]) -> Stored | None:
    """The cache entry for some files, if it exists; arguments as for `stored`."""
    return _find(cache_folder() / _entry_name(source, state_of(files), options))


def _entry_name(source: str, state: State, options: Mapping[str, Any]) -> str:
    version = [each[:3] for each in state]  # a new inode or mode is not a new version
    return f"{_digest([source, dict(options)])}-{_digest([FORMAT, version])}"


def write_entry(folder: Path, keys: pa.Table, meta: Mapping[str, Any]) -> None:
    """Complete an entry whose `matrix.npy` is written: add keys, metadata and checksums."""
    with pa.ipc.new_file(str(folder / KEYS), keys.schema) as writer:
        writer.write_table(keys)
    record = {"meta": dict(meta), "files": listed_blocks([folder / MATRIX, folder / KEYS])}
    (folder / META).write_bytes(to_json(record))


class MatrixWriter:
    """Appends rows to a float32 `.npy` file whose number of rows is known only at the end.

    Plain writes rather than a writable memory map: a full disk then raises an error instead of
    killing the process.
    """

    def __init__(self, path: Path, columns: int) -> None:
        """Write to a path; the file is created on entering the context."""
        self._path, self._columns, self._rows = path, columns, 0
        self._file: BinaryIO

    def __enter__(self) -> Self:
        """Create the file."""
        self._file = self._path.open("wb")
        self._write_header()
        return self

    def append(self, rows: np.ndarray) -> None:
        """Add a (rows, columns) block."""
        assert rows.shape[1] == self._columns
        self._file.write(np.ascontiguousarray(rows, dtype="<f4").data)
        self._rows += len(rows)

    def __exit__(self, *_: object) -> None:
        """Write the final number of rows and close the file."""
        self._file.seek(0)
        self._write_header()
        self._file.close()

    def _write_header(self) -> None:
        # numpy pads the header so that the first axis can grow without moving the data
        shape = (self._rows, int(self._columns))
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, header)


def _open(folder: Path, *, check: bool = True) -> Stored:
    """Map the entry in a folder into memory, after verifying its checksums.

    Nothing is parsed before: a damaged header could claim any size.
    """
    record = from_json((folder / META).read_bytes())
    if check:
        check_record(record)
        for name in (MATRIX, KEYS):
            check_blocks(folder / name, record)
    matrix = np.load(folder / MATRIX, mmap_mode="r", allow_pickle=False)
    with pa.memory_map(str(folder / KEYS)) as file:
        keys = pa.ipc.open_file(file).read_all()
    if len(matrix) != len(keys):
        raise ValueError(f"{folder} has {len(keys)} keys for {len(matrix)} feature vectors")
    return Stored(keys, matrix, get(record, "meta", dict))


def _find(folder: Path) -> Stored | None:
    """The entry in a folder; None if it is missing or damaged and must be rebuilt."""
    try:
        return _open(folder)
    except (OSError, EOFError, *MALFORMED):
        return None


def _foreign(folder: Path) -> list[str]:
    """Names of files at an entry's path that do not belong to an entry."""
    if not folder.is_dir() or folder.is_symlink():
        return [folder.name] if os.path.lexists(folder) else []
    own = [folder / name for name in (MATRIX, KEYS, META)]
    return sorted(
        entry.name
        for entry in folder.iterdir()
        if entry not in own or entry.is_symlink() or not entry.is_file()
    )


def _build_entry(
    entry: Path, files: Sequence[Path], state: State, build: Callable[[Path], None]
) -> Stored:
    """Build in a temporary folder and rename, then remove entries of older source versions."""
    try:
        with folder_aside(entry) as aside:
            _run(build, aside, files, state)
    except OSError:
        # another process may have created the same entry while this one was renaming its own
        if (found := _find(entry)) is not None:
            return found
        raise
    source = entry.name.split("-")[0]
    for other in entry.parent.glob(f"{source}-{DIGEST}"):
        if other != entry and not _foreign(other):
            shutil.rmtree(other, ignore_errors=True)
    for other in entry.parent.glob(f".{DIGEST}-{DIGEST}.*"):
        if other.is_dir() and time.time() - other.stat().st_mtime > ABANDONED:
            shutil.rmtree(other, ignore_errors=True)
    return _open(entry, check=False)


def _build_temporary(files: Sequence[Path], state: State, build: Callable[[Path], None]) -> Stored:
    """Build in a temporary folder that is removed with the matrix, at the latest at exit."""
    folder = Path(tempfile.mkdtemp(prefix="epiclick-"))
    try:
        _run(build, folder, files, state)
        found = _open(folder, check=False)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(found.matrix, shutil.rmtree, folder, ignore_errors=True)
    return found


def _run(build: Callable[[Path], None], folder: Path, files: Sequence[Path], state: State) -> None:
    """Build; refuse the result if the disk is full or a file changed meanwhile."""
    try:
        build(folder)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise InputError(
            f"the disk is full: no room for the parsed features in {folder.parent}. "
            "Set EPICLICK_CACHE to a folder on a larger disk.",
            code="disk-full",
        ) from error
    refuse_changed(files, state)


def _digest(value: Any) -> str:
    """A short hash of a JSON-serialisable value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:DIGITS]


def _writable(folder: Path) -> bool:
    """Whether files can be created in a folder, which is created if missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
