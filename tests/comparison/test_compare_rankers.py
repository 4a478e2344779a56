"""Rankers compared by a planted model, against loops over their slots."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import logit

import epiclick as ec
from epiclick.comparison import compare_rankers as module
from epiclick.comparison.result import Comparison
from epiclick.errors import InputError
from epiclick.fitted.parameters import Parameters, PointLookup, parameter_draws

from ..raising import raises_code
from .planted import (
    DEVICES,
    THETA,
    WIDEST,
    betas_by,
    model_of,
    planted,
    posterior_moments,
    rows_of,
    table_of,
    theta_by,
)

pytestmark = pytest.mark.slow

QUERIES, DOCS, DEPTH = 6, 9, len(THETA)
LOGGED, FEATURED = 4, 8  # docs below these are in the log, and have features
PARAMETERS = 20


@pytest.fixture(autouse=True)
def fewer_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that loops over them are short."""
    monkeypatch.setattr(module, "PARAMETERS", PARAMETERS)


@pytest.fixture(scope="module")
def prior() -> tuple[np.ndarray, np.ndarray]:
    """Mean and confidence of all items by the planted network, (queries, docs)."""
    rng = np.random.default_rng(1)
    return rng.uniform(0.15, 0.5, (QUERIES, DOCS)), rng.uniform(2, 4, (QUERIES, DOCS))


@pytest.fixture(scope="module")
def table(prior) -> ec.FeatureTable:
    query, doc = (each.ravel() for each in np.indices((QUERIES, FEATURED)))
    return table_of(query, doc, *(each[query, doc] for each in prior))


@pytest.fixture(scope="module")
def pages() -> pd.DataFrame:
    """Pages of unequal length; the first queries are most frequent."""
    rng = np.random.default_rng(2)
    rows = []
    for page in range(3_000):
        query = min(int(rng.geometric(0.4)) - 1, QUERIES - 1)
        docs = rng.permutation(LOGGED)[: rng.integers(1, LOGGED + 1)]
        for position, doc in enumerate(docs, 1):
            click = rng.random() < THETA[position - 1] * (0.2 + 0.1 * doc)
            rows.append((page, query, int(doc), position, int(click)))
    return pd.DataFrame(rows, columns=["page_id", "query_id", "doc_id", "position", "click"])


@pytest.fixture(scope="module")
def log(pages: pd.DataFrame) -> ec.ClickCounts:
    return ec.read_log(pages)


def lists(docs: list[int], queries: int = QUERIES) -> dict[int, list[int]]:
    """The same docs for all queries, from another one on in each."""
    return {q: docs[q % len(docs) :] + docs[: q % len(docs)] for q in range(queries)}


OLD = lists([0, 1, 2, 3])
TURNED = lists([3, 2, 1, 0])
FRESH = lists([4, 5, 6, 7])  # of items that were never shown
ODD = lists([0, 8, 4])  # one of each kind


def compared(fitted, rankings: dict[str, dict], features=None, **options) -> Comparison:
    tables = {name: rows_of(each) for name, each in rankings.items()}
    return ec.compare(model_of(fitted), tables, features, **options)


def value_by_loop(ranking: dict, fitted, prior, pages: pd.DataFrame | None, seed: int = 0) -> float:
    """Expected clicks per page: a loop over draws, queries and positions."""
    weight, reach = (
        dict.fromkeys(range(QUERIES), 1 / QUERIES),
        dict.fromkeys(range(1, DEPTH + 1), 1.0),
    )
    displays = clicks = np.zeros((QUERIES, DOCS, DEPTH), int)
    if pages is not None:
        total = pages["page_id"].nunique()
        weight = (pages.groupby("query_id")["page_id"].nunique() / total).to_dict()
        reach = (pages.groupby("position")["page_id"].nunique() / total).to_dict()
        displays, clicks = np.zeros((2, QUERIES, DOCS, DEPTH), int)
        for query, doc, position, click in pages.drop(columns="page_id").to_numpy():
            displays[query, doc, position - 1] += 1
            clicks[query, doc, position - 1] += click
    values = []
    for draw in parameter_draws(fitted, PARAMETERS, seed=seed):
        theta, value = theta_by(fitted, draw), 0.0
        alpha, beta = betas_by(draw, *prior)
        of_any = (alpha / (alpha + beta))[:, :FEATURED].mean()
        for query, docs in ranking.items():
            for position, doc in enumerate(docs, 1):
                key, mean = (query, doc), of_any
                if doc < FEATURED:
                    mean = alpha[key] / (alpha[key] + beta[key])
                if displays[key].any():
                    mean, _ = posterior_moments(
                        alpha[key], beta[key], theta, displays[key], clicks[key]
                    )
                value += weight[query] * reach[position] * theta[position - 1] * mean
        values.append(value)
    return float(np.mean(values))


