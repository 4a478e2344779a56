"""A digest of the rows of a table, the same before it is written to a file and after."""

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from epiclick.data.arrays import as_array


def digest_rows(table: pa.Table) -> str:
    """A digest of names and values of all columns, however they are laid out in memory."""
    digest = hashlib.blake2b(digest_size=16)
    for name in table.column_names:
        digest.update(f"{name}\0{len(table)}\0".encode())
        for content in _content(table[name]):
            digest.update(content)
    return digest.hexdigest()


def _content(column: pa.ChunkedArray) -> Iterator[Any]:
    """Kind and values of a column as bytes."""
    numbers = pa.types.is_integer(column.type) or column.type == pa.float64()
    if numbers and column.null_count == 0:
        # without a copy of the whole
        yield b"integers" if pa.types.is_integer(column.type) else b"numbers"
        for chunk in column.chunks:
            values = chunk.cast(pa.int64()) if pa.types.is_integer(chunk.type) else chunk
            yield np.ascontiguousarray(values.to_numpy())
        return
    values = as_array(column)
    if values.null_count == 0 and values.type == pa.large_string() and len(values):
        _, offsets, text = values.buffers()
        ends = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
        yield b"text"
        yield np.ascontiguousarray(ends - ends[0])
        yield np.frombuffer(text or b"", np.uint8)[ends[0] : ends[-1]]
        return
    # contexts and parts of other types have few values
    encoded = values.dictionary_encode()
    yield repr(encoded.dictionary.to_pylist()).encode()
    yield np.ascontiguousarray(encoded.indices.fill_null(-1).to_numpy())
