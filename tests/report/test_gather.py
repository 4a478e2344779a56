"""Numbers of the report against brute force, and in worlds with known truth."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats

import epiclick as ec
from epiclick.comparison.estimates import not_available
from epiclick.comparison.overlap import Overlap
from epiclick.errors import InputError
from epiclick.evaluation.item_chunks import ItemRelevance, item_chunks
from epiclick.evaluation.truth import read_truth
from epiclick.report.changes import changes
from epiclick.report.click_model_choice import click_model_choice
from epiclick.report.hidden_knowledge import (
    ContrastRow,
    HiddenKnowledge,
    knowledge_section,
)
from epiclick.report.item_map import (
    MOST_OF_A_KIND,
    MOST_ROWS,
    MOST_TEXT,
    TopItems,
    item_sample,
    short_id,
)
from epiclick.report.markup import Absent
from epiclick.report.opening import opening
from epiclick.report.overview import click_rates
from epiclick.report.page import Report, gather
from epiclick.report.rankers import Rankers, rankers, rankers_section
from epiclick.report.reliability import reliability
from epiclick.report.report_sources import Sources, Trial
from epiclick.selection.parsimony import ModelScores

from .planted import NU, THETA, draw_log, planted, selected, sources_of

pytestmark = pytest.mark.slow


def test_the_opening_answers_the_three_questions(report: Report) -> None:
    said = report.opening
    assert said.looked_at.startswith("For every 100 times that a result at position 1 is looked at")
    for times, position in ((60, 2), (40, 3), (25, 4)):
        assert f"{times} times at position {position}" in said.looked_at
    assert "has a 90% interval" in said.uncertainty
    assert "agreed with its prediction" in said.uncertainty
    assert said.ship.startswith("Ship best <b>: it beats worst with probability above 0.99")


def test_changes_are_those_of_the_table_of_drift(report: Report) -> None:
    (log, _), (later, _) = draw_log(1), draw_log(2)
    found = ec.drift(planted(log), planted(later))
    own = report.changes
    assert not isinstance(own, Absent)
    assert [row.difference for row in own.bias] == found.position_bias["difference"].tolist()
    assert [row.low for row in own.bias] == found.position_bias["low"].tolist()
    assert (own.items, own.changed) == (len(found.items), len(found.changed_items))
    assert own.notes[0] == found.assumption
    without = changes(Sources(model=planted(log), name="planted"))
    assert isinstance(without, Absent)
    assert without.remedy == "--previous MODEL"


def ship(report: Report, rankings: dict[str, pd.DataFrame]) -> str:
    """The advice on these rankings."""
    log, _ = draw_log(1)
    model = planted(log)
    compared = ec.compare(model, rankings, clicks=log, samples=200)
    found = rankers(Sources(model, "m", log, comparison=compared))
    return opening(report.bias, report.quality, found, report.caveats).ship


def test_what_the_log_supports_is_on_the_page(report: Report) -> None:
    """The numbers are those of the comparison; where there are none, words say why."""
    found = report.rankers
    assert isinstance(found, Rankers)
    assert found.overlap is not None
    page = rankers_section(report)
    assert "What the log supports, and other estimators" in page
    for each in found.overlap.support:
        assert f"{each.displays:,}" in page
        assert f"{each.effective_displays:,.0f}" in page
    for each in found.overlap.estimates:
        assert each.available
        assert f"{each.value:.4f}" in page
    nothing = replace(
        found, overlap=Overlap(found.overlap.support, not_available(["best <b>"], "no_overlap"))
    )
    page = rankers_section(replace(report, rankers=nothing))
    assert "not available" in page
    assert "Not available: the log shows none of its items." in page
    assert "nan" not in page
    bare = rankers_section(replace(report, rankers=replace(found, overlap=None)))
    assert "other estimators" not in bare


def test_no_choice_between_rankers_that_cannot_be_distinguished(report: Report) -> None:
    frame = draw_log(1)[1].keys.to_pandas()
    frame["position"] = frame.groupby("query_id").cumcount() + 1
    shown = frame[frame["position"] <= 4].reset_index(drop=True)
    said = ship(report, {"one": shown, "other": shown})
    assert said == "one and other show the same items, so either can be shipped."
    # swap two items whose relevance is known to be about the same
    items = planted(draw_log(1)[0]).relevance()
    mean = shown.merge(items)["mean"].to_numpy().reshape(-1, 4)
    near = 4 * int(np.abs(mean[:, 0] - mean[:, 1]).argmin())
    turned = shown.copy()
    turned.loc[[near, near + 1], "position"] = [2, 1]
    said = ship(report, {"one": shown, "other": turned})
    assert said.startswith(("Do not choose between one and other", "Do not choose between other"))
    assert "Only one was evaluated" in ship(report, {"one": shown})


def test_the_overview_is_that_of_the_log(report: Report) -> None:
    log, _ = draw_log(1)
    found, table = report.overview, log.by_context()
    assert (found.pages, found.queries, found.pairs) == (60 * 30, 60, len(log))
    assert (found.displays, found.clicks) == (60 * 30 * 4, log.total_clicks)
    assert [row.clicks for row in found.rows] == table["clicks"].tolist()
    assert [row.rate for row in found.rows] == pytest.approx(table["click_rate"].tolist())


def counted(rows: list[tuple[int, int, int]]) -> ec.ClickCounts:
    """Query, displays and clicks of an item each, all at one position."""
    columns = dict(zip(("query_id", "displays", "clicks"), np.array(rows).T, strict=True))
    same = np.ones(len(rows), int)
    return ec.ClickCounts.from_table(pa.table({**columns, "doc_id": same, "position": same}))


def test_an_interval_of_independent_displays_is_wilsons() -> None:
    # as many queries as displays: all displays are independent
    size, clicks = 400, 120
    log = counted([(q, 1, int(q < clicks)) for q in range(size)])
    rate, low, high = click_rates(log, log.context, 1)[:, 0]
    assert rate == clicks / size
    t = stats.t.ppf(0.95, size - 1)
    wilson = stats.binomtest(clicks, size).proportion_ci(2 * stats.norm.cdf(t) - 1, "wilson")
    # the error between queries has one degree of freedom less: n - 1 in place of n
    assert [low, high] == pytest.approx([wilson.low, wilson.high], abs=1e-3)


def test_an_interval_of_identical_displays_is_as_wide_as_that_of_their_queries() -> None:
    widths = []
    for repeats in (1, 50):
        log = counted([(q, repeats, repeats * (q % 4 == 0)) for q in range(100)])
        _, low, high = click_rates(log, log.context, 1)[:, 0]
        widths.append(high - low)
    assert widths[1] == pytest.approx(widths[0], rel=1e-9)
    assert widths[0] > 0.1


def test_a_rate_of_0_has_an_interval_and_an_empty_group_none() -> None:
    log = counted([(q, 4, 0) for q in range(3)])
    rates = click_rates(log, log.context, 2)
    assert rates[0, 0] == rates[1, 0] == 0 < rates[2, 0] < 1
    assert np.isnan(rates[:, 1]).all()


def some_items(size: int, seed: int = 0) -> ItemRelevance:
    rng = np.random.default_rng(seed)
    low = rng.random(size)
    ids = pa.array([f"d{i}" for i in range(size)])
    numbers = (low + 0.1, low, low + rng.random(size), np.ones(size), np.ones(size))
    return ItemRelevance(ids, ids, *numbers)


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
def test_the_top_items_of_a_stream_are_those_of_all(chunk: int) -> None:
    whole = some_items(300)
    score = np.round(np.random.default_rng(1).random(300), 2)  # with ties
    score[::17] = np.nan
    best = TopItems(20)
    for first in range(0, 300, chunk):
        part = slice(first, first + chunk)
        columns = {
            name: value[part]
            for name, value in vars(whole).items()
            if isinstance(value, np.ndarray)
        }
        ids = whole.doc_id.slice(first, chunk)
        best.add(score[part], first, ItemRelevance(ids, ids, **columns))
    expected = sorted(np.flatnonzero(~np.isnan(score)), key=lambda i: (-score[i], i))[:20]
    assert best.number.tolist() == expected
    assert [row.doc for row in best.rows] == [f"d{i}" for i in expected]
    assert [row.low for row in best.rows] == whole.low[expected].tolist()


def test_a_sample_contains_the_most_uncertain_and_the_most_underrated() -> None:
    log, _ = draw_log(4, queries=500, pages=3)
    assert len(log) > MOST_ROWS
    sources = Sources(planted(log), "m", log)
    found = item_sample(sources)
    assert not isinstance(found, Absent)
    (every,) = item_chunks(sources.fitted, log, None, sources.model.level)
    assert (found.total, len(found.rows)) == (len(log), MOST_ROWS)
    assert found.cells.sum() == len(log)
    assert every.displays is not None
    assert every.clicks is not None
    shown = {(row.query, row.doc) for row in found.rows}
    for score in (every.high - every.low, every.low - every.clicks / every.displays):
        top = np.argsort(-score, kind="stable")[:MOST_OF_A_KIND]
        assert {(str(every.query_id[i]), str(every.doc_id[i])) for i in top} <= shown
    for row in found.rows[:50]:
        assert row.underrated == pytest.approx(row.low - row.clicks / row.displays)  # type: ignore[operator]


def test_long_ids_are_cut() -> None:
    assert short_id("x" * MOST_TEXT) == "x" * MOST_TEXT
    assert len(short_id("x" * 10_000)) == MOST_TEXT
    assert short_id("x" * 10_000).endswith("…")


def test_ranks_are_flat_if_and_only_if_the_model_is_right() -> None:
    log, _ = draw_log(5, queries=400, pages=8)
    for nu, flat in ((NU, True), (60.0, False)):
        fitted = replace(planted(log, nu=nu).fitted_, items=None)  # as if it had not seen them
        found = reliability(fitted, log, np.full(len(log.pair), 0.2), seed=0)
        assert sum(found.ranks) == pytest.approx(1)
        # ten shares, each outside the band with probability 0.01
        outside = sum(abs(share - 0.1) > found.band for share in found.ranks)
        assert (outside <= 2) == flat
        if not flat:  # overconfident: observed clicks are in the tails
            assert found.ranks[0] + found.ranks[-1] > 0.2 + 2 * found.band


def test_coverage_is_that_of_all_items(report: Report) -> None:
    log, truth = draw_log(1)
    model = planted(log)
    (every,) = item_chunks(model.fitted_, log, None, model.level)
    true = truth.relevance_of(log.query_id, log.doc_id)
    assert not np.isnan(true).any()
    held = (every.low <= true) & (true <= every.high)
    assert not isinstance(report.items, Absent)
    found = report.items.coverage
    assert found is not None
    assert (found.items, found.covered) == (len(log), held.sum())
    # well specified: 0.9 give or take three standard errors, items being independent
    assert abs(held.mean() - 0.9) < 3 * math.sqrt(0.09 / len(log))
    assert found.error == pytest.approx(np.abs(every.mean - true).mean())
    shares = dict(found.curve)
    place = stats.beta.cdf(true, every.alpha, every.beta)
    assert shares[0.5] == pytest.approx(np.mean((place >= 0.25) & (place <= 0.75)), abs=1e-9)


def test_truth_of_another_world_is_not_covered() -> None:
    sources = sources_of()
    assert sources.truth is not None
    wrong = replace(sources.truth, relevance=1 - sources.truth.relevance)
    found = item_sample(replace(sources, truth=wrong))
    assert not isinstance(found, Absent)
    assert found.coverage is not None
    assert found.coverage.covered < 0.6 * found.coverage.items


def test_position_bias_beside_the_truth(report: Report) -> None:
    rows = report.bias.rows
    assert [row.truth for row in rows] == THETA.tolist()
    assert [row.relative for row in rows] == pytest.approx(THETA.tolist(), rel=0.02)
    assert rows[0].is_reference
    assert all(row.relative_low < row.truth < row.relative_high for row in rows[1:])


def test_a_model_is_tested_on_queries_it_has_not_seen() -> None:
    log, _ = draw_log(1)
    model = planted(log)
    whole = Sources(model, "m", log).tested
    assert isinstance(whole, Trial)
    assert (len(whole.counts), whole.unseen) == (len(log), False)
    queries = model.fitted_.queries
    fewer = replace(queries, train=queries.train.slice(0, 40), held_out=queries.train.slice(40, 10))
    model.fitted_ = replace(model.fitted_, queries=fewer)
    tested = Sources(model, "m", log).tested
    assert isinstance(tested, Trial)
    assert tested.unseen
    seen = set(queries.train.slice(0, 50).to_pylist())
    assert not seen & set(tested.counts.query_id.to_pylist())
    assert tested.counts.num_queries == 10


def test_without_clicks_the_report_names_what_would_add_them() -> None:
    log, _ = draw_log(1)
    found = gather(Sources(planted(log), "m"), "A title")
    assert found.title == "A title"
    assert isinstance(found.quality, Absent)
    assert "--backtest" in found.quality.remedy
    assert isinstance(found.rankers, Absent)
    assert "--ranking" in found.opening.ship
    assert found.overview.displays == log.total_displays


def test_caveats_distinguish_a_poor_fit_from_a_good_one(report: Report) -> None:
    states = {caveat.reason: caveat.state for caveat in report.caveats}
    assert states["More variation than a position-based model allows"] == "clear"
    assert states["Wrong predictions of clicks the model has not seen"] == "clear"
    sources = sources_of()
    checks = {**sources.fitted.training.checks, "chi2_per_df": 2.5}
    training = replace(sources.fitted.training, checks=checks)
    sources.model.fitted_ = replace(sources.fitted, training=training)
    poor = replace(sources, later=None, log=None)
    found = {caveat.reason: caveat.state for caveat in gather(poor).caveats}
    assert found["More variation than a position-based model allows"] == "applies"
    assert found["Wrong predictions of clicks the model has not seen"] == "open"


@pytest.mark.parametrize(
    ("record", "state"),
    [
        ({"checked": True, "found": {"words": "many clicks"}}, "applies"),
        ({"checked": True, "found": None}, "clear"),
        ({"checked": False, "found": None}, "open"),
    ],
)
def test_robots_are_a_caveat_where_the_fit_found_some(record: dict, state: str) -> None:
    sources = sources_of()
    checks = {**sources.fitted.training.checks, "robots": record}
    training = replace(sources.fitted.training, checks=checks)
    sources.model.fitted_ = replace(sources.fitted, training=training)
    found = gather(replace(sources, later=None, log=None)).caveats
    assert {c.state for c in found if c.reason == "Clicks by robots"} == {state}


@pytest.mark.parametrize(
    ("record", "state"),
    [
        ({"displays": 100, "warnings": ["users do not follow a position-based model"]}, "applies"),
        ({"displays": 100, "warnings": []}, "clear"),
        ({"displays": 0, "warnings": []}, "open"),
        (None, "open"),  # an older model
    ],
)
def test_users_of_another_click_model_are_a_caveat(record: dict | None, state: str) -> None:
    sources = sources_of()
    checks = {**sources.fitted.training.checks, "assumptions": record}
    found = [] if record is None else record["warnings"]
    training = replace(sources.fitted.training, checks=checks, warnings=tuple(found))
    sources.model.fitted_ = replace(sources.fitted, training=training)
    caveats = {c.reason: c for c in gather(replace(sources, later=None, log=None)).caveats}
    assert caveats["Users who do not follow a position-based model"].state == state
    assert "Warnings of the fit" not in caveats  # it is said once


def compared(p_value: float, *, found: bool) -> dict:
    """The record of a contrast."""
    row = {"position": 2, "moved": 0.63, "model": 0.58, "log_ratio": 0.08, "error": 0.02}
    return {
        "available": True,
        "found": found,
        "p_value": p_value,
        "effect": 0.08,
        "size": 0.08,
        "freedom": 1,
        "queries": 60.0,
        "by_position": [row],
    }


@pytest.mark.parametrize(("found", "state"), [(True, "applies"), (False, "open")])
def test_a_ranker_that_knew_more_is_a_caveat(found: bool, state: str) -> None:
    sources = sources_of()
    warned = ["the ranker knew more"] if found else []
    record = {
        "moved_items": compared(1e-6 if found else 0.4, found=found),
        "days": {"available": False, "reason": "the log was read without days"},
        "large": False,
        "warnings": warned,
    }
    checks = {**sources.fitted.training.checks, "confounding": record}
    training = replace(sources.fitted.training, checks=checks, warnings=tuple(warned))
    sources.model.fitted_ = replace(sources.fitted, training=training)
    page = gather(replace(sources, later=None, log=None))
    caveats = {c.reason: c for c in page.caveats}
    assert caveats["A ranker that knew more than the model"].state == state
    assert "Warnings of the fit" not in caveats  # it is said once
    assert isinstance(page.knowledge, HiddenKnowledge)
    moved, days = page.knowledge.tables
    assert moved.rows == (ContrastRow("2", 0.63, 0.58, 0.02),)
    assert moved.is_finding is found
    assert (days.rows, days.reason) == ((), "the log was read without days")
    assert ("the ranker knew more" in knowledge_section(page)) is found


def test_models_without_this_check_say_so() -> None:
    sources = sources_of()
    checks = {k: v for k, v in sources.fitted.training.checks.items() if k != "confounding"}
    training = replace(sources.fitted.training, checks=checks)
    sources.model.fitted_ = replace(sources.fitted, training=training)
    page = gather(replace(sources, later=None, log=None))
    assert isinstance(page.knowledge, Absent)
    assert "not checked" in knowledge_section(page)


def with_scores(*scores: ModelScores) -> Sources:
    return replace(sources_of(), selection=replace(selected(), scores=scores))


def test_the_choice_of_a_click_model_is_that_of_the_selection(report: Report) -> None:
    found, given = report.choice, selected()
    assert not isinstance(found, Absent)
    assert [row.click_model for row in found.rows] == ["ubm", "pbm", "cascade"]
    assert (found.best, found.chosen, found.own, found.state) == ("ubm", "pbm", "pbm", "yes")
    assert found.verdict == given.verdict
    assert found.about_own == ""
    absent = click_model_choice(replace(sources_of(), selection=None))
    assert isinstance(absent, Absent)
    assert absent.remedy == "--selection select.json"


@pytest.mark.parametrize(
    ("low", "high", "parameters", "state", "caveat"),
    [
        (-0.003, 0.001, 3, "yes", "clear"),  # as good, and simpler
        (-0.003, 0.001, 12, "open", "open"),  # as good, but not simpler
        (-0.003, -0.001, 3, "no", "applies"),
    ],
)
def test_a_better_click_model_is_a_caveat(
    low: float, high: float, parameters: int, state: str, caveat: str
) -> None:
    pbm, ubm, _ = selected().scores
    own = replace(pbm, parameters=parameters, low=low, high=high, difference=-0.002)
    page = gather(with_scores(own, ubm))
    assert not isinstance(page.choice, Absent)
    assert page.choice.state == state
    states = {each.reason: each.state for each in page.caveats}
    assert states["Another click model that predicts pages better"] == caveat


def test_a_click_model_that_was_not_compared_says_so() -> None:
    _, ubm, cascade = selected().scores
    found = click_model_choice(with_scores(ubm, cascade))
    assert not isinstance(found, Absent)
    assert found.state == "open"
    assert found.about_own == "This report is about a pbm, which was not compared."
    none = click_model_choice(with_scores(cascade))
    assert not isinstance(none, Absent)
    assert (none.best, none.chosen, none.about_own) == ("", "", "")


def test_scores_lead_over_baselines(report: Report) -> None:
    assert not isinstance(report.quality, Absent)
    own, *others = report.quality.scores
    assert own.is_model
    assert own.lead == 0
    for row in others:
        assert row.lead == pytest.approx(own.log_likelihood - row.log_likelihood)
        assert row.lead_error > 0
    assert [row.explained for row in others if row.name == "one click rate for all"] == [0]


def test_a_folder_that_is_no_world_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_truth(str(tmp_path))
    for name in ("truth.json", "relevance.parquet"):
        assert name in str(caught.value)
