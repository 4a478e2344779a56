"""Groups of comparable contexts agree with a search by hand, and weak links are found."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epiclick.data.counts import ClickCounts
from epiclick.data.readers import read_log
from epiclick.identification.identifiability import (
    FEW_LINKS,
    WeakLink,
    check_anchor,
    identifiability,
)

from ..raising import raises_code

entries = st.dictionaries(
    st.tuples(st.integers(0, 9), st.integers(1, 7), st.integers(0, 1)),
    st.tuples(st.integers(1, 20), st.integers(0, 3)),
    min_size=1,
    max_size=25,
)


def counts_of(rows: dict) -> ClickCounts:
    """From (pair, position, part) -> (displays, clicks)."""
    return ClickCounts.from_table(
        pa.table(
            {
                "query_id": [q for q, _, _ in rows],
                "doc_id": [q for q, _, _ in rows],
                "position": [k for _, k, _ in rows],
                "part": [part for _, _, part in rows],
                "displays": [n for n, _ in rows.values()],
                "clicks": [min(n, m) for n, m in rows.values()],
            }
        )
    )


def groups_by_hand(rows: dict) -> set[frozenset[int]]:
    """The oracle: join the positions of each pair until nothing changes."""
    groups = [{k} for k in {k for _, k, _ in rows}]
    for pair in {q for q, _, _ in rows}:
        own = {k for q, k, _ in rows if q == pair}
        touched = [group for group in groups if group & own]
        groups = [group for group in groups if not group & own] + [set().union(*touched)]
    return set(map(frozenset, groups))


@settings(max_examples=120, deadline=None)
@given(rows=entries)
def test_groups_and_shares_agree_with_a_search_by_hand(rows: dict) -> None:
    found = identifiability(counts_of(rows))
    position = found.contexts["position"].to_pylist()
    groups = [frozenset(position[k] for k in group) for group in found.groups]
    assert set(groups) == groups_by_hand(rows)
    assert len(groups) == len(set(groups))
    sizes = [sum(n for (_, k, _), (n, _) in rows.items() if k in group) for group in groups]
    assert sizes == sorted(sizes, reverse=True)
    assert sorted([*found.largest, *found.not_comparable]) == list(range(len(position)))

    places = {q: {k for pair, k, _ in rows if pair == q} for q, _, _ in rows}
    linking = {q for q in places if len(places[q]) > 1}
    clicked = {q for (q, _, _), (n, m) in rows.items() if min(n, m)} & linking
    total = sum(n for n, _ in rows.values())
    linked = sum(n for (q, _, _), (n, _) in rows.items() if q in linking)
    assert found.linked_share == pytest.approx(linked / total)
    for i, k in enumerate(position):
        assert found.linking_pairs[i] == sum(k in places[q] for q in linking)
        assert found.clicked_linking_pairs[i] == sum(k in places[q] for q in clicked)
    # fewer pairs than the bound in all: every gap of a spanning tree is weak
    assert len(found.weak_links) == len(found.largest) - 1
    for link in found.weak_links:
        inside = {position[k] for k in link.contexts}
        bridges = [q for q in clicked if places[q] & inside and places[q] - inside]
        assert link.pairs == len(bridges) < FEW_LINKS
        assert inside < groups[0]
    json.dumps(found.to_dict(), allow_nan=False)


def bridged(bridges: int, clicks: int = 2) -> dict:
    """Positions 1, 2, 3 and 4, 5, each well linked, with some pairs between 3 and 4."""
    rows = {}
    for pair in range(100):
        for k in (1, 2, 3) if pair % 2 else (4, 5):
            rows[pair, k, 0] = (10 if pair % 2 else 5, 2)
    for pair in range(100, 100 + bridges):
        rows[pair, 3, 0] = rows[pair, 4, 0] = (10, clicks)
    return rows


def test_two_halves_of_a_page_that_share_few_items_give_a_warning() -> None:
    """Every position has many linking items; few lead from one half to the other."""
    found = identifiability(counts_of(bridged(7)))
    assert found.groups == ((0, 1, 2, 3, 4),)
    assert found.clicked_linking_pairs.min() >= 50
    assert found.weak_links == (WeakLink((3, 4), 7),)
    (warning,) = found.warnings
    assert "position 4, 5 (7)" in warning
    assert f"Warning: {warning}" in found.summary()
    assert found.to_dict()["weak_links"] == [
        {"contexts": [{"position": 4}, {"position": 5}], "pairs": 7}
    ]


@pytest.mark.parametrize("bridges", [FEW_LINKS - 1, FEW_LINKS])
def test_the_bound_is_the_stated_number(bridges: int) -> None:
    assert bool(identifiability(counts_of(bridged(bridges))).weak_links) == (bridges < FEW_LINKS)


def test_items_never_clicked_link_but_are_uninformative() -> None:
    found = identifiability(counts_of(bridged(50, clicks=0)))
    assert found.groups == ((0, 1, 2, 3, 4),)
    assert found.weak_links == (WeakLink((3, 4), 0),)


def test_many_weak_links_together_are_strong() -> None:
    """A position that shares 10 items with each of four others has 40 in all."""
    rows = {}
    for pair in range(200):
        for k in (1, 2, 3, 4):
            rows[pair, k, 0] = (10, 2)
    for pair in range(200, 240):
        rows[pair, 1 + pair % 4, 0] = rows[pair, 5, 0] = (10, 2)
    assert identifiability(counts_of(rows)).weak_links == ()


def test_positions_without_a_common_item_are_not_comparable() -> None:
    counts = counts_of(bridged(0))
    found = identifiability(counts)
    assert found.groups == ((0, 1, 2), (3, 4))
    assert found.not_comparable == (3, 4)
    (warning,) = found.warnings
    assert warning.startswith("position 4, 5: not comparable")
    assert "position 1, 2, 3" in warning
    for anchor in (0, 1, 2):
        check_anchor(counts, anchor)
    with raises_code("anchor-not-comparable") as caught:
        check_anchor(counts, 3)
    assert "position 4" in str(caught.value)
    assert "choose one of position 1, 2, 3" in str(caught.value)
    with raises_code("anchor-out-of-range") as caught:
        check_anchor(counts, 9)
    assert "not context 9" in str(caught.value)


def test_positions_that_a_split_left_without_displays_are_named() -> None:
    counts = counts_of(bridged(0))
    upper = counts.subset(np.flatnonzero(np.arange(len(counts)) % 2))
    found = identifiability(upper)
    assert found.groups == ((0, 1, 2),)
    assert found.not_comparable == (3, 4)
    assert "position 4, 5: never shown" in found.summary()
    with raises_code("anchor-not-comparable") as caught:
        check_anchor(upper, 4)
    assert "choose one of position 1, 2, 3" in str(caught.value)


def test_one_context_is_fine() -> None:
    counts = counts_of({(1, 1, 0): (5, 1), (2, 1, 0): (5, 0)})
    found = identifiability(counts)
    assert (found.groups, found.linked_share, found.warnings) == (((0,),), 0.0, ())
    assert "only one context" in found.summary()
    check_anchor(counts, 0)


def test_contexts_of_several_columns_are_named_in_full(small_log: pd.DataFrame) -> None:
    log = small_log.assign(device=np.where(small_log.query_id == "hats", "phone", "desk"))
    counts = read_log(log, context=("device", "position"))
    found = identifiability(counts)
    assert found.groups == ((0, 1, 2), (3, 4, 5))
    assert "(device, position) (phone, 1), (phone, 2), (phone, 3): not" in found.warnings[0]
    assert found.to_dict()["not_comparable"][0] == {"device": "phone", "position": 1}


def test_long_lists_are_cut() -> None:
    rows = {(1, k, 0): (9, 1) for k in range(1, 31)}
    words = identifiability(counts_of(rows)).summary()
    assert "Comparable: position 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 18 more." in words


def test_the_assumption_nobody_can_check_is_always_stated() -> None:
    for bridges in (0, 50):
        words = identifiability(counts_of(bridged(bridges))).summary()
        assert "reasons unrelated to who sees them" in words
        assert ("Warning" in words) == (bridges == 0)


def test_real_logs(shared_data: Callable[[str], Path]) -> None:
    with pytest.warns(UserWarning, match="capped"):
        yandex = read_log(
            shared_data("yandex-counts/counts.csv"), position_base=0, clip_clicks=True
        )
    found = identifiability(yandex)
    assert len(found.largest) == 10
    assert found.warnings == ()
    # 46 clicks do not identify position bias
    bandit = read_log(shared_data("obd/random/men.csv"), columns={"query_id": "user_feature_0"})
    assert "few clicked items" in identifiability(bandit).warnings[0]
