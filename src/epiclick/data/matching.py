"""Rows of one table found among those of another, by the exact values of several columns."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from epiclick.data.arrays import as_array, distinct
from epiclick.errors import InputError

Columns = Mapping[str, pa.Array | pa.ChunkedArray]


def locate_rows(wanted: Columns, among: Columns) -> np.ndarray:
    """(wanted,) row of `among` with the same values in every column, -1 where there is none.

    Rows may repeat in `wanted`; where they repeat in `among`, any of the equal rows is found.

    >>> locate_rows({"doc_id": pa.array(["b", "z"])}, {"doc_id": pa.array(["a", "b"])})
    array([ 1, -1])
    """
    both = {}
    for name, values in wanted.items():
        sides = [_contiguous(among[name]), _contiguous(values)]
        if sides[0].type != sides[1].type:
            raise InputError(
                f"{name} is {sides[1].type} on one side and {sides[0].type} on the other, and 1 is "
                "not '1'; read both logs the same way, such as with ids='string'"
            )
        both[name] = pa.concat_arrays(sides)
    _, code = distinct(both)
    known = len(code) - len(next(iter(wanted.values())))
    row = np.full(code.max(initial=-1) + 1, -1)
    row[code[:known]] = np.arange(known)
    return row[code[known:]]


def is_among(name: str, values: pa.Array, among: pa.Array) -> np.ndarray:
    """(values,) whether each value is one of the others; `name` is for the message on types."""
    return locate_rows({name: values}, {name: among}) >= 0


def _contiguous(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    column = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
    return as_array(column)
