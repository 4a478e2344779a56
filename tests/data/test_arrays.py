"""Rows of one table located in another."""

import numpy as np
import pyarrow as pa

from epiclick.data.arrays import locate_counted

from ..raising import raises_code


def test_rows_that_the_first_reading_did_not_have_are_refused() -> None:
    """A damaged file can give other rows when it is read again."""
    among = {"doc_id": pa.array([1, 2, 3])}
    found = locate_counted({"doc_id": pa.array([3, 1])}, among)
    np.testing.assert_array_equal(found, [2, 0])
    with raises_code("rows-differ-between-readings") as caught:
        locate_counted({"doc_id": pa.array([3, 7, 8])}, among)
    assert "2 rows" in str(caught.value)
