"""Runs of pages are judged the same however the stream of rows is cut into batches."""

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epiclick.data.page_runs import ordered_runs

LONGEST = 4

rows_of_pages = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, LONGEST), st.integers(0, 9)), max_size=30
)


def batches_of(rows: list[tuple], size: int, ids: type = int) -> list[pa.RecordBatch]:
    frame = pd.DataFrame(rows, columns=["page_id", "position", "doc"]).astype("int64")
    kind = pa.int64() if ids is int else pa.string()
    schema = pa.schema([("page_id", kind), ("position", pa.int64()), ("doc", pa.int64())])
    frame = frame.assign(page_id=frame.page_id.astype(ids))
    table = pa.Table.from_pandas(frame, schema, preserve_index=False)
    return table.to_batches(max_chunksize=size)


def by_hand(rows: list[tuple]) -> tuple[int, bool] | None:
    """The oracle: each run as a list of its own."""
    runs: list[list[tuple]] = []
    for row in rows:
        if runs and runs[-1][0][0] == row[0]:
            runs[-1].append(row)
        else:
            runs.append([row])
    for run in runs:
        positions, docs = [row[1] for row in run], [row[2] for row in run]
        if positions != sorted(set(positions)) or len(set(docs)) < len(docs):
            return None
    pages = [row[0] for row in rows]
    return len(runs), pages == sorted(pages)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    rows=rows_of_pages,
    ordered=st.booleans(),
    size=st.integers(1, 12),
    ids=st.sampled_from([int, str]),
)
def test_runs_are_judged_as_by_brute_force(
    rows: list[tuple], ordered: bool, size: int, ids: type
) -> None:
    rows = sorted(rows) if ordered else rows
    assert ordered_runs(batches_of(rows, size, ids), LONGEST) == by_hand(rows)


@pytest.mark.parametrize("size", range(1, 10))
def test_a_document_that_repeats_across_batches_is_found(size: int) -> None:
    rows = [(0, 1, 5), (1, 1, 6), (1, 2, 7), (1, 3, 8), (1, 4, 6), (2, 1, 6)]
    assert by_hand(rows) is None
    assert ordered_runs(batches_of(rows, size), LONGEST) is None
    rows[4] = (1, 4, 9)
    assert ordered_runs(batches_of(rows, size), LONGEST) == (3, True)


def test_a_missing_value_proves_nothing() -> None:
    rows = pa.table({"page_id": [1, None], "position": [1, 1], "doc": [1, 2]})
    assert ordered_runs(rows.to_batches(), 1) is None


def test_pages_of_one_row_need_no_comparison_of_documents() -> None:
    assert ordered_runs(batches_of([(0, 1, 5), (1, 1, 5), (2, 1, 5)], 1), 1) == (3, True)


def test_an_empty_batch_changes_nothing() -> None:
    empty, (batch,) = batches_of([], 1), batches_of([(0, 1, 5)], 1)
    none = batch.slice(1)
    assert ordered_runs(empty, LONGEST) == (0, True)
    assert ordered_runs([none, batch, none], LONGEST) == (1, True)
