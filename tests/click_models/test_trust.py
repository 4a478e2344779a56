"""The trust model through the house: recovery, what is identified, and oracles of shared code."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import special

import epiclick as ec
from epiclick.api import EpistemicTrustPBM
from epiclick.click_models.click_model import Emission
from epiclick.comparison.factors import factors_of
from epiclick.comparison.slots import MEASURES, Slots
from epiclick.evaluation.backtest import GroupedDisplays, predicted_by_draws
from epiclick.evaluation.log_scores import evaluate
from epiclick.evaluation.truth import Truth, coverage_in_world
from epiclick.export.arviz import independent_draws, samples_by_features
from epiclick.export.lightgbm import weighted_clicks
from epiclick.fitted.parameters import (
    Parameters,
    parameter_draws,
    without_uncertainty,
)
from epiclick.fitted.prediction import (
    attraction_of_items,
    click_probabilities,
    emission_by,
    floor_by,
    relevance_of_pairs,
    reported_emission,
)
from epiclick.fitted.state import FittedModel
from epiclick.fitted.tables import click_table
from epiclick.posterior.items import posterior_frames
from epiclick.relevance.reported import attraction_betas, reported, reported_moments
from epiclick.simulate.users import USERS, examination_at, unattractive_at

from ..raising import raises_code
from . import trust_chains

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::epiclick.errors.InputWarning")]

THETA = (1.0, 0.75, 0.55, 0.4)
QUERIES, DOCS = 150, 8


@cache
def world() -> ec.World:
    return ec.simulate(
        queries=QUERIES,
        docs=DOCS,
        features=3,
        pages=12_000,
        theta=THETA,
        relevance="beta",
        users="trust",
        policy_strength=0.0,
        seed=3,
    )


@cache
def counts(*, with_features: bool = False) -> ec.ClickCounts:
    features = world().features if with_features else None
    return ec.read_log(world().log, features=features, click_model="trust")


@cache
def model(*, with_features: bool = False) -> EpistemicTrustPBM:
    return EpistemicTrustPBM(seed=1).fit(counts(with_features=with_features), progress=False)


@cache
def pbm() -> ec.EpistemicPBM:
    return ec.EpistemicPBM(seed=1).fit(counts(), progress=False)


def true_lines() -> tuple[np.ndarray, np.ndarray]:
    """Slopes and offsets of the world's users, relative to the first position."""
    contexts = pa.table({"position": np.arange(1, len(THETA) + 1)})
    table = world().examination
    rise, floor = examination_at(table, contexts), unattractive_at(table, contexts)
    slope = rise / rise[0]
    return slope, floor - slope * floor[0]


def rows_of(table: pd.DataFrame) -> np.ndarray:
    """(items,) row of each item in the world's tables."""
    return table["query_id"].to_numpy() * DOCS + table["doc_id"].to_numpy()


@pytest.mark.parametrize("with_features", [False, True])
def test_slopes_and_offsets_are_recovered(with_features: bool) -> None:
    table = model(with_features=with_features).click_table(level=0.99)
    for name, true in zip(("relative", "offset"), true_lines(), strict=True):
        low, high = table[f"{name}_low"].to_numpy(), table[f"{name}_high"].to_numpy()
        inside = (low <= true + 1e-12) & (true - 1e-12 <= high)
        assert inside.all(), table
        assert np.all(high[1:] - low[1:] < 0.5)
    assert np.all(table["unattractive"] <= table["attractive"])
    assert table["attractive"].iloc[0] == 1
    assert table["offset"].iloc[0] == 0
    assert np.all(table["rests_on_prior"] == "")


def test_a_position_based_model_is_visibly_wrong_in_the_same_world() -> None:
    """The negative control: clicks that trust adds at the top look like position bias."""
    slope, _ = true_lines()
    table = pbm().position_bias(level=0.99)
    assert np.all(table["high"].to_numpy()[1:] < slope[1:])