@pytest.mark.parametrize("with_log", [True, False])
def test_values_are_those_of_a_loop(prior, table, pages, log, with_log: bool) -> None:
    fitted = planted()
    rankings = {"old": OLD, "fresh": FRESH, "odd": ODD}
    found = compared(fitted, rankings, table, clicks=log if with_log else None)
    drawn = found.samples()
    for number, (name, ranking) in enumerate(rankings.items()):
        expected = value_by_loop(ranking, fitted, prior, pages if with_log else None)
        sd = drawn[name].std()
        assert found.values.expected[0, number].mean() == pytest.approx(expected, abs=0.01 * sd)
        assert found.rankers["value"][number] == pytest.approx(
            expected, abs=4 * sd / np.sqrt(2_500)
        )
    assert found.queries == QUERIES
    assert found.pages == (pages["page_id"].nunique() if with_log else None)
    # the control: the log makes a difference
    other = value_by_loop(OLD, fitted, prior, None if with_log else pages)
    assert abs(other - found.rankers["value"][0]) > 0.5 * drawn["old"].std()


def test_shares_of_slots_are_those_of_a_loop(table, pages, log) -> None:
    found = compared(planted(), {"old": OLD, "fresh": FRESH, "odd": ODD}, table, clicks=log)
    reach = (pages.groupby("position")["page_id"].nunique() / pages["page_id"].nunique()).to_dict()
    weight = pages.groupby("query_id")["page_id"].nunique().to_dict()
    shares = np.zeros((2, 3))
    for query, docs in ODD.items():
        for position, doc in enumerate(docs, 1):
            here = weight[query] * reach[position]
            shares[:, 2] += here * np.array([doc < LOGGED, doc >= FEATURED])
    shares[:, 2] /= sum(weight.values()) * sum(reach[position] for position in (1, 2, 3))
    shares[0, 0] = 1
    np.testing.assert_allclose([found.seen, found.unknown], shares, atol=1e-12)


def test_unseen_items_make_a_ranker_visibly_less_certain(table, log) -> None:
    found = compared(planted(), {"old": OLD, "fresh": FRESH}, table, clicks=log)
    width = found.rankers.set_index("name").eval("high - low")
    assert width["fresh"] > 2 * width["old"]
    assert found.rankers["seen"].tolist() == [1.0, 0.0]
    assert "100% of the slots of fresh contain items that the log never showed" in found.verdict
    assert "of the slots of old" not in found.verdict
    assert found.spread("fresh").unseen > 10 * found.spread("old").unseen
    # the control: by features alone both are equally uncertain
    blind = compared(planted(), {"old": OLD, "fresh": FRESH}, table)
    width = blind.rankers.set_index("name").eval("high - low")
    assert width["fresh"] == pytest.approx(width["old"], rel=0.25)


def test_orders_of_the_same_items_are_distinguished(table, log) -> None:
    """Higher docs are clicked more, and those at the top are examined most."""
    best = {q: [3, 2, 1, 0] for q in range(QUERIES)}
    worst = {q: [0, 1, 2, 3] for q in range(QUERIES)}
    found = compared(planted(), {"worst": worst, "best": best}, table, clicks=log)
    assert found.best == "best"
    assert found.verdict.startswith("best beats worst with probability above 0.99; expect +")
    apart = found.difference("best", "worst")
    # shared uncertainty cancels
    assert apart.high - apart.low < 0.8 * found.rankers.eval("high - low").sum()


