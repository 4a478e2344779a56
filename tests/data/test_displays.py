"""What a display is: for each trap, ignoring it gives a wrong answer and handling it the right one.

Position bias is estimated by maximum likelihood from items that change positions, which needs no
fit; its tolerances are five standard errors of the estimate itself.
"""

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from epiclick.data.counts import ClickCounts
from epiclick.data.displays import normalised
from epiclick.data.features import read_features
from epiclick.data.ids import folded
from epiclick.data.readers import count_log, read_log
from epiclick.data.schema import LogOptions
from epiclick.data.shown_pages import read_pages
from epiclick.identification.unbounded import unbounded_bias

from ..raising import raises_code

pytestmark = pytest.mark.slow

ERRORS = 5.0
THETA = np.array([1.0, 0.6, 0.45, 0.3, 0.28, 0.26])
"""Page 1 has three results; users who turn to page 2 look at all of its results alike."""


def shown(theta: np.ndarray = THETA, queries: int = 40, pages: int = 300, seed: int = 0):
    """One row per result of each page, items in random order; click where examined and relevant."""
    rng = np.random.default_rng(seed)
    size = len(theta)
    relevance = rng.beta(1, 2, (queries, size))
    query = np.repeat(np.arange(queries), pages)
    doc = rng.permuted(np.tile(np.arange(size), (len(query), 1)), axis=1)
    examined = rng.random(doc.shape) < theta
    click = examined & (rng.random(doc.shape) < relevance[query[:, None], doc])
    page, place = np.indices(doc.shape)
    columns = {"page_id": page, "query_id": query[:, None] + 0 * doc, "doc_id": doc}
    columns |= {"position": place + 1, "click": click.astype(int), "examined": examined.astype(int)}
    return pd.DataFrame({name: values.ravel() for name, values in columns.items()})


def misses(counts: ClickCounts, theta: np.ndarray) -> np.ndarray:
    """Log bias of each context over the first one, minus the truth, in standard errors."""
    found = unbounded_bias(counts)
    ratios = [found.ratio(k, 0) for k in range(1, len(counts.contexts))]
    truth = np.log(theta[1:] / theta[0])
    return np.array(
        [(ratio.value - true) / ratio.error for ratio, true in zip(ratios, truth, strict=True)]
    )


