import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from epiclick.simulate.world_items import QueryGroups


@given(st.lists(st.sampled_from(["b", "a", "d", "c"]), min_size=1, max_size=30), st.integers(1, 29))
def test_groups_rows_by_query_in_any_order(ids, cut):
    column = pa.chunked_array([pa.array(ids[:cut], pa.string()), pa.array(ids[cut:], pa.string())])
    groups = QueryGroups.of(column)
    names = list(dict.fromkeys(ids))
    assert len(groups) == len(names)
    for number, name in enumerate(names):
        expected = [row for row, query in enumerate(ids) if query == name]
        assert groups.rows[groups.starts[number] : groups.starts[number + 1]].tolist() == expected
        assert groups.sizes[number] == len(expected)


def test_padding_stays_within_the_query():
    groups = QueryGroups.of(pa.chunked_array([[7, 7, 9, 7, 8]]))
    rows, real = groups.padded(np.array([2, 0, 2]))
    assert real.tolist() == [[True, False, False], [True, True, True], [True, False, False]]
    assert rows.tolist() == [[4, 4, 4], [0, 1, 3], [4, 4, 4]]
