"""Warnings where other estimators contradict the model, and models that have none."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import epiclick as ec
from epiclick.comparison.estimates import Estimate, not_available
from epiclick.comparison.overlap import NEGLIGIBLE, RARE, Overlap
from epiclick.comparison.verdict import NAMES
from epiclick.data.arrays import locate_rows
from epiclick.evaluation.truth import Truth

from .test_result import comparison


def estimate(name: str, p_value: float, away: float = 0.1, estimator: str = "snips") -> Estimate:
    """A difference of this share of the model's value."""
    return Estimate(
        name, estimator, 1 + away, 0.9, 1.3, 1.0, away, away - 0.05, away + 0.05, p_value
    )


def test_a_certain_difference_is_a_warning() -> None:
    found = Overlap((), (estimate("new", 1e-6), estimate("odd", 0.5)))
    (check,) = found.checks(["new", "odd"])
    assert (check.name, check.state) == ("estimators", "warning")
    assert check.name in NAMES
    assert "+10.0% (+5.0% to +15.0%) clicks by the self-normalised estimator" in check.found
    assert check.title == "clicks contradict what the model expects of new"
    assert found.checks(["odd"]) == ()
    both = Overlap((), (estimate("new", 1e-6), estimate("odd", 1e-5, -0.2)))
    assert "new and odd" in both.checks(["new", "odd"])[0].title


def test_chance_and_trifles_are_no_warning() -> None:
    """The threshold is divided by the number of estimates."""
    many = [estimate(f"r{i}", 0.5) for i in range(9)]
    for p_value, away, warned in (
        (0.9 * RARE / 10, 0.1, True),
        (1.1 * RARE / 10, 0.1, False),
        (1e-9, 0.9 * NEGLIGIBLE, False),
        (1e-9, -1.1 * NEGLIGIBLE, True),
    ):
        found = Overlap((), (estimate("new", p_value, away), *many))
        assert bool(found.checks(["new"])) == warned
    missing = Overlap((), (*not_available(["a", "b"], "no_overlap"), estimate("new", 0.9 * RARE)))
    assert missing.checks(["new"])
    assert Overlap().checks(["new"]) == ()


def test_the_verdict_names_it_and_the_gate_stays_open() -> None:
    clear = comparison((1.0, 3.0, 2.0))
    found = replace(clear, overlap=Overlap((), (estimate("new", 1e-6),)))
    assert clear.verdict.startswith("new beats odd")
    assert found.verdict.startswith("check before choosing new: it is ahead of odd")
    assert "but clicks contradict what the model expects of new." in found.verdict
    assert "On items that the log has shown, new gets +10.0%" in found.verdict
    assert found.checks_failed == ()
    first = replace(found, names=("odd", "new", "old"))
    assert [reason.check for reason in first.gate()] == [""]  # it is behind


def test_a_reason_is_given_in_words() -> None:
    found = Overlap((), not_available(["new"], "click_model"))
    table = found.estimates_table()
    assert table["available"].tolist() == [False] * 3
    assert "depend on each other" in table["reason"][0]
    assert table["value"].isna().all()


@pytest.mark.slow
@pytest.mark.parametrize("users", ["ubm", "cascade", "dcm", "sdbn"])
def test_models_of_whole_pages_have_support_and_no_other_estimator(users: str) -> None:
    world = ec.simulate(queries=40, docs=6, features=2, pages=600, users=users, seed=1)
    log = replace(world.counts(click_model=users), features=None, feature_row=None)
    model = ec.api.MODELS[_class_of(users)]().fit(log, progress=False)
    shown = pd.DataFrame({"query_id": log.query_id, "doc_id": log.doc_id})
    ranking = shown.groupby("query_id").head(3)
    ranking = ranking.assign(position=ranking.groupby("query_id").cumcount() + 1)
    found = ec.compare(model, {"first": ranking}, clicks=log, samples=200)
    (row,) = found.support.to_dict("records")
    assert (row["slots"], row["clicks"]) == pytest.approx((1, 1))
    assert 0 < row["effective_displays"] <= row["displays"]
    assert 0 < row["moved"] < 1
    assert set(found.estimators["reason"]) == {
        "clicks on a page depend on each other under this click model"
    }
    assert not found.estimators["available"].any()


def _class_of(users: str) -> str:
    from epiclick.click_models.registry import REGISTRY

    return REGISTRY[users].public


@pytest.mark.slow
@pytest.mark.parametrize("users", ["pbm", "trust"])
def test_estimates_agree_with_the_truth_of_a_world(users: str) -> None:
    """A fitted model in a world where it is right: no warning, and no estimate is far off."""
    world = ec.simulate(
        queries=300,
        docs=8,
        features=3,
        pages=6_000,
        theta=(1, 0.7, 0.5, 0.4),
        relevance="beta",
        users=users,
        seed=5,
    )
    log = world.counts(click_model=users)
    model = ec.api.MODELS[_class_of(users)]().fit(log, progress=False)
    keys = world.features.keys.select(["query_id", "doc_id"]).to_pandas()
    values = world.features.rows(np.arange(len(world.features)))
    rankings = {}
    for number in range(2):
        rank = keys.assign(score=values[:, number]).groupby("query_id")["score"]
        rows = keys.assign(position=rank.rank(ascending=False, method="first").astype(int))
        rankings[f"f{number}"] = rows[rows["position"] <= 4]
    found = ec.compare(model, rankings, clicks=log)
    truth = Truth(world.position_bias, world.features.keys, world.relevance, users)
    pages = world.log.to_pandas().groupby("query_id")["page_id"].nunique()
    for name, rows in rankings.items():
        rows = rows.sort_values(["query_id", "position"])
        ids = [log.query_id.type, log.doc_id.type]
        query, doc = (
            ec.data.arrays.pa.array(rows[column], kind)
            for column, kind in zip(("query_id", "doc_id"), ids, strict=True)
        )
        chance = truth.click_chances(
            rows["query_id"].to_numpy(), rows["position"].to_numpy(), truth.relevance_of(query, doc)
        )
        shown = locate_rows(
            {"query_id": query, "doc_id": doc}, {"query_id": log.query_id, "doc_id": log.doc_id}
        )
        weight = rows["query_id"].map(pages).fillna(0).to_numpy() / pages.sum()
        value = (weight * chance)[shown >= 0].sum()
        for row in found.estimators[found.estimators["name"] == name].itertuples():
            error = (row.high - row.low) / 2 / 1.645
            assert abs(row.value - value) < 4 * error, row.estimator
            assert error < 0.1 * value
    assert [check for check in found.checks(found.names) if check.name == "estimators"] == []