@pytest.mark.parametrize("with_features", [False, True])
def test_relevance_is_the_probability_of_a_click_if_first(with_features: bool) -> None:
    own = model(with_features=with_features)
    tables = [own.posterior(counts(with_features=with_features))]
    tables.append(own.relevance(world().features) if with_features else own.relevance())
    error = np.sqrt(0.9 * 0.1 / QUERIES)  # as if items of a query held or missed together
    for table in tables:
        truth = world().click_if_first[rows_of(table)]
        inside = (table["low"] <= truth) & (truth <= table["high"])
        assert abs(inside.mean() - 0.9) < 4 * error
        # alpha and beta have the moments of what is reported
        mean = table["alpha"] / (table["alpha"] + table["beta"])
        np.testing.assert_allclose(mean, table["mean"], rtol=1e-9)
        assert np.all(table["low"] > 0.1)  # nothing is clicked less often than at random
    # attraction is another number
    zeta = world().relevance[rows_of(tables[0])]
    inside = (tables[0]["low"] <= zeta) & (zeta <= tables[0]["high"])
    assert inside.mean() < 0.7


def test_items_are_judged_against_the_truth_as_reported() -> None:
    keys = world().features.keys.select(["query_id", "doc_id"])
    truth = Truth(world().position_bias, keys, world().relevance, "trust")
    found = {
        (each.quantity, each.level): each.share
        for each in coverage_in_world(model().fitted_, counts(), truth, (0.9,))
    }
    assert found["relevance", 0.9] == pytest.approx(0.9, abs=0.07)
    assert found["position_bias", 0.9] >= 2 / 3


@cache
def rankings() -> dict[str, pa.Table]:
    """By what clicks say about relevance: the best items, the best one first or last."""
    found = model().posterior(counts())
    mean = np.full(QUERIES * DOCS, found["mean"].mean())
    mean[rows_of(found)] = found["mean"]
    score = mean.reshape(QUERIES, DOCS)
    order = np.argsort(-score, axis=1)[:, : len(THETA)]
    best = {"first": order, "last": order[:, ::-1]}
    return {
        name: pa.table(
            {
                "query_id": np.repeat(np.arange(QUERIES), len(THETA)),
                "doc_id": order[:, : len(THETA)].ravel(),
                "position": np.tile(np.arange(1, len(THETA) + 1), QUERIES),
            }
        )
        for name, order in best.items()
    }


def test_values_of_rankers_are_those_of_the_users() -> None:
    true, found = {}, {}
    for name, table in rankings().items():
        row = table["query_id"].to_numpy() * DOCS + table["doc_id"].to_numpy()
        pages = world().relevance[row].reshape(-1, len(THETA))
        chance = USERS["trust"].probability(pages, world().position_bias)
        true[name] = chance.sum(axis=1).mean()
    for own, level in ((model(), 0.999), (pbm(), 0.99)):
        result = ec.compare(own, rankings(), clicks=counts(), weights="uniform", level=level)
        found[type(own).__name__] = result.rankers.set_index("name")
    values = found["EpistemicTrustPBM"]
    for name, value in true.items():
        assert values.loc[name, "low"] < value < values.loc[name, "high"]
    # a position-based model undervalues the best items at the bottom
    assert found["EpistemicPBM"].loc["last", "high"] < true["last"]
    # items kept in a model without features give about the same
    kept = ec.compare(model(), rankings(), weights="uniform", level=0.999).rankers
    np.testing.assert_allclose(
        kept.set_index("name")["value"], values["value"].loc[kept["name"]], rtol=0.01
    )


def test_scores_and_backtest() -> None:
    train, test = ec.read_log(world().log, click_model="trust", page_parts=5).split(
        0.8, 0.2, by="page", seed=0
    )
    own, other = EpistemicTrustPBM().fit(train), ec.EpistemicPBM().fit(train)
    mine, theirs = (evaluate(each.fitted_, test) for each in (own, other))
    assert mine.clicks.display_log_likelihood > theirs.clicks.display_log_likelihood
    assert mine.joint > theirs.joint
    assert abs(mine.fit.ratio - 1) < 4 * np.sqrt(2 / mine.fit.df)


