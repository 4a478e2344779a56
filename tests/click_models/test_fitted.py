"""Fits of every click model in the registry: truth recovered, files, comparisons, later logs.

One fit per model serves all tests. A model that is added to the registry is held to them as it is.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy import special, stats

import epiclick as ec
from epiclick.api import EPISTEMIC, EpistemicModel
from epiclick.click_models.registry import CLICK_MODELS
from epiclick.evaluation.backtest import backtest
from epiclick.evaluation.log_scores import evaluate
from epiclick.fitted.state import given_of
from epiclick.simulate.users import examination_at, unattractive_at

from ..raising import raises_code

THETA = (1.0, 0.75, 0.55, 0.4)
QUERIES, DOCS = 100, 8

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::epiclick.errors.InputWarning")]


@dataclass(frozen=True, eq=False)
class Case:
    """A model fitted in a world of its own users."""

    name: str
    world: ec.World
    train: ec.ClickCounts
    test: ec.ClickCounts
    model: EpistemicModel


@cache
def case(name: str) -> Case:
    world = ec.simulate(
        queries=QUERIES,
        docs=DOCS,
        features=3,
        pages=6_000,
        theta=THETA,
        relevance="beta",
        users=name,
        policy_strength=0.0,  # whatever is not shown is as good as what is
        seed=5,
    )
    counts = ec.read_log(world.log, click_model=name, page_parts=10)
    train, test = counts.split(0.8, 0.2, by="page", seed=0)
    return Case(name, world, train, test, EPISTEMIC[name](seed=1).fit(train, progress=False))


def z_scores(found: Case) -> np.ndarray:
    """(free parameters,) distance from the truth, in standard deviations of the posterior.

    Where unattractive items are clicked too, of slopes and offsets: parameters are not identified.
    """
    fitted = found.model.fitted_
    truth = examination_at(found.world.examination, fitted.contexts)
    if fitted.clicks.has_latent_state:
        assert np.isnan(truth).all()  # there is no such thing
        truth = fitted.clicks.world_going_on(found.world.position_bias)
    if fitted.clicks.is_affine:
        floor = unattractive_at(found.world.examination, fitted.contexts)
        slope, others = truth / truth[0], np.arange(len(truth)) != fitted.anchor
        table, half = found.model.click_table(level=0.9), stats.norm.isf(0.05)
        true = {"relative": slope, "offset": floor - slope * floor[fitted.anchor]}
        return np.concatenate(
            [
                (
                    (table[name] - true[name])
                    * 2
                    * half
                    / (table[f"{name}_high"] - table[f"{name}_low"])
                )[others]
                for name in true
            ]
        )
    free = fitted.clicks.free(len(fitted.contexts), fitted.anchor)
    if not len(free):
        return np.zeros(0)
    sd = np.sqrt(np.diag(fitted.posterior.robust)[: len(free)])
    return (fitted.posterior.mean[: len(free)] - special.logit(truth[free])) / sd


def rankings() -> dict[str, pa.Table]:
    rng = np.random.default_rng(2)
    found = {}
    for name in ("one", "other"):
        order = rng.random((QUERIES, DOCS)).argsort(axis=1)[:, : len(THETA)]
        found[name] = pa.table(
            {
                "query_id": np.repeat(np.arange(QUERIES), len(THETA)),
                "doc_id": order.ravel(),
                "position": np.tile(np.arange(1, len(THETA) + 1), QUERIES),
            }
        )
    return found


@pytest.mark.parametrize("name", CLICK_MODELS)
def test_parameters_are_recovered(name: str) -> None:
    z = z_scores(case(name))
    if not len(z):
        return  # nothing but relevance is learned
    # over all parameters by chance once in a thousand
    assert np.abs(z).max() < stats.norm.isf(0.0005 / len(z))
    table = case(name).model.click_table()
    assert np.all((table["low"] <= table["mean"]) & (table["mean"] <= table["high"]))
    if not CLICK_MODELS[name].knows_examination:
        assert table["mean"].iloc[case(name).model.fitted_.anchor] == 1


def test_parameters_of_another_model_would_be_noticed() -> None:
    """Users who examine more after a click, under a model that ignores it."""
    ubm = case("ubm")
    counts = ubm.train.by_given()
    fitted = ec.EpistemicPBM(seed=1).fit(counts, progress=False)
    before = ubm.world.examination.to_pandas().query("last_click == 0 and position > 1")["theta"]
    table = fitted.position_bias().iloc[1:]
    assert np.all(table["low"].to_numpy()[1:] > before.to_numpy()[1:])  # below the second


@pytest.mark.parametrize("name", CLICK_MODELS)
def test_relevance_is_that_of_the_world(name: str) -> None:
    found = case(name)
    items = found.model.posterior(found.train)
    row = items["query_id"].to_numpy() * DOCS + items["doc_id"].to_numpy()
    truth = found.world.click_if_first[row]
    inside = (items["low"].to_numpy() <= truth) & (truth <= items["high"].to_numpy())
    error = np.sqrt(0.9 * 0.1 / QUERIES)  # as if items of a query held or missed together
    assert abs(inside.mean() - 0.9) < 4 * error


@pytest.mark.parametrize("name", CLICK_MODELS)
def test_clicks_of_later_pages_are_predicted(name: str) -> None:
    found = case(name)
    assert backtest(found.model.fitted_, found.test, 0.999).inside
    scores = evaluate(found.model.fitted_, found.test, train=found.train)
    assert (
        scores.clicks.display_log_likelihood > scores.baselines["by_context"].display_log_likelihood
    )
    assert len(scores.clicks.by_context) == len(THETA)  # by given contexts, whatever the model


@pytest.mark.parametrize("name", CLICK_MODELS)
def test_pages_of_rankers_are_valued_as_users_would_click(name: str) -> None:
    found = case(name)
    result = ec.compare(
        found.model, rankings(), clicks=found.train, weights="uniform", level=0.999
    ).rankers
    for row, ranking in zip(result.to_dict("records"), rankings().values(), strict=True):
        index = ranking["query_id"].to_numpy() * DOCS + ranking["doc_id"].to_numpy()
        chance = found.world.chances(index.reshape(-1, len(THETA)))
        assert row["low"] < chance.sum(axis=1).mean() < row["high"]


@pytest.mark.parametrize("name", CLICK_MODELS)
def test_files_bring_back_the_same_answers(name: str, tmp_path: Path) -> None:
    found = case(name)
    found.model.save(tmp_path / "model")
    again = ec.load(tmp_path / "model")
    assert type(again) is type(found.model)
    assert again.click_table().equals(found.model.click_table())
    assert again.position_bias().equals(found.model.position_bias())
    assert again.relevance().equals(found.model.relevance())
    np.testing.assert_array_equal(
        again.predict_clicks(found.test), found.model.predict_clicks(found.test)
    )
    before, after = (m.fitted_.posterior.hyperparameters for m in (found.model, again))
    assert before == after


@pytest.mark.parametrize("name", CLICK_MODELS)
def test_position_bias_is_by_given_context(name: str) -> None:
    found = case(name)
    bias, fitted = found.model.position_bias(), found.model.fitted_
    assert len(bias) == len(given_of(fitted)[0]) == len(THETA)
    assert bias["mean"].iloc[0] == pytest.approx(1)
    if fitted.clicks.has_latent_state:
        assert np.all(np.diff(bias["mean"]) < 0)  # who reads on is ever fewer
        return
    own, index = found.model.click_table(), given_of(fitted)[1]
    for k in range(len(THETA)):
        inside = own["mean"].to_numpy()[index == k]
        assert inside.min() - 1e-12 <= bias["mean"].iloc[k] <= inside.max() + 1e-12
    assert np.all((bias["low"] <= bias["mean"]) & (bias["mean"] <= bias["high"]))


def test_counts_for_another_model_are_refused_or_reduced() -> None:
    pbm, ubm = case("pbm"), case("ubm")
    with raises_code("context-mismatch") as caught:
        ec.EpistemicUBM().fit(pbm.train)
    assert "read_log(..., click_model='ubm')" in str(caught.value)
    reduced = ec.EpistemicPBM()._to_counts(ubm.train)
    assert reduced.contexts.column_names == ["position"]
    assert reduced.total_clicks == ubm.train.total_clicks
