"""A digest of anything that the library has read: equal only if every number and text is."""

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def fingerprint(value: Any) -> str:
    """The digest of a value made of dataclasses, containers, arrays and tables."""
    digest = hashlib.blake2b(digest_size=16)
    _add(digest, value)
    return digest.hexdigest()


def _add(digest: Any, value: Any) -> None:
    import numpy as np
    import pandas as pd
    import pyarrow as pa

    digest.update(f"{type(value).__name__}:".encode())
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            digest.update(f"{field.name}=".encode())
            _add(digest, getattr(value, field.name))
    elif isinstance(value, np.ndarray | np.generic):
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, pa.Table):
        digest.update(repr(value.schema).encode())
        for name in value.column_names:
            _add(digest, value[name].combine_chunks())
    elif isinstance(value, pa.Array | pa.ChunkedArray):
        # repr tells -0.0 from 0.0, and numbers from text
        digest.update(f"{value.type}{value.to_pylist()!r}".encode())
    elif isinstance(value, pd.DataFrame):
        _add(digest, pa.Table.from_pandas(value))
    elif isinstance(value, Mapping):
        for key, each in value.items():
            digest.update(f"{key!r}=".encode())
            _add(digest, each)
    elif isinstance(value, list | tuple):
        digest.update(f"{len(value)}:".encode())
        for each in value:
            _add(digest, each)
    elif value is None or isinstance(value, str | bytes | bool | int | float):
        digest.update(repr(value).encode())
    elif isinstance(value, type):
        digest.update(value.__qualname__.encode())
    else:
        raise TypeError(f"no digest of {type(value)}")
