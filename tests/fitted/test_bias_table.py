"""The table of position bias: kinds, anchor, and intervals against Monte Carlo."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit

import epiclick as ec
from epiclick.click_models.pbm import PositionBased
from epiclick.fitted.parameters import ParameterPosterior, to_vector
from epiclick.fitted.state import FittedModel
from epiclick.fitted.tables import position_bias_table

from ..raising import raises_code
from .hand_made import (
    LOGITS,
    POSITIONS,
    by_features,
    by_ids,
    model_of,
    with_bias_betas,
    with_members,
)

pytestmark = pytest.mark.slow

NUMBERS = ["mean", "low", "high", "relative", "relative_low", "relative_high"]
ANCHORED = [1.0] * len(NUMBERS)
DRAWS = 400_000


def correlated(anchor: int | None, scale: float = 1.0) -> FittedModel:
    """A posterior whose logits vary together, `bayes` half as wide as `robust`."""
    fitted = replace(by_ids(), anchor=anchor)
    mode = to_vector(fitted.parameters, PositionBased(), anchor)
    factor = (
        scale * np.random.default_rng(0).normal(size=(len(mode), len(mode))) / np.sqrt(len(mode))
    )
    robust = factor @ factor.T
    posterior = ParameterPosterior(mode, robust / 4, robust, None, 0.0)
    return replace(fitted, posterior=posterior)


def draws_of(fitted: FittedModel, kind: str) -> np.ndarray:
    """(draws, positions) theta from the Gaussian of the logits."""
    assert fitted.posterior is not None
    rng = np.random.default_rng(1)
    drawn = rng.multivariate_normal(fitted.posterior.mean, getattr(fitted.posterior, kind), DRAWS)
    free = POSITIONS - (fitted.anchor is not None)
    theta = expit(drawn[:, :free])
    return theta if fitted.anchor is None else np.insert(theta, fitted.anchor, 1.0, axis=1)


def assert_holds(draws: np.ndarray, low: pd.Series, high: pd.Series, level: float) -> None:
    """Each end is a quantile of the draws, within five standard errors."""
    for end, share in ((low, (1 - level) / 2), (high, (1 + level) / 2)):
        below = (draws < end.to_numpy()).mean(axis=0)
        assert np.all(abs(below - share) < 5 * np.sqrt(share * (1 - share) / len(draws)) + 1e-3)


@pytest.mark.parametrize("kind", ["robust", "bayes"])
@pytest.mark.parametrize("anchor", [0, 2])
def test_means_and_intervals_are_those_of_the_posterior(kind: str, anchor: int) -> None:
    fitted = correlated(anchor)
    table = position_bias_table(fitted, 0.8, kind)
    assert list(table.columns) == ["position", *NUMBERS]
    assert table["position"].tolist() == [1, 2, 3, 4]
    assert table.loc[anchor, NUMBERS].tolist() == ANCHORED  # exactly
    theta = draws_of(fitted, kind)
    error = theta.std(axis=0) / np.sqrt(DRAWS)
    assert np.all(abs(table["mean"] - theta.mean(axis=0)) <= 5 * error)
    rows = np.arange(POSITIONS) != anchor
    assert_holds(theta[:, rows], table["low"][rows], table["high"][rows], 0.8)
    # relative to an anchor of 1 nothing changes
    np.testing.assert_array_equal(table[NUMBERS[:3]], table[NUMBERS[3:]])


@pytest.mark.parametrize("kind", ["robust", "bayes"])
def test_on_a_free_scale_ratios_have_intervals_of_their_own(kind: str) -> None:
    fitted = correlated(None)
    table = position_bias_table(fitted, 0.9, kind)
    theta = draws_of(fitted, kind)
    assert_holds(theta, table["low"], table["high"], 0.9)
    ratio = theta / theta[:, :1]
    # its own 100,000 draws have errors too
    for end, share in (("relative_low", 0.05), ("relative_high", 0.95)):
        below = (ratio[:, 1:] < table[end].to_numpy()[1:]).mean(axis=0)
        assert np.all(abs(below - share) < 5 * np.sqrt(share * (1 - share) / 1e5) + 1e-3)
    assert table.loc[0, NUMBERS[3:]].tolist() == ANCHORED[3:]
    np.testing.assert_allclose(table["relative"], table["mean"] / table["mean"][0])


def test_the_betas_of_the_papers_estimators() -> None:
    fitted = with_bias_betas(by_features())
    table = position_bias_table(fitted, 0.5, "evidential")
    alpha, beta = 21 * expit(LOGITS), 21 * expit(-LOGITS)  # |20| + 1
    np.testing.assert_allclose(table["mean"], expit(LOGITS))
    for end, share in (("low", 0.25), ("high", 0.75)):
        np.testing.assert_allclose(table[end], stats.beta.ppf(share, alpha, beta), rtol=1e-6)
    ratio = np.random.default_rng(2).beta(alpha, beta, (DRAWS, POSITIONS))
    ratio = ratio[:, 1:] / ratio[:, :1]
    for end, share in (("relative_low", 0.25), ("relative_high", 0.75)):
        below = (ratio < table[end].to_numpy()[1:]).mean(axis=0)
        assert np.all(abs(below - share) < 5 * np.sqrt(share * (1 - share) / 1e5))


def test_points_of_an_ensemble_have_students_intervals() -> None:
    fitted = with_members(by_features(kind="PointwisePBM"), 5)
    table = position_bias_table(fitted, 0.9)
    logits = np.array([member.position.logit for member in fitted.members])[:, 1:]
    reach = stats.t.ppf(0.95, 4) * logits.std(axis=0, ddof=1)
    np.testing.assert_allclose(table["low"][1:], expit(LOGITS[1:] - reach), rtol=1e-9)
    np.testing.assert_allclose(table["high"][1:], expit(LOGITS[1:] + reach), rtol=1e-9)
    assert table.loc[0, NUMBERS].tolist() == ANCHORED


def test_samples_by_chains_are_shown_for_bayes_alone() -> None:
    fitted = correlated(0)
    posterior = fitted.posterior
    assert posterior is not None
    rng = np.random.default_rng(3)
    skewed = posterior.mean + rng.gamma(1.0, size=(999, len(posterior.mean)))  # nothing like it
    drawn = replace(fitted, posterior=replace(posterior, samples=skewed))
    table = position_bias_table(drawn, 0.9, "bayes")
    theta = expit(skewed[:, :3])
    np.testing.assert_allclose(table["mean"][1:], theta.mean(axis=0))
    np.testing.assert_allclose(table["low"][1:], np.quantile(theta, 0.05, axis=0))
    np.testing.assert_allclose(table["high"][1:], np.quantile(theta, 0.95, axis=0))
    assert table.loc[0, NUMBERS].tolist() == ANCHORED
    for kind in ("robust", None):
        pd.testing.assert_frame_equal(
            position_bias_table(drawn, 0.9, kind), position_bias_table(fitted, 0.9, kind)
        )
    free = correlated(None)
    assert free.posterior is not None
    skewed = free.posterior.mean + rng.gamma(1.0, size=(999, len(free.posterior.mean)))
    drawn = replace(free, posterior=replace(free.posterior, samples=skewed))
    table = position_bias_table(drawn, 0.9, "bayes")
    ratio = expit(skewed[:, :4]) / expit(skewed[:, :1])
    np.testing.assert_allclose(table["relative_low"], np.quantile(ratio, 0.05, axis=0))


def test_the_default_is_the_most_cautious_kind() -> None:
    fitted = correlated(0)
    for made, kind in ((fitted, "robust"), (with_bias_betas(fitted), "evidential")):
        pd.testing.assert_frame_equal(
            position_bias_table(made, 0.9), position_bias_table(made, 0.9, kind)
        )
    points = position_bias_table(by_features(kind="PointwisePBM"), 0.9)
    np.testing.assert_allclose(points["mean"], [1, *expit(LOGITS[1:])])
    assert points[["low", "high", "relative_low", "relative_high"]].isna().all(axis=None)
    robust, bayes = (model_of(fitted).position_bias(kind) for kind in ("robust", "bayes"))
    assert np.all((robust["high"] - robust["low"])[1:] > (bayes["high"] - bayes["low"])[1:])


@pytest.mark.parametrize(
    ("make", "kind", "others"),
    [
        (lambda: correlated(0), "evidential", "robust, bayes"),
        (lambda: with_bias_betas(by_features()), "robust", "evidential"),
        (lambda: with_bias_betas(by_features()), "bayes", "evidential"),
        (lambda: by_features(kind="PointwisePBM"), "robust", "point estimate"),
        (lambda: with_members(by_features(kind="PointwisePBM")), "bayes", "robust"),
    ],
)
def test_kinds_that_a_model_does_not_have_are_refused(make, kind: str, others: str) -> None:
    with raises_code("no-intervals") as caught:
        position_bias_table(make(), 0.9, kind)
    assert others in str(caught.value)


def test_a_misspelt_kind_is_refused() -> None:
    with raises_code("unknown-choice") as caught:
        position_bias_table(correlated(0), 0.9, "bayess")
    assert "did you mean 'bayes'?" in str(caught.value)


def test_a_log_that_says_nothing_gives_wide_intervals() -> None:
    """10,000 displays of 5,000 items, and 46 clicks: 30, 10 and 6 at the three positions."""
    rng = np.random.default_rng(4)
    rows, clicked = 9_999, np.array([30, 10, 6])
    position = np.tile([1, 2, 3], rows // 3)
    item = rng.permutation(rows) // 2
    turn = np.arange(rows) // 3  # how often the position was shown before
    log = {"query_id": item // 10, "doc_id": item, "position": position}
    counts = ec.read_log(pd.DataFrame({**log, "click": (turn < clicked[position - 1]).astype(int)}))
    assert counts.total_clicks == 46
    model = ec.EpistemicPBM(epochs=20).fit(counts, progress=False)
    # rare clicks fall on positions in proportion to theta, of which all values were as likely
    theta = np.column_stack([np.ones(DRAWS), rng.random((DRAWS, 2))])
    share = theta / theta.sum(axis=1, keepdims=True)
    weight = np.exp((clicked * np.log(share)).sum(axis=1))
    for k in (1, 2):
        low, high = weighted_quantiles(theta[:, k], weight, (0.05, 0.95))
        for kind in ("robust", "bayes"):
            table = model.position_bias(kind)
            wide = table["relative_high"][k] / table["relative_low"][k]
            assert wide > 3
            assert 0.8 < np.log(wide) / np.log(high / low) < 2


def weighted_quantiles(values: np.ndarray, weight: np.ndarray, shares) -> np.ndarray:
    order = np.argsort(values)
    below = np.cumsum(weight[order]) / weight.sum()
    return np.interp(shares, below, values[order])
