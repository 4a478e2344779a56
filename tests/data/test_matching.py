"""Rows are found by exact values, whatever the type of the ids."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from epiclick.data.arrays import locate_rows

from ..raising import raises_code

pairs = st.lists(st.tuples(st.integers(-3, 3), st.sampled_from("abc")), max_size=15)


def columns(rows: list[tuple[int, str]]) -> dict[str, pa.Array]:
    return {
        "query_id": pa.array([q for q, _ in rows], pa.int64()),
        "doc_id": pa.array([d for _, d in rows], pa.string()),
    }


@settings(max_examples=80, deadline=None)
@given(wanted=pairs, among=pairs)
def test_rows_are_found_as_by_a_loop(wanted: list, among: list) -> None:
    found = locate_rows(columns(wanted), columns(among))
    assert len(found) == len(wanted)
    for row, at in zip(wanted, found, strict=True):
        assert (at == -1) if row not in among else (among[at] == row)


def test_ids_beyond_the_precision_of_floats_are_distinguished() -> None:
    among = {"doc_id": pa.array([2**53, 2**53 + 1])}
    assert locate_rows({"doc_id": pa.array([2**53 + 1])}, among).tolist() == [1]


def test_text_of_two_widths_and_in_chunks_is_the_same_text() -> None:
    wanted = {"doc_id": pa.chunked_array([["b"], ["a", "c"]], pa.large_string())}
    assert locate_rows(wanted, {"doc_id": pa.array(["a", "b"])}).tolist() == [1, 0, -1]


def test_numbers_are_not_found_among_text() -> None:
    with raises_code("id-types-differ") as caught:
        locate_rows({"doc_id": pa.array([1])}, {"doc_id": pa.array(["1"])})
    assert "doc_id is int64" in str(caught.value)


def test_many_rows_of_many_columns() -> None:
    """Combinations of values far outnumber the rows."""
    rng = np.random.default_rng(0)
    values = [rng.permutation(20_000) for _ in range(5)]
    among = {f"k{i}": pa.array(v) for i, v in enumerate(values)}
    order = rng.permutation(20_000)
    found = locate_rows({name: v.take(order) for name, v in among.items()}, among)
    assert np.array_equal(found, order)
