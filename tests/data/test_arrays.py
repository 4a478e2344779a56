"""Rows of one table located in another."""

import numpy as np
import pyarrow as pa
import pytest

from epiclick.data.arrays import MANY_TIMES, locate_counted, locate_rows

from ..raising import raises_code


def test_rows_that_the_first_reading_did_not_have_are_refused() -> None:
    """A damaged file can give other rows when it is read again."""
    among = {"doc_id": pa.array([1, 2, 3])}
    found = locate_counted({"doc_id": pa.array([3, 1])}, among)
    np.testing.assert_array_equal(found, [2, 0])
    with raises_code("rows-differ-between-readings") as caught:
        locate_counted({"doc_id": pa.array([3, 7, 8])}, among)
    assert "2 rows" in str(caught.value)


@pytest.mark.parametrize("number", [0, 1, 40])
def test_few_rows_are_found_among_many_as_in_a_dictionary(number: int) -> None:
    """Where most rows are not wanted, they are left out before any is put in order."""
    rng = np.random.default_rng(number)
    keys = [(f"q{i % 97}", int(i * 31 % 503)) for i in range(1000)]
    wanted = [keys[i] for i in rng.integers(0, len(keys), number)]
    # a pair of known values that do not occur together, and values that do not occur at all
    wanted += [("q0", 1), ("q5", 10**6), ("q-", 31)] if number else []
    row = {key: i for i, key in enumerate(keys)}
    columns = [
        {
            "query_id": pa.array([q for q, _ in rows], pa.string()),
            "doc_id": pa.array([d for _, d in rows], pa.int64()),
        }
        for rows in (wanted, keys)
    ]
    assert len(keys) > MANY_TIMES * len(wanted)
    assert len(row) == len(keys)
    assert ("q0", 1) not in row
    expected = [row.get(key, -1) for key in wanted]
    assert locate_rows(*columns).tolist() == expected
