"""Observed against predicted clicks: brute force, and logs simulated from a planted model."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats
from scipy.special import expit, logit

import epiclick as ec
from epiclick.click_models.pbm import PositionBased
from epiclick.data.by_column import ByColumn, count_by
from epiclick.data.features import FeatureScaler
from epiclick.data.schema import LogOptions
from epiclick.errors import InputError
from epiclick.evaluation import backtest as backtest_module
from epiclick.evaluation.backtest import Backtest, backtest, backtests
from epiclick.fitted.parameters import (
    ParameterPosterior,
    Parameters,
    PointLookup,
    from_vector,
    parameter_draws,
    to_vector,
    without_uncertainty,
)
from epiclick.fitted.prediction import click_probabilities
from epiclick.fitted.state import FeatureSpec, FittedModel, Items, QuerySets, TrainingSummary

from ..raising import raises_code

pytestmark = pytest.mark.slow

THETA = np.array([1.0, 0.6, 0.35])
WIDEST = 5.0  # keeps features within the scaler's range
LOGS = 300


@pytest.fixture(scope="module")
def world() -> ec.World:
    return ec.simulate(
        queries=80, docs=6, features=3, pages=800, theta=THETA, relevance="beta", seed=3
    )


@pytest.fixture(scope="module")
def shown(world: ec.World) -> ec.ClickCounts:
    """The displays of the world, with features that are the outputs of the planted network."""
    assert world.prior is not None
    mean, nu = world.prior.mean, world.prior.alpha + world.prior.beta
    answers = np.stack([logit(mean), np.log(np.expm1(nu - 1))], axis=1) / WIDEST
    raw = np.copysign(np.expm1(abs(answers)), answers)  # the scaler's inverse
    table = ec.FeatureTable(world.features.keys, ("f0", "f1"), raw.astype(np.float32))
    return ec.read_log(world.log, features=table)


def planted(
    theta: np.ndarray = THETA, *, theta_sd: float = 0.0, mean_sd: float = 0.0
) -> FittedModel:
    """A model of the world: its network passes features on; standard deviations in logits."""
    layer = (WIDEST * np.eye(2), np.zeros(2))
    bias = PointLookup(logit(np.clip(theta, None, 1 - 1e-9)))
    nobody = pa.array([], pa.int64())
    made = FittedModel(
        kind="EpistemicPBM",
        head="network_beta",
        settings={},
        parameters=Parameters((layer,), bias),
        anchor=0,
        contexts=pa.table({"position": np.arange(1, len(theta) + 1)}),
        features=FeatureSpec(("f0", "f1"), FeatureScaler(np.zeros(2), np.ones(2))),
        options=LogOptions(),
        queries=QuerySets(nobody, nobody),
        items=None,
        training=TrainingSummary(0, 0, 0, 0, 0, 0.0, 0.0, pd.DataFrame()),
    )
    mode = to_vector(made.parameters, PositionBased(), made.anchor)
    sd = np.r_[np.full(len(theta) - 1, theta_sd), np.zeros(4), mean_sd, 0.0]
    covariance = np.diag(sd**2)
    return replace(made, posterior=ParameterPosterior(mode, covariance, covariance, None, 0.0))


def relevance_by(parameters: Parameters, world: ec.World) -> tuple[np.ndarray, np.ndarray]:
    """alpha and beta of the world's items with the mean's logits shifted as in the parameters."""
    assert world.prior is not None
    mean, nu = world.prior.mean, world.prior.alpha + world.prior.beta
    mean = expit(logit(mean) + parameters.layers[-1][1][0])
    return mean * nu, (1 - mean) * nu


def logs(
    world: ec.World,
    shown: ec.ClickCounts,
    model: FittedModel,
    *,
    times: int = LOGS,
    between: float = 0.0,
    seed: int = 0,
) -> Iterator[ec.ClickCounts]:
    """Logs with the same displays: parameters of the model, relevance and clicks drawn anew.

    With `between`, half of the queries are better than the model predicts by this share, half worse.
    """
    rng = np.random.default_rng(seed)
    assert model.posterior is not None
    sd = np.sqrt(np.diag(model.posterior.robust))
    assert shown.feature_row is not None
    for _ in range(times):
        vector = model.posterior.mean + sd * rng.standard_normal(len(sd))
        truth = from_vector(model.parameters, PositionBased(), model.anchor, vector)
        theta = np.r_[1.0, expit(truth.position.logit[1:])]
        zeta = rng.beta(*relevance_by(truth, world))[shown.feature_row]
        factor = 1 + between * rng.choice([-1, 1], shown.num_queries)[shown.query]
        chance = theta[shown.context] * np.clip(zeta * factor, 0, 1)[shown.pair]
        yield replace(shown, clicks=rng.binomial(shown.displays, chance))


def assert_nominal(covered: list[bool], level: float) -> None:
    """Coverage is the level, within three standard errors."""
    error = np.sqrt(level * (1 - level) / len(covered))
    assert abs(np.mean(covered) - level) < 3 * error, np.mean(covered)


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_observed_clicks_lie_inside_at_the_nominal_rate(
    world: ec.World, shown: ec.ClickCounts, level: float
) -> None:
    model = without_uncertainty(planted())
    tests = [backtest(model, log, level) for log in logs(world, shown, planted())]
    assert_nominal([bool(test.inside) for test in tests], level)
    assert all(test.spread == 0 for test in tests)
    # and both sides are missed equally often
    above = np.mean([test.clicks > test.predicted for test in tests])
    assert abs(above - 0.5) < 3 * 0.5 / np.sqrt(LOGS)


def test_uncertain_parameters_widen_the_interval_by_as_much(
    world: ec.World, shown: ec.ClickCounts
) -> None:
    model = planted(theta_sd=0.15, mean_sd=0.1)
    drawn = list(logs(world, shown, model, seed=1))
    assert_nominal([bool(backtest(model, log).inside) for log in drawn], 0.9)
    known = [bool(backtest(without_uncertainty(model), log).inside) for log in drawn]
    assert np.mean(known) < 0.75  # the control: as if the parameters were known


def test_correlated_clicks_of_queries_widen_it_too(world: ec.World, shown: ec.ClickCounts) -> None:
    model = without_uncertainty(planted())
    drawn = list(logs(world, shown, planted(), between=0.8, seed=2))
    tests = [backtest(model, log) for log in drawn]
    assert_nominal([bool(test.inside) for test in tests], 0.9)
    # the control: noise of single clicks alone
    p = click_probabilities(model, shown)
    single = stats.norm.ppf(0.95) * np.sqrt((shown.displays * p * (1 - p)).sum())
    assert np.mean([abs(test.clicks - test.predicted) <= single for test in tests]) < 0.75


def test_a_wrong_position_bias_is_flagged(world: ec.World, shown: ec.ClickCounts) -> None:
    wrong = planted(THETA * [1, 1.3, 1], theta_sd=0.02, mean_sd=0.02)
    right = planted(theta_sd=0.02, mean_sd=0.02)
    flagged = {"wrong": np.zeros(3), "right": np.zeros(3)}
    for log in logs(world, shown, planted(), times=40, seed=3):
        column = by_position(log)
        for name, model in (("wrong", wrong), ("right", right)):
            _, by = backtests(model, log, [column])
            flagged[name] += [test.inside is False for test in by["position"]]
    assert flagged["wrong"][1] >= 36
    # by chance 4 of 40 each are flagged; 10 or more with probability 0.005
    assert flagged["wrong"][[0, 2]].max() < 10
    assert flagged["right"].max() < 10


def by_position(counts: ec.ClickCounts) -> ByColumn:
    every = np.arange(len(counts.pair))
    return ByColumn("position", counts, every, [None] * len(counts.contexts))


def test_sums_and_errors_are_those_of_a_loop(world: ec.World, shown: ec.ClickCounts) -> None:
    model = planted(theta_sd=0.3, mean_sd=0.2)
    log = next(logs(world, shown, model, seed=4))
    test = backtest(model, log, 0.8)
    p = click_probabilities(model, log)
    observed, predicted = dict.fromkeys(range(80), 0.0), dict.fromkeys(range(80), 0.0)
    independent = 0.0
    for i, pair in enumerate(log.pair):
        query = log.query_id[int(pair)].as_py()
        observed[query] += log.clicks[i]
        predicted[query] += log.displays[i] * p[i]
        independent += log.displays[i] * p[i] * (1 - p[i])
    o, e = sum(observed.values()), sum(predicted.values())
    squares = sum((observed[q] - o / e * predicted[q]) ** 2 for q in observed)
    n = e**2 / sum(each**2 for each in predicted.values())
    drawn = []
    for draw in parameter_draws(model, backtest_module.DRAWS):
        theta = np.r_[1.0, expit(draw.position.logit[1:])]
        alpha, beta = relevance_by(draw, world)
        mean = (alpha / (alpha + beta))[shown.feature_row]
        drawn.append((log.displays * theta[log.context] * mean[log.pair]).sum())
    assert test.clicks == o
    assert test.predicted == pytest.approx(e)
    assert test.noise == pytest.approx(np.sqrt(max(n / (n - 1) * squares, independent)))
    assert test.spread == pytest.approx(e * np.std(drawn, ddof=1) / np.mean(drawn), rel=1e-4)
    assert (test.pages, test.displays) == (800, 2400)
    half = (test.high - test.low) / 2 * 800
    wide = np.hypot(test.noise, test.spread)
    assert stats.norm.ppf(0.9) * wide < half < stats.t.ppf(0.9, 16) * wide
    assert test.ratio == pytest.approx(o / e)
    assert (test.ratio_high - test.ratio_low) * e == pytest.approx(2 * half)


def test_chunks_of_pairs_change_nothing(
    world: ec.World, shown: ec.ClickCounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = planted(theta_sd=0.3, mean_sd=0.2)
    whole = backtest(model, shown)
    monkeypatch.setattr(backtest_module, "CHUNK", 7)
    assert backtest(model, shown).spread == pytest.approx(whole.spread)


def test_known_items_keep_the_relevance_of_their_clicks() -> None:
    """A model without features: only theta is drawn, and items keep their trained relevance."""
    base = planted(theta_sd=0.4)
    layer = (np.zeros((3, 2)), np.array([-1.0, 1.0]))
    parameters = base.parameters._replace(layers=(layer,))
    mode = to_vector(parameters, PositionBased(), 0)
    covariance = np.diag(np.r_[0.16, 0.16, np.zeros(6), 0.09, 0.0])
    ids = pa.array(np.arange(4))
    items = Items(ids, ids, np.array([8.0, 1, 2, 3]), np.array([2.0, 4, 2, 9]), ids, ids)
    model = replace(
        base,
        head="id_beta",
        features=None,
        parameters=parameters,
        items=items,
        posterior=ParameterPosterior(mode, covariance, covariance, None, 0.0),
    )
    rows = [(query, query, 1 + query % 3, 50, 10 + query) for query in range(6)]
    names = ["query_id", "doc_id", "position", "displays", "clicks"]
    log = ec.ClickCounts.from_table(pa.Table.from_pandas(pd.DataFrame(rows, columns=names)))
    drawn = []
    for draw in parameter_draws(model, backtest_module.DRAWS):
        theta = np.r_[1.0, expit(draw.position.logit[1:])]
        new = expit(draw.layers[-1][1][0])
        drawn.append(50 * theta[np.arange(6) % 3] @ [0.8, 0.2, 0.5, 0.25, new, new])
    test = backtest(model, log)
    expected = test.predicted * np.std(drawn, ddof=1) / np.mean(drawn)
    assert test.spread == pytest.approx(expected, rel=1e-5)
    assert (test.pages, test.observed_per_page, test.predicted_per_page) == (None, None, None)
    assert test.observed_rate == 75 / 300


def test_columns_are_grouped_as_by_pandas(world: ec.World, shown: ec.ClickCounts) -> None:
    log = world.log.to_pandas()
    log["device"] = np.where(log["page_id"] % 3 == 0, "phone", "desk")
    log["shelf"] = log["doc_id"] % 2
    columns = count_by(log, LogOptions(), shown, ["device", "shelf", "position"])
    model = planted(theta_sd=0.1)
    whole, by = backtests(model, shown, columns)
    assert whole.to_dict() == pytest.approx(backtest(model, shown).to_dict())
    p = pd.DataFrame(
        {
            "query_id": shown.query_id.take(shown.pair),
            "doc_id": shown.doc_id.take(shown.pair),
            "position": shown.context + 1,
            "p": click_probabilities(model, shown),
        }
    )
    log = log.merge(p, validate="m:1")
    for column in columns:
        groups = log.groupby(column.name)
        assert column.values == sorted(groups.groups)
        tests = by[column.name]
        assert [test.displays for test in tests] == groups.size().to_list()
        assert [test.clicks for test in tests] == groups["click"].sum().to_list()
        assert [t.predicted for t in tests] == pytest.approx(groups["p"].sum().to_list())
        pages = groups["page_id"].nunique().to_list()
        assert [t.pages for t in tests] == ([None] * 3 if column.name == "position" else pages)
    # the group of a value is the same as a log of only that value
    alone = ec.read_log(log[log["device"] == "phone"], features=shown.features)
    assert by["device"][1].noise == pytest.approx(backtest(model, alone).noise)
    assert by["device"][1].spread == pytest.approx(backtest(model, alone).spread)


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        (["devise"], "'devise' is not in the log (did you mean 'device'?)"),
        (["device", "device"], "'device' is named twice"),
        (["click"], "'click' is reserved"),
        (["device", "moon", "sun"], "'sun' is not in the log"),
    ],
)
def test_columns_that_cannot_group_clicks(
    world: ec.World, shown: ec.ClickCounts, columns: list[str], named: str
) -> None:
    log = world.log.to_pandas().assign(device="phone")
    with pytest.raises(InputError, match=f"--by {','.join(columns)}") as error:
        count_by(log, LogOptions(), shown, columns)
    assert named in str(error.value)


def test_times_are_cut_to_days_and_pages_of_several_times_not_guessed(
    world: ec.World, shown: ec.ClickCounts
) -> None:
    log = world.log.to_pandas()
    day = pd.Timestamp("2026-03-01") + pd.to_timedelta(log["page_id"] % 2, "D")
    log["time"] = day + pd.to_timedelta(log["position"], "h")
    (by_time,) = count_by(log, LogOptions(), shown, ["time"])
    assert by_time.pages == [400, 400]
    log["time"] = log["time"].astype(str)  # the engine takes each time for a value of its own
    (by_text,) = count_by(log, LogOptions(), shown, ["time"])
    assert by_text.values == ["2026-03-01", "2026-03-02"]
    assert by_text.pages == [None, None]
    np.testing.assert_array_equal(by_text.counts.displays, by_time.counts.displays)


def test_summaries() -> None:
    test = Backtest(1000, 5000, 1890, 1920.0, 30.0, 30.0, 1e9, 0.9)
    assert test.summary == "predicted 1.92 clicks per page (1.85 to 1.99), observed 1.89"
    just = replace(test, clicks=2000)  # by 80 clicks: 1.89 of its standard errors
    assert just.summary == (
        "predicted 1.92 clicks per page (1.85 to 1.99), observed 2.00. That is 4.2% more clicks "
        "than predicted, just outside the 90% interval: one log in 10 lies outside by chance, so "
        "check a second one"
    )
    outside = replace(test, clicks=1700).summary
    assert outside.startswith("predicted 1.92 clicks per page (1.85 to 1.99), observed 1.70. ")
    assert "Warning: 11.5% fewer clicks than predicted, far outside the 90% interval" in outside
    assert "neither chance nor the model's own uncertainty explains that" in outside
    assert "Warning: 14.6% more clicks" in replace(test, clicks=2200).summary
    # enough digits to distinguish the ends
    sharp = replace(test, pages=1_000_000, noise=3.0, spread=0.0, clicks=1930)
    assert sharp.summary.startswith(
        "predicted 0.0019200 clicks per page (0.0019151 to 0.0019249), observed 0.0019300. Warning"
    )
    unpaged = replace(test, pages=None)
    assert unpaged.summary == "predicted 0.384 clicks per display (0.370 to 0.398), observed 0.378"


@pytest.mark.parametrize("freedom", [4.0, 1e9])
def test_a_correct_model_is_just_outside_in_9_logs_of_100_and_far_outside_in_1(
    freedom: float,
) -> None:
    size = 20_000
    rng = np.random.default_rng(5)
    error = 40 * np.sqrt(rng.chisquare(freedom, size) / freedom)  # as an estimate of 40 varies
    clicks = np.rint(10_000 + 40 * rng.standard_normal(size)).astype(int)
    grades = Counter(
        Backtest(None, 10**6, int(c), 10_000.0, float(e), 0.0, freedom, 0.9).grade
        for c, e in zip(clicks, error, strict=True)
    )
    for grade, share in (("inside", 0.9), ("just outside", 0.09), ("far outside", 0.01)):
        margin = 3 * np.sqrt(share * (1 - share) / size)
        # whole clicks move the ends of an interval by up to half a click, an 80th of the error
        assert abs(grades[grade] / size - share) < margin + 0.5 / 40 * 0.2, grades
    # the control: as if the error were known
    normal = stats.norm.ppf(0.995)
    beyond = np.mean(abs(clicks - 10_000) > normal * error)
    assert (beyond > 0.03) == (freedom == 4.0)


def test_the_level_only_decides_what_is_inside() -> None:
    test = Backtest(1000, 5000, 1920 + 100, 1920.0, 30.0, 30.0, 1e9, 0.9)  # 2.36 standard errors
    assert [replace(test, level=level).grade for level in (0.5, 0.9, 0.985)] == [
        *("just outside", "just outside", "inside"),
    ]
    far = replace(test, clicks=1920 + 115)  # 2.71: beyond 2.58
    assert [replace(far, level=level).grade for level in (0.5, 0.99, 0.995)] == [
        *("far outside", "far outside", "inside"),
    ]
    assert (far.inside, replace(test, clicks=1920).grade) == (False, "inside")
    for each in (test, far, replace(test, clicks=1920), replace(test, noise=np.nan)):
        record = each.to_dict()
        assert (record["grade"], record["inside"]) == (each.grade, each.inside)
        assert each.inside == (None if each.grade is None else each.grade == "inside")


def test_few_queries_give_no_standard_error(shown: ec.ClickCounts) -> None:
    one = shown.subset(shown.query == 5)
    test = backtest(planted(), one)
    assert (test.inside, test.grade) == (None, None)
    assert np.isnan([test.low, test.high, test.ratio_low, test.ratio_high]).all()
    assert test.summary.endswith("too few queries to estimate how much they differ by chance")


def test_a_level_outside_0_and_1_is_refused(shown: ec.ClickCounts) -> None:
    with raises_code("level-out-of-range") as error:
        backtest(planted(), shown, 90)
    assert "not 90" in str(error.value)


def test_a_log_without_clicks_has_a_standard_error(shown: ec.ClickCounts) -> None:
    """Its queries do not differ at all, yet no clicks may be chance where few are expected."""
    few = shown.subset(shown.query < 3)
    rare = planted()
    rare = replace(
        rare,
        posterior=None,
        parameters=rare.parameters._replace(
            layers=((WIDEST * np.eye(2), np.array([-6.0, 0.0])),),
        ),
    )
    none = replace(few, clicks=np.zeros_like(few.clicks))
    test = backtest(rare, none)
    assert (test.clicks, test.ratio, test.low, test.inside) == (0, 0.0, 0.0, True)
    assert backtest(planted(), none).inside is False