def test_same_rankers_are_worth_the_same(table, log) -> None:
    found = compared(planted(), {"a": OLD, "b": OLD, "c": FRESH}, table, clicks=log)
    assert np.all(found.samples()["a"] == found.samples()["b"])
    apart = found.difference("a", "b")
    assert (apart.difference, apart.prob_better, apart.spread.total) == (0, 0.5, 0)
    both = compared(planted(), {"a": OLD, "b": OLD}, table, clicks=log)
    assert "a and b are worth the same: they show the same items." in both.verdict


def test_the_parts_of_the_variance_add_up(table, log) -> None:
    found = compared(planted(), {"old": OLD, "odd": ODD}, table, clicks=log, samples=20_000)
    for names in (("old",), ("odd",), ("old", "odd")):
        drawn = [found.samples()[name] for name in names]
        variance = (drawn[0] - (drawn[1] if len(drawn) > 1 else 0)).var()
        assert found.spread(*names).total == pytest.approx(variance, rel=5 * np.sqrt(2 / 20_000))


def test_a_seed_gives_the_same_and_another_one_nearly(table, log) -> None:
    rankings = {"old": OLD, "odd": ODD}
    first, again, other = (
        compared(planted(), rankings, table, clicks=log, seed=seed) for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first.values.samples, again.values.samples)
    assert np.all(first.values.samples != other.values.samples)
    sd = first.samples()["old"].std()
    away = first.rankers["value"][0] - other.rankers["value"][0]
    assert abs(away) < 4 * sd * np.sqrt(2 / PARAMETERS)
    assert first.verdict == again.verdict


def test_order_and_form_of_rankings_do_not_matter(table, log, tmp_path) -> None:
    rows = rows_of(OLD)
    shuffled = rows.sample(frac=1, random_state=1)
    scored = rows.assign(score=-rows["position"]).drop(columns="position")
    rows.to_csv(tmp_path / "old.csv", index=False)
    model = model_of(planted())
    expected, *others = (
        ec.compare(model, {"old": source}, table, clicks=log).values.samples
        for source in (rows, shuffled, scored, str(tmp_path / "old.csv"))
    )
    for values in others:
        np.testing.assert_array_equal(values, expected)


def test_a_function_ranks_by_features(table, log) -> None:
    found = ec.compare(
        model_of(planted()),
        {"up": lambda x: x["f0"], "down": lambda x: -x["f0"]},
        table,
        clicks=log,
        depth=2,
    )
    assert found.best == "up"
    assert any("deeper than position 2 and were cut" in note for note in found.notes)


def test_features_may_come_with_the_log_or_as_a_frame(table, log) -> None:
    frame = table.keys.to_pandas().assign(f0=table.matrix[:, 0], f1=table.matrix[:, 1])
    given = compared(planted(), {"odd": ODD}, table, clicks=log)
    for found in (
        compared(planted(), {"odd": ODD}, None, clicks=log.with_features(table)),
        compared(planted(), {"odd": ODD}, frame, clicks=log),
    ):
        np.testing.assert_array_equal(found.values.samples, given.values.samples)


def test_ids_are_read_as_those_of_the_log(pages) -> None:
    """A ranking with integer ids matches a log whose ids are text."""
    texts = pages.astype({"query_id": str, "doc_id": str})
    model, given = model_of(planted(features=False)), {"old": rows_of(OLD)}
    found = ec.compare(model, given, clicks=ec.read_log(texts))
    expected = ec.compare(model, given, clicks=ec.read_log(pages))
    assert found.seen.tolist() == [1.0]
    np.testing.assert_allclose(found.values.expected, expected.values.expected, rtol=1e-4)


def test_a_model_without_features_needs_none(log) -> None:
    found = compared(planted(features=False), {"old": OLD, "fresh": FRESH}, clicks=log)
    assert found.rankers["seen"].tolist() == [1.0, 0.0]
    assert found.rankers["unknown"].tolist() == [0.0, 1.0]
    assert any("never shown" in note for note in found.notes)


