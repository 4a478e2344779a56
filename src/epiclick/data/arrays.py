"""Arrow columns as sorted keys, and rows of one table found among those of another."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from epiclick.errors import InputError


def as_array(column: pa.ChunkedArray) -> pa.Array:
    """One contiguous array; strings with 64-bit offsets, since ids may exceed 2 GB together."""
    if pa.types.is_string(column.type) or pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    elif pa.types.is_integer(column.type):
        column = column.cast(pa.int64())
    array = column.combine_chunks()
    return array if isinstance(array, pa.Array) else pa.concat_arrays(array.chunks)


def changes(values: pa.Array) -> np.ndarray:
    """Where a value differs from the one before it; the first always does."""
    change = np.ones(len(values), bool)
    if len(values) > 1:
        change[1:] = pc.not_equal(values[1:], values[:-1]).to_numpy(zero_copy_only=False)
    return change


def strictly_ascending(keys: Sequence[pa.Array]) -> bool:
    """Whether rows are in lexicographic order of the keys without a repeat."""
    if len(keys[0]) < 2:
        return True
    tied = np.ones(len(keys[0]) - 1, bool)
    for key in keys:
        before, after = key[:-1], key[1:]
        if np.any(tied & ~pc.less_equal(before, after).to_numpy(zero_copy_only=False)):
            return False
        tied &= pc.equal(before, after).to_numpy(zero_copy_only=False)
    return not tied.any()


def distinct(columns: Mapping[str, pa.Array]) -> tuple[pa.Table, np.ndarray]:
    """The distinct rows of some columns in order, and the index of each row among them."""
    rows = len(next(iter(columns.values())))
    code, codes = np.zeros(rows, np.int64), 1
    for values in columns.values():
        encoded = values.dictionary_encode()
        rank = pc.rank(encoded.dictionary, sort_keys="ascending").to_numpy().astype(np.int64) - 1
        code = code * len(rank) + rank[encoded.indices.to_numpy()]
        codes *= len(rank)
        if codes > 4 * rows + 1024:
            # few combinations occur: keep only the codes in use
            used_codes, code = np.unique(code, return_inverse=True)
            codes = len(used_codes)
    # a table of all codes is far faster than sorting the rows
    first_row = np.full(codes, rows)
    first_row[code[::-1]] = np.arange(rows)[::-1]
    used = first_row < rows
    index = (np.cumsum(used) - 1)[code]
    return pa.table({name: v.take(first_row[used]) for name, v in columns.items()}), index


MANY_TIMES = 4
"""Rows are looked up before they are put in order if there are this many for each wanted one."""

Columns = Mapping[str, pa.Array | pa.ChunkedArray]


def locate_rows(wanted: Columns, among: Columns) -> np.ndarray:
    """(wanted,) row of `among` with the same values in every column, -1 where there is none.

    Rows may repeat in `wanted`; where they repeat in `among`, any of the equal rows is returned.

    >>> locate_rows({"doc_id": pa.array(["b", "z"])}, {"doc_id": pa.array(["a", "b"])})
    array([ 1, -1])
    """
    both, number = {}, len(next(iter(wanted.values())))
    for name, values in wanted.items():
        sides = [_contiguous(among[name]), _contiguous(values)]
        if sides[0].type != sides[1].type:
            raise InputError(
                f"{name} is {sides[1].type} on one side and {sides[0].type} on the other, and 1 is "
                "not '1'; read both logs the same way, such as with ids='string'",
                code="id-types-differ",
            )
        both[name] = sides
    candidate = _candidates(both) if len(sides[0]) > MANY_TIMES * number else None
    if candidate is not None:
        both = {name: [known.take(candidate), own] for name, (known, own) in both.items()}
    _, code = distinct({name: pa.concat_arrays(sides) for name, sides in both.items()})
    known = len(code) - number
    row = np.full(code.max(initial=-1) + 1, -1)
    row[code[:known]] = np.arange(known) if candidate is None else candidate
    return row[code[known:]]


def _candidates(both: Mapping[str, Sequence[pa.Array]]) -> np.ndarray:
    """Rows that agree in each column with some wanted row: a lookup is cheaper than an order."""
    row = None
    # whole numbers first, which are looked up faster than text
    for known, own in sorted(
        both.values(), key=lambda sides: not pa.types.is_integer(sides[0].type)
    ):
        rest = known if row is None else known.take(row)
        at = np.flatnonzero(pc.is_in(rest, value_set=own.unique()).to_numpy(zero_copy_only=False))
        row = at if row is None else row[at]
    assert row is not None
    return row


def locate_counted(wanted: Columns, among: Columns) -> np.ndarray:
    """As `locate_rows`, for rows of a log that was counted before: all of them must be there."""
    row = locate_rows(wanted, among)
    if missing := int(np.sum(row < 0)):
        raise InputError(
            f"a second reading of the log has {missing:,} rows whose {', '.join(wanted)} the first "
            "did not have: its file is damaged, or changes while it is read. Write it again, and "
            "read it when it is complete",
            code="rows-differ-between-readings",
        )
    return row


def is_among(name: str, values: pa.Array, among: pa.Array) -> np.ndarray:
    """(values,) whether each value is in `among`; `name` is for the error on differing types."""
    return locate_rows({name: values}, {name: among}) >= 0


def _contiguous(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    column = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
    return as_array(column)
