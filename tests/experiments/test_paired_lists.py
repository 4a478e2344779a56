"""Pairs of lists of two rankers, by query and device, and what their items add to the variance."""

import numpy as np
import pytest

import epiclick as ec
from epiclick.comparison.compare_rankers import compared, prepare
from epiclick.experiments.item_parts import item_parts
from epiclick.experiments.paired_lists import PATTERNS, PairedLists

from ..comparison.planted import DEVICES, THETA, model_of, planted, rows_of, table_of

QUERIES, DOCS = 5, 7


@pytest.fixture(scope="module")
def features() -> ec.FeatureTable:
    query, doc = (each.ravel() for each in np.indices((QUERIES, DOCS)))
    mean = np.random.default_rng(0).uniform(0.1, 0.6, len(query))
    return table_of(query, doc, mean, np.full(len(query), 5.0))


def prepared_of(rankings: dict, features: ec.FeatureTable, **model):
    return prepare(
        model_of(planted(**model)),
        rankings,
        features,
        clicks=None,
        weights="uniform",
        samples=1_000,
        depth=None,
        extrapolate=False,
        seed=0,
    )


def pairs_of(prepared) -> PairedLists:
    return PairedLists.of(prepared.fitted, prepared.slots, prepared.items.index)


def docs_of(prepared, numbers: np.ndarray) -> list[int]:
    """Documents by the numbers of items, -1 left out."""
    at = dict(zip(prepared.items.index.tolist(), prepared.slots.doc_id.to_pylist(), strict=True))
    return [at[int(number)] for number in numbers if number >= 0]


def test_lists_of_a_device_belong_together(features: ec.FeatureTable) -> None:
    keys = [(query, device) for query in range(QUERIES) for device in DEVICES]
    lists = {
        "new": {key: [i % DOCS, (i + 1) % DOCS] for i, key in enumerate(keys)},
        "live": {key: [(i + 2) % DOCS, i % DOCS, (i + 4) % DOCS] for i, key in enumerate(keys)},
    }
    columns = ("query_id", "device")
    rankings = {
        name: rows_of(own, columns).sample(frac=1, random_state=1) for name, own in lists.items()
    }
    prepared = prepared_of(rankings, features, devices=True)
    pairs = pairs_of(prepared)
    assert len(pairs.weight) == len(keys)
    assert pairs.weight.sum() == pytest.approx(1)
    given = prepared.fitted.contexts.to_pylist()
    for row in range(len(keys)):
        device = given[pairs.given[row, 0]]["device"]
        new, live = (docs_of(prepared, each[row]) for each in (pairs.one, pairs.other))
        assert (new, live) in [
            (lists["new"][key], lists["live"][key]) for key in keys if key[1] == device
        ]
        assert [given[at]["position"] for at in pairs.given[row]] == [1, 2, 3]
        assert {given[at]["device"] for at in pairs.given[row]} == {device}


def test_several_lists_of_a_query_take_turns(features: ec.FeatureTable) -> None:
    new = rows_of({(1, 10): [0, 1], (1, 11): [2, 3], (2, 12): [0, 1]}, ("query_id", "page_id"))
    live = rows_of({1: [4, 5], 2: [6]})
    prepared = prepared_of({"new": new, "live": live}, features)
    pairs = pairs_of(prepared)
    found = sorted(
        (docs_of(prepared, one), docs_of(prepared, other), weight)
        for one, other, weight in zip(pairs.one, pairs.other, pairs.weight, strict=True)
    )
    assert found == [([0, 1], [4, 5], 0.25), ([0, 1], [6], 0.5), ([2, 3], [4, 5], 0.25)]


def test_pages_are_no_longer_than_the_longer_list(features: ec.FeatureTable) -> None:
    rankings = {"new": rows_of({1: [0], 2: [0, 1, 2]}), "live": rows_of({1: [3, 4], 2: [1, 5]})}
    pairs = pairs_of(prepared_of(rankings, features))
    drafted = pairs.drafted(np.arange(2), np.ones((2, 2), bool))
    assert (drafted.item >= 0).sum(axis=1).tolist() == [2, 3]
    assert (drafted.sign[drafted.item < 0] == 0).all()


@pytest.mark.parametrize(("depth", "patterns"), [(2, 2), (4, 4), (7, PATTERNS)])
def test_tosses_are_balanced(depth: int, patterns: int, features: ec.FeatureTable) -> None:
    theta = np.linspace(1, 0.3, depth)
    rankings = {
        name: rows_of({1: range(first, depth + first)})
        for name, first in {"new": 0, "live": 0 if depth == DOCS else 1}.items()
    }
    pairs = pairs_of(prepared_of(rankings, features, theta=theta))
    found = pairs.coin_patterns(np.random.default_rng(0))
    assert len(found) == patterns
    assert (np.mean(found, axis=0) == 0.5).all()


def test_parts_of_items_add_up_to_the_spread(features: ec.FeatureTable) -> None:
    rng = np.random.default_rng(3)
    rankings = {
        name: rows_of({q: rng.permutation(DOCS)[: len(THETA)].tolist() for q in range(QUERIES)})
        for name in ("new", "live")
    }
    prepared = prepared_of(rankings, features)
    spread = compared(prepared, ("clicks",), 0.9, 1_000).spread("new", "live")
    parts = item_parts(prepared)
    assert parts.part.sum() == pytest.approx(spread.unseen)
    assert (parts.part <= parts.variance).all()