def test_devices_are_weighted_by_their_pages(prior, table, pages) -> None:
    """Two devices of different bias, in a loop; features alone, to keep it short."""
    fitted = planted(devices=True)
    rng = np.random.default_rng(5)
    device = np.array(DEVICES)[(rng.random(pages["page_id"].nunique()) < 0.3).astype(int)]
    pages = pages.assign(device=device[pages["page_id"]])
    # a log of other docs: it weights queries, and says nothing about the ranker's items
    log = ec.read_log(pages, context=("device", "position"), features=table)
    ranking = rows_of(
        {(d, q): FRESH[q] if d == "tv" else FRESH[q][:2] for d in DEVICES for q in range(QUERIES)},
        ("device", "query_id"),
    )
    found = ec.compare(model_of(fitted), {"new": ranking}, table, clicks=log)
    first = pages.drop_duplicates("page_id")
    values = []
    for draw in parameter_draws(fitted, PARAMETERS, seed=0):
        theta, value = theta_by(fitted, draw), 0.0
        alpha, beta = betas_by(draw, *prior)
        for row in ranking.to_dict("records"):
            own = first[first["device"] == row["device"]]
            weight = (own["query_id"] == row["query_id"]).sum() / len(first)
            shown = pages[
                (pages["device"] == row["device"]) & (pages["position"] == row["position"])
            ]
            context = DEVICES.index(row["device"]) * DEPTH + row["position"] - 1
            key = row["query_id"], row["doc_id"]
            mean = alpha[key] / (alpha[key] + beta[key])
            value += weight * len(shown) / len(own) * theta[context] * mean
        values.append(value)
    np.testing.assert_allclose(found.values.expected[0, 0], values, rtol=1e-5)


def test_uniform_weights_keep_queries_the_log_does_not_have(table, log) -> None:
    few = {q: docs for q, docs in OLD.items() if q > 1} | {77: [0, 1]}
    uniform = compared(planted(), {"few": few}, table, clicks=log, weights="uniform")
    traffic = compared(planted(), {"few": few}, table, clicks=log)
    assert uniform.queries == len(few)
    assert traffic.queries == len(few) - 1
    assert any("query 77" in note for note in traffic.notes)
    assert uniform.rankers["value"][0] != traffic.rankers["value"][0]


def test_a_backtest_is_cited(table, pages, log) -> None:
    found = compared(planted(), {"old": OLD}, table, clicks=log, backtest=log)
    assert "Backtest: predicted " in found.verdict
    clicks = pages["click"].sum() / pages["page_id"].nunique()
    assert f"observed {clicks:.2f}" in found.backtest
    assert "Not backtested." in compared(planted(), {"old": OLD}, table, clicks=log).verdict


def test_a_model_without_uncertainty_claims_none(table, log) -> None:
    layer = (WIDEST * np.eye(2)[:, :1], np.zeros(1))
    bias = PointLookup(logit(np.clip(THETA, None, 1 - 1e-9)))
    own = Parameters((layer,), bias)
    fitted = replace(planted(), kind="PointwisePBM", head="point", parameters=own, posterior=None)
    found = compared(fitted, {"old": OLD, "turned": TURNED, "fresh": FRESH}, table, clicks=log)
    assert not found.is_uncertain
    assert "without uncertainty" in found.verdict
    assert "probability" not in found.verdict


def test_what_was_assumed_is_noted(table, log) -> None:
    assert compared(planted(), {"a": OLD, "b": TURNED}, table, clicks=log).notes == ()
    found = compared(planted(), {"old": OLD, "odd": ODD}, table)
    notes = " | ".join(found.notes)
    assert "slots per page ('old' 4.0, 'odd' 3.0)" in notes
    assert "no log was given" in notes
    # docs 0 to 3, 4 and 8 of every query
    assert f"{QUERIES} of {6 * QUERIES} items have no features" in notes
    assert "(the first: query 0, doc 8)" in notes


