"""Checksums of written files, so that damage is detected when they are read back.

A folder has one JSON file that lists the size and digest of the other files and contains a digest
of its own keys. This detects damage; it does not prove who wrote a file.
"""

import hashlib
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa
from safetensors import SafetensorError

from epiclick.data.arrays import as_array
from epiclick.errors import InputError
from epiclick.processes import available_cores

MALFORMED = (
    LookupError,
    OverflowError,
    RecursionError,
    SafetensorError,
    TypeError,
    ValueError,
    pa.ArrowException,
)
"""What the parsers raise on damaged or hostile content."""


@contextmanager
def reading(path: Path, remedy: str) -> Iterator[None]:
    """Turn errors of reading a file into an InputError with its path, the reason and a remedy."""
    try:
        yield
    except MALFORMED as error:
        plain = isinstance(error, ValueError) or not str(error)
        why = str(error) if plain else f"{type(error).__name__}: {error}"
        raise damaged(path, why, remedy) from error
    except (OSError, MemoryError) as error:
        number = getattr(error, "errno", None)
        if isinstance(error, OSError) and number is None:  # raised by Arrow for damage
            raise damaged(path, str(error), remedy) from error
        why = getattr(error, "strerror", None) or str(error) or "not enough memory"
        raise InputError(
            f"{path} cannot be read ({why}). Check its path, permissions and size.",
            code="cannot-read",
        ) from error


def damaged(path: Path, why: str, remedy: str) -> InputError:
    """The error for a damaged file."""
    reason = " ".join(why.split())
    return InputError(
        f"{path} is damaged: {reason[:300].rstrip('.')}. {remedy}", code="damaged-file"
    )


def from_json(content: bytes) -> Any:
    """Parse JSON; NaN and infinity, which standard JSON lacks, are refused."""
    return json.loads(content.decode(), parse_constant=_not_json)


def get(record: Mapping[str, Any], key: str, *types: type) -> Any:
    """A value of one of the given types exactly, so that true does not count as a number."""
    if key not in record:
        raise ValueError(f"'{key}' is missing")
    if type(record[key]) not in types:
        raise ValueError(f"'{key}' is of the wrong type ({type(record[key]).__name__})")
    return record[key]


