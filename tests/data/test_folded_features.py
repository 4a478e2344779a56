"""Features of a log with normalised queries, in one table and in several."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import epiclick as ec
from epiclick.data.features import FeatureTable
from epiclick.data.folded_features import like_queries
from epiclick.data.schema import LogOptions
from epiclick.errors import InputWarning

from ..raising import raises_code

NORMALISED = LogOptions(normalise_queries=True)
ITEMS = pd.DataFrame({"doc_id": ["a", "b", "c"], "price": [1.0, 2.0, np.nan]})
PAIRS = pd.DataFrame(
    {
        "query_id": ["Red  shoes", "red shoes", "red shoes", "blue"],
        "doc_id": ["a", "a", "b", "c"],
        "match": [0.1, 0.1, 0.2, 0.3],
    }
)


def rows_of(table: FeatureTable) -> dict[tuple[str, str], list[float]]:
    keys = zip(table.keys["query_id"].to_pylist(), table.keys["doc_id"].to_pylist(), strict=True)
    matrix = np.nan_to_num(table.rows(np.arange(len(table))), nan=-1.0)
    return {key: [round(float(x), 6) for x in row] for key, row in zip(keys, matrix, strict=True)}


def test_rows_of_one_query_become_one_in_joined_tables() -> None:
    table = ec.read_features([ITEMS, PAIRS], missing_values="impute")
    assert len(table) == 4
    assert like_queries(table, LogOptions()) is table
    assert rows_of(like_queries(table, NORMALISED)) == {
        ("red shoes", "a"): [1.0, 0.1],
        ("red shoes", "b"): [2.0, 0.2],
        ("blue", "c"): [-1.0, 0.3],
    }


def test_tables_of_items_alone_take_the_pairs_of_a_normalised_log() -> None:
    with pytest.warns(InputWarning, match="keyed by item alone"):
        table = ec.read_features([ITEMS], missing_values="impute")
    shown = like_queries(table, NORMALISED).including(pa.array(["q", "q"]), pa.array(["a", "c"]))
    assert rows_of(shown) == {("q", "a"): [1.0], ("q", "c"): [-1.0]}


def test_different_features_of_one_query_are_refused_wherever_they_are() -> None:
    different = PAIRS.assign(match=[0.9, 0.1, 0.2, 0.3])
    for source in ([ITEMS, different], different):
        table = ec.read_features(source, missing_values="impute")
        with raises_code("conflicting-features") as caught:
            like_queries(table, NORMALISED)
        assert "1 row" in str(caught.value)


def test_missing_values_of_one_query_do_not_differ() -> None:
    missing = PAIRS.assign(match=[np.nan, np.nan, 0.2, 0.3])
    found = like_queries(ec.read_features(missing, missing_values="impute"), NORMALISED)
    assert rows_of(found)[("red shoes", "a")] == [-1.0]