def test_positions_that_start_again_on_page_2() -> None:
    log = shown()
    rank, page = (log.position - 1) % 3 + 1, (log.position - 1) // 3
    # two thirds of searches go on to page 2, which has an id of its own
    log = log.assign(
        rank=rank, results_page=page + 1, start=3 * page, page_id=2 * log.page_id + page
    )
    log = log[(page == 0) | (log.page_id // 2 % 3 > 0)].drop(columns="position")
    ignored = read_log(log)
    assert np.abs(misses(ignored, THETA[:3])).max() > ERRORS
    handled = read_log(log, page_number="results_page", page_size=3)
    assert handled.contexts["position"].to_pylist() == [1, 2, 3, 4, 5, 6]
    assert np.abs(misses(handled, THETA)).max() < ERRORS
    by_offset = read_log(log, offset="start")
    assert by_offset.to_table().equals(handled.to_table())
    from_zero = log.assign(results_page=log.results_page - 1, rank=log["rank"] - 1)
    again = read_log(
        from_zero, page_number="results_page", page_size=3, page_number_base=0, position_base=0
    )
    assert again.to_table().equals(handled.to_table())


def test_one_search_id_for_all_its_pages_of_results() -> None:
    log = shown(queries=5, pages=20)
    whole = read_log(log)
    restarting = log.assign(
        position=(log.position - 1) % 3 + 1, results_page=(log.position - 1) // 3 + 1
    )
    with raises_code("repeated-position") as caught:
        read_log(restarting)
    assert "page_number" in str(caught.value)
    settings = {"page_number": "results_page", "page_size": 3}
    assert read_log(restarting, **settings).to_table().equals(whole.to_table())
    # the last click above a result may be on the page before
    browsing = read_log(restarting, click_model="ubm", **settings)
    assert browsing.to_table().equals(read_log(log, click_model="ubm").to_table())


def test_absolute_positions_of_every_type() -> None:
    log = shown(queries=3, pages=10)
    expected = read_log(log).to_table()
    split = log.assign(position=(log.position - 1) % 3 + 1, number=(log.position - 1) // 3 + 1)
    names = ["position", "number"]
    for kind in (str, "float32"):
        typed = split.astype(dict.fromkeys(names, kind))
        assert read_log(typed, page_number="number", page_size=3).to_table().equals(expected)


def test_results_that_never_came_into_view() -> None:
    theta = np.array([1.0, 0.8, 0.7, 0.6])
    log = shown(theta, seed=1)
    rng = np.random.default_rng(1)
    # users scroll to different depths; what is below was rendered, not seen
    depth = rng.integers(1, 5, log.page_id.nunique())
    log = log.assign(in_view=(log.position <= depth[log.page_id]).astype(int))
    log["click"] *= log.in_view
    assert np.abs(misses(read_log(log), theta)).max() > ERRORS
    counts, report = count_log(log, LogOptions(viewed="in_view"))
    assert np.abs(misses(counts, theta)).max() < ERRORS
    assert counts.total_displays == log.in_view.sum()
    unseen = len(log) - log.in_view.sum()
    assert (
        f"{unseen:,} of {len(log):,} rows never came into view and are left out" in report.warnings
    )


def test_clicks_on_what_was_not_in_view_are_reported() -> None:
    log = shown(queries=5, pages=50)
    log = log.assign(in_view=(log.position <= 4) | (log.click == 1))
    clicked = log.index[log.click == 1][:2]
    log.loc[clicked, "in_view"] = False
    with raises_code("click-not-viewed") as caught:
        read_log(log, viewed="in_view")
    assert caught.value.problems[0].count == 2
    kept, report = count_log(log, LogOptions(viewed="in_view", on_bad="drop", max_bad=0.01))
    assert "2 bad rows were left out" in report.warnings
    assert kept.total_clicks == log.click.sum() - 2


def with_ads(seed: int = 2) -> pd.DataFrame:
    """Pages whose first slot is an ad on every other page; ads are clicked at a third of the rate.

    `organic` numbers the results without ads.
    """
    log = shown(np.array([1.0, 0.7, 0.5, 0.4]), seed=seed)
    rng = np.random.default_rng(seed)
    ad = (log.page_id % 2 == 0) & (log.position == 1)
    log = log.assign(is_ad=ad.astype(int))
    log.loc[ad, "doc_id"] = 100
    log.loc[ad, "click"] = (rng.random(ad.sum()) < 0.05).astype(int)
    log["organic"] = log.position - (log.page_id % 2 == 0)
    return log


def test_sponsored_slots_left_out_keep_the_positions_of_the_others() -> None:
    theta = np.array([1.0, 0.7, 0.5, 0.4])
    log = with_ads()
    # without ads and renumbered, a result in slot 2 seems to be at position 1
    renumbered = (
        log[log.is_ad == 0].drop(columns="position").rename(columns={"organic": "position"})
    )
    assert np.abs(misses(read_log(renumbered), theta)).max() > ERRORS
    counts, report = count_log(log, LogOptions(sponsored="is_ad"))
    assert np.abs(misses(counts, theta)).max() < ERRORS
    assert counts.total_displays == (log.is_ad == 0).sum()
    assert any("were sponsored slots and are left out" in note for note in report.warnings)


def test_sponsored_slots_as_a_context() -> None:
    log = with_ads()
    by_position = read_log(log).by_context()
    counts = read_log(log, sponsored="is_ad", sponsored_as="context")
    assert counts.contexts.column_names == ["sponsored", "position"]
    table = counts.by_context().set_index(["sponsored", "position"])
    rates = log.groupby(["is_ad", "position"]).click.agg(["size", "sum"])
    assert table.displays.to_dict() == rates["size"].to_dict()
    assert table.clicks.to_dict() == rates["sum"].to_dict()
    # together they mix ads and results at the first position
    assert by_position.clicks[0] == table.clicks[0, 1] + table.clicks[1, 1]
    booleans = log.assign(is_ad=log.is_ad == 1)
    for other in (booleans, booleans.astype({"is_ad": str})):
        again = read_log(other, sponsored="is_ad", sponsored_as="context")
        assert again.to_table().equals(counts.to_table())


def test_queries_typed_in_different_ways() -> None:
    log = shown(np.array([1.0, 0.5]), queries=200, pages=4, seed=3)
    names = [
        ["red shoes {}", "Red  Shoes {}", " RED shoes\t{}", "red\u00a0shoes {}"][i]
        for i in range(4)
    ]
    typed = [
        names[page % 4].format(query) for page, query in zip(log.page_id, log.query_id, strict=True)
    ]
    log = log.assign(query_id=typed)
    apart, report = count_log(log, LogOptions())
    assert any("--normalise-queries" in note for note in report.warnings)
    assert apart.num_queries == 800
    # every query has one page, so no item is shown at two positions and nothing is learned
    assert np.isnan(unbounded_bias(apart).ratio(1, 0).value)
    counts, report = count_log(log, LogOptions(normalise_queries=True))
    assert counts.num_queries == 200
    assert np.abs(misses(counts, np.array([1.0, 0.5]))).max() < ERRORS
    assert any(note.startswith("800 queries became 200") for note in report.warnings)
    # clean queries are not mentioned
    clean = log.assign(query_id=[f"q{page // 4}" for page in log.page_id])
    assert count_log(clean, LogOptions(normalise_queries=True))[1].warnings == ()


def test_few_similar_queries_are_no_warning() -> None:
    log = shown(np.array([1.0, 0.5]), queries=2_500, pages=2)
    log = log.assign(query_id=[f"q{query}" for query in log.query_id])
    log.loc[log.page_id == 0, "query_id"] = "Q0"
    assert count_log(log, LogOptions())[1].warnings == ()


def test_engine_and_arrow_normalise_alike() -> None:
    texts = ["  A\tb ", "ÄÖ\u2003ß", "x", "", "\u00a0", "İI", "a\n\nB", "ΑΣ"]
    rows = ibis.memtable(pa.table({"q": texts}))
    in_engine = rows.select(q=normalised(rows.q)).to_pyarrow()["q"].combine_chunks()
    assert in_engine.to_pylist() == folded(pa.array(texts)).to_pylist()


def test_features_are_joined_to_normalised_queries() -> None:
    log = pd.DataFrame(
        {
            "query_id": ["Shoes", "shoes ", "hats", "hats"],
            "doc_id": ["a", "b", "a", "b"],
            "position": [1, 2, 1, 2],
            "click": [1, 0, 0, 1],
        }
    )
    features = pd.DataFrame(
        {
            "query_id": ["SHOES", "shoes", "shoes", "Hats", "hats"],
            "doc_id": ["a", "a", "b", "a", "b"],
            "f": [1.0, 1.0, 2.0, 3.0, 4.0],
        }
    )
    table = read_features(features)
    counts = count_log(log, LogOptions(normalise_queries=True))[0].with_features(table)
    assert counts.features is not None
    found = counts.features.rows(counts.feature_row)[:, 0].tolist()
    assert dict(
        zip(
            zip(counts.query_id.to_pylist(), counts.doc_id.to_pylist(), strict=True),
            found,
            strict=True,
        )
    ) == {
        ("hats", "a"): 3.0,
        ("hats", "b"): 4.0,
        ("shoes", "a"): 1.0,
        ("shoes", "b"): 2.0,
    }
    differing = read_features(features.assign(f=[1.0, 9.0, 2.0, 3.0, 4.0]))
    with raises_code("conflicting-features"):
        count_log(log, LogOptions(normalise_queries=True))[0].with_features(differing)


def test_rows_and_columns_of_a_grid() -> None:
    log = shown(queries=5, pages=30)
    flat, grid = read_log(log), read_log(log, grid=4)
    assert grid.contexts.column_names == ["row", "column"]
    cells = [((k - 1) // 4 + 1, (k - 1) % 4 + 1) for k in flat.contexts["position"].to_pylist()]
    assert (
        list(zip(*(grid.contexts[name].to_pylist() for name in ("row", "column")), strict=True))
        == cells
    )
    assert grid.displays.tolist() == flat.displays.tolist()
    assert grid.clicks.tolist() == flat.clicks.tolist()
    # a log's own columns are used as they are
    own = log.assign(row=(log.position - 1) // 4 + 1, column=(log.position - 1) % 4 + 1)
    assert read_log(own.drop(columns="position"), grid=4).to_table().equals(grid.to_table())
    with raises_code("outside-grid"):
        read_log(own.assign(row=own["row"] - 1), grid=4)
    with raises_code("outside-grid"):
        read_log(own, grid=3)
    twice = own.assign(column=np.minimum(own["column"], 3))
    with raises_code("repeated-position"):
        read_log(twice, grid=4)


def test_counts_files_keep_what_a_display_is(tmp_path) -> None:
    log = shown(queries=5, pages=30).assign(seen=1, number=1)
    settings = {"page_number": "number", "page_size": 6, "viewed": "seen", "grid": 3}
    counts = read_log(log, **settings)
    counts.to_parquet(tmp_path / "c.parquet")
    again = read_log(tmp_path / "c.parquet", **settings)
    assert again.to_table().equals(counts.to_table())
    assert again.options == counts.options
    with raises_code("options-differ"):
        read_log(tmp_path / "c.parquet", viewed="other")


def test_conditions_see_the_columns_of_the_log() -> None:
    log = shown(queries=5, pages=30)
    split = log.assign(position=(log.position - 1) % 3 + 1, number=(log.position - 1) // 3 + 1)
    counts = read_log(split, page_number="number", page_size=3, where="position = 1")
    assert counts.contexts["position"].to_pylist() == [1, 4]


BAD = {
    "page number missing": ({"number": [None, 1, 1]}, "missing-value"),
    "page number zero": ({"number": [0, 1, 1]}, "page-number-below-base"),
    "page number a fraction": ({"number": [1.5, 1, 1]}, "not-whole-number"),
    "page number text": ({"number": ["x", "1", "1"]}, "not-a-number"),
    "position beyond the page": ({"position": [9, 1, 2]}, "position-beyond-page"),
    "viewed missing": ({"seen": [None, 1, 1]}, "missing-value"),
    "viewed not binary": ({"seen": [2, 1, 1]}, "mark-not-binary"),
    "sponsored not binary": ({"ad": ["yes", "0", "0"]}, "mark-not-binary"),
    "viewed a date": ({"seen": pd.to_datetime(["2026-01-01"] * 3)}, "wrong-column-type"),
}


@pytest.mark.parametrize("flaw", BAD)
def test_bad_values_are_reported(flaw: str) -> None:
    changed, code = BAD[flaw]
    log = pd.DataFrame(
        {
            **{"query_id": ["q"] * 3, "doc_id": ["a", "b", "c"], "position": [1, 2, 3]},
            **{"click": [1, 0, 0], "number": 1, "seen": 1, "ad": 0},
        }
    ).assign(**changed)
    paid = "context" if flaw.startswith("sponsored") else "drop"
    settings = {"page_number": "number", "page_size": 3, "viewed": "seen", "sponsored": "ad"}
    with raises_code(code) as caught:
        count_log(log, LogOptions(**settings, sponsored_as=paid))
    assert {problem.code for problem in caught.value.problems} <= {code, "bad-rows"}


def test_bad_marks_are_dropped() -> None:
    log = shown(queries=2, pages=5).assign(ad=0)
    log["ad"] = log.ad.astype(object).where(log.index != 3, "yes")
    counts = count_log(log, LogOptions(sponsored="ad", on_bad="drop", max_bad=0.1))[0]
    assert counts.total_displays == len(log) - 1


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"page_number": "p"}, "option-needs-another"),
        ({"page_size": 10}, "option-needs-another"),
        ({"page_number": "p", "page_size": 5, "offset": "o"}, "page-number-and-offset"),
        ({"page_size": 0, "page_number": "p"}, "invalid-page-size"),
        ({"grid": 0}, "invalid-grid"),
        ({"grid": 2, "context": ("device",)}, "position-not-in-context"),
        ({"grid": 2, "click_model": "ubm"}, "position-not-in-context"),
        ({"viewed": "v", "context": ("v", "position")}, "reserved-column"),
        ({"viewed": "v", "sponsored": "v"}, "reserved-column"),
        ({"sponsored": "a", "sponsored_as": "keep"}, "invalid-sponsored-as"),
        ({"normalise_queries": "yes"}, "invalid-normalise-queries"),
    ],
)
def test_contradicting_options_are_refused(settings: dict, code: str) -> None:
    with raises_code(code):
        LogOptions(**settings)


def test_new_aliases() -> None:
    log = pd.DataFrame(
        {"page_view_id": [1, 1], "search_term": ["a", "a"], "sku": [1, 2], "rank": [1, 2]}
    ).assign(click=[1, 0])
    assert count_log(log, LogOptions())[1].aliases == {
        "page_id": "page_view_id",
        "query_id": "search_term",
        "doc_id": "sku",
        "position": "rank",
    }
    renamed = log.rename(columns={"sku": "item"})
    assert count_log(renamed, LogOptions())[1].aliases["doc_id"] == "item"


def test_pages_of_a_grid_are_read_from_left_to_right() -> None:
    log = shown(queries=3, pages=20)
    flat, grid = (
        read_pages(log, options, count_log(log, options)[0])
        for options in (LogOptions(page_parts=2), LogOptions(page_parts=2, grid=4))
    )
    np.testing.assert_array_equal(grid.entry, flat.entry)
    np.testing.assert_array_equal(grid.clicked, flat.clicked)