def test_another_level_is_the_callers(table, log) -> None:
    own = compared(planted(), {"old": OLD}, table, clicks=log)
    wide = compared(planted(), {"old": OLD}, table, clicks=log, level=0.99)
    assert own.level == 0.9
    low, high = np.quantile(own.samples()["old"], [0.005, 0.995])
    assert (wide.rankers["low"][0], wide.rankers["high"][0]) == pytest.approx((low, high))


@pytest.mark.parametrize(
    ("options", "code", "named"),
    [
        ({"rankings": {}}, "no-rankings", ""),
        ({"rankings": rows_of(OLD)}, "rankings-not-named", "{'new': new, 'old': old}"),
        ({"rankings": {" ": rows_of(OLD)}}, "invalid-ranker-name", "' '"),
        ({"weights": "pages"}, "unknown-weights", "'traffic' or 'uniform', not 'pages'"),
        ({"measures": "clicks"}, "invalid-measures", "'clicks'"),
        ({"measures": ["first"]}, "invalid-measures", "not first"),
        ({"samples": 20}, "samples-out-of-range", "100 or more, not 20"),
        ({"level": 90}, "level-out-of-range", "not 90"),
        ({"seed": -1}, "seed-out-of-range", "not -1"),
        ({"depth": 0}, "depth-out-of-range", "not 0"),
        ({"clicks": "log.parquet"}, "not-counts", "clicks=read_log(...)"),
        ({"backtest": "log.parquet"}, "not-counts", "backtest=read_log(...)"),
        ({"features": None}, "features-needed", ""),
        (
            {"rankings": {"deep": rows_of({0: [0, 1, 2, 3, 4]})}},
            "position-too-deep",
            "deeper than 4",
        ),
        ({"rankings": {"a": rows_of({0: [0]}), "b": rows_of({1: [0]})}}, "no-common-query", ""),
        ({"rankings": {"a": rows_of({0: [0, 0]})}}, "repeated-document", "ranking 'a'"),
    ],
)
def test_bad_arguments_are_named(table, options: dict, code: str, named: str) -> None:
    given = {"rankings": {"old": rows_of(OLD)}, "features": table} | options
    with raises_code(code) as error:
        ec.compare(model_of(planted()), **given)
    assert named in str(error.value)


def test_something_else_than_a_model_is_refused(table) -> None:
    with raises_code("not-a-model") as error:
        ec.compare("model", {"old": rows_of(OLD)}, table)
    assert "load(path)" in str(error.value)


def test_unknown_rankers_and_measures_are_refused(table, log) -> None:
    found = compared(planted(), {"old": OLD}, table, clicks=log)
    with raises_code("unknown-ranker") as error:
        found.difference("old", "new")
    assert "'new'" in str(error.value)
    with raises_code("unknown-measure"):
        found.samples("revenue")


def test_a_model_must_be_fitted(table) -> None:
    with pytest.raises(InputError, match="not fitted yet"):
        ec.compare(ec.EpistemicPBM(), {"old": rows_of(OLD)}, table)


def test_a_log_that_the_model_cannot_read_is_refused(table, pages) -> None:
    other = ec.read_log(pages.assign(device="tv"), context=("device", "position"))
    with pytest.raises(InputError, match='context="position"'):
        compared(planted(), {"old": OLD}, table, clicks=other)


def test_deeper_positions_are_extrapolated_or_cut(table, log) -> None:
    deep = {q: [*docs, 4, 5] for q, docs in OLD.items()}
    rankings = {"old": OLD, "deep": deep}
    found = compared(planted(), rankings, table, clicks=log, extrapolate=True)
    extra = found.values.expected[0, 1] - found.values.expected[0, 0]
    assert np.all(extra > 0)
    # two more items, each examined as often as the last position
    assert np.all(extra < 2 * THETA[-1])
    assert any("deeper than position 4" in note for note in found.notes)
    cut = compared(planted(), rankings, table, clicks=log, depth=DEPTH)
    assert "worth the same" in cut.verdict