def test_probabilities_of_clicks_are_averages_over_draws() -> None:
    """Shared code against loops over draws and entries."""
    own, log = model(with_features=True).fitted_, counts(with_features=True)
    draws = parameter_draws(own)
    some = log.subset(np.arange(0, len(log), 40))
    alpha, beta = relevance_of_pairs(own, [draw.layers for draw in draws], some)
    expected = np.zeros(len(some.pair))
    for j, draw in enumerate(draws):
        x = np.asarray(draw.position.points.logit)
        a = special.expit(x[:4])
        a[own.anchor] = 1
        b = a * special.expit(x[4:])
        for i, (pair, k) in enumerate(zip(some.pair, some.context, strict=True)):
            zeta = alpha[j, pair] / (alpha[j, pair] + beta[j, pair])
            expected[i] += (a[k] * zeta + b[k] * (1 - zeta)) / len(draws)
    np.testing.assert_allclose(click_probabilities(own, some), expected, rtol=1e-10)
    # and backtests sum them
    shown = GroupedDisplays.of(some, ())
    by_draw, _ = predicted_by_draws(own, some, shown)
    assert by_draw.mean() == pytest.approx((expected * some.displays).sum(), rel=0.02)


def test_clicks_are_the_same_function_of_reported_relevance() -> None:
    own = model().fitted_
    draws = parameter_draws(own)
    emission, floor = emission_by(own, draws, np.arange(4)), floor_by(own, draws)
    assert floor is not None
    zeta = np.random.default_rng(0).random((len(draws), 1))
    c = reported(zeta, floor)
    np.testing.assert_allclose(c[:, 0], emission.at(np.array([0])).click_probability(zeta)[:, 0])
    np.testing.assert_allclose(
        reported_emission(emission, floor).click_probability(c),
        emission.click_probability(zeta),
        rtol=1e-12,
    )
    mean, variance = reported_moments(zeta, zeta**2, floor)
    np.testing.assert_allclose(mean, c)
    np.testing.assert_allclose(variance, ((1 - floor)[:, None] * zeta) ** 2)
    # a model without an anchor, or without clicks on unattractive items, has no floor
    assert floor_by(pbm().fitted_, parameter_draws(pbm().fitted_)) is None


def test_kept_items_become_attraction_again() -> None:
    own = model().fitted_
    items, floor = own.items, 0.2
    assert items is not None
    alpha, beta = attraction_of_items(own, items)
    assert np.all((alpha > 0) & (beta > 0))
    rng = np.random.default_rng(1)
    zeta = rng.beta(3, 4, 200_000)
    c = floor + (1 - floor) * zeta
    mean, variance = c.mean(), c.var()
    nu = mean * (1 - mean) / variance - 1
    back = attraction_betas(np.array([mean * nu]), np.array([(1 - mean) * nu]), floor)
    np.testing.assert_allclose([back.alpha[0], back.beta[0]], [3, 4], rtol=0.02)


def test_values_of_pages_are_sums_over_all_patterns_of_clicks() -> None:
    """Linear factors with affine emissions, against enumeration."""
    rng = np.random.default_rng(2)
    draws, items, depth = 3, 5, 3
    a = rng.uniform(0.3, 1, (draws, depth))
    b = a * rng.uniform(0.05, 0.5, (draws, depth))
    a[:, 0] = 1
    emission, floor = Emission(a, 1 - a, b, 1 - b), b[:, 0]
    zeta = rng.random((draws, items))
    slots = Slots(
        query_id=pa.array([0, 0, 0]),
        doc_id=pa.array([4, 0, 2]),
        ranker=np.zeros(3, int),
        page=np.zeros(3, int),
        position=np.arange(1, 4),
        given=np.arange(3),
        weight=np.ones(3),
        reach=np.ones(3),
        queries=1,
        notes=(),
    )
    item = np.array([4, 0, 2])
    states = model().fitted_.clicks.states(pa.table({"position": [1, 2, 3]}))
    own = factors_of(
        slots,
        item,
        [MEASURES["clicks"], MEASURES["gain"]],
        items,
        states,
        reported_emission(emission, floor),
    )
    moments = reported_moments(zeta, np.zeros_like(zeta), floor)
    expected = sum(part.expected for part in own.parts([moments]))
    for j in range(draws):
        chance = a[j] * zeta[j, item] + b[j] * (1 - zeta[j, item])
        value = sum(
            sum(pattern) * np.prod(np.where(pattern, chance, 1 - chance))
            for pattern in product((0, 1), repeat=depth)
        )
        gain = sum(
            (floor[j] + (1 - floor[j]) * zeta[j, item[k]]) / np.log2(k + 2) for k in range(depth)
        )
        np.testing.assert_allclose(expected[j], [value, gain], rtol=1e-12)


