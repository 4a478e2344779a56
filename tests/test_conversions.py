"""Fits of conversions beside clicks: every click model, files, tables, rankers and refusals."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.stats import betabinom

import epiclick as ec
from epiclick.api import EPISTEMIC, BaseModel
from epiclick.data.outcome_counts import conversions_of
from epiclick.fitted.parameters import parameter_draws
from epiclick.simulate.purchases import Purchases
from epiclick.simulate.world import World

from .before_clicks import before_clicks
from .raising import raises_code

pytestmark = pytest.mark.slow

READ = {"conversion": "purchase", "value": "revenue"}
COLUMNS = ["conversion", "conversion_low", "conversion_high"]


@cache
def world(users: str = "pbm") -> World:
    return ec.simulate(
        queries=50, docs=6, features=3, pages=1500, theta=(1, 0.7, 0.5), relevance="beta",
        users=users, seed=3, conversions=True,
    )  # fmt: skip


@cache
def counted(users: str = "pbm", *, features: bool = False) -> ec.ClickCounts:
    own = world(users)
    table = own.features if features else None
    return ec.read_log(own.log, features=table, click_model=users, **READ)


@cache
def fitted(users: str = "pbm", *, features: bool = False) -> BaseModel:
    model = EPISTEMIC[users](epochs=6 if features else None, hidden=(8,))
    return model.fit(counted(users, features=features), progress=False)


def ranking(feature: int) -> pd.DataFrame:
    table = world().features
    keys = table.keys.select(["query_id", "doc_id"]).to_pandas()
    return keys.assign(score=table.matrix[:, feature])


RANKINGS = {"one": ranking(0), "other": ranking(1)}


def test_the_single_beta_is_that_of_maximum_likelihood() -> None:
    own = ec.simulate(queries=400, docs=6, features=3, pages=8000, seed=1, conversions=True)
    counts = ec.read_log(own.log, **READ)
    model = ec.EpistemicPBM().fit(counts, progress=False).fitted_.conversion
    clicks, converted = conversions_of(counts)

    def loss(x: np.ndarray) -> float:
        a, b = np.exp(x)
        return -betabinom.logpmf(converted, clicks, a, b).sum()

    a, b = np.exp(minimize(loss, [0.0, 0.0]).x)
    from epiclick.data.outcome_counts import conversion_counts
    from epiclick.fitted.prediction import relevance_of_pairs

    alpha, beta = relevance_of_pairs(model, [model.parameters.layers], conversion_counts(counts))
    mean, nu = alpha[0, 0] / (alpha[0, 0] + beta[0, 0]), alpha[0, 0] + beta[0, 0]
    assert np.ptp(alpha) == 0  # one for all items
    sd = np.sqrt(a * b / (a + b) ** 2 / (1 + a + b) / np.sum(clicks > 0))
    assert mean == pytest.approx(a / (a + b), abs=sd)  # within a standard error, for the prior
    assert nu == pytest.approx(a + b, rel=0.25)


@pytest.mark.parametrize("users", list(EPISTEMIC))
def test_every_click_model_has_conversions(users: str, tmp_path: Path) -> None:
    model, counts = fitted(users), counted(users)
    items, known = model.relevance(), model.posterior(counts)
    assert items.columns[-3:].tolist() == known.columns[-3:].tolist() == COLUMNS
    for table in (items, known):
        assert np.all(table["conversion_low"] <= table["conversion"])
        assert np.all(table["conversion"] <= table["conversion_high"])
    np.testing.assert_allclose(items[COLUMNS], known[COLUMNS], rtol=1e-6)
    truth = world(users).purchases.conversion[
        world(users).features.locate(counts.query_id, counts.doc_id)
    ]
    inside = (known["conversion_low"] <= truth) & (truth <= known["conversion_high"])
    # 90 % of items, whose errors share one Beta; the control is the truth of other items
    assert 0.8 < inside.mean() <= 1
    shuffled = np.random.default_rng(0).permutation(truth)
    assert (
        abs(known["conversion"] - truth).mean() < 0.95 * abs(known["conversion"] - shuffled).mean()
    )
    words = " ".join(model.fitted_.training.checks["words"])
    assert "Conversions (purchase)" in words
    assert "not on the position" in words
    model.save(tmp_path / "model")
    again = ec.load(tmp_path / "model")
    np.testing.assert_array_equal(again.posterior(counts)[COLUMNS], known[COLUMNS])
    found, same = (
        ec.compare(each, RANKINGS, clicks=counts, depth=3, samples=400).rankers
        for each in (model, again)
    )
    pd.testing.assert_frame_equal(found, same)
    for name in ("conversions", "conversion_value"):
        assert np.all(found[f"{name}_low"] < found[name])
        assert np.all(found[name] < found[f"{name}_high"])
        assert found[f"{name}_prob_best"].sum() == pytest.approx(1)
    assert np.all(found["conversions"] < found["value"])


def test_features_predict_conversions_of_unseen_items(tmp_path: Path) -> None:
    model, counts = fitted(features=True), counted(features=True)
    table = model.relevance(world().features)
    assert table.columns[-3:].tolist() == COLUMNS
    assert table["conversion"].std() > 0.02
    assert np.all(np.isfinite(model.posterior(counts)[COLUMNS]))
    model.save(tmp_path / "model")
    again = ec.load(tmp_path / "model").relevance(world().features)
    np.testing.assert_array_equal(again[COLUMNS], table[COLUMNS])
    bare = ec.read_log(world().log, features=world().features)
    without = model.posterior(bare)  # clicks alone say nothing about conversions
    own = model.fitted_.conversion
    drawn = [
        before_clicks(replace(own, parameters=draw), bare)["mean"].to_numpy()
        for draw in parameter_draws(own)
    ]
    np.testing.assert_allclose(without["conversion"], np.mean(drawn, axis=0), rtol=1e-6)


def test_the_model_of_clicks_is_the_same_with_and_without_conversions() -> None:
    bare = ec.EpistemicPBM().fit(ec.read_log(world().log), progress=False)
    assert bare.fitted_.conversion is None
    pd.testing.assert_frame_equal(bare.position_bias(), fitted().position_bias())
    own = bare.relevance()
    pd.testing.assert_frame_equal(own, fitted().relevance()[own.columns.tolist()])


def test_values_follow_the_revenue_of_the_log() -> None:
    found = ec.compare(fitted(), RANKINGS, clicks=counted(), depth=3)
    per_conversion = found.rankers["conversion_value"] / found.rankers["conversions"]
    revenue = fitted().fitted_.revenue
    assert np.all(abs(per_conversion / revenue.mean - 1) < 0.3)
    # from what the model keeps, which does not tell how often items were not shown
    kept = ec.compare(fitted(), RANKINGS, depth=3).rankers
    per_conversion = kept["conversion_value"] / kept["conversions"]
    assert np.all(abs(per_conversion / revenue.mean - 1) < 0.3)


def test_a_log_without_conversions_leaves_those_that_a_model_keeps() -> None:
    bare = ec.read_log(world().log)
    kept, found = fitted().relevance(), fitted().posterior(bare)
    np.testing.assert_allclose(found["conversion"], kept["conversion"], rtol=1e-6)
    with_log, without = (
        ec.compare(fitted(), RANKINGS, clicks=counts, depth=3).rankers
        for counts in (counted(), bare)
    )
    for column in ("conversions", "conversion_value"):
        spread = with_log[f"{column}_high"] - with_log[f"{column}_low"]
        assert np.all(abs(with_log[column] - without[column]) < 0.2 * spread)


def test_members_of_an_ensemble_and_a_validation_log_have_conversions() -> None:
    one, other = counted().split(0.7, 0.3)
    model = ec.EpistemicPBM(members=2).fit(one, other, progress=False)
    assert len(model.fitted_.conversion.members) == 2
    found = ec.compare(model, RANKINGS, clicks=one, depth=3, samples=200).rankers
    assert np.all(found["conversions_low"] < found["conversions_high"])
    assert np.all(np.isfinite(model.posterior(one)[COLUMNS]))


@pytest.mark.parametrize("measure", ["conversions", "value"])
def test_the_first_measure_decides(measure: str) -> None:
    order = (measure, "clicks")
    found = ec.compare(fitted(), RANKINGS, clicks=counted(), depth=3, measures=order)
    record = found.to_dict()
    assert record["measure"] == measure
    assert f" {found.unit}" in found.verdict
    assert " clicks" not in found.verdict.split(";")[1][:40]
    assert list(record["differences_by"]) == ["clicks"]
    by_clicks = ec.compare(fitted(), RANKINGS, clicks=counted(), depth=3)
    column = {"conversions": "conversions", "value": "conversion_value"}[measure]
    spread = by_clicks.rankers[f"{column}_high"] - by_clicks.rankers[f"{column}_low"]
    assert np.all(abs(found.rankers["value"] - by_clicks.rankers[column]) < 0.2 * spread)
    json.dumps(record)


def test_an_effect_of_position_is_reported_and_blocks_the_verdict() -> None:
    own = world()
    row = own.features.locate(*(own.log[n].combine_chunks() for n in ("query_id", "doc_id")))
    log = own.log.drop_columns(["purchase", "revenue"])
    factor = np.where(own.log["position"].to_numpy() == 1, 1.0, 0.1)
    high = Purchases(np.full(len(own.features), 0.6), own.purchases.value)
    log = high.logged(log, row, np.random.default_rng(0), factor)
    counts = ec.read_log(log, **READ)
    model = ec.EpistemicPBM().fit(counts, progress=False)
    assert any("depend on the position" in text for text in model.fitted_.training.warnings)
    assert model.fitted_.training.checks["conversion"]["position"]["violated"]
    blocked = ec.compare(model, RANKINGS, clicks=counts, depth=3, measures=("conversions",))
    assert [check.name for check in blocked.checks_failed][-1:] == ["conversions"]
    free = ec.compare(model, RANKINGS, clicks=counts, depth=3)
    assert "conversions" not in [check.name for check in free.checks_failed]


def refused(code: str, model: BaseModel, counts: ec.ClickCounts, **options: Any) -> None:
    with raises_code(code):
        model.fit(counts, progress=False, **options)


def test_models_without_posterior_and_logs_without_conversions_are_refused() -> None:
    counts = counted(features=True)
    refused("conversions-need-marginal", ec.PointwisePBM(epochs=1), counts)
    refused("conversions-need-marginal", ec.EpistemicPBM(estimator="exact", epochs=1), counts)
    table = world().log.to_pandas().assign(purchase=0, revenue=0.0)
    refused("no-conversions", ec.EpistemicPBM(), ec.read_log(table, **READ))


@pytest.mark.parametrize(
    ("measures", "code"),
    [(("conversions",), "conversions-unknown"), (("clicks", "value"), "conversions-unknown")],
)
def test_a_model_of_clicks_alone_cannot_value_by_conversions(
    measures: tuple[str, ...], code: str
) -> None:
    bare = ec.EpistemicPBM().fit(ec.read_log(world().log), progress=False)
    with raises_code(code):
        ec.compare(bare, RANKINGS, depth=3, measures=measures)


def test_a_damaged_model_of_conversions_is_refused(tmp_path: Path) -> None:
    fitted().save(tmp_path / "model")
    file = tmp_path / "model" / "conversion.weights.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(bytes(content))
    with pytest.raises(ec.InputError, match=r"conversion\.weights"):
        ec.load(tmp_path / "model")


def test_models_of_earlier_releases_have_no_conversions() -> None:
    old = Path(__file__).parent / "fitted" / "old_model"
    folders = [each.parent for each in old.rglob("model.json")]
    assert folders
    for folder in folders:
        assert ec.load(folder).fitted_.conversion is None
