"""What a log supports of rankers: against loops over a small log."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import epiclick as ec
from epiclick.comparison import compare_rankers as module
from epiclick.comparison.item_means import ItemMeans
from epiclick.comparison.result import Comparison
from epiclick.comparison.support import Live, effective_number, moved_share

from ..raising import raises_code
from .planted import DEVICES, THETA, model_of, planted, rows_of

QUERIES, DEPTH = 5, len(THETA)
LIVE = {q: [0, 1, 2, 3] for q in range(QUERIES)}
TURNED = {q: [3, 2, 1, 0] for q in range(QUERIES)}
PARTLY = {q: [q % 4, 4 + q % 2, 7] for q in range(QUERIES)}  # docs from 6 on were never shown
FRESH = {q: [8, 9] for q in range(QUERIES)}


@pytest.fixture(autouse=True)
def fewer_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PARAMETERS", 20)


def pages_of(devices: bool = False) -> pd.DataFrame:
    """Pages of docs 0 to 5, of which the first are mostly ahead."""
    rng = np.random.default_rng(4)
    rows = []
    for page in range(400):
        query, device = min(int(rng.geometric(0.5)) - 1, QUERIES - 1), int(rng.random() < 0.3)
        for position, doc in enumerate(np.argsort(np.arange(6) + rng.gumbel(size=6))[:DEPTH], 1):
            click = rng.random() < THETA[position - 1] * (0.15 + 0.1 * doc)
            rows.append((page, query, DEVICES[device], int(doc), position, int(click)))
    columns = ["page_id", "query_id", "device", "doc_id", "position", "click"]
    pages = pd.DataFrame(rows, columns=columns)
    return pages if devices else pages.drop(columns="device")


@pytest.fixture(scope="module")
def pages() -> pd.DataFrame:
    return pages_of()


@pytest.fixture(scope="module")
def log(pages: pd.DataFrame) -> ec.ClickCounts:
    return ec.read_log(pages)


def compared(rankings: dict[str, dict], log: ec.ClickCounts, **options) -> Comparison:
    """By a model without features whose parameters are known."""
    fitted = replace(planted(features=False), posterior=None)
    tables = {name: rows_of(each) for name, each in rankings.items()}
    return ec.compare(model_of(fitted), tables, clicks=log, **options)


def relevance_of(found: Comparison, log: ec.ClickCounts) -> dict[tuple[int, int], float]:
    """The model's relevance of every pair of the log."""
    fitted = replace(planted(features=False), posterior=None)
    table = model_of(fitted).posterior(log)
    return {(row.query_id, row.doc_id): row.mean for row in table.itertuples()}


@pytest.mark.parametrize("uniform", [False, True])
def test_support_is_that_of_a_loop(pages: pd.DataFrame, log: ec.ClickCounts, uniform: bool) -> None:
    rankings = {"turned": TURNED, "partly": PARTLY}
    found = compared(rankings, log, weights="uniform" if uniform else "traffic")
    own = pages.groupby("query_id")["page_id"].nunique()
    share = {q: 1 / QUERIES if uniform else own[q] / own.sum() for q in range(QUERIES)}
    logged: dict[tuple[int, int], float] = {}
    displays: dict[tuple[int, int], int] = {}
    for row in pages.itertuples():
        key = (row.query_id, row.doc_id)
        logged[key] = logged.get(key, 0) + THETA[row.position - 1]
        displays[key] = displays.get(key, 0) + 1
    live = {key: share[key[0]] * seen / own[key[0]] for key, seen in logged.items()}
    relevance = relevance_of(found, log)
    for (name, ranking), row in zip(
        rankings.items(), found.support.to_dict("records"), strict=True
    ):
        exposure: dict[tuple[int, int], float] = {}
        slots = np.zeros(2)
        clicks = np.zeros(2)
        for query, docs in ranking.items():
            for place, doc in enumerate(docs):
                key, looked = (query, doc), share[query] * THETA[place]
                exposure[key] = exposure.get(key, 0) + looked
                slots[int(key in logged)] += share[query]
                clicks[int(key in logged)] += looked * relevance.get(key, 0.3)
        assert row["name"] == name
        assert row["slots"] == pytest.approx(slots[1] / slots.sum())
        assert row["clicks"] == pytest.approx(clicks[1] / clicks.sum(), rel=1e-3)
        weights = [
            exposure[key] / logged[key]
            for key in exposure
            if key in logged
            for _ in range(displays[key])
        ]
        assert row["displays"] == len(weights)
        assert row["effective_displays"] == pytest.approx(
            sum(weights) ** 2 / sum(w**2 for w in weights)
        )
        whole, of_log = sum(exposure.values()), sum(live.values())
        moved = sum(
            abs(exposure.get(key, 0) / whole - live.get(key, 0) / of_log)
            for key in {*exposure, *live}
        )
        assert row["moved"] == pytest.approx(moved / 2)


def test_devices_have_their_own_pages() -> None:
    """The ranker that shows what the log has shown moves nothing, whatever the devices' shares."""
    pages = pages_of(devices=True)
    log = ec.read_log(pages, context=("device", "position"))
    fitted = replace(planted(features=False, devices=True), posterior=None)
    columns = ["page_id", "query_id", "device", "doc_id", "position"]  # a list for every page
    for weights in ("traffic", "uniform"):
        found = ec.compare(model_of(fitted), {"live": pages[columns]}, clicks=log, weights=weights)
        (row,) = found.support.to_dict("records")
        assert row["moved"] == pytest.approx(0, abs=1e-12)
        assert (row["slots"], row["clicks"]) == pytest.approx((1, 1))
        assert row["displays"] == len(pages)
    # the control: one device's lists turned round
    other = pages[columns].copy()
    phone = other["device"] == DEVICES[0]
    other.loc[phone, "position"] = DEPTH + 1 - other.loc[phone, "position"]
    found = ec.compare(model_of(fitted), {"other": other}, clicks=log)
    assert found.support["moved"][0] > 0.1


