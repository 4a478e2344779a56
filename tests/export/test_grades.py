"""Grades and weights against their formulas, and invalid cut-offs."""

import numpy as np
import pytest

from epiclick.export.judgements import QUANTILES, certainty_weights, cut_offs, grades

from ..raising import raises_code


def test_a_grade_counts_the_cut_offs_below_the_mean() -> None:
    rng = np.random.default_rng(0)
    means, cuts = rng.uniform(size=200), (0.1, 0.2, 0.4, 0.6)
    means[:4] = cuts  # on a cut-off is not above it
    assert grades(means, cuts).tolist() == [sum(mean > cut for cut in cuts) for mean in means]
    assert grades(np.array(cuts), cuts).tolist() == [0, 1, 2, 3]


def test_cut_offs_are_quantiles_by_default() -> None:
    means = np.random.default_rng(1).beta(1, 5, size=1_001)
    cuts = cut_offs(means)
    ordered = np.sort(means)
    np.testing.assert_allclose(cuts, [ordered[round(1_000 * q)] for q in QUANTILES])
    shares = np.bincount(grades(means, cuts)) / len(means)
    np.testing.assert_allclose(shares, [0.5, 0.25, 0.15, 0.07, 0.03], atol=0.002)
    assert cut_offs(means, [0.1, 0.2, 0.4, 0.6]) == (0.1, 0.2, 0.4, 0.6)


def test_items_that_are_all_alike_get_one_grade() -> None:
    means = np.full(9, 0.3)
    assert grades(means, cut_offs(means)).tolist() == [0] * 9
    assert certainty_weights(means, np.zeros(9)).tolist() == [1.0] * 9


@pytest.mark.parametrize(
    "cuts", [[], [0.1, 0.2, 0.3], [0.1, 0.2, 0.2, 0.4], [0.4, 0.3, 0.2, 0.1], [0, 0.1, 0.2, 0.3]]
)
def test_other_cut_offs_are_refused(cuts: list[float]) -> None:
    with raises_code("invalid-cuts") as error:
        cut_offs(np.array([0.5]), cuts)
    assert "cuts must be 4 " in str(error.value)


def test_the_more_certain_an_item_the_larger_its_weight() -> None:
    means = np.array([0.1, 0.5, 0.9, 0.5])
    variances = np.array([0.01, 0.04, 0.01, 0.0])
    spread = sum((mean - 0.5) ** 2 for mean in means) / 4
    raw = [spread / (spread + variance) for variance in variances]
    expected = [4 * weight / sum(raw) for weight in raw]
    np.testing.assert_allclose(certainty_weights(means, variances), expected)
    assert certainty_weights(means, variances).argmax() == 3