def test_the_fit_says_what_is_identified_and_what_rests_on_the_prior() -> None:
    checks = model().fitted_.training.checks
    words = " ".join(checks["words"])
    assert "The clicks identify the probability of a click on items that were shown" in words
    assert "rests on the prior and on the shape of the distribution of relevance" in words
    assert len(checks["posterior"]["unattractive"]) == 4
    assert checks["at_bound"] == []
    assert abs(checks["chi2_per_df"] - 1) < 0.2


def test_a_position_with_few_displays_is_left_at_the_prior() -> None:
    log = world().log.to_pandas()
    rare = log["position"] == 4
    few = log[~rare | (log["page_id"] % 2_000 == 0)]
    own = EpistemicTrustPBM().fit(ec.read_log(few, click_model="trust"), progress=False)
    table = own.click_table()
    assert table["rests_on_prior"].tolist()[:3] == ["", "", ""]
    assert "unattractive" in table["rests_on_prior"].iloc[3]
    assert any("position 4: cannot tell" in each for each in own.fitted_.training.warnings)


def test_what_needs_a_bias_in_proportion_is_refused() -> None:
    with raises_code("estimator-needs-examination"):
        EpistemicTrustPBM(estimator="exact").fit(counts())
    given = pd.DataFrame({"position": [2, 3, 4], "mean": [0.7, 0.5, 0.4]})
    with raises_code("known-bias-needs-examination"):
        EpistemicTrustPBM().fit(counts(), position_bias=given)


def test_a_fit_starts_from_another_one_on_other_positions() -> None:
    log = world().log.to_pandas()
    first = ec.read_log(log[log["position"] != 3], click_model="trust")
    before = EpistemicTrustPBM().fit(first, progress=False)
    again = EpistemicTrustPBM().fit(counts(), init=before, progress=False)
    np.testing.assert_allclose(
        again.click_table()["mean"], model().click_table()["mean"], atol=0.02
    )


def test_without_uncertainty_there_are_points() -> None:
    certain = without_uncertainty(model().fitted_)
    draws = parameter_draws(certain)
    assert len(draws) == 1
    probability = click_probabilities(certain, counts())
    assert np.all((probability > 0) & (probability < 1))
    rate = counts().total_clicks / counts().total_displays
    assert (probability @ counts().displays) / counts().total_displays == pytest.approx(
        rate, rel=0.02
    )


def test_exports_are_of_reported_relevance() -> None:
    """Propensity weights are corrected by offsets too, and samples lie above the floor."""
    found = weighted_clicks(model().fitted_, counts())
    clicked = np.bincount(
        found.pair[found.label == 1], found.weight[found.label == 1], len(counts())
    )
    displays = np.bincount(counts().pair, counts().displays, len(counts()))
    items = counts().query_id.to_numpy() * DOCS + counts().doc_id.to_numpy()
    truth = world().click_if_first[items]
    rate, expected = clicked.sum() / displays.sum(), (truth @ displays) / displays.sum()
    assert rate == pytest.approx(expected, rel=0.03)
    slope = model().position_bias()["relative"].to_numpy()
    plain = (counts().clicks / slope[counts().context]).sum() / displays.sum()
    assert abs(plain / expected - 1) > 0.1  # the negative control: by slopes alone
    own, rng = model(with_features=True).fitted_, np.random.default_rng(0)
    draws = independent_draws(own, 100, "robust", rng)
    drawn = samples_by_features(own, draws, world().features, 50, rng).relevance
    floor = floor_by(own, draws)
    assert floor is not None
    assert np.all(drawn >= floor[:, None])
    table = model(with_features=True).relevance(world().features).iloc[:50]
    np.testing.assert_allclose(drawn.mean(axis=0), table["mean"], atol=0.06)


