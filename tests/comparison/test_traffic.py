"""Pages of queries and how far they reach, against a loop over the pages of a log."""

import numpy as np
import pandas as pd
import pytest

import epiclick as ec
from epiclick.comparison.slots import kinds_of, traffic_of
from epiclick.errors import InputError

from .planted import DEVICES, THETA, planted

DEPTH = len(THETA)


def paged_log(pages: int = 600, seed: int = 1, *, devices: bool = False) -> pd.DataFrame:
    """Pages of unequal length; some queries are frequent, and phones show less of a page."""
    rng = np.random.default_rng(seed)
    rows = []
    for page in range(pages):
        query = int(rng.geometric(0.2))
        device = DEVICES[rng.integers(2)]
        length = rng.integers(1, DEPTH + (0 if devices and device == "phone" else 1))
        docs = rng.permutation(8)[:length]
        rows += [
            (page, query, int(doc), device, position, int(rng.random() < 0.3))
            for position, doc in enumerate(docs, 1)
        ]
    names = ["page_id", "query_id", "doc_id", "device", "position", "click"]
    log = pd.DataFrame(rows, columns=names)
    return log if devices else log.drop(columns="device")


def by_loop(log: pd.DataFrame, keys: list[str]) -> tuple[dict, dict]:
    """Pages of each kind of list, and share of pages of the other contexts that show a context."""
    pages: dict = {}
    whole: dict = {}
    shown: dict = {}
    for _, page in log.groupby("page_id"):
        first = page.iloc[0]
        key = tuple(first[name] for name in keys)
        pages[key] = pages.get(key, 0) + 1
        kind = key[1:]
        whole[kind] = whole.get(kind, 0) + 1
        for position in page["position"]:
            shown[*kind, position] = shown.get((*kind, position), 0) + 1
    return pages, {key: count / whole[key[:-1]] for key, count in shown.items()}


@pytest.mark.parametrize("devices", [False, True])
def test_pages_and_reach_are_those_of_a_loop(devices: bool) -> None:
    log = paged_log(devices=devices)
    context = ("device", "position") if devices else ("position",)
    fitted = planted(devices=devices)
    found = traffic_of(fitted, ec.read_log(log, context=context))
    keys = ["query_id", *context[:-1]]
    pages, reach = by_loop(log, keys)
    assert sorted(found.keys.column_names) == sorted(keys)
    columns = [found.keys[name].to_pylist() for name in keys]
    assert dict(zip(zip(*columns, strict=True), found.pages, strict=True)) == pages
    assert found.pages.sum() == log["page_id"].nunique()
    known = [fitted.contexts[name].to_pylist() for name in context]
    expected = [reach.get(key, 0.0) for key in zip(*known, strict=True)]
    np.testing.assert_allclose(found.reach, expected, rtol=1e-12)
    # no phone shows the last position
    assert (found.reach == 0).sum() == int(devices)
    assert len(set(found.reach)) > 3


def test_parts_of_a_log_are_added_up() -> None:
    log = paged_log()
    parted = ec.read_log(log, page_parts=5)
    assert parted.part is not None
    fitted = planted()
    whole, found = traffic_of(fitted, ec.read_log(log)), traffic_of(fitted, parted)
    np.testing.assert_array_equal(found.pages, whole.pages)
    np.testing.assert_array_equal(found.reach, whole.reach)


def test_positions_the_log_never_shows_are_never_reached() -> None:
    log = paged_log()
    found = traffic_of(planted(), ec.read_log(log[log["position"] <= 2]))
    assert np.all(found.reach[:2] > 0.5)
    assert not found.reach[2:].any()


def test_contexts_unknown_to_the_model_still_count_as_pages() -> None:
    log = paged_log()
    known = planted(theta=THETA[1:3])  # two positions
    found = traffic_of(known, ec.read_log(log))
    assert found.pages.sum() == log["page_id"].nunique()
    assert len(found.reach) == 2


def test_a_log_counted_by_other_contexts_is_refused() -> None:
    log = paged_log(devices=True)
    plain, apart = ec.read_log(log), ec.read_log(log, context=("device", "position"))
    with pytest.raises(InputError, match=r'count it with context=\["device", "position"\]'):
        traffic_of(planted(devices=True), plain)
    with pytest.raises(InputError, match='count it with context="position"'):
        traffic_of(planted(), apart)


def test_contexts_but_for_their_position() -> None:
    fitted = planted(devices=True)
    kinds, kind = kinds_of(fitted.contexts)
    assert kinds.to_pydict() == {"device": list(DEVICES)}
    assert kind.tolist() == [0] * DEPTH + [1] * DEPTH
    kinds, kind = kinds_of(planted().contexts)
    assert len(kinds) == 1
    assert kinds.column_names == []
    assert kind.tolist() == [0] * DEPTH
