"""Placement of pairs against a loop over the rows of a log."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import epiclick as ec
from epiclick.data.placement import BANDS, placement_in, query_in

from ..raising import raises_code


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    """Pages of 3 to 6 items, of 40 queries."""
    rng = np.random.default_rng(0)
    rows = []
    for page in range(300):
        query, size = int(rng.integers(40)), 5
        docs = rng.permutation(9)[:size]
        rows += [(page, query, int(d), k + 1, int(rng.random() < 0.3)) for k, d in enumerate(docs)]
    return pd.DataFrame(rows, columns=["page_id", "query_id", "doc_id", "position", "click"])


def test_placement_is_that_of_a_loop(log: pd.DataFrame) -> None:
    counts = ec.read_log(log)
    found = counts.placed
    for pair in range(len(counts)):
        query, doc = counts.query_id[pair].as_py(), counts.doc_id[pair].as_py()
        own = log[(log.query_id == query) & (log.doc_id == doc)]
        expected = np.zeros(len(BANDS))
        for position in own.position:
            expected[np.flatnonzero(position <= BANDS)[0]] += 1
        assert found.displays[pair].tolist() == expected.tolist()
        pages = log[log.query_id == query].page_id.nunique()
        assert found.pages[pair] == pages
        assert found.slots[pair] == (log.query_id == query).sum() / pages


def test_items_that_were_never_shown_are_placed_on_the_pages_of_their_query(log) -> None:
    counts = ec.read_log(log)
    query, doc = pa.array([3, 3, 999]), pa.array([log[log.query_id == 3].doc_id.iloc[0], 77, 0])
    found = placement_in(counts, query, doc)
    assert found.shown.tolist() == [True, False, False]
    assert found.pages[0] == found.pages[1] == log[log.query_id == 3].page_id.nunique()
    assert np.isnan(found.pages[2])
    assert query_in(counts, query).tolist()[2] == -1


def test_some_pairs_and_outcomes_of_clicks_keep_the_placement_of_the_whole(log) -> None:
    """A click's outcome knows only clicked displays; the item was shown as often as before."""
    counts = ec.read_log(log)
    features = log[["query_id", "doc_id"]].drop_duplicates().assign(f0=0.5)
    counts = counts.with_features(ec.read_features(features))
    some = counts.subset(np.arange(0, len(counts), 3))
    assert np.array_equal(some.placed.displays, counts.placed.displays[::3])
    (one, _) = counts.split(0.5, 0.5, by="query", seed=0)
    assert np.array_equal(one.placed.pages, counts.placed.at(one.numbers_in(counts)).pages)


def test_placement_of_an_earlier_log_replaces_that_of_the_log(log: pd.DataFrame) -> None:
    counts = ec.read_log(log.assign(day=log.page_id // 150), part="day")
    earlier, later = counts.split(0.5, 0.5, by="time", seed=0)
    placed = later.placed_by(earlier)
    first = log[log.page_id < 150]
    for pair in range(0, len(later), 7):
        query, doc = later.query_id[pair].as_py(), later.doc_id[pair].as_py()
        own = first[(first.query_id == query) & (first.doc_id == doc)]
        assert placed.placed.displays[pair].sum() == len(own)
    assert np.array_equal(placed.clicks, later.clicks)
    some = placed.subset(np.arange(5))
    assert np.array_equal(some.placed.displays, placed.placed.displays[:5])
    with raises_code("no-common-query"):
        later.placed_by(ec.read_log(log.assign(query_id=log.query_id + 1_000)))
    with raises_code("invalid-type"):
        later.placed_by(log)