def test_nothing_in_common_is_reported_as_zero_and_not_available(log: ec.ClickCounts) -> None:
    found = compared({"fresh": FRESH, "turned": TURNED}, log)
    fresh, turned = found.support.to_dict("records")
    assert (fresh["slots"], fresh["clicks"], fresh["displays"]) == (0, 0, 0)
    assert (fresh["effective_displays"], fresh["moved"]) == (0, 1)
    assert (turned["slots"], turned["clicks"]) == pytest.approx((1, 1))
    assert not found.support.isna().any(axis=None)
    table = found.estimators.set_index("name")
    assert not table.loc["fresh", "available"].any()
    assert set(table.loc["fresh", "reason"]) == {"the log shows none of its items"}
    assert table.loc["fresh", ["value", "low", "difference"]].isna().all(axis=None)
    assert table.loc["turned", "available"].all()
    assert not table.loc["turned"].isna().any(axis=None)
    alone = compared({"fresh": FRESH}, log)
    assert alone.support["slots"].tolist() == [0]
    assert set(alone.estimators["reason"]) == {"the log shows none of its items"}
    assert alone.estimators["available"].tolist() == [False] * 3


def test_one_query_gives_no_interval(pages: pd.DataFrame) -> None:
    one = ec.read_log(pages[pages["query_id"] == 0])
    found = compared({"turned": {0: TURNED[0]}}, one)
    assert found.support["slots"].tolist() == [1]
    assert set(found.estimators["reason"]) == {"its items in the log belong to too few queries"}


def test_without_a_log_there_is_neither() -> None:
    fitted = planted(features=False)
    found = ec.compare(model_of(fitted), {"live": rows_of(LIVE)})
    assert len(found.support) == len(found.estimators) == 0
    assert {"slots", "clicks", "effective_displays", "moved"} <= set(found.support)
    assert {"estimator", "value", "model", "diff_low", "available"} <= set(found.estimators)
    record = found.to_dict()
    assert record["support"] == record["estimators"] == []


def test_ids_that_do_not_match_the_log_are_refused(log: ec.ClickCounts) -> None:
    with raises_code("no-common-query"):
        compared({"other": {q + 100: [0, 1] for q in range(3)}}, log)


def test_estimates_are_beside_the_models_value_of_the_same_slots(
    pages: pd.DataFrame, log: ec.ClickCounts
) -> None:
    found = compared({"turned": TURNED, "partly": PARTLY}, log)
    relevance = relevance_of(found, log)
    own = pages.groupby("query_id")["page_id"].nunique() / pages["page_id"].nunique()
    for name, ranking in (("turned", TURNED), ("partly", PARTLY)):
        model = sum(
            own[query] * THETA[place] * relevance[query, doc]
            for query, docs in ranking.items()
            for place, doc in enumerate(docs)
            if (query, doc) in relevance
        )
        rows = found.estimators[found.estimators["name"] == name]
        assert rows["estimator"].tolist() == ["ips", "snips", "dr"]
        np.testing.assert_allclose(rows["model"], model, rtol=1e-3)
        np.testing.assert_allclose(rows["difference"], rows["value"] - rows["model"])
        assert (rows["low"] < rows["value"]).all()
        assert (rows["value"] < rows["high"]).all()
        assert (rows["diff_low"] < rows["difference"]).all()
        assert (rows["difference"] < rows["diff_high"]).all()
        assert rows["p_value"].between(0, 1).all()


def test_equal_weights_count_all_displays() -> None:
    displays = np.array([3.0, 5.0, 2.0])
    assert effective_number(displays, np.full(3, 0.7)) == pytest.approx(10)
    assert effective_number(displays, np.array([0, 0, 4.0])) == pytest.approx(2)
    assert effective_number(displays, np.zeros(3)) == 0
    assert effective_number(np.zeros(0), np.zeros(0)) == 0


def test_what_is_moved_is_a_distance() -> None:
    one, other = Live(np.array([1.0, 3.0]), 0.0), Live(np.array([2.0, 6.0]), 0.0)
    assert moved_share(one, other) == 0  # only shares count
    assert moved_share(Live(np.zeros(2), 2.0), other) == 1
    half = moved_share(Live(np.array([1.0, 0]), 1.0), Live(np.array([1.0, 0]), 1.0))
    assert half == pytest.approx(0.5)  # other items are never the same


def test_means_pass_unchanged_and_are_averaged() -> None:
    rng = np.random.default_rng(1)
    chunks = [(rng.random((4, n)), rng.random((4, n))) for n in (3, 2)]
    seen = []
    means = ItemMeans(chunks, lambda first, mean: seen.append((first, mean)))
    for (mean, variance), (given, spread) in zip(means, chunks, strict=True):
        assert mean is given
        assert variance is spread
    assert [first for first, _ in seen] == [0, 3]
    every = np.concatenate([mean for mean, _ in chunks], axis=1)
    squares = np.concatenate([v + m**2 for m, v in chunks], axis=1)
    np.testing.assert_allclose(means.mean, every.mean(axis=0))
    np.testing.assert_allclose(means.square, squares.mean(axis=0))
