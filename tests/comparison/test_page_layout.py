"""Lists in the slots of a model's pages: repeated over devices, laid out in grids, below ads."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import epiclick as ec
from epiclick.comparison.compare_rankers import read_rankings, read_slots
from epiclick.comparison.page_layout import PageLayout
from epiclick.comparison.slots import slots_of, traffic_of
from epiclick.data.schema import LogOptions
from epiclick.fitted.state import FittedModel

from ..raising import raises_code
from .planted import DEVICES, THETA, model_of, planted, rows_of
from .test_traffic import paged_log

LISTS = {1: [0, 1, 2, 3], 2: [3, 2, 1, 0], 4: [4, 5, 6]}
CONTEXT = ("device", "position")


def on_devices(lists: dict, lengths: dict[str, int]) -> pd.DataFrame:
    """The lists written out for each device, as far as each shows them."""
    written = {
        (query, device): docs[: lengths[device]]
        for query, docs in lists.items()
        for device in DEVICES
    }
    return rows_of(written, ["query_id", "device"])


def values_of(slots) -> list[tuple]:
    """Weight and reach of each slot, by query, item and context."""
    rows = zip(
        slots.query_id.to_pylist(),
        slots.doc_id.to_pylist(),
        slots.given.tolist(),
        slots.position.tolist(),
        slots.weight.round(12).tolist(),
        slots.reach.round(12).tolist(),
        strict=True,
    )
    return sorted(rows)


@pytest.fixture(scope="module")
def log() -> ec.ClickCounts:
    """The last position is never shown on phones."""
    return ec.read_log(paged_log(devices=True), context=CONTEXT)


@pytest.mark.parametrize("uniform", [False, True])
def test_a_list_without_a_device_is_the_same_on_all(log: ec.ClickCounts, uniform: bool) -> None:
    fitted = planted(devices=True)
    traffic = traffic_of(fitted, log)
    whole = rows_of(LISTS)
    written = on_devices(LISTS, dict.fromkeys(DEVICES, 4))
    _, repeated = read_slots(fitted, {"a": whole}, None, log, traffic, uniform=uniform)
    _, explicit = read_slots(fitted, {"a": written}, None, log, traffic, uniform=uniform)
    if not uniform:
        assert values_of(repeated) == values_of(explicit)
    # pages of the log by device, among the queries that are ranked if these are weighted by pages
    pages = paged_log(devices=True).drop_duplicates("page_id")
    of_queries = pages if uniform else pages[pages.query_id.isin(list(LISTS))]
    share = (of_queries.device == "phone").mean()
    phone = repeated.given < len(THETA)
    first = repeated.position == 1
    assert repeated.weight[phone & first].sum() == pytest.approx(share)
    assert repeated.weight[first].sum() == pytest.approx(1)
    (note,) = [note for note in repeated.notes if "no column device" in note]
    assert "weighted by its pages in the log" in note
    assert "phone; tv" in note


def test_values_are_those_of_lists_written_out(log: ec.ClickCounts) -> None:
    model = model_of(planted(devices=True, features=False))
    new, old = LISTS, {query: docs[::-1] for query, docs in LISTS.items()}
    how = {"clicks": log, "samples": 200}
    short = ec.compare(model, {"new": rows_of(new), "old": rows_of(old)}, **how)
    lengths = dict.fromkeys(DEVICES, 4)
    written = {"new": on_devices(new, lengths), "old": on_devices(old, lengths)}
    long = ec.compare(model, written, **how)
    np.testing.assert_allclose(short.rankers["value"], long.rankers["value"], rtol=0.02)
    mixed = ec.compare(model, {"new": rows_of(new), "old": written["old"]}, **how)
    np.testing.assert_allclose(mixed.rankers["value"], long.rankers["value"], rtol=0.02)


def test_functions_and_runs_are_repeated_too(log: ec.ClickCounts, tmp_path) -> None:
    fitted = planted(devices=True)
    frame = pd.DataFrame({"query_id": [1, 1, 2], "doc_id": [5, 6, 5], "f0": [1.0, 2, 3], "f1": 0.0})
    features = ec.read_features(frame)
    (tmp_path / "a.run").write_text("1 Q0 6 1 2.0 t\n1 Q0 5 2 1.0 t\n2 Q0 5 1 3.0 t\n")
    sources = {"function": lambda f: f["f0"], "run": tmp_path / "a.run"}
    for ranking in read_rankings(fitted, sources, features, log).values():
        assert ranking.repeated == ("device",)
        assert ranking.lists == 4
        assert ranking.contexts["device"].to_pylist() == ["phone"] * 2 + ["tv"] * 2 + [
            "phone",
            "tv",
        ]
        assert ranking.doc_id.to_pylist() == [6, 5, 6, 5, 5, 5]
        assert ranking.position.tolist() == [1, 2, 1, 2, 1, 1]


def shallow_phone() -> FittedModel:
    """A model that knows two positions on phones and four on television."""
    fitted = planted(devices=True, features=False)
    keep = [0, 1, *range(len(THETA), 2 * len(THETA))]
    return replace(fitted, contexts=fitted.contexts.take(keep))


def test_lists_end_where_the_pages_of_a_device_do() -> None:
    fitted = shallow_phone()
    rankings, slots = read_slots(fitted, {"a": rows_of(LISTS)}, None, None, None)
    _, explicit = read_slots(
        fitted, {"a": on_devices(LISTS, {"phone": 2, "tv": 4})}, None, None, None
    )
    assert values_of(slots) == values_of(explicit)
    # 2 + 2 + 1 slots below position 2
    assert any("5 slots of repeated lists are below" in note for note in rankings[0].notes)
    with raises_code("position-too-deep"):
        read_slots(fitted, {"a": rows_of({1: range(6)})}, None, None, None)


def test_some_contexts_given_and_others_repeated() -> None:
    names = ("country", "device", "position")
    rows = [
        (c, d, k) for c in ("nl", "us") for d in DEVICES for k in (1, 2) if (c, d) != ("us", "tv")
    ]
    contexts = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    layout = PageLayout(contexts, LogOptions(context=names))
    country = pa.array(["us", "us", "nl"])
    copies = layout.repeated(np.array([0, 0, 1]), {"country": country})
    kinds = layout.kinds[0].take(copies.kind).to_pylist()
    assert copies.slot.tolist() == [0, 1, 2, 2]
    assert copies.page.tolist() == [0, 0, 1, 2]
    assert [tuple(kind.values()) for kind in kinds] == [
        *[("us", "phone")] * 2,
        ("nl", "phone"),
        ("nl", "tv"),
    ]
    with raises_code("unknown-context"):
        layout.repeated(np.array([0]), {"country": pa.array(["fr"])})


def in_grid(fitted: FittedModel, per_row: int) -> FittedModel:
    """The same model with rows and columns in place of positions."""
    place = fitted.contexts["position"].to_numpy() - 1
    contexts = pa.table({"row": place // per_row + 1, "column": place % per_row + 1})
    return replace(fitted, contexts=contexts, options=LogOptions(grid=per_row))


def test_a_grid_gives_the_values_of_its_positions() -> None:
    pages = paged_log()
    rankings = {"new": rows_of(LISTS), "old": rows_of({q: d[::-1] for q, d in LISTS.items()})}
    flat = planted(features=False)
    found = [
        ec.compare(model_of(fitted), rankings, clicks=ec.read_log(pages, **how), samples=200)
        for fitted, how in ((flat, {}), (in_grid(flat, 3), {"grid": 3}))
    ]
    pd.testing.assert_frame_equal(found[0].rankers, found[1].rankers)
    assert found[0].notes == found[1].notes
    deep = {"a": rows_of({1: range(6)})}
    with raises_code("position-too-deep"):
        ec.compare(model_of(in_grid(flat, 3)), deep)
    extended = [
        ec.compare(model_of(each), deep, extrapolate=True, samples=200).rankers
        for each in (flat, in_grid(flat, 3))
    ]
    pd.testing.assert_frame_equal(*extended)


def test_rows_and_columns_without_the_size_of_the_grid_are_refused() -> None:
    fitted = in_grid(planted(features=False), 3)
    bare = replace(fitted, options=LogOptions(context=("row", "column")))
    with raises_code("context-without-position") as caught:
        slots_of(bare, [], None)
    assert "grid" in str(caught.value)


@pytest.mark.parametrize("paid", ["drop", "context"])
def test_lists_start_below_ads_that_are_always_at_the_top(paid: str) -> None:
    options = LogOptions(sponsored="ad", sponsored_as=paid)
    fitted = planted(features=False)
    columns = {"position": [3, 4, 5, 6]}
    if paid == "context":
        columns = {"sponsored": [0, 0, 0, 0]} | columns
    fitted = replace(fitted, contexts=pa.table(columns), options=options)
    (ranking,), slots = read_slots(fitted, {"a": rows_of({1: [7, 8, 9]})}, None, None, None)
    assert slots.given.tolist() == [0, 1, 2]
    assert slots.position.tolist() == [1, 2, 3]
    assert "positions 3, 4, 5, ..." in ranking.notes[0]
    # elsewhere positions are not moved
    plain = replace(fitted, options=LogOptions(context=tuple(columns)))
    with raises_code("unknown-context"):
        read_slots(plain, {"a": rows_of({1: [7, 8, 9]}).assign(sponsored=0)}, None, None, None)


def test_rankings_of_normalised_queries() -> None:
    fitted = replace(planted(features=False), options=LogOptions(normalise_queries=True))
    rows = rows_of({"Red  shoes": [1, 2], "hats ": [1]})
    assert read_rankings(fitted, {"a": rows}, None, None)["a"].query_id.to_pylist() == [
        *["hats"],
        *["red shoes"] * 2,
    ]
    twice = rows_of({"Hats": [1, 2], "hats": [2, 1]})
    with raises_code("repeated-document"):
        read_rankings(fitted, {"a": twice}, None, None)
