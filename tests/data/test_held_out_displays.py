"""Single displays held out: nothing is lost, and every display has the same chance."""

import numpy as np
import pandas as pd
import pyarrow as pa

import epiclick as ec
from epiclick.data.held_out_displays import split_displays


def counts(displays: int = 1_000) -> ec.ClickCounts:
    query, doc, position = (each.ravel() for each in np.indices((5, 4, 3)))
    columns = {"query_id": query, "doc_id": doc, "position": position + 1}
    many = np.full(len(query), displays)
    return ec.ClickCounts.from_table(
        pa.table({**columns, "displays": many, "clicks": many * (doc + 1) // 10})
    )


def keyed(part: ec.ClickCounts) -> pd.DataFrame:
    table = part.to_table().to_pandas()
    return table.set_index(["query_id", "doc_id", "position"])[["displays", "clicks"]]


def test_parts_add_up_and_are_shares_of_displays_and_of_clicks() -> None:
    whole = counts()
    train, test = split_displays(whole, 0.3, seed=1)
    assert keyed(train).add(keyed(test)).equals(keyed(whole))
    for total, held in (
        (whole.total_displays, test.total_displays),
        (whole.total_clicks, test.total_clicks),
    ):
        assert abs(held - 0.3 * total) < 4 * np.sqrt(0.3 * 0.7 * total)
    again = split_displays(whole, 0.3, seed=1)[1]
    assert keyed(again).equals(keyed(test))
    assert not keyed(split_displays(whole, 0.3, seed=2)[1]).equals(keyed(test))


def test_entries_without_displays_are_left_out_and_features_are_kept() -> None:
    whole = counts(displays=10)
    keys = pa.table({"query_id": whole.query_id, "doc_id": whole.doc_id})
    table = ec.FeatureTable(keys, ("f0",), np.arange(len(whole), dtype=np.float32)[:, None])
    train, test = split_displays(whole.with_features(table), 0.02, seed=0)
    assert len(test.pair) < len(whole.pair)
    for part in (train, test):
        row = part.features.rows(part.feature_row)[:, 0]
        named = keys.take(row.astype(int))
        assert named["doc_id"].to_pylist() == part.doc_id.to_pylist()