def texts(record: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """A list of strings."""
    values = get(record, key, list)
    if not all(type(value) is str for value in values):
        raise ValueError(f"'{key}' must be a list of strings")
    return tuple(values)


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


DIGEST, FILES = "digest", "files"
CHANGED = "its content does not match its checksum"
CHUNK = 1 << 22
"""Bytes read at once, and bytes per block in `block_checksums`."""

MAX_THREADS = 4  # more would wait for memory


def digest_of(content: bytes) -> str:
    """128-bit BLAKE2b digest of some bytes."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def digest_arrays(arrays: Mapping[str, np.ndarray]) -> str:
    """Digest of arrays with their names, types and shapes."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        array = np.asarray(arrays[name], order="C")
        digest.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


# A record that contains its own digest


def record_digest(record: Mapping[str, Any]) -> str:
    """Digest of all other keys, independent of their order and spacing in a file."""
    rest = {key: value for key, value in record.items() if key != DIGEST}
    return digest_of(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode())


def with_digest(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record with the digest of its keys."""
    return {**record, DIGEST: record_digest(record)}


def check_record(record: Mapping[str, Any]) -> None:
    """Refuse a record that does not match its digest."""
    if record.get(DIGEST) != record_digest(record):
        raise ValueError(CHANGED)


def to_json(record: Mapping[str, Any]) -> bytes:
    """A record with its digest, as the content of a JSON file."""
    return (json.dumps(with_digest(record), indent=2, allow_nan=False) + "\n").encode()


# Files that a record lists


def listed(contents: Mapping[str, bytes]) -> dict[str, dict[str, Any]]:
    """Size and digest of files by name, from the content to be written."""
    return {
        name: {"bytes": len(content), "blake2b": digest_of(content)}
        for name, content in contents.items()
    }


def listed_files(paths: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """Size and digest of existing files by name; they need not fit into memory."""
    return {
        path.name: {"bytes": path.stat().st_size, "blake2b": _file_digest(path)} for path in paths
    }


def read_checked(path: Path, record: Mapping[str, Any]) -> bytes:
    """The content of a file, verified against the record that lists it."""
    digest = _stated_digest(path, record)
    content = path.read_bytes()
    if digest_of(content) != digest:
        raise ValueError(CHANGED)
    return content


def check_file(path: Path, record: Mapping[str, Any]) -> None:
    """Refuse a file that does not match the record that lists it; it need not fit into memory."""
    if _file_digest(path) != _stated_digest(path, record):
        raise ValueError(CHANGED)


def stated(record: Mapping[str, Any], name: str) -> tuple[int, str]:
    """Size and digest of a file according to a record."""
    both = get(get(record, FILES, dict), name, dict)
    return get(both, "bytes", int), get(both, "blake2b", str)


def _stated_digest(path: Path, record: Mapping[str, Any]) -> str:
    """Digest of a file according to a record, after checking the file's size."""
    size, digest = stated(record, path.name)
    if path.stat().st_size != size:
        raise ValueError(f"it has {path.stat().st_size:,} bytes instead of {size:,}")
    return digest


def _file_digest(path: Path) -> str:
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb", buffering=0) as file:
        while block := file.read(CHUNK):
            digest.update(block)
    return digest.hexdigest()


# A file that ends with the digest of its content

TRAILER = b"epiclick-blake2b:"


def with_trailer(content: bytes) -> bytes:
    """Content with its digest appended; readers of archives ignore trailing bytes."""
    return content + TRAILER + digest_of(content).encode()


def without_trailer(content: bytes) -> bytes:
    """Content without its digest, after verifying it; unchanged where there is none."""
    length = len(TRAILER) + 32
    before, end = content[:-length], content[-length:]
    if not end.startswith(TRAILER):
        return content
    if end[len(TRAILER) :] != digest_of(before).encode():
        raise ValueError(CHANGED)
    return before


# Archives of arrays (npz)


def to_archive(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Arrays as a compressed archive, with the digest of its content."""
    archive = io.BytesIO()
    np.savez_compressed(archive, **dict(arrays))  # type: ignore[arg-type]
    return with_trailer(archive.getvalue())


def from_archive(content: bytes) -> dict[str, np.ndarray]:
    """The inverse of `to_archive`; ValueError for whatever is wrong with an archive."""
    try:
        with np.load(io.BytesIO(without_trailer(content)), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (BadZipFile, EOFError, RuntimeError, zlib.error) as error:
        raise ValueError(str(error)) from error


# Large files that are opened often: block checksums


def listed_blocks(paths: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """Size and block checksums of files by name."""
    return {
        path.name: {"bytes": path.stat().st_size, "crc32": block_checksums(path)} for path in paths
    }


def check_blocks(path: Path, record: Mapping[str, Any]) -> None:
    """Refuse a file that does not match its block checksums in a record."""
    both = get(get(record, FILES, dict), path.name, dict)
    if path.stat().st_size != get(both, "bytes", int):
        raise ValueError(f"{path} does not have the size it was written with")
    if block_checksums(path) != get(both, "crc32", list):
        raise ValueError(CHANGED)


def block_checksums(path: Path) -> list[int]:
    """CRC-32 of each block of a file, on several threads: several times faster than a digest.

    Detects every flipped bit and all damage within 32 bits; misses other damage once in 2^32.
    """

    def checksum(start: int) -> int:
        with path.open("rb", buffering=0) as file:
            file.seek(start)
            return zlib.crc32(file.read(CHUNK))

    starts = range(0, path.stat().st_size, CHUNK)
    if len(starts) < 2:
        return [checksum(start) for start in starts]
    with ThreadPoolExecutor(min(MAX_THREADS, len(available_cores()))) as pool:
        return list(pool.map(checksum, starts))


def digest_rows(table: pa.Table) -> str:
    """Digest of the names and values of all columns, independent of their memory layout."""
    digest = hashlib.blake2b(digest_size=16)
    for name in table.column_names:
        digest.update(f"{name}\0{len(table)}\0".encode())
        for content in _content(table[name]):
            digest.update(content)
    return digest.hexdigest()


def _content(column: pa.ChunkedArray) -> Iterator[Any]:
    """Type and values of a column as bytes."""
    numbers = pa.types.is_integer(column.type) or column.type == pa.float64()
    if numbers and column.null_count == 0:
        # chunk by chunk, to avoid copying the whole column
        yield b"integers" if pa.types.is_integer(column.type) else b"numbers"
        for chunk in column.chunks:
            values = chunk.cast(pa.int64()) if pa.types.is_integer(chunk.type) else chunk
            yield np.ascontiguousarray(values.to_numpy())
        return
    values = as_array(column)
    if pa.types.is_large_list(values.type):
        yield b"lists"
        yield np.ascontiguousarray(np.diff(values.offsets.to_numpy()))
        yield from _content(pa.chunked_array([values.flatten()]))
        return
    if pa.types.is_nested(values.type):
        yield repr(values.to_pylist()).encode()
        return
    if values.null_count == 0 and values.type == pa.large_string() and len(values):
        _, offsets, text = values.buffers()
        ends = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
        yield b"text"
        yield np.ascontiguousarray(ends - ends[0])
        yield np.frombuffer(text or b"", np.uint8)[ends[0] : ends[-1]]
        return
    # columns of other types are contexts and parts, which have few distinct values
    encoded = values.dictionary_encode()
    yield repr(encoded.dictionary.to_pylist()).encode()
    yield np.ascontiguousarray(encoded.indices.fill_null(-1).to_numpy())
