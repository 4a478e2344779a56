"""Clicks above a display, computed from logs: against a loop over the rows of each page."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from epiclick import ClickCounts, InputWarning, LogOptions, read_log, simulate
from epiclick.data.by_column import count_by
from epiclick.data.page_weights import page_weights
from epiclick.data.readers import count_log
from epiclick.data.robots import slot_rates

from ..raising import raises_code

pytestmark = pytest.mark.slow

GIVEN = ["position", "device"]
KEYS = ["query_id", "doc_id", *GIVEN, "last_click"]


def random_log(seed, pages=60, depth=6):
    """Pages of a few documents each, with gaps between positions and rows in any order."""
    rng = np.random.default_rng(seed)
    rows = []
    for page in range(pages):
        places = np.sort(rng.choice(np.arange(1, depth + 3), rng.integers(1, depth), False))
        docs = rng.permutation(12)[: len(places)]
        query, device = int(rng.integers(4)), str(rng.choice(["phone", "desktop"]))
        for place, doc in zip(places, docs, strict=True):
            rows.append((page, query, int(doc), int(place), device, int(rng.random() < 0.3)))
    names = ["page_id", "query_id", "doc_id", "position", "device", "click"]
    return pd.DataFrame(rows, columns=names).sample(frac=1, random_state=seed, ignore_index=True)


def with_last_click(log):
    """The log with its last clicks, by a loop."""
    last = []
    for row in log.itertuples():
        above = [
            other.position
            for other in log[log.page_id == row.page_id].itertuples()
            if other.click == 1 and other.position < row.position
        ]
        last.append(max(above, default=0))
    return log.assign(last_click=last)


def counted(log, given=GIVEN):
    """Displays and clicks by a loop, of a log with last clicks."""
    keys = ["query_id", "doc_id", *given, "last_click"]
    found = log.groupby(keys).click.agg(displays="size", clicks="sum").reset_index()
    return found.sort_values(keys, ignore_index=True)


def as_rows(counts):
    return counts.to_table().to_pandas()


def same(counts, expected):
    pd.testing.assert_frame_equal(as_rows(counts), expected, check_dtype=False)
    return True


@pytest.mark.parametrize("seed", range(4))
def test_the_last_click_agrees_with_a_loop(seed):
    log = random_log(seed)
    expected = counted(with_last_click(log))
    counts = read_log(log, context=GIVEN, click_model="ubm")
    assert same(counts, expected)
    assert counts.contexts.column_names == [*GIVEN, "last_click"]
    assert str(counts.contexts["last_click"].type) == "int64"
    assert counts.history == ("last_click",)
    assert len(set(expected.last_click)) > 3, "too few different last clicks for a test"


def test_positions_from_0_written_as_text_in_a_csv_file(tmp_path):
    log = random_log(5)
    expected = counted(with_last_click(log))
    path = tmp_path / "log.csv"
    written = log.assign(position=log.position - 1, click=log.click.map({0: "false", 1: "true"}))
    written.to_csv(path, index=False)
    assert same(
        read_log(path, context=GIVEN, click_model="ubm", position_base=0, ids="integer"), expected
    )
    text = written.assign(position=written.position.astype(str) + ".0")
    assert same(read_log(text, context=GIVEN, click_model="ubm", position_base=0), expected)


def test_columns_of_any_names(tmp_path):
    log = random_log(6)
    # column names that the click model uses mean other things in this log
    own = log.rename(columns={"page_id": "Search_ID", "position": "rank", "click": "CLICKED"})
    own["page"], own["own_0"] = 1, 2
    own.to_parquet(tmp_path / "log.parquet")
    counts = read_log(tmp_path / "log.parquet", context=GIVEN, click_model="ubm")
    assert same(counts, counted(with_last_click(log)))


def test_the_order_of_rows_and_files_changes_nothing(tmp_path):
    log = random_log(7)
    whole = read_log(log, context=GIVEN, click_model="ubm")
    assert whole.to_table().equals(
        read_log(log.sort_values("doc_id"), context=GIVEN, click_model="ubm").to_table()
    )
    # rows of one page are in both files
    log.iloc[::2].to_parquet(tmp_path / "one.parquet")
    log.iloc[1::2].to_parquet(tmp_path / "two.parquet")
    assert whole.to_table().equals(read_log(tmp_path, context=GIVEN, click_model="ubm").to_table())


def test_two_rows_of_one_position_are_not_above_each_other():
    log = pd.DataFrame(
        {
            "page_id": 1,
            "query_id": 1,
            "doc_id": [1, 2, 3, 4],
            "position": [1, 1, 2, 2],
            "block": ["left", "right", "left", "right"],
            "click": [1, 0, 0, 1],
        }
    )
    for rows in (log, log[::-1]):
        options = LogOptions(context=("position", "block"), click_model="ubm")
        found = as_rows(count_log(rows, options)[0])
        assert found.set_index("doc_id").last_click.to_dict() == {1: 0, 2: 0, 3: 1, 4: 1}


@pytest.mark.parametrize("kind", ["table", "csv"])
def test_a_click_on_a_row_that_is_not_counted_is_history(kind, tmp_path):
    log = random_log(8)
    expected = with_last_click(log)
    source = log
    if kind == "csv":
        source = tmp_path / "log.csv"
        log.to_csv(source, index=False)
    counts = read_log(source, context=GIVEN, click_model="ubm", where="position > 3")
    assert same(counts, counted(expected[expected.position > 3]))
    kept = with_last_click(log[log.position > 3])
    assert set(kept.last_click) != set(expected[expected.position > 3].last_click)


def test_clicks_on_dropped_bad_rows_are_history():
    log = random_log(9)
    expected = with_last_click(log)
    lost = expected[(expected.click == 1) & (expected.position == 2)].index[:3]
    assert (expected.last_click == 2).any()
    bad = log.astype({"device": object})
    bad.loc[lost, "device"] = None
    counts = read_log_quietly(bad, context=GIVEN, click_model="ubm", on_bad="drop", max_bad=0.5)
    assert same(counts, counted(expected.drop(index=lost)))


def test_a_click_at_an_invalid_position_is_not_history():
    log = random_log(10).astype({"position": float})
    expected = with_last_click(log)
    top = expected[(expected.click == 1) & (expected.position == 1)].index[:4]
    for value in (-1, 0, 1.5, np.nan):
        bad = log.copy()
        bad.loc[top, "position"] = value
        counts = read_log_quietly(bad, context=GIVEN, click_model="ubm", on_bad="drop", max_bad=0.5)
        assert same(counts, counted(with_last_click(log.drop(index=top))))


def read_log_quietly(*args, **settings):
    with pytest.warns(InputWarning, match="bad rows"):
        return read_log(*args, **settings)


def test_entries_add_up_to_the_counts_of_the_position_based_model():
    log = random_log(11, pages=200)
    log["day"] = log.page_id % 3
    for settings in ({}, {"part": "day"}, {"page_parts": 4}):
        plain = read_log(log, context=GIVEN, **settings)
        counts = read_log(log, context=GIVEN, click_model="ubm", **settings)
        given = counts.by_given()
        assert given.to_table().equals(plain.to_table())
        assert given.options == plain.options
        assert given.history == ()
        assert counts.pages == plain.pages == given.pages
        assert given.contexts.equals(plain.contexts)
        contexts, index = counts.given
        assert contexts.equals(plain.contexts)
        assert counts.contexts.select(GIVEN).equals(contexts.take(index))
        assert len(counts.pair) > len(plain.pair)
        assert plain.by_given() is plain


def test_files_of_counts_keep_the_history(tmp_path):
    log = random_log(12)
    first, second = log[log.page_id < 30], log[log.page_id >= 30]
    options = LogOptions(context=tuple(GIVEN), click_model="ubm")
    for name, part in {"a": first, "b": second}.items():
        read_log(part, options=options).to_parquet(tmp_path / f"{name}.parquet")
    a = ClickCounts.from_parquet(tmp_path / "a.parquet")
    assert a.options == options
    assert a.to_table().equals(read_log(first, options=options).to_table())
    both = read_log(tmp_path, options=options)
    assert both.to_table().equals(read_log(log, options=options).to_table())
    assert read_log(tmp_path).history == ("last_click",)
    read_log(first, context=GIVEN).to_parquet(tmp_path / "c.parquet")
    with raises_code("options-differ") as caught:
        read_log(tmp_path / "c.parquet", click_model="ubm")
    assert "click_model pbm" in str(caught.value)
    assert "ubm" in str(caught.value)
    with raises_code("click-models-differ"):
        read_log(tmp_path)


def test_a_log_s_own_column_of_that_name_is_refused():
    log = random_log(13).assign(Last_Click=0)
    with raises_code("reserved-column") as caught:
        read_log(log, click_model="ubm")
    assert "Last_Click" in str(caught.value)
    assert "Rename" in str(caught.value)
    own = log.rename(columns={"Last_Click": "last_click"})
    plain = read_log(own, context=["position", "last_click"])
    assert plain.history == ()


@pytest.mark.parametrize(
    ("log", "missing"),
    [
        (random_log(1).drop(columns="page_id"), "page_id"),
        (random_log(1).drop(columns="position"), "position"),
        (random_log(1).drop(columns=["page_id", "position"]), "page_id and position"),
    ],
)
def test_a_log_without_pages_or_positions_is_refused_with_the_remedy(log, missing):
    with raises_code("missing-column") as caught:
        read_log(log, click_model="ubm")
    message = str(caught.value)
    assert len(caught.value.problems) == 1
    assert "the user browsing model" in message
    assert f"no column for {missing}. " in message
    assert f'columns={{"{missing.split()[0]}": "NAME"}}' in message
    assert 'click_model="pbm"' in message


def test_counted_rows_do_not_contain_the_history_of_a_page():
    log = pd.DataFrame(
        {"query_id": [1], "doc_id": [1], "position": [1], "displays": [9], "clicks": [3]}
    )
    with raises_code("needs-single-displays") as caught:
        read_log(log, click_model="ubm")
    assert len(caught.value.problems) == 1


def test_a_condition_cannot_use_the_history():
    with raises_code("unknown-column") as caught:
        read_log(random_log(1), click_model="ubm", where="last_click = 0")
    assert "last_click" in str(caught.value)


def test_options():
    ubm = LogOptions(click_model="ubm", where="day = 1")
    assert LogOptions.from_dict(ubm.to_dict()) == ubm
    assert ubm.for_another_log().click_model == "ubm"
    before = {k: v for k, v in LogOptions().to_dict().items() if k != "click_model"}
    assert LogOptions.from_dict(before).click_model == "pbm"
    with raises_code("unknown-click-model") as caught:
        LogOptions(click_model="umb")
    assert "pbm, ubm, trust, cascade, dcm, sdbn, not 'umb'" in str(caught.value)
    with raises_code("invalid-click-model"):
        LogOptions(click_model=None)
    with raises_code("reserved-column") as caught:
        LogOptions(click_model="ubm", context=("position", "last_click"))
    assert "last_click" in str(caught.value)
    with raises_code("position-not-in-context"):
        LogOptions(click_model="ubm", context=("device",))


def test_worlds_are_counted_for_a_click_model():
    world = simulate(queries=5, docs=6, features=2, pages=300, positions=4, seed=1)
    counts = world.counts(click_model="ubm")
    log = with_last_click(world.log.to_pandas())
    assert same(counts, counted(log, ["position"]))
    assert counts.features is not None


def test_rules_for_pages_do_not_depend_on_clicks():
    """They apply to given contexts: no message names a last click."""
    rows = [(1, 1, d, p, 1) for d, p in ((1, 1), (2, 2), (3, 3))]
    names = ["page_id", "query_id", "doc_id", "position", "click"]
    log = pd.DataFrame([*rows, (2, 1, 1, 1, 1), (2, 1, 2, 2, 0), (2, 1, 3, 2, 0)], columns=names)
    for click_model in ("pbm", "ubm"):
        with raises_code("repeated-position") as caught:
            read_log(log, click_model=click_model)
        assert "last_click" not in str(caught.value)
    drop = LogOptions(on_bad="drop", max_bad=1)
    plain, counts = (
        count_log(log, replace(drop, click_model=click_model))[0] for click_model in ("pbm", "ubm")
    )
    assert counts.pages == plain.pages == 1
    assert counts.by_given().to_table().equals(plain.to_table())


def test_queries_of_a_single_page_are_found_whatever_was_clicked():
    rng = np.random.default_rng(0)
    pages = np.repeat(np.arange(50), 3)
    log = pd.DataFrame(
        {
            "page_id": pages,
            "query_id": pages % 25,  # two pages each, with different documents
            "doc_id": np.arange(150),
            "position": np.tile([1, 2, 3], 50),
            "click": (rng.random(150) < 0.3).astype(int),
        }
    )
    reports = [count_log(log, LogOptions(click_model=m))[1].warnings for m in ("pbm", "ubm")]
    assert reports[0] == reports[1]
    single = log.assign(query_id=log.page_id)
    reports = [count_log(single, LogOptions(click_model=m))[1].warnings for m in ("pbm", "ubm")]
    assert reports[0] == reports[1]
    assert any("single page" in message for message in reports[0])


def test_robots_are_looked_for_by_given_contexts():
    log = random_log(14, pages=300)
    plain, counts = (read_log(log, context=GIVEN, click_model=m) for m in ("pbm", "ubm"))
    for one, other in zip(slot_rates(plain, None), slot_rates(counts, None), strict=True):
        np.testing.assert_array_equal(one, other)
    # a bias by full context is averaged over its displays
    bias = np.random.default_rng(0).random(len(counts.contexts))
    shown = np.bincount(counts.context, counts.displays)
    index = counts.given[1]
    mean = np.bincount(index, bias * shown) / np.bincount(index, shown)
    for one, other in zip(slot_rates(plain, mean), slot_rates(counts, bias), strict=True):
        np.testing.assert_allclose(one, other)


def test_page_weights_and_columns_follow_the_entries():
    log = random_log(15)
    options = LogOptions(context=("position",), click_model="ubm")
    counts = read_log(log, options=options)
    weights = page_weights(log, options, counts)
    length = log.groupby("page_id").doc_id.transform("size")
    clicked = with_last_click(log).assign(weight=log.click / length)
    keys = ["query_id", "doc_id", "position", "last_click"]
    expected = clicked.groupby(keys).weight.sum().sort_index()
    np.testing.assert_allclose(weights.clicked, expected.to_numpy())
    assert weights.pages == log.page_id.nunique()
    by_device, by_position = count_by(log, options, counts, ["device", "position"])
    assert by_device.counts.total_displays == by_position.counts.total_displays == len(log)
    assert by_device.counts.history == ()
    plain = count_by(log, replace(options, click_model="pbm"), counts.by_given(), ["position"])[0]
    assert by_position.values == plain.values
    assert by_position.pages == plain.pages


def test_a_damaged_file_of_counts_is_no_log(tmp_path):
    """Without the metadata the rows of a counts file are counted rows, without a history."""
    path = tmp_path / "rows.parquet"
    pq.write_table(read_log(random_log(16), click_model="ubm").to_table(), path)
    with raises_code("needs-single-displays"):
        read_log(path, click_model="ubm")


@pytest.mark.filterwarnings("ignore::epiclick.errors.InputWarning")
def test_completed_counts_have_the_same_entries_among_all_contexts() -> None:
    log = pa.table(
        {
            "page_id": [1, 1, 1, 2, 2, 2],
            "query_id": [1] * 6,
            "doc_id": [1, 2, 3, 3, 1, 2],
            "position": [1, 2, 3, 1, 2, 3],
            "click": [0, 0, 1, 1, 0, 0],
        }
    )
    counts = read_log(log, click_model="ubm")
    whole = counts.completed()
    assert [tuple(row.values()) for row in whole.contexts.to_pylist()] == [
        (1, 0),
        (2, 0),
        (2, 1),
        (3, 0),
        (3, 1),
        (3, 2),
    ]
    assert whole.completed() is whole
    assert whole.to_table().to_pylist() == counts.to_table().to_pylist()
    order = whole.pair * len(whole.contexts) + whole.context
    assert np.all(np.diff(order) > 0)