def test_a_free_scale_reports_attraction() -> None:
    own = EpistemicTrustPBM(anchor=None).fit(counts(), progress=False)
    assert floor_by(own.fitted_, parameter_draws(own.fitted_)) is None
    table = own.click_table()
    assert table["attractive"].iloc[0] < 1
    slope, _ = true_lines()
    assert np.all((table["relative_low"] <= slope) & (slope <= table["relative_high"]))


def clicks_on_average(
    fitted: FittedModel, log: ec.ClickCounts, draws: Sequence[Parameters]
) -> np.ndarray:
    """(draws,) clicks per page with an item of average attraction at every position."""
    emission = emission_by(fitted, draws, np.arange(len(fitted.contexts)))
    alpha, beta = relevance_of_pairs(fitted, [draw.layers for draw in draws], log)
    attraction = (alpha / (alpha + beta)).mean(axis=1)[:, None]
    return emission.click_probability(attraction).sum(axis=1)


def test_the_curved_gaussian_agrees_with_long_chains() -> None:
    """Recorded draws by NUTS from the same density: slopes, offsets, clicks and relevance.

    The chains are worth 800 draws along the curve, so that their means have an error of 0.01 of a
    90 % interval.
    """
    fitted, log, chains = trust_chains.fitted(), trust_chains.log(), trust_chains.recorded()
    assert chains["size"].min() > 800
    # the density is the one that the chains were drawn from
    some = slice(None, None, 20)
    heights = trust_chains.density().value(chains["draws"][some])
    np.testing.assert_allclose(heights, chains["log_density"][some], rtol=1e-6)
    posterior = fitted.posterior
    assert posterior is not None
    tables, items, clicks = [], [], []
    for each in (
        replace(posterior, samples=chains["draws"]),
        posterior,
        replace(posterior, ridge=None),
    ):
        own = replace(fitted, posterior=each)
        tables.append(click_table(own, 0.9, "bayes"))
        draws = parameter_draws(own, len(chains["draws"]), kind="bayes")
        clicks.append(clicks_on_average(own, log, draws))
        items.append(pd.concat(posterior_frames(own, log, 0.9, draws=draws), ignore_index=True))
    # what the log shows best of all, clicks per page: a straight Gaussian predicts too many
    exact, curved, straight = (each.mean() for each in clicks)
    assert abs(curved - exact) < 0.15 * clicks[0].std()
    assert straight - exact > 0.3 * clicks[0].std()
    assert abs(clicks[1].std() / clicks[0].std() - 1) < 0.2
    by_chains, gaussian = tables[:2]
    for name in ("relative", "offset"):
        width = (by_chains[f"{name}_high"] - by_chains[f"{name}_low"]).to_numpy()[1:]
        gap = (by_chains[name] - gaussian[name]).to_numpy()[1:]
        assert np.all(np.abs(gap) < 0.15 * width), tables
        other = (gaussian[f"{name}_high"] - gaussian[f"{name}_low"]).to_numpy()[1:]
        assert np.all(np.abs(other / width - 1) < 0.2), tables
    width = items[0]["high"] - items[0]["low"]
    gap = (items[1]["mean"] - items[0]["mean"]) / width
    assert np.sqrt(np.mean(gap**2)) < 0.02
    assert abs(gap.mean()) < 0.01
    wider = (items[1]["high"] - items[1]["low"]) / width - 1
    assert np.sqrt(np.mean(wider**2)) < 0.05
    assert abs(wider.mean()) < 0.02
