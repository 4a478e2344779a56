"""Scores of assumptions, compared with permutations, Student's t and least squares."""

import itertools

import numpy as np
import pytest
from scipy import stats

from epiclick.diagnostics.clicks_above import mantel_haenszel_ratio
from epiclick.diagnostics.clustered_score import ClusteredScore, stratified_score, two_way_score


def tiny(seed: int) -> tuple[np.ndarray, ...]:
    """Six strata of five displays: stratum, clicked, exposed."""
    rng = np.random.default_rng(seed)
    stratum = np.repeat(np.arange(6), 5)
    return stratum, rng.random(30) < 0.5, rng.random(30) < 0.4


def test_the_score_has_mean_0_over_all_permutations_of_a_stratum() -> None:
    clicked, x = np.array([1, 0, 0, 1, 1]), np.array([0.0, 1.0, 1.0, 0.0, 1.0])
    sums = [(order * (x - x.mean())).sum() for order in itertools.permutations(clicked)]
    assert len(sums) == 120
    assert np.mean(sums) == pytest.approx(0, abs=1e-12)


STRATA = 100


@pytest.mark.parametrize("seed", range(4))
def test_standard_errors_and_p_values_agree_with_permutations_within_strata(seed: int) -> None:
    rng = np.random.default_rng([seed, 1])
    exposed = rng.random((STRATA, 5)) < 0.4
    # the last world has an effect
    clicked = rng.random((STRATA, 5)) < np.where(exposed, 0.3 + 0.25 * (seed == 3), 0.3)
    stratum = np.repeat(np.arange(STRATA), 5)
    found = stratified_score(stratum, stratum, clicked.ravel(), exposed.ravel().astype(float))
    assert found is not None
    rest = exposed - exposed.mean(axis=1, keepdims=True)
    drawn = np.array([(rng.permuted(clicked, axis=1) * rest).sum() for _ in range(4_000)])
    own = (clicked * rest).sum()
    assert np.sign(found.change) == np.sign(own)
    # the standard error of a standard deviation from 100 strata is 7 %, and clicks of few strata
    # differ in variance
    assert found.z == pytest.approx(own / drawn.std(), rel=0.25, abs=0.05)
    exact = np.mean(np.abs(drawn) >= abs(own) - 1e-9)
    assert found.p_value() == pytest.approx(exact, abs=0.12)
    assert (found.p_value() < 0.01) == (seed == 3)


def test_equal_clusters_give_students_t() -> None:
    rng = np.random.default_rng(0)
    change = rng.normal(0.5, 2, 12)
    found = ClusteredScore.of(np.arange(12), 3 * change, np.full(12, 3.0), 100.0)
    assert found is not None
    own = stats.ttest_1samp(change, 0)
    assert (found.z, found.p_value()) == pytest.approx((own.statistic, own.pvalue))
    upper = stats.ttest_1samp(change, 0, alternative="greater").pvalue
    assert found.p_value(is_positive=True) == pytest.approx(upper)
    assert found.effect == pytest.approx(change.mean() * np.sqrt(36 / 100))


def test_strata_without_variation_say_nothing() -> None:
    stratum, clicked = np.repeat(np.arange(4), 3), np.tile([True, False, True], 4)
    assert stratified_score(stratum, stratum, clicked, np.full(12, 0.1) + 0.2) is None
    one_query = np.zeros(12, int)
    assert stratified_score(stratum, one_query, clicked, np.arange(12.0)) is None
    none = np.zeros(0, int)
    assert stratified_score(none, none, none > 0, none.astype(float)) is None


def test_the_ratio_is_mantel_and_haenszels() -> None:
    stratum, clicked, exposed = tiny(4)
    above = below = 0.0
    for s in range(6):
        y, x = clicked[stratum == s], exposed[stratum == s]
        above += (y & x).sum() * (~x).sum() / 5
        below += (y & ~x).sum() * x.sum() / 5
    assert mantel_haenszel_ratio(stratum, clicked, exposed) == pytest.approx(above / below)
    # one ratio in all strata is found exactly
    stratum = np.repeat([0, 1], 40)
    exposed = np.tile(np.arange(40) < 20, 2)
    clicked = np.r_[np.arange(20) < 8, np.arange(20) < 4, np.arange(20) < 20, np.arange(20) < 10]
    assert mantel_haenszel_ratio(stratum, clicked, exposed) == pytest.approx(2)


def test_effects_of_rows_and_columns_are_removed_as_by_least_squares() -> None:
    rng = np.random.default_rng(3)
    row, column = rng.integers(8, size=60), rng.integers(5, size=60)
    expected, x = rng.gamma(2, size=60), rng.normal(size=60)
    clicks = rng.poisson(expected).astype(float)
    design = np.c_[np.eye(8)[row], np.eye(5)[column]] * np.sqrt(expected)[:, None]
    fitted = design @ np.linalg.lstsq(design, np.sqrt(expected) * x, rcond=None)[0]
    rest = x - fitted / np.sqrt(expected)
    found = two_way_score(row, column, row, clicks, expected, x)
    assert found is not None
    change = ((clicks - expected) * rest).sum() / (expected * rest**2).sum()
    assert found.change == pytest.approx(change, rel=1e-3)
    # what rows and columns explain has no score
    additive = rng.normal(size=8)[row] + rng.normal(size=5)[column]
    assert two_way_score(row, column, row, clicks, expected, additive) is None
