"""Slots of rankings against loops: which are compared, and with what weight."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import epiclick as ec
from epiclick.comparison.rankings import Ranking, read_ranking
from epiclick.comparison.slots import Slots, Traffic, slots_of, traffic_of
from epiclick.errors import InputError

from ..raising import raises_code
from .planted import THETA, planted, rows_of

DEPTH = len(THETA)
NEW = {1: [10, 11, 12], 2: [20, 21], 3: [30, 31, 32, 33]}
OLD = {2: [21, 22, 20], 3: [30], 4: [40, 41]}
TRAFFIC = Traffic(
    pa.table({"query_id": [1, 2, 3]}), np.array([5.0, 30.0, 10.0]), np.array([1.0, 0.9, 0.5, 0.2])
)


def ranking(lists: dict, name: str = "new", keys=("query_id",), context=("position",)) -> Ranking:
    return read_ranking(rows_of(lists, keys), name, context=context)


def both(new: dict = NEW, old: dict = OLD) -> list[Ranking]:
    return [ranking(new, "new"), ranking(old, "old")]


def as_rows(slots: Slots) -> list[tuple]:
    """(ranker, query, doc, position, weight, reach), sorted."""
    columns = (
        slots.ranker.tolist(),
        slots.query_id.to_pylist(),
        slots.doc_id.to_pylist(),
        slots.position.tolist(),
        slots.weight.round(12).tolist(),
        slots.reach.tolist(),
    )
    return sorted(zip(*columns, strict=True))


def lists_by_ranker(slots: Slots) -> list[int]:
    """Number of lists of each ranker."""
    return [len(np.unique(slots.page[slots.ranker == r])) for r in np.unique(slots.ranker)]


def list_weights(slots: Slots) -> np.ndarray:
    """(rankers,) sum of the weights of all lists, each counted at its first slot."""
    first = slots.position == 1
    return np.bincount(slots.ranker[first], slots.weight[first])


def by_loop(rankings: list[dict], pages: dict[int, float], reach: np.ndarray) -> list[tuple]:
    common = set.intersection(*(set(each) for each in rankings)) & set(pages)
    total = sum(pages[query] for query in common)
    return sorted(
        (number, query, doc, position, round(pages[query] / total, 12), reach[position - 1])
        for number, lists in enumerate(rankings)
        for query, docs in lists.items()
        if query in common
        for position, doc in enumerate(docs, 1)
    )


def refused(rankings: list[Ranking], code: str, traffic: Traffic | None = None, **options) -> str:
    """The message with which rankings are refused under a code."""
    with raises_code(code) as error:
        slots_of(options.pop("fitted", planted()), rankings, traffic, **options)
    return str(error.value)


def test_rankers_are_compared_on_the_queries_they_share() -> None:
    slots = slots_of(planted(), both(), None)
    everywhere = np.ones(DEPTH)
    assert as_rows(slots) == by_loop([NEW, OLD], dict.fromkeys((1, 2, 3, 4), 1.0), everywhere)
    assert slots.queries == 2
    assert lists_by_ranker(slots) == [2, 2]
    assert slots.notes == (
        "compared on the 2 queries that all rankers have; 2 others were left out",
    )
    np.testing.assert_allclose(list_weights(slots), 1)


def test_queries_are_weighted_by_their_pages() -> None:
    slots = slots_of(planted(), both(), TRAFFIC)
    assert as_rows(slots) == by_loop([NEW, OLD], {1: 5.0, 2: 30.0, 3: 10.0}, TRAFFIC.reach)
    np.testing.assert_allclose(list_weights(slots), 1)
    heavy = slots.weight[np.asarray(slots.query_id) == 2]
    np.testing.assert_allclose(heavy, 30 / 40)


def test_uniform_weights_keep_reach_and_queries_without_traffic() -> None:
    new, old = NEW | {4: [40]}, OLD | {1: [12]}
    slots = slots_of(planted(), both(new, old), TRAFFIC, uniform=True)
    assert as_rows(slots) == by_loop([new, old], dict.fromkeys((1, 2, 3, 4), 1.0), TRAFFIC.reach)
    assert slots.notes == ()
    by_traffic = slots_of(planted(), both(new, old), TRAFFIC)
    assert as_rows(by_traffic) == by_loop([new, old], {1: 5.0, 2: 30.0, 3: 10.0}, TRAFFIC.reach)
    assert by_traffic.queries == 3
    (note,) = by_traffic.notes
    assert "1 of 4 queries are not in the log" in note
    assert "the first: query 4" in note


def test_lists_of_a_query_share_its_weight() -> None:
    """Whatever their number, which may differ between rankers."""
    several = pd.DataFrame(
        [(2, "a", 20, 1), (2, "b", 21, 1), (2, "b", 20, 2), (2, "c", 22, 1), (3, "d", 30, 1)],
        columns=["query_id", "page_id", "doc_id", "position"],
    )
    rankings = [read_ranking(several, "new"), ranking({2: [21], 3: [31, 30]}, "old")]
    slots = slots_of(planted(), rankings, TRAFFIC)
    assert lists_by_ranker(slots) == [4, 2]
    np.testing.assert_allclose(list_weights(slots), 1)
    weights = {row[:4]: row[4] for row in as_rows(slots)}
    assert weights[0, 2, 22, 1] == weights[0, 2, 21, 1] == pytest.approx(30 / 40 / 3)
    assert weights[1, 2, 21, 1] == pytest.approx(30 / 40)
    assert weights[0, 3, 30, 1] == weights[1, 3, 31, 1] == pytest.approx(10 / 40)


def test_weights_of_many_rankers_add_up_to_one() -> None:
    rng = np.random.default_rng(1)
    rankings, lists = [], []
    for number in range(4):
        queries = rng.permutation(60)[:45]
        lists.append({int(q): rng.permutation(9)[: rng.integers(1, 5)].tolist() for q in queries})
        rankings.append(ranking(lists[-1], f"r{number}"))
    pages = rng.integers(1, 100, 50).astype(float)
    traffic = Traffic(pa.table({"query_id": np.arange(50)}), pages, rng.random(DEPTH))
    slots = slots_of(planted(), rankings, traffic)
    np.testing.assert_allclose(list_weights(slots), 1)
    assert as_rows(slots) == by_loop(lists, dict(enumerate(pages)), traffic.reach)
    assert 5 < slots.queries < 45


DEVICE = ("device", "position")
BY_DEVICE = {("phone", 2): [20, 21], ("tv", 2): [21], ("phone", 3): [30]}


def test_devices_have_separate_lists() -> None:
    fitted = planted(devices=True)
    keys = ("device", "query_id")
    other = {("phone", 2): [21], ("tv", 2): [20, 21], ("tv", 3): [30]}
    rankings = [
        ranking(BY_DEVICE, "new", keys, DEVICE),
        ranking(other, "old", keys, DEVICE),
    ]
    traffic = Traffic(
        pa.table(
            {
                "query_id": [2, 2, 3],
                "device": pa.array(["phone", "tv", "tv"], pa.large_string()),
            }
        ),
        np.array([6.0, 2.0, 9.0]),
        np.linspace(1, 0.3, 2 * DEPTH),
    )
    slots = slots_of(fitted, rankings, traffic)
    np.testing.assert_allclose(list_weights(slots), 1)
    assert slots.queries == 1
    assert "2 queries by device that all rankers have; 2 others were left out" in slots.notes[0]
    for ranker, doc, context, weight in zip(
        slots.ranker, slots.doc_id.to_pylist(), slots.given, slots.weight, strict=True
    ):
        device = fitted.contexts["device"][int(context)].as_py()
        assert weight == pytest.approx({"phone": 6 / 8, "tv": 2 / 8}[device])
        assert doc in [BY_DEVICE, other][ranker][device, 2]
    np.testing.assert_array_equal(slots.reach, traffic.reach[slots.given])


def test_contexts_the_model_does_not_know_are_refused() -> None:
    lists = BY_DEVICE | {("watch", 2): [20, 22]}
    rankings = [ranking(lists, "new", ("device", "query_id"), DEVICE)]
    message = refused(rankings, "unknown-context", fitted=planted(devices=True))
    assert "ranking 'new'" in message
    assert "2 slots" in message
    assert "device watch, position 1" in message


def test_deeper_positions_are_refused_or_taken_as_the_last() -> None:
    new, old = {2: [20, 21, 22, 23, 24, 25]}, {2: [21, 20]}
    message = refused(both(new, old), "position-too-deep", TRAFFIC)
    assert "ranking 'new' has positions deeper than 4" in message
    assert "2 slots" in message
    assert "position 5" in message
    assert "depth=4" in message
    assert "extrapolate=True" in message
    slots = slots_of(planted(), both(new, old), TRAFFIC, extrapolate=True)
    assert slots.position.tolist() == [1, 2, 3, 4, 5, 6, 1, 2]
    assert slots.given.tolist() == [0, 1, 2, 3, 3, 3, 0, 1]
    np.testing.assert_array_equal(slots.reach, TRAFFIC.reach[slots.given])
    (note,) = slots.notes
    assert "'new': 2 slots are deeper than position 4" in note
    assert slots_of(planted(), both(old, old), TRAFFIC, extrapolate=True).notes == ()


def test_deeper_positions_of_a_device_are_taken_as_its_own_last() -> None:
    lists = {("tv", 2): [20, 21, 22, 23, 24], ("phone", 2): [20]}
    rankings = [ranking(lists, "new", ("device", "query_id"), DEVICE)]
    slots = slots_of(planted(devices=True), rankings, None, extrapolate=True)
    by_doc = dict(zip(slots.doc_id.to_pylist(), slots.given.tolist(), strict=True))
    assert by_doc[24] == by_doc[23] == 2 * DEPTH - 1
    # a device that the model does not know has no last position
    lists = {("watch", 2): [20, 21, 22, 23, 24]}
    rankings = [ranking(lists, "new", ("device", "query_id"), DEVICE)]
    given = {"fitted": planted(devices=True), "extrapolate": True}
    assert "ranking 'new'" in refused(rankings, "position-too-deep", **given)


def test_problems_of_all_rankers_are_reported_at_once() -> None:
    message = refused(both({2: list(range(5))}, {2: list(range(7))}), "position-too-deep")
    assert "ranking 'new'" in message
    assert "ranking 'old'" in message


def test_rankings_without_a_common_query_are_refused() -> None:
    message = refused(both({1: [1]}, {2: [1]}), "no-common-query", TRAFFIC)
    assert "that the log has" not in message
    message = refused(both({7: [1]}, {7: [1]}), "no-common-query", TRAFFIC)
    assert "that the log has" in message


def test_a_log_that_displays_none_of_the_slots_is_refused() -> None:
    """All rankers would be worth nothing, and the same."""
    nowhere = Traffic(TRAFFIC.keys, TRAFFIC.pages, np.zeros(DEPTH))
    refused(both(), "positions-not-displayed", nowhere)
    partly = Traffic(TRAFFIC.keys, TRAFFIC.pages, np.array([0.0, 0.0, 0.5, 0.0]))
    assert set(slots_of(planted(), both(), partly).reach) == {0.0, 0.5}


def test_ids_of_another_type_are_refused() -> None:
    assert "query ids" in refused(both({"2": [1]}, {2: [1]}), "id-types-differ")
    assert "doc ids" in refused(both({2: ["1"]}, {2: [1]}), "id-types-differ")


def test_traffic_of_a_log_is_found_by_its_ids() -> None:
    log = pd.DataFrame(
        [(p, q, d, k, p % 2) for p, q in enumerate([2, 2, 2, 3]) for k, d in ((1, 20), (2, 21))],
        columns=["page_id", "query_id", "doc_id", "position", "click"],
    )
    traffic = traffic_of(planted(), ec.read_log(log))
    slots = slots_of(planted(), both(), traffic)
    weights = dict(zip(slots.query_id.to_pylist(), slots.weight.tolist(), strict=True))
    assert weights == {2: 0.75, 3: 0.25}
    texts = {str(query): docs for query, docs in NEW.items()}
    with pytest.raises(InputError, match="1 is not '1'"):
        slots_of(planted(), [ranking(texts)], traffic)
